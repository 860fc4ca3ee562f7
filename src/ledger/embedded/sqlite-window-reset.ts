/** Resets budget windows that were opened too early, in the file of an embedded ledger that no gateway has open. */

import type { Database } from 'bun:sqlite'
import { budgetLimits } from '../../core/limits.ts'
import type { UsageRow } from '../usage-log.ts'
import { windowOf, windowsIn, type ZonedWindows } from '../window.ts'
import {
  begunWindows,
  type RecordedSpend,
  type ResetOrganization,
  spentNow,
  spentNowByCounter,
  type WindowReset,
  windowsAhead,
} from '../window-reset.ts'
import { type Lock, lockDirectory } from './directory-lock.ts'
import { openLedgerDatabase } from './ledger-database.ts'
import { readScope, readScopes, StateWriter } from './state-tables.ts'
import { newCounter, type ScopeState } from './store-state.ts'

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

  async reset(organization: ResetOrganization, usage: readonly UsageRow[]): Promise<number> {
    const now = Date.now()
    const zoned = windowsIn(organization.timezone ?? 'UTC', now)
    const recorded = new Map(spentNowByCounter(usage, organization, now))
    let count = 0
    const set = this.database.transaction(() => {
      const writer = new StateWriter(this.database)
      for (const scope of readScopes(this.database)) {
        if (scope.organization !== organization.id) continue
        const name = scope.key.slice(1)
        const back = scope.key.startsWith('b')
          ? setCounterBack(scope, recorded.get(name), zoned, now)
          : setOwnerBack(scope, spentNow(usage, scope.key === '' ? undefined : name, now), now)
        if (scope.key.startsWith('b')) recorded.delete(name)
        if (back > 0) writer.scope(scope)
        count += back
      }
      if (count === 0) return
      for (const [name, spend] of recorded) writer.scope(begunAgain(organization.id, name, spend, zoned, now))
    })
    set.immediate()
    return count
  }

  async resetCounter({ id, timezone = 'UTC' }: ResetOrganization, name: string): Promise<number> {
    const now = Date.now()
    let count = 0
    const set = this.database.transaction(() => {
      const scope = readScope(this.database, id, `b${name}`)
      if (scope === undefined) return
      count = setCounterBack(scope, undefined, windowsIn(timezone, now), now)
      if (count > 0) new StateWriter(this.database).scope(scope)
    })
    set.immediate()
    return count
  }

  async close(): Promise<void> {
    this.database.close()
    this.lock.release()
  }
}

/** Sets back the windows of an organisation or a key that lie ahead. Returns how many did. */
function setOwnerBack(scope: ScopeState, spent: readonly number[], now: number): number {
  const set = new Set<string>()
  for (const [i, budget] of scope.budgets.entries()) {
    const period = budgetLimits[i]?.window ?? 'total'
    const window = windowOf(period, now)
    if ((scope.windows[i] ?? 0) <= window) continue
    scope.windows = scope.windows.with(i, window)
    Object.assign(budget, { spent: spent[i] ?? 0, held: 0, refused: 0 })
    set.add(period)
  }
  return set.size
}

/** The same for a counter. No less counts as spent than since its window began too early. */
function setCounterBack(
  scope: ScopeState,
  recorded: RecordedSpend | undefined,
  { windows, ends }: ZonedWindows,
  now: number,
): number {
  let count = 0
  for (const [i, isAhead] of windowsAhead(scope, begunWindows(now)).entries()) {
    const budget = scope.budgets[i]
    if (!isAhead || budget === undefined) continue
    scope.windows = scope.windows.with(i, windows[i] ?? 0)
    scope.ends = scope.ends.with(i, ends[i] ?? 0)
    Object.assign(budget, { spent: Math.max(recorded?.spent[i] ?? 0, budget.spent), held: 0, refused: 0 })
    count += 1
  }
  return count
}

/** A counter that has ended by the wrong clock: what it had spent in windows that are the current ones again. */
function begunAgain(
  organization: string,
  name: string,
  { spent, keptMs }: RecordedSpend,
  zoned: ZonedWindows,
  now: number,
): ScopeState {
  const scope = newCounter(organization, `b${name}`, now, zoned)
  for (const [i, budget] of scope.budgets.entries()) budget.spent = spent[i] ?? 0
  scope.untilMs = keptMs
  return scope
}
