import { describe, expect, test } from 'bun:test'
import { tmpdir } from 'node:os'
import { actionsOf, COMMANDS } from '../../src/cli/command-table.ts'
import { MAIN } from '../process/weir.ts'

async function weir(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const process_ = Bun.spawn([process.execPath, MAIN, ...args], { cwd: tmpdir(), stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, code] = await Promise.all([
    new Response(process_.stdout).text(),
    new Response(process_.stderr).text(),
    process_.exited,
  ])
  return { code, stdout, stderr }
}

const commands = COMMANDS.flatMap(({ name }) => (name.includes(' ') ? [] : [name]))

test('--help lists every command', async () => {
  for (const ask of [['--help'], ['-h'], ['help'], []]) {
    const { code, stdout, stderr } = await weir(...ask)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const command of commands) expect(stdout).toContain(`  ${command} `)
  }
})

describe.each(COMMANDS.map((entry) => [entry.name, entry] as const))('weir %s', (name, { flags, examples }) => {
  const words = name.split(' ')

  test('--help and weir help describe its flags, in 80 columns, with two examples or more', async () => {
    const { code, stdout, stderr } = await weir(...words, '--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toStartWith(`Usage: weir ${name}`)
    expect(stdout).toEndWith('\n')
    for (const flag of flags) expect(stdout).toContain(`  --${flag.name}`)
    expect(flags.some((flag) => flag.name === 'config')).toBe(!['version', 'help'].includes(name))
    expect(examples.length).toBeGreaterThan(1)
    expect(stdout.match(/^ {2}\$ weir .+\n {6}\S/gm)).toHaveLength(examples.length)
    expect(stdout.split('\n').filter((line) => line.length > 80 && !line.startsWith('  $ '))).toEqual([])
    expect(await weir('help', ...words)).toEqual({ code: 0, stdout, stderr: '' })
  })

  test('an unknown flag is wrong usage', async () => {
    const { code, stdout, stderr } = await weir(...words, '--nonsense')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^weir: [^\n]*--nonsense[^\n]*\n$/)
  })

  test('its examples have flags that exist', () => {
    for (const [run] of examples) {
      const [command, ...rest] =
        run
          .split(/ (?:&&|\|) /)[0]
          ?.replace(/^weir /, '')
          .split(/ (?=--)/) ?? []
      const entry = COMMANDS.findLast((each) => command === each.name || command?.startsWith(`${each.name} `))
      const known = [...(entry?.flags ?? []).map((flag) => `--${flag.name}`), '--help']
      expect([run, rest.filter((part) => !known.includes(part.split(' ')[0] ?? ''))]).toEqual([run, []])
    }
  })
})

test.each([
  [['usag'], 'unknown command "usag" (did you mean "usage"?)'],
  [['keys', 'creat'], 'unknown command "keys creat" (did you mean "create"?)'],
  [['import', 'portkey'], 'unknown command "import portkey"; known: litellm'],
  [['serve', '-c', 'x'], 'weir serve has no flag "-c" (did you mean "--config"?)'],
  [['serve', '-z'], 'weir serve has no flag "-z"'],
  [['help', 'kyes'], 'unknown command "kyes" (did you mean "keys"?)'],
  [['usage', '--sinc', '2026-11-01'], 'weir usage has no flag "--sinc" (did you mean "--since"?)'],
  [['check', '--cofnig=x'], 'weir check has no flag "--cofnig" (did you mean "--config"?)'],
  [['check', 'other.yaml'], 'weir check takes no argument, and "other.yaml" is one'],
  [['usage', '--json=yes'], '--json takes no value'],
  [['keys', 'revoke'], 'missing --id ID'],
  [['keys'], 'missing command: create, update, rotate, list or revoke'],
])('%p names what is known', async (args, line) => {
  expect(await weir(...args)).toEqual({ code: 2, stdout: '', stderr: `weir: ${line} (see --help)\n` })
})

test('every action of a group is in its help', async () => {
  const { stdout } = await weir('keys')
  expect(stdout).toBe('')
  expect(actionsOf('keys')).toEqual(['create', 'update', 'rotate', 'list', 'revoke'])
  expect((await weir('keys', '--help')).stdout).toContain('  revoke  makes every gateway reject a key\n')
})

for (const [name, args] of [
  ['an unknown command', ['sevre']],
  ['the name of an object property', ['constructor']],
  ['a port that is none', ['serve', '--port', '65536']],
  ['a negative port', ['serve', '--port=-1']],
  ['no workers', ['serve', '--workers', '0']],
  ['a flag without its value', ['serve', '--config']],
  ['an argument too many', ['version', 'please']],
  ['the worker command by hand', ['worker']],
] as const) {
  test(`${name}: one line, exit code 2`, async () => {
    const { code, stdout, stderr } = await weir(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^weir: [^\n]+\n$/)
  })
}

test.each([
  ['--config', ['check', '--config']],
  ['--by', ['usage', '--by', '--json']],
  ['--config', ['usage', '--config=']],
  ['--key', ['explain', '--model', 'm', '--key', '']],
])('%s without a value, or with an empty one, is named', async (flag, args) => {
  expect(await weir(...args)).toEqual({ code: 2, stdout: '', stderr: `weir: ${flag} needs a value (see --help)\n` })
})

test('version is one line', async () => {
  const { code, stdout, stderr } = await weir('version')
  for (const flag of ['--version', '-v', '-V']) expect(await weir(flag)).toEqual({ code, stdout, stderr })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^weir \d+\.\d+\.\d+ \(commit (unknown|[0-9a-f]+), Bun \d+\.\d+\.\d+\)\n$/)
})

test('a missing configuration is one line and exit code 1', async () => {
  const { code, stdout, stderr } = await weir('serve', '--config', '/nowhere/weir.yaml')
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^weir: [^\n]*\/nowhere\/weir\.yaml[^\n]*\n$/)
})
