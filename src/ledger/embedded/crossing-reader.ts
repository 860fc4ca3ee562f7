/**
 * Reads the spend that reached a threshold from the files of an embedded ledger, while a gateway has them open. Only
 * the ledger's owner writes them: what was taken stays for a day, and the reader skips it.
 */

import type { CrossingReader, SpendCrossing } from '../spend-crossing.ts'
import { crossingOf } from './crossing-table.ts'
import { SqliteReader } from './sqlite-readers.ts'
import type { Row } from './state-tables.ts'

export class EmbeddedCrossingReader extends SqliteReader implements CrossingReader {
  /** The names of what was taken. A crossing with more spent has another name. */
  private taken = new Set<string>()

  async read(): Promise<readonly SpendCrossing[]> {
    const rows = this.from((database, tail) => [
      ...database.query<Row, []>('SELECT * FROM crossing').all(),
      ...tail.flatMap(({ crossings }) => crossings),
    ])
    const found = (rows ?? []).map(crossingOf).filter((one) => one !== undefined)
    const names = new Set(found.map(nameOf))
    this.taken = this.taken.intersection(names)
    return found.filter((one) => !this.taken.has(nameOf(one)))
  }

  async take(crossings: readonly SpendCrossing[]): Promise<void> {
    for (const one of crossings) this.taken.add(nameOf(one))
  }
}

function nameOf({ organization, key, counter, budget, window, spentMicroUsd, isRefusal }: SpendCrossing): string {
  return JSON.stringify([organization, key, counter, budget, window, spentMicroUsd, isRefusal])
}
