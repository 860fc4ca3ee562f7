/** The words of `--by` of `weir usage`, and the report that it prints as JSON. */

import { addUsage, noUsage, type UsageFigures, usageColumns } from './usage-figures.ts'
import type { UsageBy, UsageGroup, UsageQuery } from './usage-log.ts'
import { dayText } from './window.ts'

const TAG_WORD = /^tag:[A-Za-z0-9._-]{1,64}$/

/** The words but `tag:NAME`, and the columns that they stand for. */
const WORDS: Readonly<Record<string, UsageBy>> = {
  model: 'model',
  key: 'key',
  org: 'organization',
  provider: 'provider',
  day: 'day',
  hour: 'hour',
  tier: 'service_tier',
}

export const USAGE_WORDS: readonly string[] = Object.keys(WORDS)

/** The column of a word; undefined if it is none. */
export function usageColumn(word: string): UsageBy | undefined {
  if (isTagWord(word)) return word
  return Object.hasOwn(WORDS, word) ? WORDS[word] : undefined
}

function isTagWord(word: string): word is `tag:${string}` {
  return TAG_WORD.test(word)
}

/** A row has a property for each column of `by`, and the figures. */
interface UsageReport {
  readonly since: string
  readonly until: string
  /** The words, with commas between them. */
  readonly by: string
  readonly rows: readonly Readonly<Record<string, string | number>>[]
  readonly total: Readonly<Record<string, number>>
}

/** `words` are those of `usageColumn`. */
export function usageReport(
  { sinceDay, untilDay }: Pick<UsageQuery, 'sinceDay' | 'untilDay'>,
  words: readonly string[],
  groups: readonly UsageGroup[],
): UsageReport {
  const by = words.flatMap((word) => usageColumn(word) ?? [])
  return {
    since: dayText(sinceDay),
    until: dayText(untilDay),
    by: words.join(','),
    rows: groups.map(({ names, figures }) => ({
      ...Object.fromEntries(by.map((column, at) => [column, names[at] ?? ''])),
      ...namedFigures(figures),
    })),
    total: namedFigures(groups.reduce((sum, { figures }) => addUsage(sum, figures), noUsage)),
  }
}

/** The figures by their names in JSON and CSV, in order. */
export function namedFigures(figures: UsageFigures): Readonly<Record<string, number>> {
  return Object.fromEntries(usageColumns.map(({ name, field }) => [name, figures[field]]))
}
