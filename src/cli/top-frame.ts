/**
 * One frame of `weir top`: the figures of the admin API as lines of text that fit a terminal. States are words, and
 * coloured on a terminal that has colours. Everything shown is printable ASCII, because callers choose some of it.
 */

import type { Attention, BudgetRow, Status, TargetRow } from '../admin/api-shapes.ts'
import { dollars, duration, lastErrorText, percent, rate } from '../core/figure-text.ts'
import type { JsonObject } from '../core/json.ts'
import { fullness } from '../reports/limit-usage.ts'
import { type Column, type Display, TextTable } from './text-table.ts'

/** What the admin API answered. */
export interface TopFigures {
  readonly status: Status
  readonly targets: readonly TargetRow[]
  readonly budgets: readonly BudgetRow[]
  /** Log lines of the last requests, the newest first. */
  readonly requests: readonly JsonObject[]
}

interface Screen extends Display {
  /** The most lines; Infinity for all. */
  readonly height: number
  /** Whether the terminal shows block characters. */
  readonly hasBlocks: boolean
  /** Why the figures are old, if they are. */
  readonly problem?: string | undefined
}

const ATTENTION_MAX = 5
/** The rows of each band, if the height does not matter. */
const ROWS_MAX = 20
const BAR_CHARS = 16

/** The lines of a frame, without line ends. */
export function topFrame({ status, targets, budgets, requests }: TopFigures, screen: Screen): readonly string[] {
  const head = [...headLines(status, screen), '', ...nowLines(status, screen)]
  const attention = attentionLines(status.attention, screen)
  const band = <Row>(title: string, columns: readonly Column<Row>[], all: readonly Row[]) => ({
    ...{ title, count: all.length, lines: (rows: number) => printed(columns, all.slice(0, rows), screen) },
  })
  const bands = [
    // Those that fail or rest come first.
    band('Targets', TARGETS, [...targets.filter((row) => !isFine(row)), ...targets.filter(isFine)]),
    band('Budgets', BUDGETS, budgets),
    band('Requests', REQUESTS, requests),
  ].filter(({ count }) => count > 0)
  // A band takes a blank line, a title and the headings, beside its rows.
  const room = screen.height - head.length - attention.length - 3 * bands.length
  const counts = bands.map(({ count }) => count)
  const rows = screen.height === Number.POSITIVE_INFINITY ? counts.map(() => ROWS_MAX) : shared(room, counts)
  const body = bands.flatMap(({ title, lines, count }, index) => {
    const shown = rows[index] ?? 0
    if (shown === 0) return []
    const more = count > shown ? `  ${shown} of ${count}` : ''
    return ['', `${bold(title, screen)}${more}`, ...lines(shown)]
  })
  const lines = [...head, ...attention, ...body].slice(0, screen.height)
  return lines.map((line) => (widthOf(line) <= screen.width ? line : cut(withoutColours(line), screen.width)))
}

/** Divides rows evenly; what one band does not need, the others get. */
function shared(room: number, counts: readonly number[]): readonly number[] {
  const rows = counts.map(() => 0)
  for (let left = room; left > 0; ) {
    const growing = counts.flatMap((count, index) => ((rows[index] ?? 0) < count ? [index] : []))
    if (growing.length === 0) break
    for (const index of growing.slice(0, left)) {
      rows[index] = (rows[index] ?? 0) + 1
      left--
    }
  }
  return rows
}

function headLines(status: Status, screen: Screen): readonly string[] {
  const { workers, ledger } = status
  const commit = status.commit === null ? '' : ` (${status.commit})`
  const parts = [
    bold(`weir ${status.version}`, screen) + commit,
    `${stateText(status, screen)}, up ${durationText(status.uptime_seconds)}`,
    `${workers.ready} of ${workers.configured} workers`,
    `ledger ${ledger.kind} ${ledger.up ? 'up' : paint('down', 'bad', screen)}`,
    ...(status.last_reload === null ? [] : [`reload ${reloadText(status, screen)}`]),
    `${status.time.slice(11, 19)} UTC`,
  ]
  const lines: string[] = []
  for (const part of parts) {
    const last = lines.at(-1)
    const joined = `${last}   ${part}`
    if (last !== undefined && widthOf(joined) <= screen.width) lines[lines.length - 1] = joined
    else lines.push(part)
  }
  return screen.problem === undefined ? lines : [paint(cut(screen.problem, screen.width), 'bad', screen), ...lines]
}

/** Green only if something has answered, and nothing is wrong. */
function stateText({ ready, problems = [], targets = {} }: Partial<Status>, screen: Screen): string {
  if (screen.problem !== undefined) return paint('not reached', 'bad', screen)
  if (ready !== true) return paint('not ready', 'bad', screen)
  const down = problems.filter(({ kind }) => kind === 'model').length
  if (down > 0) return paint(`${down} ${down === 1 ? 'model' : 'models'} down`, 'bad', screen)
  if (problems.length > 0)
    return paint(`ready, ${problems.length} errors`.replace(/^(.* 1 error)s$/, '$1'), 'bad', screen)
  return (targets['healthy'] ?? 0) > 0 ? paint('ready', 'good', screen) : 'ready'
}

function reloadText({ last_reload: reload }: Status, screen: Screen): string {
  const at = reload?.at.slice(11, 19) ?? ''
  return reload?.ok === true ? at : `${at} ${paint('rejected', 'bad', screen)}`
}

const NOW: readonly Column<Status>[] = [
  { heading: 'requests/s', isNumber: true, cell: ({ now }) => rate(now.requests_per_second) },
  { heading: 'streams', isNumber: true, cell: ({ now }) => String(now.open_streams) },
  { heading: 'errors', isNumber: true, cell: ({ now }) => share(now.error_share) },
  { heading: 'limited', isNumber: true, priority: 0, cell: ({ now }) => share(now.limited_share) },
  {
    heading: 'first token p50',
    isNumber: true,
    priority: 2,
    cell: ({ now }) => milliseconds(now.time_to_first_token_p50_ms),
  },
  { heading: 'p95', isNumber: true, priority: 3, cell: ({ now }) => milliseconds(now.time_to_first_token_p95_ms) },
  { heading: 'tokens/s', isNumber: true, priority: 1, cell: ({ now }) => rate(now.tokens_per_second) },
  { heading: 'today', isNumber: true, cell: (status) => money(status.cost_today_micro_usd) },
]

function nowLines(status: Status, screen: Screen): readonly string[] {
  const table = linesOf(new TextTable(NOW, screen).print([status]))
  const rates = (status.history?.points ?? []).map((point) => point.requests_per_second)
  return screen.hasBlocks && rates.length > 1 ? [...table, hourLine(rates, screen)] : table
}

const BLOCKS = '▁▂▃▄▅▆▇█'
const HOUR_LABEL = ' requests/s, last hour'

/** The requests of the last hour: one character for several points, as high as their largest. */
function hourLine(rates: readonly number[], { width }: Screen): string {
  const chars = Math.max(1, Math.min(60, width - HOUR_LABEL.length))
  const each = Math.ceil(rates.length / chars)
  const peaks = Array.from({ length: Math.ceil(rates.length / each) }, (_, i) =>
    Math.max(...rates.slice(i * each, (i + 1) * each)),
  )
  const highest = Math.max(...peaks, 0.001)
  const line = peaks.map((peak) => BLOCKS[Math.min(BLOCKS.length - 1, Math.floor((peak / highest) * BLOCKS.length))])
  return `${line.join('')}${HOUR_LABEL}`
}

function attentionLines(items: readonly Attention[], screen: Screen): readonly string[] {
  if (items.length === 0) return []
  const shown = items.slice(0, ATTENTION_MAX).map(({ level, message }) => {
    const word = level === 'error' ? paint('error  ', 'bad', screen) : paint('warning', 'warn', screen)
    return `${word}  ${cut(plain(message), screen.width - 9)}`
  })
  const more = items.length > ATTENTION_MAX ? [`and ${items.length - ATTENTION_MAX} more`] : []
  return ['', bold('Attention', screen), ...shown, ...more]
}

const TARGETS: readonly Column<TargetRow>[] = [
  { heading: 'state', cell: ({ state }) => state },
  { heading: 'target', cell: ({ provider, model }) => plain(`${provider}/${model}`) },
  { heading: 'attempts', isNumber: true, priority: 2, cell: ({ attempts }) => String(attempts) },
  { heading: 'answered', isNumber: true, cell: (target) => share(target.success_share) },
  { heading: 'first byte p50', isNumber: true, priority: 3, cell: (target) => milliseconds(target.first_byte_p50_ms) },
  { heading: 'p95', isNumber: true, priority: 4, cell: (target) => milliseconds(target.first_byte_p95_ms) },
  { heading: 'share', isNumber: true, priority: 5, cell: (target) => share(target.traffic_share) },
  {
    heading: 'last error',
    priority: 0,
    cell: ({ last_error: error }) => (error === null ? '' : `${lastErrorText(error)} ${error.at.slice(11, 19)}`),
  },
  { heading: 'serves', priority: 1, cell: ({ serves }) => plain(serves.join(', ')) },
]

function isFine({ state }: TargetRow): boolean {
  return state === 'healthy' || state === 'unknown'
}

const BUDGETS: readonly Column<BudgetRow>[] = [
  { heading: 'state', cell: ({ state }) => state },
  { heading: 'used', isNumber: true, cell: (row) => share(fullness(row)) },
  {
    heading: 'limit of',
    cell: ({ organization, key, budget, value }) =>
      plain([organization, key ?? budget, value].filter((part) => part != null).join('/')),
  },
  { heading: 'limit', cell: ({ limit }) => limit },
  { heading: '', priority: 0, cell: bar },
  { heading: 'spent', isNumber: true, priority: 3, cell: (row) => amount(row, row.used) },
  { heading: 'held', isNumber: true, priority: 2, cell: (row) => (row.held === 0 ? '' : amount(row, row.held)) },
  { heading: 'of', isNumber: true, priority: 4, cell: (row) => amount(row, row.amount) },
  { heading: 'renews', priority: 1, cell: (row) => row.renews_at?.slice(0, 16).replace('T', ' ') ?? '' },
]

/** `[#####++.........]`: what is used, and what is held. */
function bar({ amount: most, used, held }: BudgetRow): string {
  const chars = (part: number) => (most === 0 ? BAR_CHARS : Math.round((Math.min(part, most) / most) * BAR_CHARS))
  const full = chars(used)
  const taken = Math.max(full, chars(used + held))
  return `[${'#'.repeat(full)}${'+'.repeat(taken - full)}${'.'.repeat(BAR_CHARS - taken)}]`
}

function amount({ unit }: BudgetRow, value: number): string {
  return unit === 'micro_usd' ? money(value) : String(value)
}

const MODEL_CHARS = 32

const text = (line: JsonObject, name: string) => plain(String(line[name] ?? ''))
const number = (line: JsonObject, name: string) => Number(line[name] ?? 0)

const REQUESTS: readonly Column<JsonObject>[] = [
  { heading: 'status', cell: (line) => text(line, 'status') },
  { heading: 'time', cell: (line) => text(line, 'time').slice(11, 19) },
  { heading: 'organization', priority: 4, cell: (line) => text(line, 'organization') },
  { heading: 'key', priority: 3, cell: (line) => text(line, 'key') },
  { heading: 'model', cell: (line) => cut(text(line, 'served_model') || text(line, 'requested_model'), MODEL_CHARS) },
  { heading: 'provider', priority: 2, cell: (line) => text(line, 'provider') },
  { heading: 'via', priority: 0, cell: (line) => text(line, 'transport') || 'http' },
  { heading: 'ms', isNumber: true, priority: 7, cell: (line) => number(line, 'total_ms').toFixed(0) },
  { heading: 'tokens', isNumber: true, priority: 6, cell: tokensOf },
  {
    heading: 'cost',
    isNumber: true,
    priority: 5,
    cell: (line) => (line['cost_micro_usd'] === undefined ? '' : money(number(line, 'cost_micro_usd'), 4)),
  },
  { heading: 'outcome', priority: 8, cell: (line) => text(line, 'outcome') },
  { heading: 'error', priority: 1, cell: (line) => text(line, 'error') },
]

function tokensOf(line: JsonObject): string {
  if (line['input_tokens'] === undefined) return ''
  return String(number(line, 'input_tokens') + number(line, 'output_tokens'))
}

/** A table whose first column is a state, and coloured as one. */
function printed<Row>(columns: readonly Column<Row>[], rows: readonly Row[], screen: Screen): readonly string[] {
  const lines = linesOf(new TextTable(columns, screen).print(rows))
  return lines.map((line, index) => {
    const row = rows[index - 1]
    const state = row === undefined ? undefined : columns[0]?.cell(row)
    const tone = state === undefined ? undefined : toneOf(state)
    return state === undefined || tone === undefined ? line : line.replace(state, paint(state, tone, screen))
  })
}

type Tone = 'good' | 'warn' | 'bad'

/** The colour of a target's or a budget's state, or of a request's status. */
function toneOf(state: string): Tone | undefined {
  if (state === 'resting' || state === 'refusing' || /^5\d\d$/.test(state)) return 'bad'
  if (state === 'probing' || state === 'failing' || state === 'near' || /^4\d\d$/.test(state)) return 'warn'
  return undefined
}

const CODES: Readonly<Record<Tone, number>> = { good: 32, warn: 33, bad: 31 }

function paint(text: string, tone: Tone, { isColoured }: Display): string {
  return isColoured ? `\u001b[${CODES[tone]}m${text}\u001b[0m` : text
}

function bold(text: string, { isColoured }: Display): string {
  return isColoured ? `\u001b[1m${text}\u001b[0m` : text
}

function linesOf(text: string): readonly string[] {
  return text.split('\n').slice(0, -1)
}

/** A terminal would obey control characters, and other characters may be two columns wide. */
function plain(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?')
}

function cut(text: string, chars: number): string {
  return text.length <= chars ? text : `${text.slice(0, Math.max(0, chars - 3))}...`
}

function widthOf(line: string): number {
  return withoutColours(line).length
}

function withoutColours(line: string): string {
  return line.replace(/\u001b\[\d*m/g, '')
}

/** As the console rounds it, in characters that every terminal has. */
function share(value: number | null): string {
  return ascii(percent(value))
}

function milliseconds(ms: number | null): string {
  return ascii(duration(ms))
}

function money(microUsd: number | null, decimals: 2 | 4 = 2): string {
  return microUsd === null ? '-' : dollars(microUsd, decimals)
}

function ascii(text: string): string {
  return text.replaceAll('\u00a0', ' ').replaceAll('–', '-')
}

function durationText(seconds: number): string {
  const [days, hours, minutes] = [
    Math.floor(seconds / 86_400),
    Math.floor(seconds / 3600) % 24,
    Math.floor(seconds / 60),
  ]
  if (days > 0) return `${days} d ${hours} h`
  if (hours > 0) return `${hours} h ${minutes % 60} min`
  return minutes > 0 ? `${minutes} min` : `${seconds} s`
}
