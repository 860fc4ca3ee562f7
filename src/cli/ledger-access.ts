/** What the commands that ask the ledger have in common: the configuration that says where it is, and what becomes of its complaints. */

import type { LedgerPlace } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'
import { complain, exit } from './command.ts'

/** The ledger cannot be asked; the message is a line for the operator. */
export class LedgerProblem extends Error {
  override readonly name = 'LedgerProblem'
}

interface Closable {
  close(): Promise<void>
}

/** The configuration that the flag `--config` names, or the exit code once its problems are printed. */
export async function configured(
  flag: string | boolean | undefined,
): Promise<{ readonly config: Config } | { readonly code: number }> {
  const loaded = await loadConfig(await configFile(typeof flag === 'string' ? flag : undefined), environment())
  if (loaded.ok) return loaded
  process.stderr.write(`${loaded.problems.join('\n')}\n`)
  return { code: exit.wrong }
}

/** Opens a part of the ledger, uses it and closes it. Throws `LedgerProblem` for what is wrong with the world. */
export async function withLedger<Part extends Closable, Result>(
  open: (place: LedgerPlace) => Promise<Part>,
  place: LedgerPlace,
  use: (part: Part) => Promise<Result>,
): Promise<Result> {
  try {
    const part = await open(place)
    try {
      return await use(part)
    } finally {
      await part.close()
    }
  } catch (error) {
    // Ours, not the world's.
    if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) throw error
    throw problemOf(error)
  }
}

/** Runs a command to its exit code; a `LedgerProblem` is one line on standard error. */
export async function untilProblem(run: () => Promise<number>): Promise<number> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof LedgerProblem)) throw error
    complain(error.message)
    return exit.wrong
  }
}

/** The ledger's own errors are written for the operator; those of SQLite and Redis need to be told whose they are. */
function problemOf(error: Error): LedgerProblem {
  const message = error.message.replace(/\s+/g, ' ').trim()
  const isOwn = error.name === 'LedgerFileError' || error.name === 'RedisUnfitError'
  return new LedgerProblem(isOwn ? message : `the ledger cannot be asked: ${message}`, { cause: error })
}
