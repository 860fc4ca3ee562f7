/** What can be read of a configuration file with mistakes: the right ledger, or none. */

import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig, loadDataDir } from '../../src/config/load.ts'
import { partialConfig, partialDataDir } from '../../src/config/partial.ts'
import { LOST, MISTAKES } from './mistakes.ts'

const YAML = `# data_dir: /a/remark
ledger: embedded
data_dir: ./books
tags: [team]
providers:
  up: { dialect: openai, base_url: "http://127.0.0.1:9/v1" }
models:
  - { name: small, targets: [{ provider: up, model: a }], price: { input: 1, output: 2 } }
organizations:
  - { id: acme, limits: { spend: { day: 5 } }, keys: [{ id: ci, key: configured-key-0123456789 }] }
`
const REDIS = YAML.replace('embedded', '{ redis: "redis://127.0.0.1:9/3" }')
const SOURCES = { env: {}, readFile: () => ({ error: 'there is no such file' }), use: 'ledger' } as const

describe('a mistake elsewhere hides neither the ledger nor what is right', () => {
  for (const [what, [break_]] of Object.entries(MISTAKES)) {
    test(what, () => {
      for (const yaml of [YAML, REDIS, YAML.replaceAll('\n', '\r\n'), indented(YAML)]) {
        const found = partialConfig(break_(yaml), SOURCES)
        const kind = yaml === REDIS ? 'redis' : 'embedded'
        expect(found).toMatchObject({ config: { dataDir: './books', ledger: { kind } } })
        expect('config' in found && found.config.organizations.map(({ id }) => id)).toContain('acme')
        expect(partialDataDir(break_(yaml), SOURCES).dataDir).toBe('./books')
      }
    })
  }

  test('each mistake in a list costs one entry, and the others keep their limits', () => {
    const more = [
      '  - { id: other, limits: { spend: { dya: 5, month: 7 } }, kyes: [] }',
      '  - { models: [small] }',
      '  - { id: last, keys: [{ id: one, disabled: perhaps, key: configured-key-1 }, { key: nobody }, { id: two }] }',
    ]
    const found = partialConfig(`${YAML}${more.join('\n')}\n`, SOURCES)
    const organizations = 'config' in found ? found.config.organizations : []
    expect(
      organizations.map(({ id, limits, keys }) => [id, limits.spend?.day, limits.spend?.month, keys.length]),
    ).toEqual([
      ['acme', 5_000_000, undefined, 1],
      ['other', undefined, 7_000_000, 0],
      ['last', undefined, undefined, 2],
    ])
  })

  test('settings of the ledger that name no place may be wrong', () => {
    const wrong = REDIS.replace('/3" }', '/3", timeout_ms: soon, timeotu: 5 }')
    expect(partialConfig(wrong, SOURCES)).toMatchObject({
      config: { ledger: { redis: { url: 'redis://127.0.0.1:9/3' } } },
    })
  })
})

describe('a ledger that is not certain is not guessed', () => {
  for (const [what, break_] of Object.entries(LOST)) {
    test(what, () => {
      expect(partialConfig(break_(YAML), SOURCES)).toEqual({ problem: expect.any(String) })
    })
  }

  test('an absent one is the default, with a mistake elsewhere', () => {
    const defaults = YAML.replace('ledger: embedded\ndata_dir: ./books\n', '')
    for (const [break_] of Object.values(MISTAKES))
      expect(partialConfig(break_(defaults), SOURCES)).toMatchObject({
        config: { dataDir: './data', ledger: { kind: 'embedded' } },
      })
  })

  test('TLS without its certificate', () => {
    const tls = REDIS.replace('"redis://127.0.0.1:9/3"', `"rediss://127.0.0.1:9/3", tls: { ca: "\${file:ca.pem}" }`)
    expect(partialConfig(tls, SOURCES)).toEqual({ problem: expect.stringContaining('ledger.tls.ca') })
  })
})

test('a mistake that is in the way of data_dir is reported with its line, as by weir check', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-mistakes-'))
  const file = join(folder, 'weir.yaml')
  let found = 0
  for (const break_ of [...Object.values(MISTAKES).map(([break_]) => break_), ...Object.values(LOST)]) {
    writeFileSync(file, break_(YAML))
    const { problem } = await loadDataDir(file, {})
    const checked = await loadConfig(file, {}, { use: 'ledger' })
    if (problem === undefined || checked.ok || checked.problems[0]?.startsWith(`${file}: `)) continue
    expect(problem).toMatch(/weir\.yaml:\d+: /)
    found++
  }
  rmSync(folder, { recursive: true })
  expect(found).toBeGreaterThan(5)
})

function indented(text: string): string {
  return text.replaceAll(/^/gm, '  ').trimEnd()
}
