/** How the settings of a program, an organisation and a key become one choice. */

import { expect, test } from 'bun:test'
import { type CompatibilitySettings, compatibilityOf, MODES, SWITCHES } from '../../src/core/compatibility.ts'

const LEVELS: readonly CompatibilitySettings[] = [undefined, ...MODES].flatMap((mode) =>
  [undefined, ...SWITCHES.metadata].map((metadata) => ({ mode, metadata })),
)

test('the nearest level that names the switch or a mode decides it', () => {
  for (const program of LEVELS) {
    for (const organization of LEVELS) {
      for (const key of LEVELS) {
        const chosen = compatibilityOf(key, compatibilityOf(organization, compatibilityOf(program)))
        const decides = [key, organization, program].find(({ mode, metadata }) => mode ?? metadata) ?? {}
        const byMode = decides.mode === 'native' ? 'accept' : 'refuse'
        expect(chosen.metadata).toBe(decides.metadata ?? byMode)
        const mode = [key, organization, program].find((level) => level.mode !== undefined)?.mode
        expect(chosen.provider_errors).toBe(mode === 'native' ? 'pass' : 'rewritten')
      }
    }
  }
})

test('without settings the specification holds', () => {
  const firsts = Object.entries(SWITCHES).map(([name, [first]]) => [name, first])
  expect(compatibilityOf()).toEqual(Object.fromEntries(firsts))
})
