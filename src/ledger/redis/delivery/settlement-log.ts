/** The log of a node's settlements as the ledger uses it: `outbox.ts` keeps it in a file, and a simulation in memory. */

import type { UsagePlace, UsageRow } from '../../usage-log.ts'
import type { Expected, FoundOfNode, KnownEpoch } from '../epochs/epoch-rows.ts'
import type { Settlement } from './settlement.ts'

export interface Pending {
  readonly settlement: Settlement
  /** The epoch of its organisation in which it is to be sent; 0: none is entered. Sent in another it could be charged twice. */
  readonly epoch: number
  /** If it was, `unknown` may mean that Redis took it and forgot. */
  readonly wasSent: boolean
}

/** What a node needs of its log; a simulation gives it another one. */
export interface SettlementLog {
  /** This log's own id. */
  readonly node: string
  /** Settlements that are not in the file yet. */
  readonly uncommitted: number
  readonly complaint: string | undefined
  /** How many are to be sent. */
  pendingCount(): number
  /** Writes a settlement down. Resolves with the commit that holds it, or at once where commits fail: then memory alone holds it for now. */
  add(settlement: Settlement, isSent: boolean): Promise<void>
  sent(id: string): void
  /** Redis took it, in a epoch of its organisation. Counts only while that epoch lasts: else it is sent again. */
  taken(id: string, organization: string, epoch: number): void
  postponed(id: string): void
  /** Those that are due to be sent again, the oldest first; all that are not taken where `early`. */
  pending(most: number, early?: boolean): readonly Pending[]
  /** Those of an organisation that a epoch which was entered lacks, and that are sent again one by one. */
  resent(organization: string): readonly Pending[]
  /** A settlement that this process has under way, as it stands now; undefined if it is not to be sent any more. */
  standing(settlement: Settlement): Pending | undefined
  /** Lets go of what was taken long ago; for when the server is there, so that none is dropped that it may still turn out to have lost. */
  forget(): void
  /** Commits what is gathered, now. False where the file does not take it. */
  commit(): boolean
  knownEpochs(): readonly KnownEpoch[]
  epochOf(organization: string): KnownEpoch
  expected(organization: string): Expected
  /** The same of every organisation that this node has served. */
  allExpected(): ReadonlyMap<string, Expected>
  /** Days from it on are kept by themselves: those before it may have been added up under the first of their month. Grows. */
  readonly foldedBefore: number
  /** Every place in which this node served something. */
  places(organization: string): readonly UsagePlace[]
  /** What the log of requests holds of requests with these ids, admitted at these times. */
  find(organization: string, admittedMs: ReadonlyMap<string, number>): Promise<readonly Settlement[]>
  /**
   * Prepares for a epoch while other requests are served: of a large backlog only the newest settlements stay pending one by one; the rest is in the
   * sums. Throws where the file does not take it.
   */
  prepare(organization: string, epoch: number, found: FoundOfNode): Promise<void>
  /**
   * What is to be given back to a epoch of an organisation in Redis: settled at its first call, as is what is sent again one by one. `resent` are
   * settlements that `find` found. Throws where the file does not take it.
   */
  enter(organization: string, epoch: number, found: FoundOfNode, resent: readonly Settlement[]): readonly UsageRow[]
  /** All of it was given back. */
  entered(organization: string, epoch: number): void
  /** The last commit. Throws where it fails. */
  close(): void
}
