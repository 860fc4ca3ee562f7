/** What a node needs of its connection to Redis: `redis-link.ts` connects, and a simulation does not. */

import type { ReservationPipeline } from '../../../core/redis-config.ts'
import type { CircuitBreaker } from '../../../redis/circuit-breaker.ts'
import type { Epochs, RecoverableStore } from './epochs.ts'

/** What a survey found of an organisation. */
export interface Surveyed {
  readonly organization: string
  readonly epoch: number
  /** The node has given everything back to this epoch. */
  readonly isWhole: boolean
  /** How many requests of the node are in its figures. */
  readonly requests: number
}

export interface Link {
  readonly store: RecoverableStore
  /** Absent in simulations. */
  readonly pipeline?: ReservationPipeline
  /** The epochs that this node has entered: its store rejects reservations in others. */
  readonly epochs: Epochs
  readonly breaker: CircuitBreaker
  /** False while the server replies but cannot be used: wrong version, no permission, another node's id. */
  readonly isFit: boolean
  readonly isConnected: boolean
  /** Connected and fit, and the circuit breaker is closed. */
  readonly isReady: boolean
  /** Why it cannot be used; undefined if it can. */
  readonly complaint: string | undefined
  /**
   * When the previous connection was lost, in epoch milliseconds; now, if none was. Writes that the server acknowledged
   * shortly before may be lost, too.
   */
  readonly lostMs: number
  /** Sends a PING and reports the result to the circuit breaker. True if the server replied. */
  probe(): Promise<boolean>
  /**
   * Checks whether the server replies now and would accept a reservation. Returns the problem, if any, and leaves the
   * circuit breaker alone.
   */
  trouble(): Promise<string | undefined>
  /**
   * Why the server accepts no reservations of an organisation although it replies; undefined if it accepts them. Throws
   * if no reply came.
   */
  standstill(organization: string): Promise<string | undefined>
  /** Called after each connection, and after a part of a cluster came back or moved. */
  onReady: () => void
  /**
   * Called when a connection breaks: from then on the server may have lost something, before the next connection is
   * announced.
   */
  onLost: () => void
  /**
   * Called when Redis seems to have been emptied while the connection stayed open: other organisations may have lost
   * data, too.
   */
  onEmptied: () => void
  /** What Redis has of a node in organisations. Changes nothing. */
  survey(organizations: readonly string[], node: string): Promise<readonly Surveyed[]>
  /**
   * Organisations of all nodes with an overdue reservation, or whose keys cannot be read. Only one node looks in each
   * half minute: none for the others.
   */
  overdue(): Promise<readonly string[]>
  /** Adds an organisation to the set that readers of all organisations use. */
  register(organization: string): Promise<void>
  close(): void
}
