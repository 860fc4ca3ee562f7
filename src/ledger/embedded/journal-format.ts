/**
 * The form of the journal's files: one line for each group of changes, `checksum length JSON`. The first line of a file
 * names the columns of the rows in the others, so that a later version can read them. A line that was not written
 * completely, or was damaged, does not match its checksum.
 */

import { LedgerFileError } from '../../sqlite/database.ts'
import { FIGURE_NAMES } from '../usage-figures.ts'
import { CROSSING_NAMES } from './crossing-table.ts'
import { LIVE_NAMES, type Row, SCOPE_NAMES, type Value } from './state-tables.ts'

const FORMAT = 1
/** 8 hexadecimal digits, a blank, 10 decimal digits, a blank. */
const HEAD_BYTES = 20
const NEWLINE = 10
/** A larger buffer is not kept for the next line. */
const KEPT_BYTES = 1024 * 1024
/** `model` is the series, as in SQLite. */
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
  /** Reservations that were lost and may be settled late. */
  readonly lost: readonly State[]
  readonly usage: readonly State[]
  /** Spend that reached a threshold. */
  readonly crossings: readonly State[]
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
    const names = { scopes: SCOPE_NAMES, live: LIVE_NAMES, usage: USAGE_NAMES, crossings: CROSSING_NAMES }
    return this.line(JSON.stringify({ journal: FORMAT, ...names }))
  }
}

function headOf(body: Uint8Array): string {
  const checksum = Bun.hash.crc32(body).toString(16).padStart(8, '0')
  return `${checksum} ${String(body.length).padStart(10, '0')} `
}

/** A group whose line is whole. */
interface WholeGroup extends Pick<Group<Row>, 'number' | 'synced'> {
  /** Most groups of a file are in SQLite already, and reading one takes most of the time: a start needs few. */
  read(): Group<Row>
}

/** What a file of the journal has, or all of them. */
export interface Lines {
  readonly groups: readonly WholeGroup[]
  /** Groups that cannot be read because the first line is damaged. */
  readonly unreadable: readonly Pick<WholeGroup, 'number' | 'synced'>[]
  /** Bytes of lines that are incomplete or damaged. */
  readonly badBytes: number
}

/** How the JSON of a group begins. */
const GROUP = /^\{"number":(\d+),"synced":(\d+),/
const GROUP_BYTES = 64

/** Reads a file; damaged lines are skipped. Throws `LedgerFileError` if a newer version of weir wrote it. */
export function readLines(bytes: Uint8Array, path: string): Lines {
  const groups: WholeGroup[] = []
  let names: Header | undefined
  let badBytes = 0
  for (let start = 0; start < bytes.length; ) {
    const newline = bytes.indexOf(NEWLINE, start)
    const end = newline < 0 ? bytes.length : newline
    const body = newline < 0 ? undefined : bodyOf(bytes.subarray(start, end))
    const [isGroup, number, synced] = GROUP.exec(textOf(body?.subarray(0, GROUP_BYTES))) ?? []
    if (body === undefined) badBytes += Math.min(bytes.length, end + 1) - start
    else if (isGroup === undefined) names ??= start === 0 ? headerOf(body, path) : undefined
    else groups.push({ number: Number(number), synced: Number(synced), read: () => groupOf(body, names) })
    start = end + 1
  }
  return names === undefined ? { groups: [], unreadable: groups, badBytes } : { groups, unreadable: [], badBytes }
}

/** The JSON text of a line; undefined if it does not match its checksum. */
function bodyOf(line: Uint8Array): Uint8Array | undefined {
  const body = line.subarray(HEAD_BYTES)
  return textOf(line.subarray(0, HEAD_BYTES)) === headOf(body) ? body : undefined
}

function textOf(bytes: Uint8Array = new Uint8Array()): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()
}

interface Header {
  readonly journal: number
  readonly scopes: readonly string[]
  readonly live: readonly string[]
  readonly usage: readonly string[]
  /** Absent in a file of an earlier version. */
  readonly crossings?: readonly string[]
}

function headerOf(body: Uint8Array, path: string): Header {
  const header: Header = JSON.parse(textOf(body))
  if (header.journal <= FORMAT) return header
  throw new LedgerFileError(
    `${path} was written by a newer version of weir (format ${header.journal}; this one reads up to ${FORMAT}). ` +
      'Use that version, or restore a backup from before the upgrade.',
  )
}

/** Most groups have no crossings and nothing lost, and no properties of these names. */
type Stored = Omit<Group<Values>, 'crossings' | 'lost'> & Partial<Pick<Group<Values>, 'crossings' | 'lost'>>

function groupOf(body: Uint8Array, names: Header | undefined): Group<Row> {
  const group: Stored = JSON.parse(textOf(body))
  const rowOf = (columns: readonly string[] = []) => {
    return (values: Values): Row => Object.fromEntries(columns.map((name, i) => [name, values[i] ?? '']))
  }
  return {
    ...group,
    scopes: group.scopes.map(rowOf(names?.scopes)),
    live: group.live.map(rowOf(names?.live)),
    lost: (group.lost ?? []).map(rowOf(names?.live)),
    usage: group.usage.map(rowOf(names?.usage)),
    crossings: (group.crossings ?? []).map(rowOf(names?.crossings)),
  }
}
