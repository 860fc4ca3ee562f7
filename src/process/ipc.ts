/** What the supervisor and its workers tell each other. Both ends are the same version of this program. */

import type { PeerUpdate } from '../assembly/peer-update.ts'
import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'

/** Where the workers accept: decided by the supervisor, so that all of them share one port. 0: the first worker takes a free one. */
export interface Address {
  readonly host: string
  readonly port: number
}

export type ToWorker =
  | { readonly type: 'start'; readonly worker: number; readonly address: Address; readonly config: Config }
  /** Build everything that follows from this configuration, and keep it ready. */
  | { readonly type: 'prepare'; readonly config: Config }
  /** Use what was prepared, from the next request on. */
  | { readonly type: 'commit' }
  | { readonly type: 'abort' }
  | { readonly type: 'status'; readonly id: number }
  /** Does it still answer? */
  | { readonly type: 'ping' }
  /** From another worker. */
  | { readonly type: 'news'; readonly news: PeerUpdate }
  /** Answers a `claim`. */
  | { readonly type: 'granted'; readonly id: number; readonly granted: boolean }
  | { readonly type: 'drain' }
  /** Ends a drain at once. */
  | { readonly type: 'cut' }

export type ToSupervisor =
  | { readonly type: 'ready'; readonly port: number }
  /** The worker cannot start, and another in its place could not either. */
  | { readonly type: 'failed'; readonly reason: string }
  | { readonly type: 'prepared'; readonly problem?: string | undefined }
  /** `reasons`: why it is not ready; none where it is. */
  | { readonly type: 'status'; readonly id: number; readonly reasons: readonly string[] }
  /** Answers a `ping`. */
  | { readonly type: 'pong' }
  /** How many fields the largest organisation has in Redis. */
  | { readonly type: 'fields'; readonly fields: number }
  /** Whether this worker finds that the ledger takes what it is given. */
  | { readonly type: 'ledger'; readonly up: boolean }
  /** For the other workers. */
  | { readonly type: 'news'; readonly news: PeerUpdate }
  /** May this worker find out whether the target is well again? */
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
