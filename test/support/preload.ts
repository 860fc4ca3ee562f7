/**
 * Runs before the tests of every `bun test` and restarts them under a guard, so that a test that fails, times out or is
 * killed leaves no process running. The restart also sets the timeout, for which bunfig.toml has no key in Bun 1.4.5;
 * `setDefaultTimeout` here would apply to the first file only. Linux only: elsewhere tests run without a guard, and you
 * pass `--timeout 180000` yourself.
 *
 * It also lets no test signal process 0: that is the whole group, and ends the run.
 */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GUARD_VARIABLE } from '../../scripts/guard.ts'

/**
 * Ends a test that hangs, and nothing else: no test measures time by it. Bun's 5 s are too short on a busy machine, and
 * so were 30 s with a load of 39 on two cores.
 */
const TIMEOUT_MS = 180_000
const GUARD = join(import.meta.dir, '../../scripts/guard.ts')
const COMMAND_LINE = '/proc/self/cmdline'
/**
 * These reload in this process or attach to it, or are a worker of `--parallel`, whose parent runs under the guard
 * already.
 */
const NOT_RESTARTED = /^--(?:watch|hot|inspect|test-worker)/

function guarded(): readonly string[] | undefined {
  if (process.env[GUARD_VARIABLE] === String(process.ppid) || !existsSync(COMMAND_LINE)) return undefined
  const [, ...words] = readFileSync(COMMAND_LINE, 'utf8').split('\0').slice(0, -1)
  if (words.some((word) => NOT_RESTARTED.test(word))) return undefined
  const hasTimeout = words.some((word) => /^--timeout\b/.test(word))
  const at = words.indexOf('test') + 1
  const timeout = hasTimeout ? [] : ['--timeout', String(TIMEOUT_MS)]
  return [process.execPath, ...words.slice(0, at), ...timeout, ...words.slice(at)]
}

const command = guarded()
if (command !== undefined) {
  const { exitCode, signalCode } = Bun.spawnSync([process.execPath, GUARD, ...command], {
    stdio: ['inherit', 'inherit', 'inherit'],
  })
  process.exit(signalCode === undefined ? exitCode : 1)
}

const kill = process.kill.bind(process)
process.kill = (pid, signal) => {
  if (!Number.isInteger(pid) || pid === 0) throw new Error(`A test signals process ${pid}, which is its own group.`)
  return kill(pid, signal)
}
