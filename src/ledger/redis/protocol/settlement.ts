/** What a settlement is, from a node's log to Redis, and the form in which the log stores it. */

import { storedTags } from '../../../core/tags.ts'
import { type AuditRow, chargeOfRow } from '../../audit-columns.ts'
import type { Account, Admission, Charge, Estimate } from '../../ledger.ts'

export interface Settlement extends Admission {
  readonly charge: Charge
  /** What the reservation held, for the row's overage. */
  readonly heldMicroUsd: number
}

/** Fields that an entry may lack, because earlier versions did not write them. */
const ADDED = { model: '', provider: '', remote: '', cacheWriteTokens: 0, node: '' }
type Added = keyof typeof ADDED | 'tags'

/** Earlier versions read and write this form, so it stays: an outbox is used across upgrades and downgrades. */
interface StoredSettlement {
  readonly account: Account
  readonly closing: {
    readonly id: string
    readonly settlement: Omit<Charge, keyof Estimate | Added> & { readonly amounts: Estimate } & {
      readonly [Field in Added]?: Charge[Field]
    }
    readonly admittedMs: number
    readonly direct: false
  }
  readonly heldMicroUsd: number
}

export function settlementText({ account, id, admittedMs, charge, heldMicroUsd }: Settlement): string {
  const { inputTokens, outputTokens, costMicroUsd, model, provider, ...rest } = charge
  const amounts = { inputTokens, outputTokens, costMicroUsd }
  // Earlier versions count a request if its model is present.
  const settlement = { amounts, ...rest, ...(model && { model }), ...(provider && { provider }) }
  const stored = { account, closing: { id, settlement, admittedMs, direct: false }, heldMicroUsd } as const
  return JSON.stringify(stored satisfies StoredSettlement)
}

/** The settlement of a row of the log. Without its account's limits, no rate of it is corrected. */
export function settlementOfRow(row: AuditRow, account?: Account): Settlement {
  const { id, organization, key, admittedMs, costMicroUsd, overageMicroUsd } = row
  return {
    id,
    account: account ?? { organization, organizationLimits: {}, key, keyLimits: {}, alertShares: 'unknown' },
    admittedMs,
    charge: chargeOfRow(row),
    heldMicroUsd: Math.max(0, costMicroUsd - overageMicroUsd),
  }
}

export function settlementOf(text: string): Settlement {
  const { account, closing, heldMicroUsd }: StoredSettlement = JSON.parse(text)
  const { amounts, tags, ...rest } = closing.settlement
  const charge = { ...ADDED, ...rest, tags: storedTags(tags), ...amounts }
  return { id: closing.id, account, admittedMs: closing.admittedMs, charge, heldMicroUsd }
}
