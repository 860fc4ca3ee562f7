import { expect, test } from 'bun:test'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '../..')

/** Runs a script with one flag. */
async function run(script: string, flag: string) {
  const child = Bun.spawn([process.execPath, join(ROOT, script), flag], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { code, stdout, stderr }
}

const SCRIPTS = [
  'tools/bench/main.ts',
  'tools/chaos/main.ts',
  'tools/soak/main.ts',
  'tools/demo/main.ts',
  'scripts/quickstart.ts',
]

test.each(['build', 'package', 'test', 'screenshots'])('scripts/%s prints its help for --help', (name) => {
  for (const flag of ['--help', '-h']) {
    const { stdout, stderr, exitCode } = Bun.spawnSync([join(ROOT, 'scripts', name), flag], { cwd: '/' })
    expect([exitCode, stderr.toString()]).toEqual([0, ''])
    expect(stdout.toString()).toMatch(new RegExp(`^Usage: scripts/${name}[^]*\n\n[A-Z][^#]*.\n$`))
  }
})

test.each(SCRIPTS)('%s prints its help for --help, and its usage for a flag that it does not have', async (script) => {
  const help = await run(script, '--help')
  expect(help).toEqual({ code: 0, stdout: expect.stringMatching(/^Usage: scripts\//), stderr: '' })
  expect(await run(script, '--nonsense')).toEqual({ code: 2, stdout: '', stderr: help.stdout })
})
