/**
 * The columns of the audit trail. Made from this table: the type of a charge and of a row, the stored form in SQLite,
 * the fields of an entry in Redis and the arguments of the script that settles, and the JSON, CSV and text of `weir
 * audit`. A new column is one row here, and the gateway's value for it.
 */

import { storedTags } from '../core/tags.ts'

export const outcomes = ['completed', 'caller_left', 'provider_cut', 'timed_out', 'drained', 'refused'] as const
const endKinds = ['settled', 'late', 'direct', 'lost', 'cancelled', 'withdrawn'] as const

/** How a request ended: the `outcome` of its log line. */
export type Outcome = (typeof outcomes)[number]

/**
 * How the ledger learned of the end. A request that was lost and then settled has two rows, of which the last counts.
 */
export type EndKind = (typeof endKinds)[number]

/**
 * The values of each type of column. Whole numbers; times in Unix milliseconds; money in micro-dollars. A text that is
 * not known is ''.
 */
interface Values {
  text: string
  count: number
  money: number
  time: number
  flag: boolean
  outcome: Outcome | ''
  end: EndKind
  /** As in `core/tags.ts`. */
  tags: string
}

interface Column {
  readonly type: keyof Values
  /** In JSON and CSV; also in SQLite and Redis, if they have no name of their own for it. */
  readonly name: string
  /** The place of its value in a stored row. Rows keep it for good: a new column takes the next number. */
  readonly number: number
  readonly sql?: string
  /** The field of a stream's entry; '' if the entry's key or id has the value. */
  readonly redis?: string
  /** The gateway reports it with the charge. */
  readonly charge?: true
  /** Its place and heading in the text of `weir audit`, if it is shown there. */
  readonly shown?: readonly [place: number, heading: string]
}

/** In the order of JSON and CSV. */
const table = {
  id: { type: 'text', name: 'request_id', number: 0, sql: 'id', redis: 'id', shown: [1, 'request'] },
  organization: { type: 'text', name: 'organization', number: 1, redis: '', shown: [2, 'organization'] },
  key: { type: 'text', name: 'key', number: 2, shown: [3, 'key'] },
  admittedMs: { type: 'time', name: 'admitted_at', number: 3, sql: 'admitted_ms', redis: 'admitted' },
  endedMs: { type: 'time', name: 'ended_at', number: 4, sql: 'ended_ms', redis: '', shown: [0, 'ended at'] },
  model: { type: 'text', name: 'model', number: 7, charge: true, shown: [4, 'model'] },
  provider: { type: 'text', name: 'provider', number: 8, charge: true, shown: [5, 'provider'] },
  inputTokens: { type: 'count', name: 'input_tokens', number: 9, redis: 'input', charge: true, shown: [8, 'input'] },
  cachedInputTokens: { type: 'count', name: 'cached_input_tokens', number: 10, redis: 'cached', charge: true },
  outputTokens: {
    type: 'count',
    name: 'output_tokens',
    number: 11,
    redis: 'output',
    charge: true,
    shown: [9, 'output'],
  },
  images: { type: 'count', name: 'images', number: 12, charge: true },
  costMicroUsd: { type: 'money', name: 'cost_micro_usd', number: 13, redis: 'cost', charge: true, shown: [10, 'cost'] },
  overageMicroUsd: { type: 'money', name: 'overage_micro_usd', number: 14, redis: 'overage', shown: [11, 'overage'] },
  estimated: { type: 'flag', name: 'estimated', number: 15, charge: true, shown: [12, 'estimated'] },
  kind: { type: 'end', name: 'ended', number: 5, sql: 'kind', redis: 'kind', shown: [6, 'ended'] },
  outcome: { type: 'outcome', name: 'outcome', number: 6, charge: true, shown: [7, 'outcome'] },
  tags: { type: 'tags', name: 'tags', number: 16, charge: true },
  remote: { type: 'text', name: 'remote', number: 17, charge: true },
  cacheWriteTokens: { type: 'count', name: 'cache_write_tokens', number: 18, redis: 'written', charge: true },
  node: { type: 'text', name: 'node', number: 19, charge: true, shown: [13, 'node'] },
} as const satisfies Record<string, Column>

type Table = typeof table
type Field = keyof Table
type ChargeField = { [F in Field]: Table[F] extends { readonly charge: true } ? F : never }[Field]

/**
 * A request that was admitted and has ended. `model` and `provider` are '' if none was called, `outcome` is ''
 * if it was never settled; `overageMicroUsd` is by how much the cost passed what was held; `remote` is the caller's
 * address, `node` the name of the node that served it.
 */
export type AuditRow = { readonly [F in Field]: Values[Table[F]['type']] }

/** What a request took, and how it ended: the same for the ledger, the audit trail and the log line. */
export type Charge = Omit<Pick<AuditRow, ChargeField>, 'outcome'> & { readonly outcome: Outcome }

/** The request of a row, and how the ledger learned of its end. */
type Ending = Omit<AuditRow, ChargeField | 'overageMicroUsd'>

export interface AuditColumn extends Required<Omit<Column, 'charge' | 'shown'>> {
  readonly field: Field
  readonly isCharge: boolean
  readonly shown: Column['shown'] | undefined
}

/** In the order of JSON and CSV. */
export const auditColumns: readonly AuditColumn[] = Object.entries<Column>(table).map(([field, column]) => {
  const { sql = column.name, redis = column.name, charge = false, shown } = column
  return { ...column, field: field as Field, sql, redis, isCharge: charge, shown }
})

/** In JSON and CSV, the last column: the service tier, which rows have among their tags. */
export const SERVICE_TIER = 'service_tier'

/** What a settlement reports, in the order of its arguments. */
export const chargeColumns = auditColumns.filter(
  (column): column is AuditColumn & { readonly field: ChargeField } => column.isCharge,
)

const storedColumns = auditColumns.toSorted((one, other) => one.number - other.number)

/** The names that the view `request` gives to the values of a row. */
export const SQL_NAMES: readonly string[] = storedColumns.map(({ sql }) => sql)

/** The columns of the view, from stored rows as `json_each` has them. */
export const VIEW_COLUMNS = storedColumns.map(({ number, sql }) => `row.value ->> ${number} AS ${sql}`).join(', ')

/** Selects what `rowOf` reads. */
export const ROW_SQL = auditColumns.map(({ field, sql }) => `${sql} AS ${field}`).join(', ')

/** A value as SQLite, Redis or a row has it; none if the row is older than the column. */
type Stored = string | number | boolean | null | undefined

const NO_CHARGE: Charge = { ...fieldsOf<Charge>(chargeColumns, () => undefined), outcome: 'refused', tags: '' }

/** The charge of a request that reached no provider, or whose provider takes nothing for it. */
export function noCharge(outcome: Outcome, tags = '', remote = '', node = ''): Charge {
  return { ...NO_CHARGE, outcome, tags, remote, node }
}

interface Rows {
  readonly settled: (ending: Ending, charge: Charge, heldMicroUsd: number) => AuditRow
  readonly stored: (row: AuditRow) => readonly (string | number)[]
  readonly settledStored: (
    request: AuditedRequest,
    kind: EndKind,
    endedMs: number,
    charge: Charge,
    heldMicroUsd: number,
  ) => readonly (string | number)[]
}

type AuditedRequest = Omit<Ending, 'kind' | 'endedMs'>

/** Generated code: every settlement runs it, and a loop over the columns took twice as long. */
const rows: Rows = new Function(`return {
  settled: (ending, charge, heldMicroUsd) => ({ ${auditColumns.map((one) => `${one.field}: ${settledValue(one)}`)} }),
  stored: (row) => [${storedColumns.map((one) => stored(one, `row.${one.field}`)).join(', ')}],
  settledStored: ({ id, organization, key, admittedMs }, kind, endedMs, charge, heldMicroUsd) =>
    [${storedColumns.map((one) => stored(one, settledValue(one, ''))).join(', ')}],
}`)()

/** The value of a settled row, as source text. */
function settledValue({ field, isCharge }: AuditColumn, ending = 'ending.'): string {
  if (field === 'overageMicroUsd') return 'Math.max(0, charge.costMicroUsd - heldMicroUsd)'
  return `${isCharge ? 'charge.' : ending}${field}`
}

function stored({ type }: AuditColumn, value: string): string {
  return type === 'flag' ? `+${value}` : value
}

/** The row of a request that was settled. `heldMicroUsd` is what its reservation held. */
export const settledRow = rows.settled

/** The stored values of a settled row, without the row: half of the garbage. */
export const settledValues = rows.settledStored

/** The charge that a row was made of. If no outcome was reported, it counts as completed. */
export function chargeOfRow(row: AuditRow): Charge {
  return { ...fieldsOf<Charge>(chargeColumns, ({ field }) => row[field]), outcome: row.outcome || 'completed' }
}

/** The values of a row by their numbers, for JSON. */
export const storedValues = rows.stored

/** The row of what `ROW_SQL` selects. */
export function rowOf(stored: Readonly<Record<string, Stored>>): AuditRow {
  return fieldsOf<AuditRow>(auditColumns, ({ field }) => stored[field])
}

/** The row of values by their numbers, as `storedValues` made them. */
export function rowOfValues(values: readonly Stored[]): AuditRow {
  return fieldsOf<AuditRow>(auditColumns, ({ number }) => values[number])
}

/** The organisation of such values, without the rest of the row. */
export function organizationOfValues(values: readonly Stored[]): string {
  return String(values[table.organization.number])
}

/**
 * The row of an entry of a stream: names and values in turn. Undefined if the entry is not about the end of a request.
 */
export function rowOfEntry(organization: string, endedMs: number, words: readonly string[]): AuditRow | undefined {
  const values = new Map<string, string>()
  for (let i = 0; i + 1 < words.length; i += 2) values.set(words[i] ?? '', words[i + 1] ?? '')
  const kind = values.get(table.kind.redis)
  if (!endKinds.some((known) => known === kind)) return undefined
  return { ...fieldsOf<AuditRow>(auditColumns, ({ redis }) => values.get(redis)), organization, endedMs }
}

function fieldsOf<Row>(columns: readonly AuditColumn[], stored: (column: AuditColumn) => Stored): Row {
  return Object.fromEntries(columns.map((column) => [column.field, typedValue(column.type, stored(column))])) as Row
}

function typedValue(type: keyof Values, stored: Stored): Values[keyof Values] {
  switch (type) {
    case 'text':
      return String(stored ?? '')
    case 'count':
    case 'money':
    case 'time':
      return Number(stored ?? 0)
    case 'flag':
      return Number(stored ?? 0) === 1
    case 'outcome':
      return outcomes.find((known) => known === stored) ?? ''
    case 'end':
      return endKinds.find((known) => known === stored) ?? 'settled'
    case 'tags':
      return storedTags(stored)
  }
}
