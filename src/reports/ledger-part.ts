/** Opens a part of the configured ledger for a report, and turns its errors into lines for the operator. */

import { accessProblem } from '../assembly/data-dir.ts'
import { type Closable, type LedgerPlace, withPart } from '../assembly/open-ledger.ts'

/** The ledger cannot be used. `message` is one line for the operator. */
export class LedgerProblem extends Error {
  override readonly name = 'LedgerProblem'
}

/** What use of the ledger may end with although it could be read. */
const ANSWERS: readonly string[] = ['KeyProblem', 'NodeProblem']

/**
 * Opens a part of the ledger, uses it and closes it. Throws `LedgerProblem` for every error that is neither a
 * bug of weir nor one of `ANSWERS`.
 */
export async function withLedger<Part extends Closable, Result>(
  open: (place: LedgerPlace) => Promise<Part>,
  place: LedgerPlace,
  use: (part: Part) => Promise<Result>,
): Promise<Result> {
  const problem = place.ledger.kind === 'embedded' ? accessProblem(place.dataDir) : undefined
  if (problem !== undefined) throw new LedgerProblem(problem)
  try {
    return await withPart(open, place, use)
  } catch (error) {
    // A bug of weir.
    if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) throw error
    if (ANSWERS.includes(error.name)) throw error
    throw problemOf(error)
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
