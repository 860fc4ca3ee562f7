/** How long a provider asks clients to wait, and what it reports of its limits, from its response headers. */

import type { ReportedLimit } from '../core/capacity-limits.ts'
import type { LimitFields, ResponseHeaders } from './provider.ts'

/**
 * Milliseconds, or undefined: `retry-after-ms`, `retry-after` in seconds or as a date, else the reset of an exhausted
 * limit (`x-ratelimit-remaining-*`, `x-ratelimit-reset-*`). Only for responses with status 429: others carry limit
 * headers as mere information.
 */
export function rateLimitedMs(headers: ResponseHeaders): number | undefined {
  return retryAfterMs(headers) ?? exhaustedMs(headers)
}

/** `retry-after-ms` or `retry-after`, in milliseconds. */
export function retryAfterMs(headers: ResponseHeaders): number | undefined {
  const ms = numberIn(headers.get('retry-after-ms'))
  if (ms !== undefined) return ms
  const after = headers.get('retry-after') ?? ''
  const seconds = numberIn(after)
  if (seconds !== undefined) return seconds * 1000
  const dateMs = Date.parse(after)
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - Date.now())
}

/**
 * What providers limit. Each has three values: what remains, the limit, its reset. Some have one limit of requests
 * without a name. Anthropic limits the tokens of input and output separately, too.
 */
const KINDS = ['requests', 'tokens', '', 'anthropic requests', 'input-tokens', 'output-tokens', 'anthropic tokens']
const PARTS = ['remaining', 'limit', 'reset'] as const
/** By the length of their names: the fields, and three places of values for each of `KINDS`. */
const FIELDS: (readonly (readonly [name: string, place: number])[] | undefined)[] = []
for (const [i, kind] of KINDS.entries()) {
  for (const [j, part] of PARTS.entries()) {
    const name = kind.replace('anthropic ', '')
    const own = i < 3 ? `x-ratelimit-${part}${name && `-${name}`}` : `anthropic-ratelimit-${name}-${part}`
    FIELDS[own.length] = [...(FIELDS[own.length] ?? []), [own, i * PARTS.length + j]]
  }
}
const [REQUESTS = 0, TOKENS = 0, UNNAMED = 0, ANTHROPIC = 0, INPUT = 0, OUTPUT = 0, ALL_TOKENS = 0] = KINDS.keys()
const NONE: readonly ReportedLimit[] = []

/** What a provider reports of its limits, at most one limit of each unit. */
export function reportedLimits(headers: ResponseHeaders): readonly ReportedLimit[] {
  const fields = headers.limitFields ?? written(headers)
  if (fields.places.length === 0) return NONE
  values.read(fields)
  const requests = values.limit(REQUESTS, 'requests') ?? values.limit(UNNAMED, 'requests')
  const tokens = values.limit(TOKENS, 'tokens')
  if (requests !== undefined || tokens !== undefined) return listed(requests, tokens)
  const both = bothOf(values.limit(INPUT, 'tokens'), values.limit(OUTPUT, 'tokens'))
  return listed(values.limit(ANTHROPIC, 'requests'), both ?? values.limit(ALL_TOKENS, 'tokens'))
}

function listed(requests: ReportedLimit | undefined, tokens: ReportedLimit | undefined): readonly ReportedLimit[] {
  if (requests === undefined) return tokens === undefined ? NONE : [tokens]
  return tokens === undefined ? [requests] : [requests, tokens]
}

/** Headers that must be asked for each name. */
function written(headers: ResponseHeaders): LimitFields {
  let text = ''
  const places: number[] = []
  for (const [name] of FIELDS.flatMap((named) => named ?? [])) {
    const value = headers.get(name)
    if (value === null) continue
    places.push(text.length, text.length + name.length + 1, text.length + name.length + 1 + value.length)
    text += `${name}:${value}`
  }
  return { text, places }
}

/** Where the values of the fields are in the text. A field that is there twice has none. */
class Values {
  private text = ''
  private readonly from = new Int32Array(KINDS.length * PARTS.length)
  private readonly to = new Int32Array(KINDS.length * PARTS.length)

  read({ text, places }: LimitFields): void {
    this.text = text
    this.from.fill(0)
    this.to.fill(0)
    for (let at = 0; at + 2 < places.length; at += 3) {
      const start = places[at] ?? 0
      const from = places[at + 1] ?? 0
      const place = placeOf(text, start, from - 1 - start)
      if (place < 0) continue
      this.to[place] = this.from[place] === 0 ? (places[at + 2] ?? 0) : 0
      this.from[place] = from
    }
  }

  limit(kind: number, unit: ReportedLimit['unit']): Reported | undefined {
    const at = kind * PARTS.length
    const remaining = this.number(at)
    if (remaining === undefined) return undefined
    const [from = 0, to = 0] = [this.from[at + 2], this.to[at + 2]]
    return new Reported(unit, remaining, this.number(at + 1), this.text, from, to)
  }

  private number(place: number): number | undefined {
    const { text } = this
    const to = this.to[place] ?? 0
    let at = this.from[place] ?? 0
    while (at < to && text.charCodeAt(at) === SPACE) at++
    const start = at
    let value = 0
    for (; at < to; at++) {
      const digit = text.charCodeAt(at) - ZERO
      // A fraction, more digits than a double holds, or no number.
      if (digit < 0 || digit > 9 || at - start > DIGITS_MAX) return numberIn(text.slice(this.from[place], to))
      value = value * 10 + digit
    }
    return at > start ? value : undefined
  }
}

const [SPACE, ZERO, DIGITS_MAX] = [32, 48, 15] as const

/** -1 if no limit has a field of this name. */
function placeOf(text: string, start: number, length: number): number {
  const fields = FIELDS[length]
  if (fields === undefined) return -1
  for (const [name, place] of fields) {
    let at = length - 1
    // Letters of either case. Names begin alike.
    while (at >= 0 && (text.charCodeAt(start + at) | 32) === name.charCodeAt(at)) at--
    if (at < 0) return place
  }
  return -1
}

/** Of one answer at a time. */
const values = new Values()

/** A limit with a time that is read only if the limit is nearly used up. */
class Reported implements ReportedLimit {
  constructor(
    readonly unit: ReportedLimit['unit'],
    readonly remaining: number,
    readonly limit: number | undefined,
    private readonly text: string,
    private readonly from: number,
    private readonly to: number,
  ) {}

  get resetMs(): number | undefined {
    return durationMs(this.text.slice(this.from, this.to).trim())
  }
}

/** Input and output are limited separately, and counted together here: the scarcer one decides, by its share. */
function bothOf(input: ReportedLimit | undefined, output: ReportedLimit | undefined): ReportedLimit | undefined {
  if (input?.limit === undefined || output?.limit === undefined) return undefined
  const limit = input.limit + output.limit
  const scarce = shareOf(input) <= shareOf(output) ? input : output
  return { unit: 'tokens', remaining: Math.floor(shareOf(scarce) * limit), limit, resetMs: scarce.resetMs }
}

function shareOf({ remaining, limit = 0 }: ReportedLimit): number {
  return limit === 0 ? 0 : remaining / limit
}

/**
 * The longest wait of the limits with nothing left, in milliseconds: before it the next request would be rejected.
 * Undefined if every limit has something left, or none is reported.
 */
export function exhaustedMs(headers: ResponseHeaders): number | undefined {
  let longest: number | undefined
  for (const limit of reportedLimits(headers)) {
    if (limit.remaining > 0) continue
    const { resetMs } = limit
    if (resetMs !== undefined) longest = Math.max(longest ?? 0, resetMs)
  }
  return longest
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A larger number of seconds is a Unix time; one a thousand times larger is a Unix time in milliseconds. */
const EPOCH_SECONDS_MIN = 1_000_000_000

/** `6m0s`, `20ms`, `1.5` (seconds), a Unix time in seconds or milliseconds, a date. */
function durationMs(text: string): number | undefined {
  const number = numberIn(text)
  if (number !== undefined) {
    if (number < EPOCH_SECONDS_MIN) return number * 1000
    return Math.max(0, (number < EPOCH_SECONDS_MIN * 1000 ? number * 1000 : number) - Date.now())
  }
  if (/^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/.test(text)) {
    const parts = text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g)
    return [...parts].reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (UNIT_MS[unit] ?? 0), 0)
  }
  const dateMs = Date.parse(text)
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - Date.now())
}

function numberIn(text: string | null): number | undefined {
  return text !== null && /^\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text) : undefined
}
