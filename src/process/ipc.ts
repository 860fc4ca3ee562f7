/**
 * The messages between the supervisor and its workers, as JSON. The names on the wire do not change: after an upgrade
 * of the program file the supervisor is still the old program, and a worker that it restarts is the new one. An
 * unknown message is ignored.
 */

import type { PeerUpdate } from '../assembly/inference-service.ts'
import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'

/**
 * Where the workers listen. The supervisor decides, because all of them share one port. Port 0: the first worker
 * takes a free one.
 */
export interface Address {
  readonly host: string
  readonly port: number
}

export type ToWorker =
  | { readonly type: 'start'; readonly worker: number; readonly address: Address; readonly config: Config }
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
  /** From another worker. */
  | { readonly type: 'news'; readonly news: PeerUpdate }
  /** Answers a `claim` with the same id. */
  | { readonly type: 'granted'; readonly id: number; readonly granted: boolean }
  | { readonly type: 'drain' }
  /** Ends a drain at once. */
  | { readonly type: 'cut' }

export type ToSupervisor =
  | { readonly type: 'ready'; readonly port: number }
  /** The worker cannot start, and a restart would not help. */
  | { readonly type: 'failed'; readonly reason: string }
  | { readonly type: 'prepared'; readonly problem?: string | undefined }
  /** `reasons`: why it is not ready; empty if it is. */
  | { readonly type: 'status'; readonly id: number; readonly reasons: readonly string[] }
  | { readonly type: 'pong' }
  /** The number of fields of the largest organisation in Redis. */
  | { readonly type: 'fields'; readonly fields: number }
  /** Whether the ledger takes this worker's settlements. Sent at first and at each change. */
  | { readonly type: 'ledger'; readonly up: boolean }
  /** For the other workers. */
  | { readonly type: 'news'; readonly news: PeerUpdate }
  /** Asks for the lease to probe a target that was skipped. Answered by `granted`. */
  | { readonly type: 'claim'; readonly id: number; readonly target: TargetRef }

const toWorker: Readonly<Record<ToWorker['type'], true>> = {
  start: true,
  prepare: true,
  commit: true,
  abort: true,
  status: true,
  ping: true,
  news: true,
  granted: true,
  drain: true,
  cut: true,
}

const toSupervisor: Readonly<Record<ToSupervisor['type'], true>> = {
  ready: true,
  failed: true,
  prepared: true,
  status: true,
  pong: true,
  fields: true,
  ledger: true,
  news: true,
  claim: true,
}

export function isToWorker(message: unknown): message is ToWorker {
  return hasType(message, toWorker)
}

export function isToSupervisor(message: unknown): message is ToSupervisor {
  return hasType(message, toSupervisor)
}

function hasType(message: unknown, types: Readonly<Record<string, true>>): boolean {
  if (typeof message !== 'object' || message === null || !('type' in message)) return false
  return typeof message.type === 'string' && Object.hasOwn(types, message.type)
}
