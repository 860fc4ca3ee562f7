/** One settlement on its way from a node's log to the book, and what it adds to the usage. */

import { usageOf } from './counted.ts'
import type { Account } from './ledger.ts'
import type { Closing } from './reservation-store.ts'
import type { UsageRow } from './usage-log.ts'
import { dayOf } from './window.ts'

export interface Entry {
  readonly account: Account
  readonly closing: Closing
  /** What the reservation held, for the row's overage. */
  readonly heldMicroUsd: number
}

/** Where and what a settlement counts; undefined where no provider was called. */
export function usageRowOf({ account, closing }: Entry): UsageRow | undefined {
  const usage = usageOf(closing.settlement)
  if (usage === undefined) return undefined
  const { organization, key } = account
  return { day: dayOf(closing.admittedMs), organization, key, model: closing.settlement.model ?? '', ...usage }
}
