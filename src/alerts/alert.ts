/**
 * What an alert is: its types with their fields, which of them end, what a person reads of each, and its id. Every
 * format of a hook, and the queue, know the types by this table alone.
 */

import { createHash, randomUUID } from 'node:crypto'
import type { ALERT_NAMES } from '../core/alerts-config.ts'
import { type JsonObject, numberOf, stringOf } from '../core/json.ts'

/** An organisation, a key or a budget of it, and one window of its spend limits. */
interface SpendFields {
  readonly organization: string
  /** Null for a limit of the organisation. */
  readonly key: string | null
  /** Of a budget; absent for other limits. */
  readonly name?: string
  readonly value?: string | null
  readonly window: 'hour' | 'day' | 'week' | 'month' | 'total'
  readonly limit_usd: number
  readonly spent_usd: number
}

interface TargetFields {
  readonly provider: string
  readonly model: string
}

/** The fields of each type, beside those that every alert has. */
interface AlertFields {
  'spend.threshold': SpendFields & { readonly share: number }
  'spend.refusing': SpendFields
  'provider.credential_rejected': TargetFields
  'provider.credit_exhausted': TargetFields
  'target.open': TargetFields & {
    readonly reason: string
    /** Why it could not be reached, as in log lines. */
    readonly cause?: string
    /** When it began to fail. */
    readonly since: string
  }
  'model.down': {
    readonly model: string
    readonly reason: string
    readonly since: string
  }
  'ledger.down': { readonly reason: string }
  'ledger.up': Readonly<Record<never, never>>
  'disk.full': { readonly data_dir: string; readonly free_bytes: number | null }
  'reload.rejected': { readonly problems: readonly string[] }
  'worker.died': { readonly worker: number; readonly how: string }
  'fleet.mixed': {
    /** When they began to differ. */
    readonly since: string
    /** `models[3].price on gateway-2` */
    readonly differences: readonly string[]
  }
  'key.expiring': { readonly organization: string; readonly key: string; readonly expires_at: string }
  test: Readonly<Record<never, never>>
}

export type AlertType = (typeof ALERT_NAMES)[number]

/** As PagerDuty and most rules of Alertmanager have it. */
type Severity = 'critical' | 'error' | 'warning' | 'info'

interface AlertKind {
  readonly severity: Severity
  /** Whether it is a state that ends: it is sent again then, with the same id. */
  readonly ends: boolean
  /** The fields that name what it is about. Two alerts of a type with the same values are about the same thing. */
  readonly subject: readonly string[]
  /** True if it is about all nodes that share a ledger, and one of them reports it. */
  readonly shared?: boolean
  /** True if only hooks of the format `weir` get it: others get the end of another type for it. */
  readonly weirOnly?: boolean
  /** One line for people. */
  readonly summary: (fields: JsonObject) => string
}

const TARGET = ['provider', 'model'] as const
const BUDGET = ['organization', 'key', 'window', 'name', 'value'] as const
/** Of a list in a summary. */
const SHOWN_MAX = 3

export const ALERT_TYPES: Readonly<Record<AlertType, AlertKind>> = {
  'spend.threshold': {
    ...{ severity: 'warning', ends: false, shared: true, subject: [...BUDGET, 'share'] },
    summary: (fields) => {
      const percent = Math.round((numberOf(fields['share']) ?? 0) * 10_000) / 100
      return `${owner(fields)} has reached ${percent} % of ${budget(fields)}: ${usd(fields['spent_usd'])} is spent`
    },
  },
  'spend.refusing': {
    ...{ severity: 'error', ends: true, shared: true, subject: BUDGET },
    summary: (fields) =>
      `Requests of ${owner(fields)} are refused: ${usd(fields['spent_usd'])} of ${budget(fields)} is spent`,
  },
  'provider.credential_rejected': {
    ...{ severity: 'error', ends: true, subject: TARGET },
    summary: (fields) => `${word(fields, 'provider')} rejects our credential (target ${target(fields)})`,
  },
  'provider.credit_exhausted': {
    ...{ severity: 'error', ends: true, subject: ['provider'] },
    summary: (fields) => `The account with ${word(fields, 'provider')} has no credit (target ${target(fields)})`,
  },
  'target.open': {
    ...{ severity: 'warning', ends: true, subject: TARGET },
    summary: (fields) => {
      const cause = stringOf(fields['cause'])
      const why = `${word(fields, 'reason')}${cause === undefined ? '' : `, ${cause}`}`
      return `${target(fields)} has failed since ${word(fields, 'since')} (${why})`
    },
  },
  'model.down': {
    ...{ severity: 'critical', ends: true, subject: ['model'] },
    summary: (fields) => `Model ${word(fields, 'model')} is down: ${word(fields, 'reason')}`,
  },
  'ledger.down': {
    ...{ severity: 'critical', ends: true, subject: [] },
    summary: (fields) => `The ledger is down: ${stringOf(fields['reason']) ?? 'it does not answer'}`,
  },
  'ledger.up': {
    ...{ severity: 'info', ends: false, subject: [], weirOnly: true },
    summary: () => 'The ledger is up again',
  },
  'disk.full': {
    ...{ severity: 'critical', ends: true, subject: ['data_dir'] },
    summary: (fields) => `The disk of ${word(fields, 'data_dir')} is full`,
  },
  'reload.rejected': {
    ...{ severity: 'error', ends: true, subject: [] },
    summary: (fields) =>
      `A reload was rejected, and the configuration before it stays in force: ${list(fields, 'problems')}`,
  },
  'worker.died': {
    ...{ severity: 'error', ends: true, subject: ['worker'] },
    summary: (fields) => `Worker ${word(fields, 'worker')} died (${word(fields, 'how')})`,
  },
  'fleet.mixed': {
    ...{ severity: 'warning', ends: true, shared: true, subject: [] },
    summary: (fields) => `Nodes have differed since ${word(fields, 'since')}: ${list(fields, 'differences')}`,
  },
  'key.expiring': {
    ...{ severity: 'warning', ends: false, shared: true, subject: ['organization', 'key', 'expires_at'] },
    summary: (fields) =>
      `Key ${word(fields, 'key')} of ${word(fields, 'organization')} expires at ${word(fields, 'expires_at')}`,
  },
  test: { severity: 'info', ends: false, subject: [], summary: () => 'This is a test of the alerts of weir' },
}

/** The table's row of a type; undefined for one of another version of weir. */
export function alertKind(type: string): AlertKind | undefined {
  return Object.hasOwn(ALERT_TYPES, type) ? ALERT_TYPES[type as AlertType] : undefined
}

/** What happened, in a form that `alertOf` makes an alert of. */
export type Occurrence = { readonly [T in AlertType]: { readonly type: T; readonly fields: AlertFields[T] } }[AlertType]

/** What is reported once, by one of the nodes that share a ledger. */
export interface ReportedOnce {
  /** What `derivedId` makes the id of: the same on every node. */
  readonly parts: readonly (string | number | null)[]
  readonly organization: string
  /** Until when it is known that it was reported, in Unix milliseconds. */
  readonly forgetMs: number
  readonly occurrence: Occurrence
}

/** The JSON that hooks of the format `weir` get, and that the queue has for all of them. */
export interface Alert {
  readonly id: string
  readonly type: AlertType
  /** Of a type that ends. */
  readonly status?: 'firing' | 'resolved'
  /** When weir noticed it. */
  readonly at: string
  /** When weir noticed its end. */
  readonly resolved_at?: string
  /** `node_name` of the weir that sends it. */
  readonly node: string
  /** Of what one of all nodes reports: which nodes those are. */
  readonly installation?: string
}

interface AlertOrigin {
  readonly node: string
  readonly nowMs: number
  /** By default a random one. */
  readonly id?: string
  readonly installation?: string
}

export function alertOf(
  { type, fields }: Occurrence,
  { node, nowMs, id = randomId(), installation }: AlertOrigin,
): Alert {
  const status = ALERT_TYPES[type].ends ? ({ status: 'firing' } as const) : {}
  const place = installation === undefined ? { node } : { node, installation }
  return { id, type, ...status, at: new Date(nowMs).toISOString(), ...place, ...fields }
}

/** The end of an alert, from its JSON. */
export function resolvedOf(firing: JsonObject, nowMs: number): JsonObject {
  const { id = '', type = '', at = '', status: _, ...fields } = firing
  return { id, type, status: 'resolved', at, resolved_at: new Date(nowMs).toISOString(), ...fields }
}

/**
 * What an alert is about: its type and subject. A hook gets what is about the same thing in its order, so that no end
 * overtakes its beginning. Alerts that do not end wait for no other.
 */
export function topicOf(alert: JsonObject | Alert): string {
  const fields = alert as JsonObject
  const kind = alertKind(String(fields['type']))
  const values =
    kind?.ends === true
      ? kind.subject.flatMap((name) => fields[name] ?? (name in fields ? [null] : []))
      : [fields['id'] ?? null]
  return JSON.stringify([fields['type'] ?? null, ...values])
}

/**
 * The same id for the same parts, on every node of an installation: of what must be reported once. Without an
 * installation, as versions of weir derived it that did not distinguish installations.
 */
export function derivedId(ofOccurrence: ReportedOnce['parts'], installation?: string): string {
  const parts = installation === undefined ? ofOccurrence : [...ofOccurrence, installation]
  return `alert_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)}`
}

function randomId(): string {
  return `alert_${randomUUID().replaceAll('-', '')}`
}

function word(fields: JsonObject, name: string): string {
  const value = fields[name]
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '?'
}

function target(fields: JsonObject): string {
  return `${word(fields, 'provider')}/${word(fields, 'model')}`
}

function owner(fields: JsonObject): string {
  const [key, name, value] = ['key', 'name', 'value'].map((field) => stringOf(fields[field]))
  if (name !== undefined) {
    return `budget ${name}${value === undefined ? '' : ` (${value})`} of ${word(fields, 'organization')}`
  }
  return key === undefined ? word(fields, 'organization') : `key ${key} of ${word(fields, 'organization')}`
}

/** `its day limit of $5.00`. */
function budget(fields: JsonObject): string {
  return `its ${word(fields, 'window')} limit of ${usd(fields['limit_usd'])}`
}

const cents = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 4 })

/** `$0.60`; up to four decimals, because budgets of keys may be small. */
function usd(value: JsonObject[string] | undefined): string {
  return `$${cents.format(numberOf(value) ?? 0)}`
}

function list(fields: JsonObject, name: string): string {
  const found = fields[name]
  if (!Array.isArray(found)) return '?'
  const more = found.length > SHOWN_MAX ? ` (and ${found.length - SHOWN_MAX} more)` : ''
  return `${found.slice(0, SHOWN_MAX).map(String).join('; ')}${more}`
}
