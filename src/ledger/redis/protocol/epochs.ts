/**
 * An epoch is the time at which Redis began to have figures of an organisation. If it differs from the one that a node
 * knows, Redis has lost figures. These are the messages between a node and Redis about it.
 */

import type { Later } from '../../../core/later.ts'
import type { Account, Admission, Charge, Hold } from '../../ledger.ts'
import type {
  CancelReply,
  ReservationStore,
  ReserveReply,
  SettleOptions,
  SettleReply,
} from '../../reservation-store.ts'
import type { UsageFigures } from '../../usage-figures.ts'
import type { UsagePlace, UsageRow } from '../../usage-log.ts'
import type { FoundCounters, GivenRow, KeptCounters } from './counter-spend.ts'
import type { OwedSpend } from './owed-spend.ts'

/** No epoch is known: a reservation is checked against whatever Redis has. */
export const UNKNOWN_EPOCH = 0

/** Redis has lost data of an organisation, or the node has not compared its log with Redis yet. Nothing was changed. */
export class DataLossError extends Error {
  constructor(readonly organization: string) {
    super(`Redis lost data of the organisation '${organization}', and this node has not given its part back yet.`)
    this.name = 'DataLossError'
  }
}

/** What a node knows of an organisation's epoch. 0: none. */
export interface NodeEpoch {
  readonly node: string
  readonly epoch: number
  /** The epoch in which an earlier version wrote this node's settlements, which did not record them by node. */
  readonly legacyEpoch: number
}

/** The sums that Redis keeps of a node that was away for long, in place of its figures by day and series. */
export interface NodeSums {
  /** The sums are of days before this one. */
  readonly before: number
  readonly byKey: ReadonlyMap<string, UsageFigures>
}

/** The figures that Redis has of a node, by `placeName`; days before `foldedBefore` are summed by month. */
export interface NodeFigures {
  readonly figures: ReadonlyMap<string, UsageRow>
  readonly foldedBefore: number
}

/** A reservation that the store has. */
export interface FoundReservation {
  /** Not settled and not cancelled. */
  readonly isOpen: boolean
  /** 0 if it is not open. */
  readonly admittedMs: number
}

/** What Redis has of a node in an organisation's epoch. */
export interface Entered {
  readonly epoch: number
  /** How many rows the node has given back to this epoch. */
  readonly given: number | 'all'
  /** How many requests of the node are in its figures. */
  readonly requests: number
  /** Requests of the node's legacy epoch are in the budgets, and not in the node's figures. */
  readonly isLegacy: boolean
  /** What it has of the node beside its figures by place. They do not change while the node compares. */
  readonly sums?: NodeSums | undefined
  /** Before this call Redis had no reservation and no node's figures. */
  readonly wasEmpty: boolean
}

/** One of `last` rows that a node gives back. Number 0 of 0: there is nothing to give back. */
export type NumberedRow = GivenRow & { readonly number: number; readonly last: number }

/** A store that may lose data, which nodes can give back. */
export interface RecoverableStore extends ReservationStore {
  // Every request makes these two calls. As promises each kept two promises and five functions until the reply came.
  reserve(account: Account, hold: Hold): Later<ReserveReply>
  settle(admission: Admission, charge: Charge, options?: SettleOptions): Later<SettleReply>
  /** `turn`: a reservation of a later one stays, or may come later; absent: none may. */
  cancel(account: Account, id: string, turn?: number): Promise<CancelReply>
  /**
   * Returns what it has of a node. Begins another epoch if it is in an earlier one than the node knows, or in the one
   * that `ended` names (0: none).
   */
  enter(organization: string, node: NodeEpoch, ended: number): Promise<Entered>
  /**
   * The figures that it has of a node in the given places, all of one organisation. Days before `foldedBefore`, or
   * before the day to which Redis has folded if that is later, are summed by month.
   */
  figuresOfNode(node: string, places: readonly UsagePlace[], foldedBefore: number): Promise<NodeFigures>
  /** Every reservation that it stores. */
  reservations(organization: string): Promise<ReadonlyMap<string, FoundReservation>>
  /** What it has of a node in counters with these names, and the counters of open reservations with these ids. */
  countersOfNode(
    organization: string,
    node: string,
    names: readonly string[],
    ids: readonly string[],
  ): Promise<FoundCounters>
  /** Until when it keeps counters with these names. */
  countersKept(organization: string, names: readonly string[]): Promise<KeptCounters>
  /**
   * Gives one row back if it is the next. Returns how many are given back then; undefined if Redis is in another epoch.
   */
  restore(epoch: number, node: string, row: NumberedRow): Promise<number | 'all' | undefined>
}

/**
 * The epochs that this node has entered: Redis has all of its settlements except those that are still to be sent, and
 * what is owed.
 */
export class Epochs {
  private readonly entered = new Map<string, number>()
  private readonly owed = new Map<string, OwedSpend>()

  of(organization: string): number {
    return this.entered.get(organization) ?? UNKNOWN_EPOCH
  }

  /** `owed`: what is still given back to the epoch; absent: nothing. */
  enter(organization: string, epoch: number, owed?: OwedSpend): void {
    this.entered.set(organization, epoch)
    if (owed === undefined) this.owed.delete(organization)
    else this.owed.set(organization, owed)
  }

  /** True if something is still given back to the epoch of an organisation. */
  isOwed(organization: string): boolean {
    return this.owed.has(organization)
  }

  /** An account with limits for the budgets as they are in Redis now. */
  present(account: Account): Account {
    return this.owed.get(account.organization)?.of(account, Date.now()) ?? account
  }
}
