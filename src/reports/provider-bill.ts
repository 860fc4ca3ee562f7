/**
 * What providers report of usage and costs: OpenAI's and Anthropic's usage and cost APIs (the pages of their JSON), and
 * CSV. Read into lines by day and model; sums and comparisons are `reconciliation.ts`'s.
 */

import { quoted } from '../config/problems.ts'
import { readCsv } from '../core/csv-table.ts'
import { isArray, isObject, type JsonObject, type JsonValue, numberOf, objectOf, stringOf } from '../core/json.ts'

/** Whose bill a line is from: of these providers alone, or of any. */
export type BillSource = 'openai' | 'anthropic' | 'csv'

/** Tokens by class. Input includes what was read from a cache or written to it. */
interface BillTokens {
  readonly input: number
  readonly cachedInput: number
  /** Undefined if the provider does not report it. */
  readonly cacheWrite: number | undefined
  readonly output: number
}

/** Usage, a cost or both. */
export interface BillLine {
  readonly source: BillSource
  /** A UTC day, as `2026-11-01`. */
  readonly date: string
  /** The provider's name; '' for costs that are not divided by model. */
  readonly model: string
  readonly tokens?: BillTokens
  readonly microUsd?: number
  readonly tier?: string | undefined
}

export interface ProviderBill {
  readonly lines: readonly BillLine[]
  /** All days that it is about, those without usage too. */
  readonly dates: readonly string[]
  /** Whether further pages are missing. */
  readonly isCut: boolean
}

/** A text that is no bill; the message completes a sentence that begins with the file. */
export class BillProblem extends Error {
  override readonly name = 'BillProblem'
}

/** Throws `BillProblem`. */
export function readBill(written: string): ProviderBill {
  const text = written.replace(/^\uFEFF/, '')
  return /^\s*[[{]/.test(text) ? fromPages(pagesOf(text)) : fromCsv(text)
}

/** Pages, lists of pages, or both, one after another: files that were put together stay readable. */
function pagesOf(text: string): readonly JsonObject[] {
  const pages = valuesIn(text).flatMap((value) => (isArray(value) ? value : [value]))
  if (pages.length === 0 || !pages.every(isObject)) throw noPages()
  return pages
}

function noPages(): BillProblem {
  return new BillProblem('is not JSON: give a page, a list of pages, or one page after another')
}

/** All JSON values of a text, each an object or an array. */
function valuesIn(text: string): readonly JsonValue[] {
  const values: JsonValue[] = []
  let [depth, from] = [0, 0]
  // Strings, which may hold brackets, and the brackets that are none of them.
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === '{' || token === '[') depth++
    if ((token !== '}' && token !== ']') || --depth > 0) continue
    values.push(parsed(text.slice(from, index + 1)))
    from = index + 1
  }
  if (text.slice(from).trim() !== '') throw noPages()
  return values
}

function parsed(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    throw noPages()
  }
}

function fromPages(pages: readonly JsonObject[]): ProviderBill {
  const lines: BillLine[] = []
  const dates: string[] = []
  for (const { data } of pages) {
    if (!isArray(data))
      throw new BillProblem("has a page without data: it must be a page of OpenAI's or Anthropic's usage or costs")
    for (const bucket of data) {
      const date = isObject(bucket) ? dateOf(bucket) : undefined
      if (!isObject(bucket) || date === undefined || !isArray(bucket['results']))
        throw new BillProblem('has data that is no bucket: it needs start_time or starting_at, and results')
      dates.push(date)
      const lineOf = 'starting_at' in bucket ? anthropicLine : openaiLine
      for (const result of bucket['results'].filter(isObject)) lines.push(lineOf(date, result))
    }
  }
  return { lines, dates, isCut: pages.length > 0 && pages.every((page) => page['has_more'] === true) }
}

function dateOf({ start_time: seconds, starting_at: time }: JsonObject): string | undefined {
  const ms = typeof seconds === 'number' ? seconds * 1000 : typeof time === 'string' ? Date.parse(time) : Number.NaN
  return Math.abs(ms) < 8e15 ? new Date(ms).toISOString().slice(0, 10) : undefined
}

/** Counts that a report leaves out are none. */
function countOf(value: JsonValue | undefined): number {
  return Math.max(0, numberOf(value) ?? 0)
}

function openaiLine(date: string, result: JsonObject): BillLine {
  const base = { source: 'openai', date } as const
  const amount = objectOf(result['amount'])
  if (amount !== undefined) {
    // `gpt-5-mini-2025-08-07, cached input`
    const item = stringOf(result['line_item']) ?? ''
    const [model = '', ...kind] = item.split(', ')
    const microUsd = amountOf(amount['value'], amount['currency'], 1_000_000)
    const tier = /\b(?:priority|fast|flex|batch|scale)\b/i.exec(kind.join(' '))?.[0]
    return { ...base, model: model.trim(), microUsd, tier }
  }
  const written = numberOf(result['input_cache_write_tokens'])
  const tokens = {
    // Audio is counted apart.
    input: countOf(result['input_tokens']) + countOf(result['input_audio_tokens']),
    cachedInput: countOf(result['input_cached_tokens']),
    cacheWrite: written,
    output: countOf(result['output_tokens']) + countOf(result['output_audio_tokens']),
  }
  const tier = stringOf(result['service_tier']) ?? (result['batch'] === true ? 'batch' : undefined)
  return { ...base, model: modelOf(result), tokens, tier }
}

function anthropicLine(date: string, result: JsonObject): BillLine {
  const base = { source: 'anthropic', date, tier: stringOf(result['service_tier']) } as const
  if ('amount' in result) {
    // Their amounts are cents.
    const microUsd = amountOf(result['amount'], result['currency'], 10_000)
    return { ...base, model: stringOf(result['model']) ?? stringOf(result['description']) ?? '', microUsd }
  }
  const writes = objectOf(result['cache_creation']) ?? {}
  const cacheWrite = countOf(writes['ephemeral_5m_input_tokens']) + countOf(writes['ephemeral_1h_input_tokens'])
  const cachedInput = countOf(result['cache_read_input_tokens'])
  const input = countOf(result['uncached_input_tokens']) + cachedInput + cacheWrite
  const tokens = { input, cachedInput, cacheWrite, output: countOf(result['output_tokens']) }
  return { ...base, model: modelOf(result), tokens }
}

function modelOf({ model }: JsonObject): string {
  if (typeof model === 'string' && model !== '') return model
  throw new BillProblem('does not name models: request the usage with group_by model')
}

function amountOf(value: JsonValue | undefined, currency: JsonValue | undefined, microUsd: number): number {
  const amount = typeof value === 'string' && value.trim() === '' ? Number.NaN : Number(value)
  if (!Number.isFinite(amount)) throw new BillProblem(`has an amount that is no number: ${quoted(String(value))}`)
  if (typeof currency === 'string' && currency.toLowerCase() !== 'usd')
    throw new BillProblem(`has amounts in ${quoted(currency)}; only US dollars can be compared`)
  return amount * microUsd
}

const COLUMNS = ['date', 'model', 'input_tokens', 'cached_input_tokens', 'cache_write_tokens', 'output_tokens', 'cost']

function fromCsv(text: string): ProviderBill {
  const rows = readCsv(text)
  if ('problem' in rows) throw new BillProblem(rows.problem)
  const headings = Object.keys(rows[0] ?? {})
  // A day without requests.
  const isEmpty = rows.length === 0 && COLUMNS.every((name) => text.includes(name))
  const lacking = isEmpty ? [] : COLUMNS.filter((name) => !headings.includes(name))
  if (lacking.length > 0)
    throw new BillProblem(`is neither JSON nor CSV with the columns ${COLUMNS.join(', ')}: no ${lacking.join(', ')}`)
  const lines = rows.map((row, index) => csvLine(row, `row ${index + 2}`))
  return { lines, dates: lines.map(({ date }) => date), isCut: false }
}

function csvLine(row: Readonly<Record<string, string>>, place: string): BillLine {
  const { date = '', model = '', cost = '' } = row
  const ms = Date.parse(`${date.trim()}T00:00:00Z`)
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== date.trim())
    throw new BillProblem(`${place}: date must be a day such as 2026-11-01, not ${quoted(date)}`)
  if (model.trim() === '') throw new BillProblem(`${place}: has no model`)
  const count = (name: string) => {
    const value = (row[name] ?? '').trim()
    if (!/^\d{0,15}$/.test(value))
      throw new BillProblem(`${place}: ${name} must be a whole number, not ${quoted(value)}`)
    return Number(value)
  }
  const written = row['cache_write_tokens']?.trim() === '' ? undefined : count('cache_write_tokens')
  const tokens = {
    input: count('input_tokens'),
    cachedInput: count('cached_input_tokens'),
    cacheWrite: written,
    output: count('output_tokens'),
  }
  const dollars = cost.trim().replace(/^\$/, '')
  if (!/^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(dollars))
    throw new BillProblem(`${place}: cost must be dollars, not ${quoted(cost)}`)
  return { source: 'csv', date: date.trim(), model: model.trim(), tokens, microUsd: Number(dollars) * 1_000_000 }
}
