/** `weir check` and `weir explain` as operators use them: as processes, with their output and exit codes. */

import { describe, expect, test } from 'bun:test'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BASE, edited } from '../config/fixture.ts'

const MAIN = join(import.meta.dir, '../../src/main.ts')
const directory = await mkdtemp(join(tmpdir(), 'weir-check-'))

async function weir(...args: readonly string[]) {
  const child = Bun.spawn([process.execPath, MAIN, ...args], {
    cwd: directory,
    env: { PATH: process.env['PATH'], OPENAI_API_KEY: 'sk-canary' },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { stdout, stderr, code }
}

await writeFile(join(directory, 'weir.yaml'), BASE)
await writeFile(
  join(directory, 'bad.yaml'),
  edited('provider: openai, model: gpt-1', 'provider: opnai, model: x', edited('id: acme', 'id: ""')),
)

describe('weir check', () => {
  test('a valid file: one line, exit code 0', async () =>
    expect(await weir('check')).toEqual({
      stdout: 'weir.yaml: ok (2 providers, 3 models, 1 organisation, 2 keys)\n',
      stderr: '',
      code: 0,
    }))

  test('an invalid file: every problem on a line of standard error, exit code 1', async () =>
    expect(await weir('check', '--config', 'bad.yaml')).toEqual({
      stdout: '',
      stderr: `organizations[0].id: must be 1 to 64 letters, digits or ._@- and begin with a letter or digit
models[0].targets[0].provider: no provider is named "opnai" (did you mean "openai"?)
`,
      code: 1,
    }))

  test('no file: exit code 1', async () => {
    const { code, stderr } = await weir('check', '--config', 'none.yaml')
    expect([code, stderr.split('\n').length]).toEqual([1, 2])
    expect(stderr).toStartWith('none.yaml: there is no such file')
  })

  test('wrong usage: exit code 2; help: 0', async () => {
    for (const args of [['--confg', 'x'], ['extra'], ['--config']]) {
      const { code, stdout, stderr } = await weir('check', ...args)
      expect([code, stdout, stderr.trim().split('\n').length]).toEqual([2, '', 1])
    }
    const help = await weir('check', '--help')
    expect([help.code, help.stderr]).toEqual([0, ''])
    expect(help.stdout).toStartWith('Usage: weir check')
  })
})

describe('weir explain', () => {
  test('an allowed model: the candidates in order with their prices, and the limits', async () => {
    const { code, stdout } = await weir('explain', '--key', 'ci', '--model', 'mini')
    expect(code).toBe(0)
    expect(stdout.replace(/\d{4}-\d\d-\d\d/, 'TOMORROW')).toBe(`key "ci" of organisation "acme" asks for "mini"
automatic selection: available
gpt: allowed, nothing excludes it
claude: allowed, nothing excludes it
candidates, in order:
  1. gpt at openai (gpt-1); input $0.25, cached input $0.025, output $2.00 a million tokens\
; takes no images, takes no tools
  2. claude at anthropic (claude-1); input $3.00, output $15.00 a million tokens; takes no images, takes no tools
which targets rest is unknown: no gateway runs with this data_dir
limits of organisation "acme": $50.00 a day ($50.00 left, renews TOMORROW)
limits of key "ci": none
`)
  })

  test('what is denied: by which rule, and the error that the caller gets', async () => {
    const file = edited(
      'auto: available',
      'auto: available\n    rules: [{ allow: [claude] }, { deny: ["g*"], keys: [ci] }]',
    )
    await writeFile(join(directory, 'rules.yaml'), file)
    const { stdout } = await weir('explain', '--key', 'ci', '--model', 'gpt', '--config', 'rules.yaml')
    expect(stdout).toContain('gpt: denied, by rules[1] of organisation "acme"\n')
    expect(stdout).toContain('claude: allowed, by rules[0] of organisation "acme"\n')
    expect(stdout).toContain('rejected: 403 model_not_allowed: ')
    const auto = await weir('explain', '--key', 'ci', '--model', 'auto', '--config', 'rules.yaml')
    expect(auto.stdout).toContain('  1. claude at anthropic')
  })

  test('an unknown key: 1; flags that are missing: 2; a bad file: 1', async () => {
    const unknown = await weir('explain', '--key', 'cj', '--model', 'gpt')
    expect([unknown.code, unknown.stderr]).toEqual([1, 'weir: no key has the id "cj" (did you mean "ci"?)\n'])
    expect((await weir('explain', '--key', 'ci')).code).toBe(2)
    expect((await weir('explain', '--key', 'ci', '--model', 'gpt', '--config', 'bad.yaml')).code).toBe(1)
    expect((await weir('explain', '--help')).stdout).toStartWith('Usage: weir explain')
  })
})
