/**
 * Runs before the tests of every `bun test`, and starts them anew below a guard: a test that fails, times out or is killed leaves nothing
 * running. The second start also has the timeout that bunfig.toml cannot give (Bun 1.4.5 has no key for it, and `setDefaultTimeout` here would
 * hold for the first file alone). Linux only; elsewhere tests run as they are, and `--timeout 30000` is yours to give.
 */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GUARD_VARIABLE } from '../../scripts/guard.ts'

/** Bun's own 5 s are too few on a busy machine. */
const TIMEOUT_MS = 30_000
const GUARD = join(import.meta.dir, '../../scripts/guard.ts')
const COMMAND_LINE = '/proc/self/cmdline'
/** Those begin anew in this process, or are attached to it. */
const INTERACTIVE = /^--(?:watch|hot|inspect)/

function guarded(): readonly string[] | undefined {
  if (process.env[GUARD_VARIABLE] === String(process.ppid) || !existsSync(COMMAND_LINE)) return undefined
  const [, ...words] = readFileSync(COMMAND_LINE, 'utf8').split('\0').slice(0, -1)
  if (words.some((word) => INTERACTIVE.test(word))) return undefined
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
