/** The manual pages and the completion that the package takes from the table of commands. */

import { expect, test } from 'bun:test'
import { bashCompletion } from '../../scripts/bash-completion.ts'
import { commandManual, configurationManual } from '../../scripts/manual-pages.ts'
import { COMMANDS } from '../../src/cli/command-table.ts'

/** The words that bash offers after these. */
function completed(...words: readonly string[]): readonly string[] {
  const typed = ['weir', ...words].map((word) => `'${word}'`).join(' ')
  const script = `${bashCompletion()}\nCOMP_WORDS=(${typed}) COMP_CWORD=${words.length}\n_weir\necho "\${COMPREPLY[@]}"`
  const { stdout } = Bun.spawnSync(['bash', '--norc', '-c', script])
  return stdout.toString().trim().split(' ').filter(Boolean)
}

test('commands, their actions, flags and the values of flags are completed', () => {
  const tops = COMMANDS.map(({ name }) => name).filter((name) => !name.includes(' '))
  expect(completed('')).toEqual([...tops, '--help', '--version'])
  expect(completed('us')).toEqual(['usage'])
  expect(completed('keys', 'c')).toEqual(['create'])
  expect(completed('usage', '--b')).toEqual(['--by'])
  expect(completed('usage', '--by', 'm')).toContain('model')
  expect(completed('keys', 'create', '--ex')).toEqual(['--expires'])
  expect(completed('keys', 'create', '--org', '')).toEqual([])
  expect(completed('help', 'us')).toEqual(['usage'])
  expect(completed('nothing', '')).toEqual([])
})

test('every command completes its flags', () => {
  for (const { name, flags } of COMMANDS) {
    const offered = completed(...name.split(' '), '--')
    for (const flag of flags) expect(offered).toContain(`--${flag.name}`)
  }
})

const hasMan = Bun.which('man') !== null

test.skipIf(!hasMan).each([
  { page: 'weir(1)', roff: commandManual(), states: COMMANDS.map(({ name }) => `weir ${name}`) },
  { page: 'weir.yaml(5)', roff: configurationManual(), states: ['ORGANIZATIONS', 'drain_seconds', 'api_key'] },
])('$page formats without a warning', ({ roff, states }) => {
  const man = Bun.spawnSync(['man', '--warnings', '-l', '-'], {
    stdin: Buffer.from(roff),
    env: { ...process.env, MANWIDTH: '100', LC_ALL: 'C.UTF-8', MAN_KEEP_FORMATTING: '' },
  })
  expect(man.stderr.toString()).toBe('')
  for (const text of states) expect(man.stdout.toString()).toContain(text)
  expect(man.stdout.toString()).not.toMatch(/`|\*\*|write-schema/)
})
