/** When keys were last used, and what they spent today, for the list of keys. A gateway need not run. */

import type { KeyActivity } from '../keys/key-list.ts'
import { dayOf } from './window.ts'

export interface KeyActivityReader {
  /** The activity of some keys of an organisation, by id. Keys that were never used are not in it. */
  read(organization: string, keys: readonly string[]): Promise<ReadonlyMap<string, KeyActivity>>
  close(): Promise<void>
}

/** The last use of a key, and its budget of a day: its window (of `dayOf`), and what is spent and held in it. */
export interface DayOfKey {
  readonly usedMs: number
  readonly window: number
  readonly spent: number
  readonly held: number
}

/** A day that has passed counts as 0. */
export function activityOf({ usedMs, window, spent, held }: DayOfKey, nowMs: number): KeyActivity {
  return { usedMs, todayMicroUsd: window === dayOf(nowMs) ? spent + held : 0 }
}
