/** The messages between the supervisor and the process that owns the embedded ledger, as JSON. */

import type { LedgerPlace, LedgerRole } from '../../assembly/open-ledger.ts'
import { hasType } from './ipc.ts'

/** The version of these messages, and of those between the owner and the workers. */
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

const toOwner: Readonly<Record<ToLedgerOwner['type'], true>> = { own: true, ping: true, stop: true }
const fromOwner: Readonly<Record<FromLedgerOwner['type'], true>> = {
  hello: true,
  owned: true,
  failed: true,
  pong: true,
}

export function isToLedgerOwner(message: unknown): message is ToLedgerOwner {
  return hasType(message, toOwner)
}

export function isFromLedgerOwner(message: unknown): message is FromLedgerOwner {
  return hasType(message, fromOwner)
}
