/**
 * What `weir usage` and `GET /api/usage` ask: the flags that both take, and the sums that answer them. Reads some days
 * at a time, so that a gateway that answers it is never blocked for long.
 */

import { openUsageLog } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { instant } from '../config/timestamps.ts'
import { stringOf } from '../core/json.ts'
import { groupUsage, type UsageGroup } from '../ledger/usage-log.ts'
import { USAGE_WORDS, usageColumn } from '../ledger/usage-report.ts'
import { dayOf, dayText, firstKeptDay, foldedDay, HOUR_DAYS_KEPT } from '../ledger/window.ts'
import { withLedger } from './ledger-part.ts'
import type { Given } from './parameters.ts'

/** Days of the first read. Later reads take more or less, so that each lasts about as long. */
const DAYS_FIRST = 8
const READ_MS_SHORT = 5
const READ_MS_LONG = 20
/** Dates have years of four digits. */
const LAST_DAY = dayOf(Date.UTC(9999, 11, 31))

export interface UsageOptions {
  /** Days as `dayOf` numbers them, from `sinceDay` on and before `untilDay`. */
  readonly sinceDay: number
  readonly untilDay: number
  /** At least one, each once. */
  readonly by: readonly string[]
  readonly organization: string | undefined
  readonly key: string | undefined
}

/** The options, or what is wrong with the flags. */
export function usageOptions(flags: Given, nowMs: number): UsageOptions | string {
  const { org, key, since, until, json, csv } = flags
  const by = String(flags['by'] ?? 'model').split(',')
  const wrong = by.find((word) => usageColumn(word) === undefined)
  if (wrong !== undefined)
    return (
      `--by must be ${USAGE_WORDS.join(', ')} or tag:NAME, or a list of them, ` +
      `not ${quoted(wrong)}${didYouMean(wrong, USAGE_WORDS)}`
    )
  if (new Set(by).size < by.length) return '--by has the same column twice'
  if (json === true && csv === true) return '--json and --csv exclude each other'
  const now = new Date(nowMs)
  const sinceDay = dayOfFlag(since, dayOf(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)))
  if (sinceDay === undefined) return `--since must be a date (2026-11-01), not ${quoted(String(since))}`
  if (sinceDay >= LAST_DAY) return `--since must be before ${dayText(LAST_DAY)}, because the report ends on a later day`
  // A day in the future is allowed: it has no usage yet.
  const untilDay = dayOfFlag(until, Math.max(dayOf(nowMs), sinceDay) + 1)
  if (untilDay === undefined) return `--until must be a date (2026-12-01), not ${quoted(String(until))}`
  if (untilDay <= sinceDay) {
    return `--until ${dayText(untilDay)} must be after --since ${dayText(sinceDay)}: the day of --until is not included`
  }
  return { sinceDay, untilDay, by, organization: stringOf(org), key: stringOf(key) }
}

/** Only whole days are valid, because usage is summed by day. */
function dayOfFlag(text: string | boolean | undefined, fallback: number): number | undefined {
  if (text === undefined) return fallback
  const ms = typeof text === 'string' && text.length === 10 ? instant(text) : undefined
  return ms === undefined ? undefined : dayOf(ms)
}

/** Warnings if the range includes only a part of a month whose usage is kept as one sum, or days without hours. */
export function usageRemarks({ sinceDay, untilDay, by }: UsageOptions, today: number): readonly string[] {
  const remarks: string[] = []
  if ([sinceDay, untilDay].some((day) => foldedDay(day, today) !== day)) {
    const kept = dayText(firstKeptDay(today))
    remarks.push(
      `usage before ${kept} is kept by month and counts on the first day of its month; ` +
        'this range begins or ends within a month',
    )
  }
  const firstHour = today - HOUR_DAYS_KEPT
  if (by.includes('hour') && sinceDay < firstHour)
    remarks.push(`usage before ${dayText(firstHour)} is kept by day, so its hour is empty`)
  return remarks
}

/** The sums, in the order of the columns. Throws `LedgerProblem`, and `TooManyRows` beyond `groupsMax`. */
export async function readUsage(
  config: Config,
  options: UsageOptions,
  groupsMax = Number.POSITIVE_INFINITY,
): Promise<readonly UsageGroup[]> {
  const by = options.by.flatMap((word) => usageColumn(word) ?? [])
  // Redis is scanned as a whole for each read, and does not block this process.
  const isBlocking = config.ledger.kind === 'embedded'
  return await withLedger(openUsageLog, config, async (log) => {
    let groups: readonly UsageGroup[] = []
    let days = isBlocking ? DAYS_FIRST : options.untilDay - options.sinceDay
    for (let sinceDay = options.sinceDay; sinceDay < options.untilDay; ) {
      const untilDay = Math.min(sinceDay + days, options.untilDay)
      const startMs = performance.now()
      groups = groupUsage(await log.read({ ...options, sinceDay, untilDay }), by, groups)
      if (groups.length > groupsMax) throw new TooManyRows(groupsMax)
      const ms = performance.now() - startMs
      if (ms < READ_MS_SHORT) days *= 2
      else if (ms > READ_MS_LONG) days = Math.max(1, Math.floor(days / 2))
      sinceDay = untilDay
      await Bun.sleep(0)
    }
    return groups
  })
}

/** The answer would have more rows than its reader takes. */
export class TooManyRows extends Error {
  override readonly name = 'TooManyRows'

  constructor(most: number) {
    super(`the answer would have more than ${most} rows; ask for fewer days or columns`)
  }
}
