/**
 * Figures as people read them, rounded the same in the console, in `weir top` and in messages. A figure that is not
 * known is a dash.
 */

const UNKNOWN = '–'
/** Keeps a number and its unit on one line. */
const NBSP = '\u00a0'
const LOCALE = 'en-US'
const MICRO = 1_000_000

const whole = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 })
const oneDecimal = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 1, maximumFractionDigits: 1 })
const short = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 1 })
const cents = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const fineCents = new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 4, maximumFractionDigits: 4 })

/** `0`, `0.4`, `34`, `1.2k`, `3.4M`. */
export function count(value: number): string {
  if (value >= 999_950_000) return `${short.format(value / 1e9)}B`
  if (value >= 999_950) return `${short.format(value / 1e6)}M`
  if (value >= 9_999.5) return `${short.format(value / 1e3)}k`
  return whole.format(value)
}

/** Per second: one decimal below 10, because 0.4 and 0 differ. */
export function rate(value: number): string {
  if (value === 0) return '0'
  if (value < 0.05) return '<0.1'
  return value < 9.95 ? oneDecimal.format(value) : count(value)
}

/** `0%`, `<0.1%`, `0.4%`, `12%` of a share from 0 to 1. */
export function percent(share: number | null): string {
  if (share === null) return UNKNOWN
  const points = share * 100
  if (points === 0) return '0%'
  if (points < 0.05) return '<0.1%'
  // 99.96 % must not look like all of them.
  if (points > 99 && points < 100) return `${oneDecimal.format(Math.min(points, 99.9))}%`
  return points < 9.95 ? `${oneDecimal.format(points)}%` : `${whole.format(points)}%`
}

/** `$12.34`; with four decimals for the cost of a single request, or `<$0.0001`. */
export function dollars(microUsd: number, decimals: 2 | 4 = 2): string {
  const value = microUsd / MICRO
  if (decimals === 4 && value > 0 && value < 0.00005) return '<$0.0001'
  if (decimals === 4 && value < 100) return `$${fineCents.format(value)}`
  return value >= 100_000 ? `$${count(value)}` : `$${cents.format(value)}`
}

/** An amount of a limit in its unit. */
export function amountText(unit: string, amount: number): string {
  return unit === 'micro_usd' ? dollars(amount) : count(amount)
}

/** `340 ms`, `1.24 s`, `12.4 s`, `1 min 12 s`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return UNKNOWN
  if (ms < 999.5) return `${whole.format(ms)}${NBSP}ms`
  if (ms < 9_995) return `${cents.format(ms / 1000)}${NBSP}s`
  if (ms < 59_950) return `${oneDecimal.format(ms / 1000)}${NBSP}s`
  const seconds = Math.round(ms / 1000)
  return `${Math.floor(seconds / 60)}${NBSP}min ${seconds % 60}${NBSP}s`
}

/** A number and its unit apart, for a large figure: `['340', 'ms']`. */
export function durationParts(ms: number | null): readonly [number: string, unit: string] {
  const [number = UNKNOWN, unit = ''] = duration(ms).split(NBSP, 2)
  return [number, unit.split(' ')[0] ?? '']
}

const SPANS: readonly (readonly [seconds: number, unit: string])[] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
]

/** The largest unit, and the next one if the first is small: `6 h`, `1 h 40 min`, `3 d 4 h`, `40 min`. */
export function span(seconds: number): string {
  const left = Math.max(0, Math.round(seconds))
  const at = SPANS.findIndex(([size]) => left >= size)
  const first = SPANS[at]
  if (first === undefined) return `0${NBSP}s`
  const [size, unit] = first
  const amount = Math.floor(left / size)
  const next = SPANS[at + 1]
  const text = `${amount}${NBSP}${unit}`
  if (next === undefined || amount >= 6 || size === 60) return text
  const rest = Math.floor((left % size) / next[0])
  return rest === 0 ? text : `${text} ${rest}${NBSP}${next[1]}`
}

/** The largest unit alone: `40 min`, `2 h`. */
export function roughSpan(seconds: number): string {
  const [size, unit] = SPANS.find(([size]) => seconds >= size) ?? [1, 's']
  return `${Math.floor(seconds / size)}${NBSP}${unit}`
}

/** `just now`, `40 s ago`, `2 h ago`. */
export function ago(seconds: number): string {
  return seconds < 2 ? 'just now' : `${roughSpan(seconds)} ago`
}

interface LastError {
  readonly error: string
  readonly status: number | null
  readonly cause: string | null
}

/** The last error of a target: `500 failed`, `unreachable (ECONNREFUSED)`. */
export function lastErrorText({ error, status, cause }: LastError): string {
  const words = error.replaceAll('_', ' ') + (cause === null ? '' : ` (${cause})`)
  return status === null || words.includes(String(status)) ? words : `${status} ${words}`
}
