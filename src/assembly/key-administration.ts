/** Wires what changes and lists API keys to the store and the ledger of a configuration. */

import type { Config } from '../config/config.ts'
import type { ChangeSource } from '../keys/admin-audit.ts'
import { KeyChanges } from '../keys/key-changes.ts'
import { type ListedKey, listKeys } from '../keys/key-list.ts'
import { type Closable, type LedgerPlace, openKeyActivity, openKeyStore, withPart } from './open-ledger.ts'

/** Opens a part of the ledger, uses it and closes it. */
type WithLedger = <Part extends Closable, Result>(
  open: (place: LedgerPlace) => Promise<Part>,
  use: (part: Part) => Promise<Result>,
) => Promise<Result>

/** Lists and changes keys as one configuration decides. Opens the store for each call, so that none stays open. */
export class KeyAdministration {
  readonly changes: KeyChanges

  /** `withLedger`: for a caller that reports problems of the ledger in its own way. */
  constructor(
    private readonly config: Config,
    source: ChangeSource,
    private readonly withLedger: WithLedger = (open, use) => withPart(open, config, use),
  ) {
    this.changes = new KeyChanges({ config, source, withStore: (use) => withLedger(openKeyStore, use) })
  }

  /** All keys, or those of one organisation, by id; the first `most` of them. */
  async list(only?: string, most?: number): Promise<readonly ListedKey[]> {
    const { organizations } = this.config
    return await this.withLedger(openKeyStore, (store) =>
      this.withLedger(openKeyActivity, (activity) =>
        listKeys(store, (organization, keys) => activity.read(organization, keys), {
          organizations,
          only,
          most,
          nowMs: Date.now(),
        }),
      ),
    )
  }
}
