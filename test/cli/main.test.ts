import { expect, setDefaultTimeout, test } from 'bun:test'
import { tmpdir } from 'node:os'
import { MAIN } from '../process/weir.ts'

// Each test starts several processes, on machines that may be busy.
setDefaultTimeout(30_000)

async function weir(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const process_ = Bun.spawn([process.execPath, MAIN, ...args], { cwd: tmpdir(), stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, code] = await Promise.all([
    new Response(process_.stdout).text(),
    new Response(process_.stderr).text(),
    process_.exited,
  ])
  return { code, stdout, stderr }
}

const commands = ['serve', 'check', 'keys', 'usage', 'explain', 'version']

test('--help lists every command', async () => {
  for (const ask of ['--help', '-h', 'help']) {
    const { code, stdout, stderr } = await weir(ask)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const command of commands) expect(stdout).toContain(`  ${command} `)
  }
})

for (const command of commands) {
  test(`${command} --help describes its flags`, async () => {
    const { code, stdout, stderr } = await weir(command, '--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toStartWith(`Usage: weir ${command}`)
    if (command !== 'version') expect(stdout).toContain('--config FILE')
  })

  test(`${command} with an unknown flag is wrong usage`, async () => {
    const { code, stdout, stderr } = await weir(command, '--nonsense')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^weir: [^\n]*--nonsense[^\n]*\n$/)
  })
}

for (const [name, args] of [
  ['no command', []],
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
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^weir \d+\.\d+\.\d+ \(commit (unknown|[0-9a-f]+), Bun \d+\.\d+\.\d+\)\n$/)
})

test('a missing configuration is one line and exit code 1', async () => {
  const { code, stdout, stderr } = await weir('serve', '--config', '/nowhere/weir.yaml')
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^weir: [^\n]*\/nowhere\/weir\.yaml[^\n]*\n$/)
})
