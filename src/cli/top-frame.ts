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
export function topFrame(figures: TopFigures, screen: Screen): readonly string[] {
  const head = [...headLines(figures.status, screen), '', ...nowLines(figures.status, screen)]
  const attention = attentionLines(figures.status.attention, screen)
  const bands = [
    { title: 'Targets', count: figures.targets.length, lines: (rows: number) => targetLines(figures, screen, rows) },
    { title: 'Budgets', count: figures.budgets.length, lines: (rows: number) => budgetLines(figures, screen, rows) },
    { title: 'Requests', count: figures.requests.length, lines: (rows: number) => requestLines(figures, screen, rows) },
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

function nowLines({ now, cost_today_micro_usd: today, history }: Status, screen: Screen): readonly string[] {
  const columns: readonly Column[] = [
    { heading: 'requests/s', isNumber: true },
    { heading: 'streams', isNumber: true },
    { heading: 'errors', isNumber: true },
    { heading: 'limited', isNumber: true, priority: 0 },
    { heading: 'first token p50', isNumber: true, priority: 2 },
    { heading: 'p95', isNumber: true, priority: 3 },
    { heading: 'tokens/s', isNumber: true, priority: 1 },
    { heading: 'today', isNumber: true },
  ]
  const row = [
    rate(now.requests_per_second),
    String(now.open_streams),
    share(now.error_share),
    share(now.limited_share),
    milliseconds(now.time_to_first_token_p50_ms),
    milliseconds(now.time_to_first_token_p95_ms),
    rate(now.tokens_per_second),
    money(today),
  ]
  const table = linesOf(new TextTable(columns, screen).print([row]))
  const rates = (history?.points ?? []).map((point) => point.requests_per_second)
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

const TARGETS: readonly Column[] = [
  { heading: 'state' },
  { heading: 'target' },
  { heading: 'attempts', isNumber: true, priority: 2 },
  { heading: 'answered', isNumber: true },
  { heading: 'first byte p50', isNumber: true, priority: 3 },
  { heading: 'p95', isNumber: true, priority: 4 },
  { heading: 'share', isNumber: true, priority: 5 },
  { heading: 'last error', priority: 0 },
  { heading: 'serves', priority: 1 },
]

/** Those that fail or rest come first. */
function targetLines({ targets }: TopFigures, screen: Screen, rows: number): readonly string[] {
  const sorted = [...targets.filter((row) => !isFine(row)), ...targets.filter(isFine)]
  const cells = sorted
    .slice(0, rows)
    .map((target) => [
      target.state,
      plain(`${target.provider}/${target.model}`),
      String(target.attempts),
      share(target.success_share),
      milliseconds(target.first_byte_p50_ms),
      milliseconds(target.first_byte_p95_ms),
      share(target.traffic_share),
      target.last_error === null ? '' : `${lastErrorText(target.last_error)} ${target.last_error.at.slice(11, 19)}`,
      plain(target.serves.join(', ')),
    ])
  return printed(TARGETS, cells, screen)
}

function isFine({ state }: TargetRow): boolean {
  return state === 'healthy' || state === 'unknown'
}

const BUDGETS: readonly Column[] = [
  { heading: 'state' },
  { heading: 'used', isNumber: true },
  { heading: 'limit of' },
  { heading: 'limit' },
  { heading: '', priority: 0 },
  { heading: 'spent', isNumber: true, priority: 3 },
  { heading: 'held', isNumber: true, priority: 2 },
  { heading: 'of', isNumber: true, priority: 4 },
  { heading: 'renews', priority: 1 },
]

function budgetLines({ budgets }: TopFigures, screen: Screen, rows: number): readonly string[] {
  const cells = budgets
    .slice(0, rows)
    .map((row) => [
      row.state,
      share(fullness(row)),
      plain([row.organization, row.key ?? row.budget, row.value].filter((part) => part != null).join('/')),
      row.limit,
      bar(row),
      amount(row, row.used),
      row.held === 0 ? '' : amount(row, row.held),
      amount(row, row.amount),
      row.renews_at === null ? '' : `${row.renews_at.slice(0, 16).replace('T', ' ')}`,
    ])
  return printed(BUDGETS, cells, screen)
}

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

const REQUESTS: readonly Column[] = [
  { heading: 'status' },
  { heading: 'time' },
  { heading: 'organization', priority: 4 },
  { heading: 'key', priority: 3 },
  { heading: 'model' },
  { heading: 'provider', priority: 2 },
  { heading: 'via', priority: 0 },
  { heading: 'ms', isNumber: true, priority: 7 },
  { heading: 'tokens', isNumber: true, priority: 6 },
  { heading: 'cost', isNumber: true, priority: 5 },
  { heading: 'outcome', priority: 8 },
  { heading: 'error', priority: 1 },
]

const MODEL_CHARS = 32

function requestLines({ requests }: TopFigures, screen: Screen, rows: number): readonly string[] {
  const cells = requests.slice(0, rows).map((line) => {
    const text = (name: string) => plain(String(line[name] ?? ''))
    const number = (name: string) => Number(line[name] ?? 0)
    const cost = line['cost_micro_usd']
    return [
      text('status'),
      text('time').slice(11, 19),
      text('organization'),
      text('key'),
      cut(text('served_model') || text('requested_model'), MODEL_CHARS),
      text('provider'),
      text('transport') || 'http',
      number('total_ms').toFixed(0),
      line['input_tokens'] === undefined ? '' : String(number('input_tokens') + number('output_tokens')),
      cost === undefined ? '' : money(Number(cost), 4),
      text('outcome'),
      text('error'),
    ]
  })
  return printed(REQUESTS, cells, screen)
}

/** A table whose first column is a state, and coloured as one. */
function printed(columns: readonly Column[], rows: readonly (readonly string[])[], screen: Screen): readonly string[] {
  const lines = linesOf(new TextTable(columns, screen).print(rows))
  return lines.map((line, index) => {
    const state = rows[index - 1]?.[0]
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
