/** `weir usage`: requests, tokens and spend from the ledger, whether or not the gateway runs. */

import { openUsageLog } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { instant } from '../config/timestamps.ts'
import { addUsage, noUsage, type UsageFigures, usageColumns } from '../ledger/usage-figures.ts'
import { groupUsage, type UsageBy } from '../ledger/usage-log.ts'
import { dayOf, dayText, firstKeptDay, foldedDay } from '../ledger/window.ts'
import { fixedDollars } from './amounts.ts'
import { exit, type Flags, misused, parseFlags, printToStderr } from './command.ts'
import { csvLine } from './csv.ts'
import { displayOf } from './display.ts'
import { configured, untilProblem, withLedger } from './ledger-access.ts'
import { type Column, type Display, TextTable } from './text-table.ts'

type By = 'model' | 'key' | 'org' | 'day'

/** The field of the ledger's rows, which is also the heading of the column. */
const columns: Readonly<Record<By, UsageBy>> = { model: 'model', key: 'key', org: 'organization', day: 'day' }

interface Question {
  /** Days as `dayOf` numbers them, from `sinceDay` on and before `untilDay`. */
  readonly sinceDay: number
  readonly untilDay: number
  /** At least one, each once. */
  readonly by: readonly By[]
  readonly organization: string | undefined
  readonly key: string | undefined
  readonly form: 'table' | 'json' | 'csv'
}

interface Row {
  /** Models, keys or organisations, and days as 2026-11-21: one for each column of the question. */
  readonly names: readonly string[]
  readonly figures: UsageFigures
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
    const by = question.by.map((column) => columns[column])
    const groups = groupUsage(rows, by).map(({ names, figures }) => ({
      names: names.map((name) => (typeof name === 'number' ? dayText(name) : name)),
      figures,
    }))
    process.stdout.write(printed(question, groups, displayOf(parsed.flags['wide'] === true)))
    return exit.done
  })
}

/** The query, or what is wrong with the flags. */
function questionOf(flags: Flags, nowMs: number): Question | string {
  const { org, key, since, until, json, csv } = flags
  const words = String(flags['by'] ?? 'model').split(',')
  const by = words.filter(isBy)
  const wrong = words.find((word) => !isBy(word))
  if (wrong !== undefined)
    return (
      `--by must be model, key, org or day, or a list of them, ` +
      `not ${quoted(wrong)}${didYouMean(wrong, Object.keys(columns))}`
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

function isBy(text: string): text is By {
  return Object.hasOwn(columns, text)
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

/** A warning if the range includes only a part of a month whose usage is kept as one sum. */
function foldedRemarks({ sinceDay, untilDay }: Question, today: number): readonly string[] {
  if ([sinceDay, untilDay].every((day) => foldedDay(day, today) === day)) return []
  const kept = dayText(firstKeptDay(today))
  return [
    `usage before ${kept} is kept by month and counts on the first day of its month; ` +
      'this range begins or ends within a month',
  ]
}

function unknown(what: string, id: string | undefined, known: readonly string[]): readonly string[] {
  if (id === undefined || known.includes(id)) return []
  return [`the configuration has no ${what} ${quoted(id)}${didYouMean(id, known)}`]
}

function printed(question: Question, rows: readonly Row[], display: Display): string {
  const by = question.by.map((column) => columns[column])
  const total = rows.reduce((sum, { figures }) => addUsage(sum, figures), noUsage)
  switch (question.form) {
    case 'json': {
      const [since, until] = [dayText(question.sinceDay), dayText(question.untilDay)]
      const listed = rows.map(({ names, figures }) => ({
        ...Object.fromEntries(by.map((column, at) => [column, names[at] ?? ''])),
        ...shown(figures),
      }))
      const report = { since, until, by: question.by.join(','), rows: listed, total: shown(total) }
      return `${JSON.stringify(report)}\n`
    }
    case 'csv': {
      const lines = rows.map(({ names, figures }) => [...names, ...Object.values(shown(figures))])
      return [[...by, ...Object.keys(shown(total))], ...lines].map(csvLine).join('')
    }
    case 'table': {
      const lines = rows.map(({ names, figures }) => [
        ...names.map((name) => (name === '' ? '(unknown)' : name)),
        ...cells(figures),
      ])
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

/** The figures by their names in JSON and CSV, in order. */
function shown(figures: UsageFigures): Readonly<Record<string, number>> {
  return Object.fromEntries(usageColumns.map(({ name, field }) => [name, figures[field]]))
}

function cells(figures: UsageFigures): readonly string[] {
  return usageColumns.map(({ field, isMoney }) => (isMoney ? fixedDollars(figures[field]) : String(figures[field])))
}
