/**
 * What a node and Redis tell each other of an organisation's epoch in Redis: when its figures began. Another epoch means that Redis has lost
 * figures meanwhile.
 */

import type { ReservationStore } from '../../reservation-store.ts'
import type { UsagePlace, UsageRow } from '../../usage-log.ts'
import type { NodeFigures } from './epoch-rows.ts'
import type { FoundReservation } from './reconcile.ts'

/** No epoch of an organisation is known: a reservation takes whatever Redis has as it is. */
export const UNKNOWN_EPOCH = 0

/** Redis has lost what it had of an organisation, or the node has not compared its log with it. Nothing was done. */
export class DataLossError extends Error {
  constructor(readonly organization: string) {
    super(`Redis has not got back what this node knows of the organisation '${organization}'.`)
    this.name = 'DataLossError'
  }
}

/** What a node knows of an organisation's epoch. 0: none. */
export interface NodeEpoch {
  readonly node: string
  readonly epoch: number
  /** The epoch in which this node's settlements were not recorded by node yet: an earlier version wrote them. */
  readonly legacyEpoch: number
}

/** What Redis has of a node in an organisation's epoch. */
export interface Entered {
  readonly epoch: number
  /** How many of the rows that Redis lacked the node has given back to this epoch. */
  readonly given: number | 'all'
  /** How many requests of the node are in its figures. */
  readonly requests: number
  /** What the node served in its legacy epoch is in the budgets, and not in the node's figures. */
  readonly isLegacy: boolean
}

/** One of `last` rows that a node gives back. Number 0 of 0: there is nothing to give back. */
export interface NumberedRow extends UsageRow {
  readonly number: number
  readonly last: number
}

/** A book that may lose what it has, and can be given it back. */
export interface RecoverableBook extends ReservationStore {
  /** Asks what it has of a node. Begins another epoch if it is in an earlier one than the node knows, or in the one that is to end (0: none). */
  enter(organization: string, node: NodeEpoch, ended: number): Promise<Entered>
  /**
   * The figures that it has of a node, of all days that count under the same as one of the places: by month before `foldedBefore`, or before the day
   * to which Redis has folded if that is later. All places are of one organisation.
   */
  figuresOfNode(node: string, places: readonly UsagePlace[], foldedBefore: number): Promise<NodeFigures>
  /** Every reservation that it remembers. */
  reservations(organization: string): Promise<ReadonlyMap<string, FoundReservation>>
  /** Gives one row back, if it is the next. Gives how many are given back then; undefined if this is another epoch. */
  restore(epoch: number, node: string, row: NumberedRow): Promise<number | 'all' | undefined>
}

/** The epochs that this node has entered: Redis has all of its settlements that are not still to be sent. */
export class Epochs {
  private readonly entered = new Map<string, number>()

  of(organization: string): number {
    return this.entered.get(organization) ?? UNKNOWN_EPOCH
  }

  enter(organization: string, epoch: number): void {
    this.entered.set(organization, epoch)
  }
}
