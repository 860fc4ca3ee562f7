/**
 * What the journal has and SQLite does not have yet: read from its files, for readers in other processes and for the
 * start after a crash.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../core/error-message.ts'
import { hasCode } from '../../core/system-error.ts'
import { LedgerFileError } from '../../sqlite/database.ts'
import { figuresOf, type UsageFigures } from '../usage-figures.ts'
import type { UsagePlace } from '../usage-log.ts'
import { JOURNAL_FILE, OLD_JOURNAL_FILE } from './journal-file.ts'
import { type Group, type Lines, readLines } from './journal-format.ts'
import type { Row } from './state-tables.ts'

/**
 * Reads the files. The current one comes first: if it becomes the old one meanwhile, it is read twice, and nothing is
 * missed. Read SQLite after it: SQLite has what was removed from the journal.
 */
export function readJournal(directory: string): Lines {
  const files = [JOURNAL_FILE, OLD_JOURNAL_FILE].map((name) => {
    const path = join(directory, name)
    return readLines(bytesOf(path), path)
  })
  return {
    groups: files.flatMap(({ groups }) => groups),
    unreadable: files.flatMap(({ unreadable }) => unreadable),
    badBytes: files.reduce((sum, { badBytes }) => sum + badBytes, 0),
  }
}

function bytesOf(path: string): Uint8Array {
  try {
    return readFileSync(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return new Uint8Array()
    throw new LedgerFileError(`${path} cannot be read: ${messageOf(error)}.`, error)
  }
}

interface Tail {
  /** In their order, without gaps, from the first that SQLite does not have. */
  readonly groups: readonly Group<Row>[]
  /** Bytes and groups at the end that were not written completely. */
  readonly cutBytes: number
  readonly cutGroups: number
}

/**
 * The groups that follow `applied`. A group that is missing ends them: with the power, writes that were not flushed yet
 * are lost, in any order. Throws `LedgerFileError` if one is missing that had been flushed.
 */
export function tailOf({ groups, unreadable, badBytes }: Lines, applied: number, directory: string): Tail {
  const byNumber = new Map(groups.filter(({ number }) => number > applied).map((group) => [group.number, group]))
  const tail: Group<Row>[] = []
  for (let next = byNumber.get(applied + 1); next !== undefined; next = byNumber.get(next.number + 1))
    tail.push(next.read())
  const missing = applied + tail.length + 1
  const later = [...byNumber.values(), ...unreadable].filter(({ number }) => number > missing)
  const cut = [...later, ...unreadable.filter(({ number }) => number === missing)]
  if (cut.some(({ synced }) => synced >= missing)) {
    const path = join(directory, JOURNAL_FILE)
    throw new LedgerFileError(
      `${path} is damaged (group ${missing} is missing, and later ones are there). weir does not start with figures ` +
        `that may be wrong: restore a backup, or move ${JOURNAL_FILE} and ${OLD_JOURNAL_FILE} aside to continue with ` +
        'what ledger.sqlite has.',
    )
  }
  return { groups: tail, cutBytes: badBytes, cutGroups: cut.length }
}

/** Where usage counts, and its figures, from a row of a group. */
export function usageOfRow(row: Row): { readonly place: UsagePlace; readonly figures: UsageFigures } {
  const place = {
    day: Number(row['day'] ?? 0),
    organization: String(row['organization'] ?? ''),
    key: String(row['key'] ?? ''),
    series: String(row['model'] ?? ''),
  }
  return { place, figures: figuresOf(({ name }) => Number(row[name] ?? 0)) }
}

/** The id of a request from the values of its row. */
export function idOfRow(values: readonly (string | number)[]): string {
  return String(values[0] ?? '')
}
