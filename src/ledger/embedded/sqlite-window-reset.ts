/** Resets budget windows that were opened too early, in the file of an embedded ledger that no gateway has open. */

import type { Database } from 'bun:sqlite'
import { budgetLimits } from '../../core/limits.ts'
import type { UsageRow } from '../usage-log.ts'
import { windowOf } from '../window.ts'
import { spentNow, type WindowReset } from '../window-reset.ts'
import { type Lock, lockDirectory } from './directory-lock.ts'
import { openLedgerDatabase } from './ledger-database.ts'
import { readScopes, StateWriter } from './state-tables.ts'

export class EmbeddedWindowReset implements WindowReset {
  private constructor(
    private readonly lock: Lock,
    private readonly database: Database,
  ) {}

  /** Throws `LedgerFileError` if a gateway uses the directory, or if the file cannot be used. */
  static open(directory: string): EmbeddedWindowReset {
    const lock = lockDirectory(directory)
    try {
      return new EmbeddedWindowReset(lock, openLedgerDatabase(directory).database)
    } catch (error) {
      lock.release()
      throw error
    }
  }

  async reset(organization: string, usage: readonly UsageRow[]): Promise<number> {
    const now = Date.now()
    let count = 0
    const set = this.database.transaction(() => {
      const writer = new StateWriter(this.database)
      for (const scope of readScopes(this.database)) {
        if (scope.organization !== organization || scope.key.startsWith('b')) continue
        const spent = spentNow(usage, scope.key === '' ? undefined : scope.key.slice(1), now)
        const set = new Set<string>()
        for (const [i, budget] of scope.budgets.entries()) {
          const period = budgetLimits[i]?.window ?? 'total'
          const window = windowOf(period, now)
          if ((scope.windows[i] ?? 0) <= window) continue
          scope.windows = scope.windows.with(i, window)
          Object.assign(budget, { spent: spent[i] ?? 0, held: 0, refused: 0 })
          set.add(period)
        }
        count += set.size
        writer.scope(scope)
      }
    })
    set.immediate()
    return count
  }

  async close(): Promise<void> {
    this.database.close()
    this.lock.release()
  }
}
