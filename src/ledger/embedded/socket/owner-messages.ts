/**
 * The messages between the owner of an embedded ledger and the workers that share it. A frame is a line with a JSON
 * array of messages. Both ends are weir, over a socket that only its user can open, so they are not checked.
 */

import type { Account, Charge, Estimate, Hold, LedgerHealth } from '../../ledger.ts'
import type { ExtendReply, ReserveReply } from '../../reservation-store.ts'

/** Raised with each change that an older program would misread. */
export const PROTOCOL = 1

/**
 * `seq` counts a worker's calls from 1, over all of its connections. A call that is sent again after its connection
 * broke has the same one. `account` is the index that an earlier
 * message of the same connection gave to an account; a later one may replace it after a reload.
 */
export type ToOwner =
  /** The first message of a connection. `worker` is unique among all workers that ever called this owner. */
  | { readonly type: 'hello'; readonly protocol: number; readonly worker: string }
  | { readonly type: 'account'; readonly index: number; readonly account: Account }
  /** A reservation of this worker that an owner has granted. Only before the calls that are sent again. */
  | {
      readonly type: 'adopt'
      readonly account: number
      readonly hold: Hold
      readonly admittedMs: number
      readonly soFar: Estimate
    }
  | { readonly type: 'reserve'; readonly seq: number; readonly account: number; readonly hold: Hold }
  | {
      readonly type: 'extend'
      readonly seq: number
      readonly account: number
      readonly id: string
      readonly soFar: Estimate
      readonly wanted: Estimate
    }
  | {
      readonly type: 'settle'
      readonly seq: number
      readonly account: number
      readonly id: string
      readonly admittedMs: number
      readonly charge: Charge
      /** The owner charges it even if it does not know the reservation, unless it has settled it. */
      readonly isDirect: boolean
    }
  | { readonly type: 'cancel'; readonly seq: number; readonly account: number; readonly id: string }
  | { readonly type: 'health'; readonly seq: number }

/** All but `welcome` and `written` answer the call with the same `seq`. Calls that end reservations have none. */
export type FromOwner =
  | { readonly type: 'welcome'; readonly protocol: number }
  | { readonly type: 'reserved'; readonly seq: number; readonly reply: ReserveReply | { readonly outcome: 'full' } }
  | { readonly type: 'extended'; readonly seq: number; readonly reply: ExtendReply }
  | { readonly type: 'health'; readonly seq: number; readonly health: LedgerHealth }
  /** The call cannot be carried out: a bug of the caller. */
  | { readonly type: 'failed'; readonly seq: number; readonly message: string }
  /** All calls of this worker up to `seq` are in the journal's file: they survive the owner. */
  | { readonly type: 'written'; readonly seq: number }
