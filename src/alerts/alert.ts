/** What an alert is: its types with their fields, and its id. */

import { createHash, randomUUID } from 'node:crypto'

/** The fields of each type, beside those that every alert has. */
interface AlertFields {
  'spend.threshold': {
    readonly organization: string
    /** Null for a limit of the organisation. */
    readonly key: string | null
    readonly window: 'day' | 'month' | 'total'
    readonly limit_usd: number
    readonly spent_usd: number
    readonly share: number
  }
  'provider.credential_rejected': { readonly provider: string; readonly model: string }
  'target.open': {
    readonly provider: string
    readonly model: string
    readonly reason: string
    /** When it began to fail. */
    readonly since: string
  }
  'ledger.down': Readonly<Record<never, never>>
  'ledger.up': Readonly<Record<never, never>>
  'key.expiring': { readonly organization: string; readonly key: string; readonly expires_at: string }
  test: Readonly<Record<never, never>>
}

type AlertType = keyof AlertFields

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

/** The JSON that is posted. */
export interface Alert {
  readonly id: string
  readonly type: AlertType
  /** When weir noticed it. */
  readonly at: string
  /** The name of the machine that sends it. */
  readonly node: string
}

interface Origin {
  readonly node: string
  readonly nowMs: number
  /** By default a random one. */
  readonly id?: string
}

export function alertOf({ type, fields }: Occurrence, { node, nowMs, id = randomId() }: Origin): Alert {
  return { id, type, at: new Date(nowMs).toISOString(), node, ...fields }
}

/** The same id for the same parts, on every node: of what must be reported once. */
export function derivedId(parts: readonly (string | number | null)[]): string {
  return `alert_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)}`
}

function randomId(): string {
  return `alert_${randomUUID().replaceAll('-', '')}`
}
