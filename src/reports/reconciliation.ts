/**
 * Usage of the audit trail against providers' bills, by day and model: what differs, and the most likely cause of it.
 * Models are matched by the names of targets, then by public names.
 */

import { openAuditLog } from '../assembly/open-ledger.ts'
import { Catalog } from '../catalog/catalog.ts'
import type { Config } from '../config/config.ts'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { prefixOf, sentModel } from '../core/model-config.ts'
import type { Price } from '../core/money.ts'
import { isBaseTier } from '../core/service-tier.ts'
import { tierOfTags } from '../core/tags.ts'
import type { AuditRow } from '../ledger/audit-columns.ts'
import { chargedMicroUsd } from '../ledger/price.ts'
import { withLedger } from './ledger-part.ts'
import type { BillLine, BillSource, ProviderBill } from './provider-bill.ts'

/** Tokens and micro-dollars; null if the bill does not have them. */
interface Figures {
  input: number | null
  cachedInput: number | null
  cacheWrite: number | null
  output: number | null
  microUsd: number | null
}

type Field = keyof Figures

/** In the order in which they are shown, with their names in JSON. */
export const FIELDS: readonly (readonly [field: Field, name: string])[] = [
  ['input', 'input_tokens'],
  ['cachedInput', 'cached_input_tokens'],
  ['cacheWrite', 'cache_write_tokens'],
  ['output', 'output_tokens'],
  ['microUsd', 'cost'],
]

interface ReconciledRow {
  readonly date: string
  readonly model: string
  readonly ours: Readonly<Figures>
  readonly theirs: Readonly<Figures>
  /** Ours less theirs: negative where the provider has more. */
  readonly difference: Readonly<Figures>
  /** Null if nothing differs by more than the tolerance. */
  readonly cause: string | null
}

export interface Reconciliation {
  readonly since: string
  /** The day after the last one. */
  readonly until: string
  readonly rows: readonly ReconciledRow[]
  readonly total: Pick<ReconciledRow, 'ours' | 'theirs' | 'difference'>
}

export interface ReconcileOptions {
  readonly since: string
  readonly until: string
  /** A share of the larger side. */
  readonly tolerance: number
}

/** What weir has of one model on one day. */
interface Ours extends Record<Field, number> {
  requests: number
  /** What requests with estimated usage are of it. */
  readonly estimated: { requests: number; input: number; output: number; microUsd: number }
  /** Service tiers but the base one. */
  readonly tiers: Set<string>
  readonly source: BillSource
  readonly price: Price | undefined
}

interface Theirs extends Figures {
  readonly tiers: Set<string>
  readonly source: BillSource
}

/** Throws `LedgerProblem`. */
export async function reconcile(config: Config, bills: readonly ProviderBill[], options: ReconcileOptions) {
  const lines = bills.flatMap(({ lines: all }) => all).filter((line) => isWithin(line.date, options))
  const names = new Names(config, lines)
  const ours = await ourFigures(config, names, options)
  return compared(lines, ours, names, options)
}

function isWithin(date: string, { since, until }: ReconcileOptions): boolean {
  return date >= since && date < until
}

/** Costs of a day that are not divided by model. */
const ALL_MODELS = '(all models)'

const keyOf = (date: string, model: string) => `${date}\0${model}`

/** The names under which both sides of a model meet. */
class Names {
  private readonly catalog: Catalog
  private readonly billed: ReadonlySet<string>
  private readonly dialects: ReadonlyMap<string, BillSource | undefined>
  private readonly known = new Map<string, string>()

  constructor(
    private readonly config: Config,
    lines: readonly BillLine[],
  ) {
    this.catalog = Catalog.from(config)
    this.billed = new Set(lines.map(({ model }) => model))
    const sources = new Set(lines.map(({ source }) => source))
    this.dialects = new Map(config.providers.map(({ name }) => [name, sourceOf(config, name, sources)]))
  }

  /** On whose bill the requests to a provider are; undefined if on none of these. */
  source(provider: string): BillSource | undefined {
    return this.dialects.has(provider) ? this.dialects.get(provider) : 'csv'
  }

  /** The name of a model that weir has served by a provider: that of the bill, if it is there. */
  served(model: string, provider: string): string {
    const own = this.catalog.model(model)
    const targets = own?.targets.filter((target) => target.provider === provider).map(sentModel) ?? []
    const candidates = [...targets, ...this.named(model)]
    const found = candidates.find((name) => this.billed.has(name)) ?? targets[0] ?? model
    this.known.set(model, found)
    return found
  }

  private named(model: string): readonly string[] {
    return [model, ...(this.catalog.model(model)?.aliases ?? [])]
  }

  /** The name of a model of a bill: of the target that it is, of a public name, a dated version, or a pattern. */
  ofBill(name: string): string {
    if (name === '') return ALL_MODELS
    const targets = this.config.models.flatMap((model) => model.targets.map(sentModel))
    if (targets.includes(name)) return name
    const found = this.catalog.lookup(name)
    if (typeof found !== 'string') return this.known.get(found.name) ?? name
    const undated = name.replace(/[-@](?:20\d{2}-\d{2}-\d{2}|20\d{6})$/, '')
    if (undated !== name && targets.includes(undated)) return undated
    return targets.find((target) => prefixOf(target) !== undefined && name.startsWith(prefixOf(target) ?? name)) ?? name
  }

  priceOf(model: string): Price | undefined {
    return this.catalog.model(model)?.price
  }
}

/** The hosts of the providers whose bills these are; other servers have the same dialect. */
const OWN_HOSTS = { openai: /(?:^|\.)api\.openai\.com$/, anthropic: /(?:^|\.)api\.anthropic\.com$/ } as const

/**
 * On whose bill a provider is. OpenAI's is that of `api.openai.com`, if an entry has this address; else that of all
 * entries with the dialect. The same with Anthropic's.
 */
function sourceOf(config: Config, name: string, sources: ReadonlySet<BillSource>): BillSource | undefined {
  const hostOf = (baseUrl: string) => URL.parse(baseUrl)?.hostname ?? ''
  for (const source of ['openai', 'anthropic'] as const) {
    if (!sources.has(source)) continue
    const entries = config.providers.filter(({ dialect }) => dialect === source)
    const own = entries.filter(({ baseUrl }) => OWN_HOSTS[source].test(hostOf(baseUrl)))
    if ((own.length > 0 ? own : entries).some((each) => each.name === name)) return source
  }
  return sources.has('csv') ? 'csv' : undefined
}

/** By date and name. A request counts on the day on which it was admitted. */
async function ourFigures(config: Config, names: Names, options: ReconcileOptions): Promise<Map<string, Ours>> {
  const [sinceMs, untilMs] = [Date.parse(`${options.since}T00:00:00Z`), Date.parse(`${options.until}T00:00:00Z`)]
  const found = new Map<string, Ours>()
  await withLedger(openAuditLog, config, async (log) => {
    for await (const page of log.read({ sinceMs, untilMs: untilMs + DAY_MS + HOUR_MS })) {
      for (const row of page) {
        const isCounted = row.admittedMs >= sinceMs && row.admittedMs < untilMs && row.model !== ''
        const source = isCounted ? names.source(row.provider) : undefined
        if (source === undefined) continue
        const date = new Date(row.admittedMs).toISOString().slice(0, 10)
        const key = keyOf(date, names.served(row.model, row.provider))
        const known = found.get(key) ?? noneOfOurs(source, names.priceOf(row.model))
        found.set(key, known)
        add(known, row)
      }
      await Bun.sleep(0)
    }
  })
  return found
}

function noneOfOurs(source: BillSource, price: Price | undefined): Ours {
  return {
    ...{ input: 0, cachedInput: 0, cacheWrite: 0, output: 0, microUsd: 0, requests: 0, source, price },
    ...{ estimated: { requests: 0, input: 0, output: 0, microUsd: 0 }, tiers: new Set<string>() },
  }
}

function add(ours: Ours, row: AuditRow): void {
  ours.requests++
  ours.input += row.inputTokens
  ours.cachedInput += row.cachedInputTokens
  ours.cacheWrite += row.cacheWriteTokens
  ours.output += row.outputTokens
  ours.microUsd += row.costMicroUsd
  const tier = tierOfTags(row.tags)
  if (tier !== '' && !isBaseTier(tier)) ours.tiers.add(tier)
  // A request that was lost is an estimate, too.
  if (!row.estimated && row.kind !== 'lost') return
  ours.estimated.requests++
  ours.estimated.input += row.inputTokens
  ours.estimated.output += row.outputTokens
  ours.estimated.microUsd += row.costMicroUsd
}

/** The figures that a source's bill has at all. Those that it leaves out for a model are 0 then, and else unknown. */
function columnsOf(lines: readonly BillLine[]): ReadonlyMap<BillSource, Figures> {
  const columns = new Map<BillSource, Figures>()
  for (const { source, tokens, microUsd, model } of lines) {
    const known = columns.get(source) ?? { ...UNKNOWN }
    columns.set(source, known)
    if (tokens !== undefined) Object.assign(known, { input: 0, cachedInput: 0, output: 0 })
    if (tokens?.cacheWrite !== undefined) known.cacheWrite = 0
    if (microUsd !== undefined && model !== '') known.microUsd = 0
  }
  return columns
}

const UNKNOWN: Figures = { input: null, cachedInput: null, cacheWrite: null, output: null, microUsd: null }

function sum(one: number | null, other: number | null | undefined): number | null {
  return other == null ? one : (one ?? 0) + other
}

function addLine(theirs: Theirs, { tokens, microUsd, tier }: BillLine): void {
  theirs.input = sum(theirs.input, tokens?.input)
  theirs.cachedInput = sum(theirs.cachedInput, tokens?.cachedInput)
  const isUnknown = tokens !== undefined && tokens.cacheWrite === undefined
  theirs.cacheWrite = isUnknown ? null : sum(theirs.cacheWrite, tokens?.cacheWrite)
  theirs.output = sum(theirs.output, tokens?.output)
  theirs.microUsd = sum(theirs.microUsd, microUsd)
  if (tier !== undefined && !isBaseTier(tier)) theirs.tiers.add(tier)
}

function compared(
  lines: readonly BillLine[],
  ours: ReadonlyMap<string, Ours>,
  names: Names,
  options: ReconcileOptions,
): Reconciliation & { readonly isAbove: boolean } {
  const columns = columnsOf(lines)
  const theirs = new Map<string, Theirs>()
  const noneOfTheirs = (source: BillSource, model: string): Theirs => ({
    ...(model === ALL_MODELS ? UNKNOWN : (columns.get(source) ?? UNKNOWN)),
    ...{ tiers: new Set<string>(), source },
  })
  for (const line of lines) {
    const model = names.ofBill(line.model)
    const known = theirs.get(keyOf(line.date, model)) ?? noneOfTheirs(line.source, model)
    theirs.set(keyOf(line.date, model), known)
    addLine(known, line)
  }
  const keys = [...new Set([...theirs.keys(), ...ours.keys()])].sort()
  const rows = keys.flatMap((key): readonly ReconciledRow[] => {
    const [date = '', model = ''] = key.split('\0')
    const mine = model === ALL_MODELS ? wholeDay(ours, date) : ours.get(key)
    const source = theirs.get(key)?.source ?? mine?.source ?? 'csv'
    const other = theirs.get(key) ?? noneOfTheirs(source, model)
    // A bill without models has nothing about one of them.
    if (FIELDS.every(([field]) => other[field] === null)) return []
    const own = mine ?? noneOfOurs(source, undefined)
    return [{ date, model, ...sides(own, other), cause: causeOf(own, other, options.tolerance) }]
  })
  return {
    ...{ since: options.since, until: options.until, rows, total: totalOf(rows) },
    isAbove: rows.some(({ cause }) => cause !== null),
  }
}

function wholeDay(ours: ReadonlyMap<string, Ours>, date: string): Ours {
  const day = noneOfOurs('csv', undefined)
  for (const [key, one] of ours) {
    if (!key.startsWith(`${date}\0`)) continue
    for (const [field] of FIELDS) day[field] += one[field]
    day.requests += one.requests
    for (const field of ['requests', 'input', 'output', 'microUsd'] as const)
      day.estimated[field] += one.estimated[field]
    for (const tier of one.tiers) day.tiers.add(tier)
  }
  return day
}

function sides(ours: Readonly<Record<Field, number | null>>, theirs: Figures) {
  const each = (value: (field: Field) => number | null): Figures => ({
    ...{ input: value('input'), cachedInput: value('cachedInput'), cacheWrite: value('cacheWrite') },
    ...{ output: value('output'), microUsd: value('microUsd') },
  })
  return {
    ours: each((field) => ours[field]),
    theirs: each((field) => theirs[field]),
    difference: each((field) => {
      const [mine, other] = [ours[field], theirs[field]]
      return mine === null || other === null ? null : mine - other
    }),
  }
}

function totalOf(rows: readonly ReconciledRow[]): Reconciliation['total'] {
  const [ours, theirs] = [{ ...UNKNOWN }, { ...UNKNOWN }]
  for (const row of rows) {
    for (const [field] of FIELDS) {
      theirs[field] = sum(theirs[field], row.theirs[field])
      // What no bill has is no difference; if none has it at all, the sum is ours alone.
      const isCompared = row.theirs[field] !== null || rows.every((other) => other.theirs[field] === null)
      if (isCompared && (row.model !== ALL_MODELS || rows.every(({ model }) => model === ALL_MODELS)))
        ours[field] = sum(ours[field], row.ours[field])
    }
  }
  return sides(ours, theirs)
}

/** The most likely cause of what differs by more than the tolerance; null if nothing does. */
function causeOf(ours: Ours, theirs: Theirs, tolerance: number): string | null {
  const isAbove = (field: Field) => {
    const [mine, other] = [ours[field], theirs[field]]
    if (other === null) return false
    // Each charge of ours is rounded up to a whole micro-dollar.
    const rounding = field === 'microUsd' ? ours.requests : 0
    return Math.abs(mine - other) > tolerance * Math.max(mine, other) + rounding
  }
  if (!FIELDS.some(([field]) => isAbove(field))) return null
  if (ours.requests === 0) return 'requests outside weir: weir has none of this model on this day'
  if (FIELDS.every(([field]) => (theirs[field] ?? 0) === 0)) return 'the bill has no request of this model on this day'
  const isAnyToken = isAbove('input') || isAbove('output') || isAbove('cachedInput')
  if (theirs.input === null || (!isAnyToken && !isAbove('cacheWrite'))) return causeOfCost(ours, theirs, tolerance)
  return causeOfTokens(ours, theirs, isAbove)
}

function causeOfTokens(ours: Ours, theirs: Theirs, isAbove: (field: Field) => boolean): string {
  const less = (field: 'input' | 'output') => (theirs[field] ?? 0) - ours[field]
  const written = (theirs.cacheWrite ?? ours.cacheWrite) - ours.cacheWrite
  const { estimated } = ours
  if (isAbove('cacheWrite') && !isAbove('output') && (!isAbove('input') || nearly(less('input'), written)))
    return 'cache writes: the sides count different tokens as written to the cache'
  // What an estimate may be off by: it is one to three times of what it stands for.
  const isExplained = (field: 'input' | 'output') =>
    less(field) >= -estimated[field] && less(field) <= 2 * Math.max(estimated[field], estimated.requests)
  if (estimated.requests > 0 && isExplained('input') && isExplained('output'))
    return `estimated usage: ${estimated.requests} of ${ours.requests} requests, whose provider reported no usage`
  if (less('input') >= 0 && less('output') >= 0) return 'requests outside weir: the provider counted more tokens'
  if (less('input') <= 0 && less('output') <= 0) return 'weir counted more tokens than the bill has'
  return 'the sides count tokens differently'
}

function nearly(one: number, other: number): boolean {
  return Math.abs(one - other) <= 0.01 * Math.max(Math.abs(one), Math.abs(other))
}

/** The tokens agree, or are not known: the price differs. */
function causeOfCost(ours: Ours, theirs: Theirs, tolerance: number): string {
  const tiers = [...new Set([...ours.tiers, ...theirs.tiers])].sort()
  if (tiers.length > 0) return `a tier: requests were served by ${tiers.join(', ')}`
  const { price, estimated } = ours
  const difference = (theirs.microUsd ?? 0) - ours.microUsd
  const isWritten = ours.cacheWrite > 0 || (theirs.cacheWrite ?? 0) > 0
  if (isWritten && price?.cacheWrite === undefined && difference > 0)
    return 'cache writes: the price of the model has no cache_write'
  if (theirs.input === null && estimated.requests > 0 && Math.abs(difference) <= estimated.microUsd)
    return `estimated usage: ${estimated.requests} of ${ours.requests} requests, whose provider reported no usage`
  const tier = price === undefined ? undefined : tierOfCost(price, ours, theirs.microUsd ?? 0, tolerance)
  if (tier !== undefined) return `a tier: the bill fits the price of ${tier}`
  if (isWritten && difference > 0) return 'cache writes: their price differs'
  if (theirs.input === null && difference > 0) return 'requests outside weir, or a price'
  return 'a price: the tokens agree'
}

/** The tier whose price makes the provider's cost of the tokens. */
function tierOfCost(price: Price, ours: Ours, microUsd: number, tolerance: number): string | undefined {
  const { input, cachedInput, cacheWrite, output } = ours
  return price.tiers?.find(({ names: [serviceTier] }) => {
    // By the price of one request's length: a sum of requests is no long one.
    const short = { ...price, above: undefined, tiers: price.tiers?.map((tier) => ({ ...tier, above: undefined })) }
    const usage = { input, cachedInput, cacheWrite5m: cacheWrite, output, serviceTier }
    const cost = chargedMicroUsd(short, { usage })
    return Math.abs(cost - microUsd) <= Math.max(tolerance, 0.01) * Math.max(cost, microUsd)
  })?.names[0]
}
