/** `weir usage`: requests, tokens and spend from the ledger, whether or not the gateway runs. */

import { openUsageLog } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { instant } from '../config/timestamps.ts'
import { addUsage, noUsage, type UsageFigures, usageColumns } from '../ledger/usage-figures.ts'
import { groupUsage, type UsageRow } from '../ledger/usage-log.ts'
import { namedFigures, USAGE_WORDS, usageColumn, usageReport } from '../ledger/usage-report.ts'
import { dayOf, dayText, firstKeptDay, foldedDay, HOUR_DAYS_KEPT } from '../ledger/window.ts'
import { fixedDollars } from './amounts.ts'
import { exit, type Flags, misused, parseFlags, printToStderr } from './command.ts'
import { csvLine } from './csv.ts'
import { displayOf } from './display.ts'
import { configured, untilProblem, withLedger } from './ledger-access.ts'
import { type Column, type Display, TextTable } from './text-table.ts'

interface Question {
  /** Days as `dayOf` numbers them, from `sinceDay` on and before `untilDay`. */
  readonly sinceDay: number
  readonly untilDay: number
  /** At least one, each once. */
  readonly by: readonly string[]
  readonly organization: string | undefined
  readonly key: string | undefined
  readonly form: 'table' | 'json' | 'csv'
}

/** Returns the exit code. */
export async function usage(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'usage')
  if ('code' in parsed) return parsed.code
  const question = questionOf(parsed.flags, Date.now())
  if (typeof question === 'string') return misused(question)
  const read = await configured(parsed.flags['config'])
  if ('code' in read) return read.code
  return untilProblem(async () => {
    const rows = await withLedger(openUsageLog, read.config, (log) => log.read(question))
    for (const remark of foldedRemarks(question, dayOf(Date.now()))) printToStderr(remark)
    if (rows.length === 0) for (const remark of remarks(read.config, question)) printToStderr(remark)
    process.stdout.write(printed(question, rows, displayOf(parsed.flags['wide'] === true)))
    return exit.done
  })
}

/** The query, or what is wrong with the flags. */
function questionOf(flags: Flags, nowMs: number): Question | string {
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
  // A day in the future is allowed: it has no usage yet.
  const untilDay = dayOfFlag(until, Math.max(dayOf(nowMs), sinceDay) + 1)
  if (untilDay === undefined) return `--until must be a date (2026-12-01), not ${quoted(String(until))}`
  if (untilDay <= sinceDay) {
    return `--until ${dayText(untilDay)} must be after --since ${dayText(sinceDay)}: the day of --until is not included`
  }
  return {
    sinceDay,
    untilDay,
    by,
    organization: typeof org === 'string' ? org : undefined,
    key: typeof key === 'string' ? key : undefined,
    form: json === true ? 'json' : csv === true ? 'csv' : 'table',
  }
}

/** Only whole days are valid, because usage is summed by day. */
function dayOfFlag(text: string | boolean | undefined, fallback: number): number | undefined {
  if (text === undefined) return fallback
  const ms = typeof text === 'string' && text.length === 10 ? instant(text) : undefined
  return ms === undefined ? undefined : dayOf(ms)
}

/**
 * Warnings about ids that may be misspelled, if there is no usage. Organisations and keys that are no longer in the
 * configuration are valid, too.
 */
function remarks(config: Config, { organization, key }: Question): readonly string[] {
  const organizations = config.organizations.map(({ id }) => id)
  const keys = config.organizations.flatMap((one) => one.keys.map(({ id }) => id))
  return [
    ...unknown('organisation', organization, organizations),
    ...(didYouMean(key ?? '', keys) === '' ? [] : unknown('key', key, keys)),
  ]
}

/** Warnings if the range includes only a part of a month whose usage is kept as one sum, or days without hours. */
function foldedRemarks({ sinceDay, untilDay, by }: Question, today: number): readonly string[] {
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

function unknown(what: string, id: string | undefined, known: readonly string[]): readonly string[] {
  if (id === undefined || known.includes(id)) return []
  return [`the configuration has no ${what} ${quoted(id)}${didYouMean(id, known)}`]
}

function printed(question: Question, rows: readonly UsageRow[], display: Display): string {
  const by = question.by.flatMap((word) => usageColumn(word) ?? [])
  const groups = groupUsage(rows, by)
  switch (question.form) {
    case 'json':
      return `${JSON.stringify(usageReport(question, question.by, rows))}\n`
    case 'csv': {
      const lines = groups.map(({ names, figures }) => [...names, ...Object.values(namedFigures(figures))])
      return [[...by, ...Object.keys(namedFigures(noUsage))], ...lines].map(csvLine).join('')
    }
    case 'table': {
      const lines = groups.map(({ names, figures }) => [
        ...names.map((name, at) => (name === '' && !by[at]?.startsWith('tag:') ? '(unknown)' : name)),
        ...cells(figures),
      ])
      const total = groups.reduce((sum, { figures }) => addUsage(sum, figures), noUsage)
      const last = ['total', ...by.slice(1).map(() => ''), ...cells(total)]
      const headings = by.map((heading) => ({ heading }))
      return new TextTable([...headings, ...FIGURES], display).print([...lines, last])
    }
  }
}

/** The first that a narrow terminal drops comes first. */
const DROPPED: readonly (keyof UsageFigures)[] = ['images', 'estimatedRequests', 'cachedInputTokens']

const FIGURES: readonly Column[] = usageColumns.map(({ heading, field }) => ({
  heading,
  isNumber: true,
  ...(DROPPED.includes(field) ? { priority: DROPPED.indexOf(field) } : {}),
}))

function cells(figures: UsageFigures): readonly string[] {
  return usageColumns.map(({ field, isMoney }) => (isMoney ? fixedDollars(figures[field]) : String(figures[field])))
}
