/** The configuration of a command, and its exit code if the configuration or the ledger has a problem. */

import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'
import type { Use } from '../config/stand-ins.ts'
import { KeyProblem } from '../keys/key-problem.ts'
import { LedgerProblem } from '../reports/ledger-part.ts'
import { exit, printToStderr } from './command.ts'

/**
 * The configuration of the flag `--config`, or the exit code after printing its problems. Secrets that the command does
 * not use need not be there.
 */
export async function configured(
  flag: string | boolean | undefined,
  use: Use = 'ledger',
): Promise<{ readonly config: Config } | { readonly code: number }> {
  const file = await configFile(typeof flag === 'string' ? flag : undefined)
  const loaded = await loadConfig(file, environment(), { use })
  if (loaded.ok) return loaded
  process.stderr.write(`${loaded.problems.join('\n')}\n`)
  return { code: exit.wrong }
}

/** Runs a command and returns its exit code. Prints a `LedgerProblem` or `KeyProblem` as one line on standard error. */
export async function untilProblem(run: () => Promise<number>): Promise<number> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof LedgerProblem) && !(error instanceof KeyProblem)) throw error
    printToStderr(error.message)
    return exit.wrong
  }
}
