/** The guard of tests, chaos and `scripts/test`: however a run ends, it leaves no process running. */

import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lives, until } from '../process/weir.ts'

const ROOT = join(import.meta.dir, '../..')
const GUARD = join(ROOT, 'scripts/guard.ts')

/** The folder of one test. */
class Folder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'weir-guard-'))

  write(name: string, text: string): string {
    writeFileSync(join(this.path, name), text)
    return join(this.path, name)
  }

  /** What the processes started wrote there, one process id a line, once there are so many. */
  async pids(count: number): Promise<readonly number[]> {
    const read = () =>
      readFileSync(join(this.path, 'pids'), { encoding: 'utf8', flag: 'a+' }).split('\n').filter(Boolean).map(Number)
    await until(async () => read().length >= count)
    return read()
  }

  /** The process of the test in {@link project}. Its file is empty for a moment, and process 0 is the whole group. */
  async tester(): Promise<number> {
    const read = () => Number(readFileSync(join(this.path, 'tester'), { encoding: 'utf8', flag: 'a+' }))
    await until(async () => read() > 0)
    return read()
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** Starts a child, one in its own session, a frozen one, and an orphaned grandchild; then runs the command `$1`. */
const LEAVES_FOUR = `
sleep 600 & echo $! >>pids
setsid sh -c 'echo $$ >>pids; exec sleep 600' &
sleep 600 & kill -STOP $!; echo $! >>pids
sh -c 'sleep 600 & echo $! >>pids'
while [ "$(wc -l <pids)" -lt 4 ]; do :; done
`

async function noneLives(pids: readonly number[]): Promise<void> {
  await until(async () => !(await Promise.all(pids.map(lives))).includes(true))
}

function guarded(folder: Folder, script: string) {
  const options = { cwd: folder.path, stdio: ['ignore', 'ignore', 'pipe'] as ['ignore', 'ignore', 'pipe'] }
  return Bun.spawn([process.execPath, GUARD, 'sh', '-c', script], options)
}

test('a command that ends: the guard returns its code, kills what it left running, and lists it', async () => {
  using folder = new Folder()
  const guard = guarded(folder, `${LEAVES_FOUR} exit 7`)
  const [code, errors] = await Promise.all([guard.exited, new Response(guard.stderr).text()])
  expect(code).toBe(7)
  const pids = await folder.pids(4)
  expect(await Promise.all(pids.map(lives))).toEqual([false, false, false, false])
  expect(errors).toContain('Ended 4 processes that were left running')
  expect(errors).toContain('sleep 600')
})

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  test(`${signal} to the guard ends everything`, async () => {
    using folder = new Folder()
    const guard = guarded(folder, `${LEAVES_FOUR} sleep 600`)
    const pids = await folder.pids(4)
    guard.kill(signal)
    expect(await guard.exited).toBeGreaterThan(128)
    await noneLives(pids)
  })
}

test('killing the guard’s parent ends everything', async () => {
  using folder = new Folder()
  const script = folder.write('script.sh', `${LEAVES_FOUR} sleep 600`)
  const parent = Bun.spawn(['sh', '-c', `"$0" "$1" sh "$2"; :`, process.execPath, GUARD, script], {
    cwd: folder.path,
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  const pids = await folder.pids(4)
  parent.kill('SIGKILL')
  await noneLives(pids)
})

/** A project with the same preload, and a test that leaves processes running and hangs. */
function project(more: string): Folder {
  const folder = new Folder()
  folder.write('bunfig.toml', `[test]\npreload = [${JSON.stringify(join(ROOT, 'test/support/preload.ts'))}]\n`)
  folder.write('leaves.sh', LEAVES_FOUR)
  folder.write(
    'hanging.test.ts',
    `import { readFileSync } from 'node:fs'
    import { test } from 'bun:test'
    test('hangs', async () => {
      Bun.spawnSync(['sh', 'leaves.sh'], { stdio: ['ignore', 'ignore', 'ignore'] })
      await Bun.write('command', readFileSync('/proc/self/cmdline', 'utf8').replaceAll('\\0', ' '))
      await Bun.write('tester', String(process.pid))
      ${more}
    })`,
  )
  return folder
}

function runTests(folder: Folder, ...flags: readonly string[]) {
  return Bun.spawn([process.execPath, 'test', ...flags], { cwd: folder.path, stdio: ['ignore', 'ignore', 'ignore'] })
}

test('a test that times out leaves nothing running', async () => {
  using folder = project('await Bun.sleep(600_000)')
  expect(await runTests(folder, '--timeout', '50').exited).toBe(1)
  await noneLives(await folder.pids(4))
})

test('tests that are killed leave nothing running, whichever of the two processes is killed', async () => {
  for (const hit of ['the first', 'the second']) {
    using folder = project('await Bun.sleep(600_000)')
    const tests = runTests(folder)
    const pids = await folder.pids(4)
    const tester = await folder.tester()
    process.kill(hit === 'the first' ? tests.pid : tester, 'SIGKILL')
    await tests.exited
    await noneLives([...pids, tester])
  }
})

test('`bun test PATH` has a timeout of 3 minutes, unless one is given', async () => {
  for (const [flags, expected] of [
    [[], 'test --timeout 180000'],
    [['--timeout', '1234'], 'test --timeout 1234'],
    [['--timeout=1234'], 'test --timeout=1234'],
  ] as const) {
    using folder = project('')
    expect(await runTests(folder, ...flags, './hanging.test.ts').exited).toBe(0)
    const command = readFileSync(join(folder.path, 'command'), 'utf8')
    expect(command).toContain(`${expected} ./hanging.test.ts`)
    expect(command.match(/--timeout/g)).toHaveLength(1)
  }
})

test('no test signals its own group', () => {
  // Signal 0 does nothing, even if it is sent.
  for (const pid of [0, -0, Number('')]) expect(() => process.kill(pid, 0)).toThrow('its own group')
  expect(process.kill(process.pid, 0)).toBe(true)
})
