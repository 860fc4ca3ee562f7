/**
 * The form of the journal's files: one line for each group of changes, `checksum length JSON`. The first line of a file
 * names the columns of the rows in the others, so that a later version can read them. A line that was not written
 * completely, or was damaged, does not match its checksum.
 */

import { LedgerFileError } from '../../sqlite/database.ts'
import { FIGURE_NAMES } from '../usage-figures.ts'
import { LIVE_NAMES, type Row, SCOPE_NAMES, type Value } from './state-tables.ts'

const FORMAT = 1
/** 8 hexadecimal digits, a blank, 10 decimal digits, a blank. */
const HEAD_BYTES = 20
const NEWLINE = 10
/** A larger buffer is not kept for the next line. */
const KEPT_BYTES = 1024 * 1024
const USAGE_NAMES: readonly string[] = ['day', 'organization', 'key', 'model', ...FIGURE_NAMES]

type Values = readonly Value[]

/** The state of what has changed, and what is added to the log. */
export interface Group<State> {
  /** Counts from 1 and has no gaps. */
  readonly number: number
  /** The last group that was known to be on the disk when this one was written: it can only be missing if damaged. */
  readonly synced: number
  /** When the last of `rows` ended. */
  readonly endedMs: number
  readonly scopes: readonly State[]
  readonly live: readonly State[]
  readonly usage: readonly State[]
  /** Requests that ended, by the numbers of audit columns: those that were live are so no longer. */
  readonly rows: readonly Values[]
}

/** Makes the bytes of lines, in a buffer that it reuses. */
export class LineEncoder {
  private readonly encoder = new TextEncoder()
  private buffer = Buffer.alloc(16 * 1024)

  /** The line of a JSON text; valid until the next call. */
  line(json: string): Uint8Array {
    // A character of a string takes at most three bytes.
    const most = HEAD_BYTES + 3 * json.length + 1
    const isKept = most <= KEPT_BYTES
    if (isKept && this.buffer.length < most) this.buffer = Buffer.alloc(2 ** Math.ceil(Math.log2(most)))
    const buffer = isKept ? this.buffer : Buffer.alloc(most)
    const { written } = this.encoder.encodeInto(json, buffer.subarray(HEAD_BYTES))
    const body = buffer.subarray(HEAD_BYTES, HEAD_BYTES + written)
    buffer.write(headOf(body), 0, 'latin1')
    buffer[HEAD_BYTES + written] = NEWLINE
    return buffer.subarray(0, HEAD_BYTES + written + 1)
  }

  /** The first line of a file. */
  header(): Uint8Array {
    return this.line(JSON.stringify({ journal: FORMAT, scopes: SCOPE_NAMES, live: LIVE_NAMES, usage: USAGE_NAMES }))
  }
}

function headOf(body: Uint8Array): string {
  const checksum = Bun.hash.crc32(body).toString(16).padStart(8, '0')
  return `${checksum} ${String(body.length).padStart(10, '0')} `
}

/** What a file of the journal has. */
export interface Lines {
  readonly groups: readonly Group<Row>[]
  /** Groups that cannot be read because the first line is damaged. */
  readonly unreadable: readonly Pick<Group<unknown>, 'number' | 'synced'>[]
  /** Bytes of lines that are incomplete or damaged. */
  readonly badBytes: number
}

/** Reads a file; damaged lines are skipped. Throws `LedgerFileError` if a newer version of weir wrote it. */
export function readLines(bytes: Uint8Array, path: string): Lines {
  const read: { readonly start: number; readonly json: unknown }[] = []
  let badBytes = 0
  for (let start = 0; start < bytes.length; ) {
    const newline = bytes.indexOf(NEWLINE, start)
    const end = newline < 0 ? bytes.length : newline
    const json = newline < 0 ? undefined : jsonOf(bytes.subarray(start, end))
    if (json === undefined) badBytes += Math.min(bytes.length, end + 1) - start
    else read.push({ start, json })
    start = end + 1
  }
  const first = read[0]
  const names = first?.start === 0 && isHeader(first.json) ? first.json : undefined
  if (names !== undefined && names.journal > FORMAT) {
    throw new LedgerFileError(
      `${path} was written by a newer version of weir (format ${names.journal}; this one reads up to ${FORMAT}). ` +
        'Use that version, or restore a backup from before the upgrade.',
    )
  }
  const groups = read.flatMap(({ json }) => (isGroup(json) ? [json] : []))
  if (names === undefined) return { groups: [], unreadable: groups, badBytes }
  return { groups: groups.map((group) => named(group, names)), unreadable: [], badBytes }
}

function jsonOf(line: Uint8Array): unknown {
  const body = line.subarray(HEAD_BYTES)
  if (Buffer.from(line.subarray(0, HEAD_BYTES)).toString('latin1') !== headOf(body)) return undefined
  return JSON.parse(Buffer.from(body).toString('utf8'))
}

interface Header {
  readonly journal: number
  readonly scopes: readonly string[]
  readonly live: readonly string[]
  readonly usage: readonly string[]
}

function isHeader(json: unknown): json is Header {
  return typeof json === 'object' && json !== null && 'journal' in json
}

function isGroup(json: unknown): json is Group<Values> {
  return typeof json === 'object' && json !== null && 'number' in json
}

function named(group: Group<Values>, { scopes, live, usage }: Header): Group<Row> {
  const rowOf = (names: readonly string[]) => (values: Values) =>
    Object.fromEntries(names.map((name, i) => [name, values[i] ?? '']))
  return {
    ...group,
    scopes: group.scopes.map(rowOf(scopes)),
    live: group.live.map(rowOf(live)),
    usage: group.usage.map(rowOf(usage)),
  }
}
