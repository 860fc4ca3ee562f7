/** `weir audit --admin`: prints the admin audit, one line for each change, whether or not the gateway runs. */

import { openKeyStore } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { DAY_MS } from '../core/durations.ts'
import type { JsonObject } from '../core/json.ts'
import type { AdminAudit, AdminEntry } from '../keys/admin-audit.ts'
import { lineLimit, timesOf } from '../reports/audit-options.ts'
import { withLedger } from '../reports/ledger-part.ts'
import { exit, type Flags, misused, printToStderr } from './command.ts'
import { configured } from './ledger-access.ts'
import { type Column, csvLine, displayOf, type Form, formOf, TextTable } from './text-table.ts'

const FOLLOW_MS = 1000

/** Flags of `weir audit` that are about requests alone. */
const OF_REQUESTS = ['org', 'key', 'request', 'model', 'outcome', 'tag'] as const

interface Options {
  readonly sinceMs: number
  readonly untilMs: number
  /** The last lines; Infinity for all of them. */
  readonly limit: number
  readonly follows: boolean
  readonly form: Form
  readonly isWide: boolean
}

/** Returns the exit code. */
export async function adminAudit(flags: Flags): Promise<number> {
  const options = optionsOf(flags)
  if (typeof options === 'string') return misused(options)
  const config = await configured(flags['config'])
  await withLedger(openKeyStore, config, (store) => print(store.audit, options, config))
  return exit.done
}

function optionsOf(flags: Flags): Options | string {
  const other = OF_REQUESTS.find((name) => flags[name] !== undefined)
  if (other !== undefined) return `--${other} is about requests, and --admin prints changes; leave one of them out`
  const limit = lineLimit(flags)
  if (typeof limit === 'string') return limit
  const times = timesOf(flags)
  if (typeof times === 'string') return times
  return {
    ...{ sinceMs: 0, untilMs: Number.POSITIVE_INFINITY, ...times, limit },
    follows: flags['follow'] === true,
    form: formOf(flags),
    isWide: flags['wide'] === true,
  }
}

async function print(audit: AdminAudit, options: Options, { audit: { keepDays } }: Config): Promise<void> {
  const { limit, untilMs, form } = options
  const sinceMs = Math.max(options.sinceMs, Date.now() - keepDays * DAY_MS)
  const table = new TextTable(COLUMNS, displayOf(options.isWide))
  if (form === 'csv') process.stdout.write(csvLine(COLUMNS.map(({ heading }) => heading)))
  let [position, left]: [string | undefined, number] = [undefined, 0]
  let last: readonly AdminEntry[] = []
  /** Undefined if nothing is left to read. */
  const fresh = async () => {
    const { entries, end } = await audit.entriesAfter(position)
    position = end ?? position
    return end === undefined ? undefined : entries
  }
  for (let page = await fresh(); page !== undefined; page = await fresh()) {
    const wanted = page.filter(({ timeMs }) => timeMs >= sinceMs && timeMs < untilMs)
    left += Math.max(0, last.length + wanted.length - limit)
    last = [...last, ...wanted].slice(-limit)
  }
  process.stdout.write(printed(form, last, table))
  if (left > 0) printToStderr(`the last ${last.length} of ${left + last.length} lines; --limit 0 prints all`)
  while (options.follows) {
    await Bun.sleep(FOLLOW_MS)
    const page = await fresh()
    if (page !== undefined) process.stdout.write(printed(form, page, table))
  }
}

function printed(form: Options['form'], entries: readonly AdminEntry[], table: TextTable<AdminEntry>): string {
  switch (form) {
    case 'json':
      return entries.map((entry) => `${JSON.stringify(jsonOf(entry))}\n`).join('')
    case 'csv':
      return entries.map((entry) => csvLine(COLUMNS.map(({ cell }) => cell(entry)))).join('')
    case 'table':
      return table.print(entries)
  }
}

function jsonOf({ timeMs, source, actor, action, target, details }: AdminEntry): JsonObject {
  return { time: new Date(timeMs).toISOString(), source, actor: actor ?? null, action, target, details }
}

const COLUMNS: readonly Column<AdminEntry>[] = [
  { heading: 'time', cell: ({ timeMs }) => new Date(timeMs).toISOString() },
  { heading: 'source', priority: 3, cell: ({ source }) => source },
  { heading: 'actor', priority: 2, cell: ({ actor = '' }) => actor },
  { heading: 'action', cell: ({ action }) => action },
  { heading: 'target', cell: ({ target }) => target },
  { heading: 'details', priority: 1, cell: ({ details }) => JSON.stringify(details) },
]
