/**
 * The interface of a node's log of settlements, and what it knows of each organisation's epoch: `outbox.ts` keeps it in
 * a file, and a simulation in memory.
 */

import type { UsagePlace, UsageRow } from '../../usage-log.ts'
import type { FoundCounters, GivenRow, KeptCounters } from './counter-spend.ts'
import type { FoundReservation, NodeFigures, NodeSums } from './epochs.ts'
import type { Settlement } from './settlement.ts'

/** The epoch of an organisation that this node knows. */
export interface KnownEpoch {
  readonly organization: string
  /** 0: none yet. */
  readonly epoch: number
  /** False: something has not been given back to it yet. */
  readonly complete: boolean
  /** The epoch in which an earlier version wrote this node's settlements, without their node; 0: none. */
  readonly legacyEpoch: number
}

/** How many requests of this node Redis should have, and how many of them may still be in flight. */
export interface Expected {
  readonly requests: number
  readonly pending: number
}

/** What Redis has of this node. */
export interface FoundOfNode extends NodeFigures {
  /** Reservations of all nodes, by id. */
  readonly reservations: ReadonlyMap<string, FoundReservation>
  /** Requests of the node's legacy epoch are in the budgets, and not in the node's figures. */
  readonly isLegacy: boolean
  readonly sums?: NodeSums | undefined
  readonly counters?: FoundCounters | undefined
  /** Settlements that were acknowledged since then may be resent one by one. */
  readonly sinceMs: number
}

/** Takes the usage of this node that Redis has lost, and the node gives back. */
export type LackingListener = (rows: readonly UsageRow[]) => void

/** A settlement that is not acknowledged. */
export interface Pending {
  readonly settlement: Settlement
  /**
   * The epoch of its organisation in which it may be sent; 0: none is entered. In another epoch it could be charged
   * twice.
   */
  readonly epoch: number
  /** If true, the reply `unknown` may mean that Redis took it and lost that. */
  readonly wasSent: boolean
}

export interface CommitListener {
  /** The settlement is committed, or a commit failed: then only memory holds it for now, and this is called again. */
  committed(): void
}

/** What a log knows of the organisations that its node has served. */
export interface EpochLog {
  /** The log's own id. */
  readonly node: string
  all(): readonly KnownEpoch[]
  of(organization: string): KnownEpoch
  expected(organization: string): Expected
  /** The same for every organisation. */
  allExpected(): ReadonlyMap<string, Expected>
  /** Usage of days before it may have been added to the first day of their month. It only grows. */
  readonly foldedBefore: number
  /** Every day, key and series of an organisation for which this node served a request. */
  places(organization: string): readonly UsagePlace[]
}

/** The log of one node. */
export interface NodeLog {
  readonly epochs: EpochLog
  /** How many settlements are not committed yet. */
  readonly uncommitted: number
  readonly complaint: string | undefined
  /** How many are to be sent. */
  pendingCount(): number
  /** Adds a settlement. `isSent`: it is sent after its commit. */
  add(settlement: Settlement, isSent: boolean, listener: CommitListener): void
  /** It is sent from now on: after a crash, Redis may have taken it. */
  sent(id: string): void
  /** Redis took it in an epoch of its organisation. If that epoch has ended, it is resent. */
  taken(id: string, organization: string, epoch: number): void
  /** Redis cannot take it as it is: it is due again in a minute. */
  postponed(id: string): void
  /** Settlements that are due to be resent, the oldest first; with `early`, all that are not acknowledged. */
  pending(most: number, early?: boolean): readonly Pending[]
  /** Settlements of an organisation that its new epoch lacks and that are resent one by one. */
  resent(organization: string): readonly Pending[]
  /** The present state of a settlement that this process sends; undefined if it need not be sent any more. */
  standing(settlement: Settlement): Pending | undefined
  /**
   * Deletes what was acknowledged long ago. Called only while the server answers: it may turn out to have lost
   * something.
   */
  forget(): void
  /** Commits now. False if the commit failed. */
  commit(): boolean
  /** The names of the counters in which this node's requests of an organisation have spent something. */
  counters(organization: string): readonly string[]
  /**
   * Some of the counters that end soon or have ended as far as this node knows, by organisation: requests of other
   * nodes may have kept them. Each call returns others.
   */
  endingCounters(): ReadonlyMap<string, readonly string[]>
  /** Until when Redis keeps these counters; what this node has spent in one that has ended is forgotten. */
  keepCounters(organization: string, keptMs: KeptCounters['keptMs']): void
  /** The settlements of requests with these ids, which were admitted at these times. */
  find(organization: string, admittedMs: ReadonlyMap<string, number>): Promise<readonly Settlement[]>
  /**
   * Prepares for an epoch while other requests are served: of a large backlog only the newest settlements are sent one
   * by one; the others are given back as sums. Throws if a commit fails.
   */
  prepare(organization: string, epoch: number, found: FoundOfNode): Promise<void>
  /**
   * What to give back to an epoch of an organisation in Redis. The first call for an epoch decides them, and which
   * settlements are resent one by one, and calls `lacking`; `resent` are settlements that `find` returned. Throws if a
   * commit fails.
   */
  enter(
    organization: string,
    epoch: number,
    found: FoundOfNode,
    resent: readonly Settlement[],
    lacking?: LackingListener,
  ): Promise<readonly GivenRow[]>
  /** Everything was given back to the epoch. */
  entered(organization: string, epoch: number): void
  /** Commits for the last time. Throws if that fails. */
  close(): void
}
