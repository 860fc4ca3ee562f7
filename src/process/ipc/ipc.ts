/**
 * The messages of the supervisor with its workers and with the owner of the embedded ledger, as JSON. After an upgrade
 * of the program file the supervisor is still the old program, and workers that it starts are the new one: names on the
 * wire do not change, and an unknown message is ignored.
 */

import type { PeerUpdate } from '../../assembly/inference-service.ts'
import type { LedgerPlace, LedgerRole } from '../../assembly/open-ledger.ts'
import type { Build } from '../../assembly/version.ts'
import type { Amount, Ask, RoomReport, Taken } from '../../capacity/common-room.ts'
import type { Contender } from '../../capacity/organization-turns.ts'
import type { Config } from '../../config/config.ts'
import type { TargetRef } from '../../core/model-config.ts'
import type { TargetTimes } from '../../gateway/breaker.ts'
import type { FieldHint } from '../../gateway/field-hints.ts'
import type { ItemText } from '../../items/item-store.ts'
import type { FiguresPost } from '../../metrics/figures-post.ts'
import type { FormEvidence, LearnedForm } from '../../providers/form-store.ts'
import type { ListenAddress } from '../system/listen-address.ts'

/**
 * The version of this protocol, of the configuration in it, and of the messages between the workers and the owner of
 * the embedded ledger. Raise it with a change that a supervisor, worker or owner of the version before does not
 * understand: weir then has to be restarted for an upgrade.
 */
export const PROTOCOL = 2

export type ToWorker =
  | {
      readonly type: 'start'
      readonly worker: number
      readonly address: ListenAddress
      readonly config: Config
      /** What it does with an embedded ledger. */
      readonly ledger: LedgerRole
      /** It replaces a worker: it reports `built`, and takes over the socket of that worker at `adopt`. */
      readonly replaces?: boolean
      /** It reports `built`, and gets a listening socket of the supervisor at `adopt`, which outlives it. */
      readonly adopts?: boolean
      /** The supervisor takes `item-lines`. Absent from one that was started before there were any. */
      readonly takesItemLines?: boolean
    }
  /** The worker that owned the embedded ledger is gone: own it. */
  | { readonly type: 'own' }
  /** Send the listening socket through the descriptor channel. Answered by `lent`. */
  | { readonly type: 'lend' }
  /** Accept from the socket in the descriptor channel. Answered by `ready` or `failed`. */
  | { readonly type: 'adopt' }
  /** Another worker accepts from the socket now: finish what runs, close each connection after its answer, and end. */
  | { readonly type: 'retire' }
  /** No other worker runs any more. */
  | { readonly type: 'alone' }
  /** First half of a reload: build everything that follows from this configuration. Answered by `prepared`. */
  | { readonly type: 'prepare'; readonly config: Config }
  /** Second half: serve what was prepared, from the next request on. */
  | { readonly type: 'commit' }
  /** Drop what was prepared. */
  | { readonly type: 'abort' }
  /** Answered by `status` with the same id. */
  | { readonly type: 'status'; readonly id: number }
  /** Answered by `pong`. */
  | { readonly type: 'ping' }
  /** Send the lines of requests that end, at most this many a second; 0: none. */
  | { readonly type: 'watch'; readonly linesASecond: number }
  /** Answered by `recent` with the same id. */
  | { readonly type: 'recent'; readonly id: number }
  /** From another worker. */
  | { readonly type: 'news'; readonly news: PeerUpdate }
  /** Answers a `claim` with the same id. */
  | { readonly type: 'granted'; readonly id: number; readonly granted: boolean }
  /** The supervisor has taken items of this size. */
  | { readonly type: 'remembered'; readonly size: number }
  /** Answers a `recall` with the same id. */
  | { readonly type: 'recalled'; readonly id: number; readonly json?: string | undefined }
  /** What was learned of targets, by all workers and nodes, and the keys of what is forgotten. */
  | { readonly type: 'forms'; readonly forms: readonly LearnedForm[]; readonly forgotten: readonly string[] }
  /** Answers a `take-room` with the same id. */
  | { readonly type: 'room'; readonly id: number; readonly taken: Taken }
  | { readonly type: 'drain' }
  /** Ends a drain at once. */
  | { readonly type: 'cut' }

export type ToSupervisor =
  /** The first message of a worker. */
  | { readonly type: 'hello'; readonly protocol: number; readonly version?: string }
  /** Sent once. */
  | { readonly type: 'build'; readonly build: Build }
  /** The worker has everything but the listening socket. */
  | { readonly type: 'built' }
  | { readonly type: 'lent'; readonly problem?: string | undefined }
  | { readonly type: 'ready'; readonly port: number }
  /** The worker cannot start, and a restart would not help. */
  | { readonly type: 'failed'; readonly reason: string }
  | { readonly type: 'prepared'; readonly problem?: string | undefined }
  | ({ readonly type: 'status'; readonly id: number } & WorkerStatus)
  | { readonly type: 'pong' }
  /** The number of fields of the largest organisation in Redis. */
  | { readonly type: 'fields'; readonly fields: number }
  /** Callers of a key send fields without effect. */
  | { readonly type: 'fields-ignored'; readonly hint: FieldHint }
  /** What was counted since the last such message. */
  | { readonly type: 'figures'; readonly figures: FiguresPost }
  /** When calls of targets answered and failed, of those that were called since the last such message. */
  | { readonly type: 'targets'; readonly targets: readonly TargetTimes[] }
  /**
   * Whether the ledger takes this worker's settlements, and why it does not, or is not well. Sent at first and at each
   * change.
   */
  | { readonly type: 'ledger'; readonly up: boolean; readonly problem?: string | undefined }
  /** Log lines of requests that ended, and how many others ended since the last such message. */
  | { readonly type: 'requests'; readonly lines: readonly string[]; readonly omitted: number }
  /** The log lines of the last requests, the oldest first. */
  | { readonly type: 'recent'; readonly id: number; readonly lines: readonly string[] }
  /** For the other workers. */
  | { readonly type: 'news'; readonly news: PeerUpdate }
  /** Asks for the lease to probe a target whose rest is over. Answered by `granted`. */
  | { readonly type: 'claim'; readonly id: number; readonly target: TargetRef }
  /** Items of an answer, to be kept for all workers. Answered by `remembered`. */
  | { readonly type: 'remember'; readonly organization: string; readonly items: readonly ItemText[] }
  /** The same, one id and one JSON text on each line. */
  | { readonly type: 'item-lines'; readonly organization: string; readonly ids: string; readonly texts: string }
  /** Asks for an item. Answered by `recalled`. */
  | { readonly type: 'recall'; readonly id: number; readonly organization: string; readonly item: string }
  /** A target has accepted a request that is written as its rejection of another suggested. */
  | { readonly type: 'form-evidence'; readonly evidence: FormEvidence }
  /** Asks for room of providers and targets. Answered by `room`. */
  | {
      readonly type: 'take-room'
      readonly id: number
      readonly asks: readonly Ask[]
      readonly isLow: boolean
      readonly turns?: readonly Contender[]
    }
  /** Gives some back. */
  | { readonly type: 'give-room'; readonly amounts: readonly Amount[] }
  /** What it still holds. */
  | { readonly type: 'hold-room'; readonly held: readonly Amount[] }
  /** What providers have shown of their limits. */
  | { readonly type: 'report-room'; readonly reports: readonly RoomReport[] }

/** What a worker answers when it is asked. */
export interface WorkerStatus {
  /** Why it is not ready; empty if it is. */
  readonly reasons: readonly string[]
  /** Whether the ledger has answered it now. Absent if it did not ask, and from one of the version before. */
  readonly ledgerUp?: boolean
}

/** What a worker reports of the ledger. */
export interface LedgerReport {
  /** It takes settlements. */
  readonly up: boolean
  /** Why it does not, or is not well. */
  readonly problem: string | undefined
}

/** The messages that are about what a worker has counted or learned, not about the life of its process. */
export type Report = Exclude<
  ToSupervisor,
  { type: 'hello' | 'built' | 'ready' | 'failed' | 'status' | 'recent' | 'prepared' | 'lent' | 'pong' | 'build' }
>

/** The version of the messages of the embedded ledger's owner with the supervisor, below, and with the workers. */
export const LEDGER_PROTOCOL = 2

export type ToLedgerOwner =
  /**
   * Open the ledger and accept workers. Answered by `owned` or `failed`. Ignored if `protocol`, which is the
   * supervisor's, is another one: the supervisor then ends the process. Earlier supervisors send none.
   */
  | { readonly type: 'own'; readonly place: LedgerPlace; readonly role: LedgerRole; readonly protocol?: number }
  /** Answered by `pong`. */
  | { readonly type: 'ping' }
  /** Write everything and end. */
  | { readonly type: 'stop' }

export type FromLedgerOwner =
  /** The first message. */
  | { readonly type: 'hello'; readonly protocol: number }
  | { readonly type: 'owned' }
  /** The ledger cannot be opened, and a restart would not help. */
  | { readonly type: 'failed'; readonly reason: string }
  | { readonly type: 'pong' }

/** Whether a message of the other process has a type. One that the receiver does not know matches none of its cases. */
export function isTyped<Message extends { readonly type: string }>(message: unknown): message is Message {
  return typeof message === 'object' && message !== null && 'type' in message && typeof message.type === 'string'
}
