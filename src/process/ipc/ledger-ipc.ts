/** The messages between the supervisor and the process that owns the embedded ledger, as JSON. */

import type { LedgerPlace, LedgerRole } from '../../assembly/open-ledger.ts'

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
