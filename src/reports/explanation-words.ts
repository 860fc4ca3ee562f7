/** An explanation in words: the lines of `weir explain`, and the parts of them that its JSON has, too. */

import { metersOfTarget } from '../capacity/meter.ts'
import { lacks, noNeeds } from '../catalog/capability.ts'
import { type Access, access, type Key, kindOf, type Model, publicName } from '../catalog/catalog.ts'
import type { Candidate, Exclusion } from '../catalog/resolve.ts'
import { quoted } from '../config/problems.ts'
import { CallerError } from '../core/caller-error.ts'
import { type CapacityConfig, DEFAULT_QUEUE } from '../core/capacity-limits.ts'
import type { Compatibility } from '../core/compatibility.ts'
import { percent } from '../core/figure-text.ts'
import { amountOf, amountText, hasLimit, type Limit, type Limits, limitTable } from '../core/limits.ts'
import { sentModel, type TargetRef, targetKey } from '../core/model-config.ts'
import { dollarsText, type Price, type Rates } from '../core/money.ts'
import type { Rest } from '../gateway/breaker.ts'
import { failureText } from '../gateway/target-failure.ts'
import { raisesCounter } from '../keys/budget-overrides.ts'
import type { BudgetRaise } from '../keys/budget-record.ts'
import type { Account } from '../ledger/ledger.ts'
import { isPricedTier, pricedTiers, ratesFor } from '../ledger/price.ts'
import { type RemainingLimit, remainingLimits } from '../ledger/remaining.ts'
import type { AccountUsage, CounterUsage, ScopeUsage } from '../ledger/reservation-store.ts'
import type { QueueTotals } from '../metrics/merged-figures.ts'
import type { Explanation } from './explanation-shape.ts'
import type { Preview } from './request-preview.ts'

/** What is known of a target that rests in the running gateway. */
export type Resting = Pick<Rest, 'provider' | 'model' | 'restMs' | 'asked' | 'probing' | 'reason' | 'status' | 'cause'>

/** A field that the running gateway has learned to add to the requests to a target, or to leave out. */
export interface LearnedField extends Pick<TargetRef, 'provider' | 'model'> {
  readonly field: string
  /** Unix milliseconds; null: for good. */
  readonly untilMs: number | null
}

/** What the running gateway knows of the limits of providers and targets, and of those that wait for room. */
export interface RoomNow {
  /** What is left of each limit, from 0 to 1, by its name. */
  readonly left: Readonly<Record<string, number>>
  /** By class. */
  readonly queue: Readonly<Record<string, QueueTotals>>
}

/** What the price of a request depends on. */
interface AskedPrice {
  /** The `service_tier` of the request. */
  readonly tier: string | undefined
  readonly inputTokens: number
}

/** A request that is explained, and what the ledger and the running gateway report. */
export interface Explained {
  readonly key: Key
  readonly state: Explanation['key_state']
  /** The model as the caller would name it. */
  readonly name: string
  /** Those of that name: the model and its fallbacks, or the candidates of `auto`. */
  readonly models: readonly Model[]
  readonly candidates: readonly Candidate[]
  readonly excluded: readonly Exclusion[]
  readonly now: Preview
  readonly resting: readonly Resting[] | undefined
  readonly learned: readonly LearnedField[]
  /** The limits of providers and targets, and the queue; undefined if the configuration has none. */
  readonly capacity: CapacityConfig | undefined
  /** Undefined if there are none, or if no running gateway reported it. */
  readonly room: RoomNow | undefined
  readonly conversation?: string | undefined
  readonly asked: AskedPrice
  /** The owners of its limits with any of its candidates. */
  readonly account: Account
  /** Undefined if no limit is set, or if the ledger cannot be read. */
  readonly figures: AccountUsage | undefined
  /** Those that hold in its organisation. */
  readonly raises: readonly BudgetRaise[]
}

/** The lines of `weir explain`. */
export function explanationLines(explained: Explained): readonly string[] {
  const { key, name, state, models, figures, account } = explained
  return [
    `key "${key.id}" of organisation "${key.organization.id}" asks for ${quoted(name)}`,
    nowLine(explained),
    ...(state === 'active' ? [] : [`the key is ${state}: 401 invalid_api_key`]),
    `automatic selection: ${key.auto}`,
    `compatibility: ${switchesText(key.compatibility)}`,
    ...models.map((model) => permission(key, model)),
    ...candidateLines(explained),
    limitLine(`organisation "${key.organization.id}"`, account.organizationLimits, figures?.organization),
    limitLine(`key "${key.id}"`, key.limits, figures?.key),
    ...(account.budgets ?? []).flatMap(({ name, value, limits }, i) => {
      const owner = `budget "${name}"${value === '' ? '' : ` of "${value}"`}`
      const found = figures?.budgets?.[i]
      return [
        limitLine(owner, limits, found?.usage, found?.endsMs),
        ...raiseLines(owner, explained.raises, name, value),
      ]
    }),
    ...(figures === undefined && hasLimit([key.limits, key.organization.limits])
      ? ['what is left of the limits is unknown, and they were not checked: the ledger cannot be read']
      : []),
  ]
}

function switchesText(switches: Compatibility): string {
  return Object.entries(switches)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
}

/** What the caller would get now, word for word. */
function nowLine({ now, conversation }: Explained): string {
  if (now === 'waits') return 'admitted, and waits: no candidate has room now'
  if (now instanceof CallerError) return `rejected: ${now.status} ${now.code}: ${now.message}`
  const { model } = now
  const isAny = model.weights !== undefined && conversation === undefined
  return isAny ? `admitted: a target of ${publicName(model)} is asked` : `admitted: ${placeText(now)} is asked first`
}

function placeText({ model, target }: Candidate): string {
  return `${publicName(model)} at ${target.provider} (${sentModel(target)})`
}

function permission(key: Key, model: Model): string {
  const verdict = access(key, model)
  return `${publicName(model)}: ${verdict.allowed ? 'allowed' : 'denied'}, ${reasonWords(key, verdict)}`
}

export function reasonWords(key: Key, verdict: Access): string {
  const organization = `organisation "${key.organization.id}"`
  if (verdict.allowed) {
    return verdict.rule === undefined ? 'nothing excludes it' : `by rules[${verdict.rule}] of ${organization}`
  }
  switch (verdict.by) {
    case 'organization':
      return `the models of ${organization} do not include it`
    case 'rule':
      return `by rules[${verdict.rule}] of ${organization}`
    case 'key':
      return `the models of key "${key.id}" do not include it`
    case 'price':
      return 'it has no price and a spend limit applies'
    case 'output limit':
      return 'it has no max_output_tokens and a strict spend limit applies'
  }
}

/** Undefined if the target does not rest. */
export function restWords(target: TargetRef, resting: readonly Resting[]): string | undefined {
  const rest = resting.find(({ provider, model }) => provider === target.provider && model === target.model)
  if (rest === undefined) return undefined
  const { probing, restMs, asked } = rest
  const why = `because it ${failureText(rest)}`
  if (probing) return `is being probed ${why}`
  const seconds = Math.ceil(restMs / 1000)
  if (seconds === 0) return `gets one request at a time until it succeeds, ${why}`
  return `rests for another ${seconds} s ${why}${asked ? ', as the provider requested' : ''}`
}

/** What was learned of a target, each in words. */
export function learnedWords(target: TargetRef, learned: readonly LearnedField[]): readonly string[] {
  return learned
    .filter(({ provider, model }) => provider === target.provider && model === sentModel(target))
    .map(({ field, untilMs }) => `learned ${field} ${untilMs === null ? 'for good' : `until ${timeText(untilMs)}`}`)
}

/** The limits of a target and of its provider, and what the provider reports, each in words. */
export function capacityWords(
  target: TargetRef,
  { capacity, room }: Pick<Explained, 'capacity' | 'room'>,
): readonly string[] {
  const left = room?.left ?? {}
  const leftWords = (part: number | undefined) => (part === undefined ? '' : `, ${percent(part)} left`)
  const own = metersOfTarget(target, capacity).map(({ name, kind, unit, limit }) => {
    const amount = unit === 'micro_usd' ? dollarsText(limit) : limit
    return `limit ${name} ${amount}${kind === 'rate' ? ' a minute' : ''}${leftWords(left[name])}`
  })
  const reported = Object.entries(left).filter(([name]) => name.startsWith(`${targetKey(target)}/reported.`))
  return [...own, ...reported.map(([name, part]) => `limit ${name}${leftWords(part)}`)]
}

/** How long the request would wait if no candidate had room, and who waits now. */
function queueLines({ capacity, key, room }: Explained): readonly string[] {
  if (capacity === undefined) return []
  const ms = maxWaitMsOf(key, capacity)
  const wait = ms === 0 ? 'does not wait' : `waits for up to ${ms} ms`
  return [
    `without room at any candidate, it ${wait}; priority ${key.priority ?? 'interactive'}`,
    ...Object.entries(room?.queue ?? {}).map(([name, { waiting, waited, waitedSeconds, shed }]) => {
      const average = waited === 0 ? '' : `, ${(waitedSeconds / waited).toFixed(1)} s on average`
      return `  ${name}: ${waiting} wait now; since the start ${waited} waited${average}, ${shed} were turned away`
    }),
  ]
}

/** For how long at most requests of a key wait for room. */
export function maxWaitMsOf(key: Key, { queue = DEFAULT_QUEUE }: CapacityConfig): number {
  return key.maxWaitMs ?? queue.maxWaitMs
}

function timeText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

export function weightOf({ model, target }: Pick<Candidate, 'model' | 'target'>): number | undefined {
  return model.weights?.[model.targets.indexOf(target)]
}

/** Without a conversation the order of weighted targets is that of the configuration. */
const ANY_CONVERSATION =
  'conversations are spread over targets with a weight; --conversation shows the order for one of them'

function candidateLines(explained: Explained): readonly string[] {
  const { candidates, excluded, resting, conversation } = explained
  if (candidates.length === 0) return []
  return [
    'candidates, in order:',
    ...candidates.map((candidate, index) => candidateLine(candidate, index, explained)),
    ...excluded.map(({ model, reason }) => `  excluded: ${model.name} ${reason}`),
    ...queueLines(explained),
    ...(conversation === undefined && candidates.some(({ model }) => model.weights !== undefined)
      ? [ANY_CONVERSATION]
      : []),
    ...(resting === undefined ? ['which targets rest is unknown: no gateway runs with this data_dir'] : []),
  ]
}

function candidateLine({ model, target }: Candidate, index: number, explained: Explained): string {
  const { resting = [], learned, asked } = explained
  const rest = restWords(target, resting)
  const cannot = [lacks(model, { ...noNeeds, images: true }), lacks(model, { ...noNeeds, tools: true })].filter(
    (lack) => lack !== undefined,
  )
  const remarks = kindOf(model) !== 'chat' || cannot.length === 0 ? '' : `; ${cannot.join(', ')}`
  const weight = weightOf({ model, target })
  const share = weight === undefined ? '' : `; weight ${weight}`
  const place = `  ${index + 1}. ${placeText({ model, target })}${share}`
  const taught = [...learnedWords(target, learned), ...capacityWords(target, explained)].map((words) => `; ${words}`)
  const price = priceText(model.price, asked)
  return `${place}; ${price}${remarks}${taught.join('')}${rest === undefined ? '' : `; ${rest}`}`
}

/** The price that holds for such a request, and for what other requests it is another one. */
export function priceText(price: Price | undefined, { tier, inputTokens }: AskedPrice): string {
  if (price === undefined) return 'no price'
  const rates = ratesFor(price, tier, inputTokens)
  const remarks = [
    ...tierWords(price, tier),
    ...(rates.inputTokens === undefined ? lengthWords(price) : [`above ${rates.inputTokens} input tokens`]),
  ]
  remarks.push(...ownWords(price))
  const words = ratesText({ ...rates, image: price.image })
  return remarks.length === 0 ? words : `${words} (${remarks.join('; ')})`
}

function tierWords(price: Price, tier: string | undefined): readonly string[] {
  if (tier !== undefined) return [isPricedTier(price, tier) ? `tier ${tier}` : `tier ${tier} has no price of its own`]
  const names = pricedTiers(price)
  if (price.defaultTier !== undefined) return [`tier ${price.defaultTier}, the default`]
  return names.length === 0 ? [] : [`other prices for ${names.join(', ')}`]
}

/** What fields and tools of the provider cost. */
function ownWords({ fields = {}, tools = {} }: Price): readonly string[] {
  return [
    ...Object.entries(fields).map(([field, factor]) => `${field} times ${factor}`),
    ...Object.entries(tools).map(([tool, amount]) => `${tool} ${dollarsText(amount)} for 1,000 calls`),
  ]
}

function lengthWords({ above = [] }: Price): readonly string[] {
  const lengths = above.map((row) => row.inputTokens)
  return lengths.length === 0 ? [] : [`other prices above ${lengths.join(', ')} input tokens`]
}

function ratesText(rates: Rates): string {
  const parts = [
    ['input', rates.input],
    ['cached input', rates.cachedInput],
    ['cache write', rates.cacheWrite],
    ['cache write 1h', rates.cacheWrite1h],
    ['audio input', rates.audioInput],
    ['output', rates.output],
  ].flatMap(([what, amount]) => (typeof amount === 'number' ? [`${what} ${dollarsText(amount)}`] : []))
  const tokens = parts.length === 0 ? [] : [`${parts.join(', ')} a million tokens`]
  return [...tokens, ...(rates.image === undefined ? [] : [`${dollarsText(rates.image)} an image`])].join(', ')
}

/** The limits of an organisation or a key in one line; `figures` is undefined if what is left is unknown. */
function limitLine(
  owner: string,
  limits: Limits,
  figures: ScopeUsage | undefined,
  endsMs?: CounterUsage['endsMs'],
): string {
  const parts =
    figures === undefined ? amounts(limits) : remainingLimits(limits, figures).map((one) => leftText(one, endsMs))
  return `limits of ${owner}: ${parts.length === 0 ? 'none' : parts.join(', ')}`
}

/** What, until when, who and why. */
function raiseLines(owner: string, raises: readonly BudgetRaise[], name: string, value: string): readonly string[] {
  return raises
    .filter((raise) => raisesCounter(raise, name, value))
    .map(({ limits, untilMs, actor, reason }) => {
      const until = new Date(untilMs).toISOString()
      return `raise of ${owner}: ${amounts(limits).join(', ')} until ${until} by ${actor}: ${quoted(reason)}`
    })
}

function amounts(limits: Limits): readonly string[] {
  return limitTable.flatMap((limit) => {
    const amount = amountOf(limits, limit)
    return amount === undefined ? [] : [limitText(limit, amount)]
  })
}

function limitText(limit: Limit, amount: number): string {
  return `${amountText(limit, amount)} ${limit.words}`
}

function leftText({ limit, most, left, renewsAtMs }: RemainingLimit, endsMs?: CounterUsage['endsMs']): string {
  const ofCounter = limit.kind === 'budget' && renewsAtMs !== undefined ? endsMs?.[limit.name] : undefined
  // Windows of organisations and keys end with a UTC day, those of counters at a time.
  const text = new Date(ofCounter ?? renewsAtMs ?? 0).toISOString()
  const at = ofCounter === undefined ? text.slice(0, 10) : `${text.slice(0, 16)}Z`
  const renewal = renewsAtMs === undefined ? '' : `, renews ${at}`
  return `${limitText(limit, most)} (${amountText(limit, left)} left${renewal})`
}
