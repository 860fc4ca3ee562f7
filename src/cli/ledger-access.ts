/** Opens the configured ledger for commands, and turns its errors into lines for the operator. */

import { accessProblem } from '../assembly/data-dir.ts'
import type { LedgerPlace } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'
import { KeyProblem } from '../keys/key-problem.ts'
import { exit, printToStderr } from './command.ts'

/** The ledger cannot be used. `message` is one line for the operator. */
export class LedgerProblem extends Error {
  override readonly name = 'LedgerProblem'
}

interface Closable {
  close(): Promise<void>
}

/** The configuration of the flag `--config`, or the exit code after printing its problems. */
export async function configured(
  flag: string | boolean | undefined,
): Promise<{ readonly config: Config } | { readonly code: number }> {
  const loaded = await loadConfig(await configFile(typeof flag === 'string' ? flag : undefined), environment())
  if (loaded.ok) return loaded
  process.stderr.write(`${loaded.problems.join('\n')}\n`)
  return { code: exit.wrong }
}

/**
 * Opens a part of the ledger, uses it and closes it. Throws `LedgerProblem` for every error that is neither a
 * bug of weir nor a `KeyProblem`.
 */
export async function withLedger<Part extends Closable, Result>(
  open: (place: LedgerPlace) => Promise<Part>,
  place: LedgerPlace,
  use: (part: Part) => Promise<Result>,
): Promise<Result> {
  const problem = place.ledger.kind === 'embedded' ? accessProblem(place.dataDir) : undefined
  if (problem !== undefined) throw new LedgerProblem(problem)
  try {
    const part = await open(place)
    try {
      return await use(part)
    } finally {
      await part.close()
    }
  } catch (error) {
    if (error instanceof KeyProblem) throw error
    // A bug of weir.
    if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) throw error
    throw problemOf(error)
  }
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

/**
 * The ledger's own errors are written for the operator; those of SQLite and Redis need a prefix that names the ledger.
 */
function problemOf(error: Error): LedgerProblem {
  const message = error.message.replace(/\s+/g, ' ').trim()
  const isOwn = error.name === 'LedgerFileError' || error.name === 'RedisUnfitError'
  return new LedgerProblem(isOwn ? message : `the ledger cannot be read: ${message}`, { cause: error })
}
