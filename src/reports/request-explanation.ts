/**
 * What would happen to a request of a key for a model: for `weir explain` and `GET /api/explain`. Reads the
 * configuration, and what is left of the limits from the ledger.
 */

import { openAccountUsageReader, openKeyStore } from '../assembly/open-ledger.ts'
import { lacks, type Needs, noNeeds } from '../catalog/capability.ts'
import { type Access, AUTO, access, Catalog, type Key, kindOf, type Model } from '../catalog/catalog.ts'
import { type Candidate, type Exclusion, resolve } from '../catalog/resolve.ts'
import type { Config } from '../config/config.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { CallerError } from '../core/caller-error.ts'
import { amountOf, configuredName, hasLimit, type Limit, type Limits, limitTable } from '../core/limits.ts'
import type { Price } from '../core/money.ts'
import { Conversation } from '../gateway/affinity.ts'
import type { Rest } from '../gateway/breaker.ts'
import { spread } from '../gateway/spread.ts'
import { storedKey } from '../keys/key-record.ts'
import { isUsable } from '../keys/key-ring.ts'
import { dollars } from '../ledger/refusal.ts'
import { type RemainingLimit, remainingLimits } from '../ledger/remaining.ts'
import type { AccountUsage, ScopeUsage } from '../ledger/reservation-store.ts'
import type { GivenFlags } from './given-flags.ts'
import { LedgerProblem, withLedger } from './ledger-part.ts'

/** What is known of a target that rests in the running gateway. */
export type Resting = Pick<Rest, 'provider' | 'model' | 'restMs' | 'asked' | 'probing'> & { readonly reason: string }

interface ExplanationRequest {
  /** The id of the key. */
  readonly key: string
  /** The model as the caller would name it. */
  readonly model: string
  readonly needs: Needs
  /** The `prompt_cache_key` of a conversation, which decides the order of targets with `spread: weighted`. */
  readonly conversation?: string | undefined
  /** Undefined if no running gateway reported them. */
  readonly resting: readonly Resting[] | undefined
}

/** The answer of `GET /api/explain`, and the output of `weir explain --json`. Money is in micro-dollars. */
interface Explanation {
  readonly key: string
  readonly organization: string
  /** As the caller would name it. */
  readonly model: string
  readonly key_state: KeyState
  /** Whether the key may, or must, let weir choose the model. */
  readonly auto: string
  readonly permissions: readonly { readonly model: string; readonly allowed: boolean; readonly reason: string }[]
  /** In the order in which they would be tried. */
  readonly candidates: readonly ExplainedCandidate[]
  readonly excluded: readonly { readonly model: string; readonly reason: string }[]
  /** The error that the caller would get, if there is one. */
  readonly rejected: { readonly status: number; readonly code: string; readonly message: string } | null
  readonly limits: readonly ExplainedLimit[]
  /** What is not known, and why. */
  readonly remarks: readonly string[]
  /** The same in words. */
  readonly lines: readonly string[]
}

type KeyState = 'active' | 'revoked' | 'disabled' | 'expired'

interface ExplainedCandidate {
  readonly model: string
  readonly provider: string
  /** The provider's own name of the model. */
  readonly target: string
  /** With `spread: weighted`, else null. */
  readonly weight: number | null
  /** In words, in dollars. */
  readonly price: string
  /** Why the target is not called at the moment, in words; null if it is healthy or not known. */
  readonly rest: string | null
}

interface ExplainedLimit {
  /** Null: of the organisation as a whole. */
  readonly key: string | null
  readonly limit: string
  readonly unit: string
  readonly amount: number
  /** Null if the ledger cannot be read. */
  readonly left: number | null
  readonly renews_at: string | null
}

/** A key that nobody has, or that cannot be used at all. `message` is one line for the operator. */
export class UnknownKey extends Error {
  override readonly name = 'UnknownKey'
}

/** Throws `UnknownKey`, or `LedgerProblem` if a key that is not in the configuration cannot be looked up. */
export async function explainRequest(config: Config, request: ExplanationRequest): Promise<Explanation> {
  const catalog = Catalog.from(config)
  const remarks = new Set<string>()
  const asking = await askingKey(catalog, config, request.key, remarks)
  if (typeof asking === 'string') throw new UnknownKey(asking)
  const figures = await figuresOf(config, asking.key, remarks)
  const { model: name, needs, resting, conversation } = request
  return explanationOf(catalog, { ...asking, name, needs, resting, figures, conversation }, [...remarks], Date.now())
}

/** The request, and what the ledger and the running gateway report. */
interface Question extends Asking, Pick<ExplanationRequest, 'needs' | 'resting' | 'conversation'> {
  /** The model as the caller would name it. */
  readonly name: string
  readonly figures: AccountUsage | undefined
}

function explanationOf(catalog: Catalog, question: Question, remarks: readonly string[], nowMs: number): Explanation {
  const { key, name, figures, resting } = question
  const { organization } = key
  const result = outcomeOf(catalog, question)
  const asked = name === AUTO ? catalog.autoCandidates : chain(catalog, name)
  const { candidates, excluded } = 'candidates' in result ? result : NOTHING
  return {
    key: key.id,
    organization: organization.id,
    model: name,
    key_state: stateOf(question, nowMs),
    auto: key.auto,
    permissions: asked.map((model) => {
      const verdict = access(key, model)
      return { model: model.name, allowed: verdict.allowed, reason: reason(key, verdict) }
    }),
    candidates: candidates.map(({ model, target }) => ({
      ...{ model: model.name, provider: target.provider, target: target.model, price: priceText(model.price) },
      weight: weightOf({ model, target }) ?? null,
      rest: restOf({ model, target }, resting ?? []) ?? null,
    })),
    excluded: excluded.map(({ model, reason: why }) => ({ model: model.name, reason: why })),
    rejected: 'candidates' in result ? null : result,
    limits: [
      ...explainedLimits(null, organization.limits, figures?.organization),
      ...explainedLimits(key.id, key.limits, figures?.key),
    ],
    remarks,
    lines: linesOf(catalog, question, result, nowMs),
  }
}

interface Resolved {
  readonly candidates: readonly Candidate[]
  readonly excluded: readonly Exclusion[]
}

const NOTHING: Resolved = { candidates: [], excluded: [] }

function explainedLimits(
  key: string | null,
  limits: Limits,
  figures: ScopeUsage | undefined,
): readonly ExplainedLimit[] {
  const row = (limit: Limit, amount: number) => ({ key, limit: configuredName(limit), unit: limit.unit, amount })
  if (figures === undefined) {
    return limitTable.flatMap((limit) => {
      const amount = amountOf(limits, limit)
      return amount === undefined ? [] : [{ ...row(limit, amount), left: null, renews_at: null }]
    })
  }
  return remainingLimits(limits, figures).map(({ limit, most, left, renewsAtMs }) => ({
    ...row(limit, most),
    left,
    renews_at: renewsAtMs === undefined ? null : new Date(renewsAtMs).toISOString(),
  }))
}

interface Asking {
  readonly key: Key
  readonly isRevoked: boolean
}

/** The key with this id from the configuration or else the store; or a line that explains why it cannot be used. */
async function askingKey(catalog: Catalog, config: Config, id: string, remarks: Set<string>): Promise<Asking | string> {
  const configured = catalog.credentials.map(({ key }) => key)
  const known = configured.find((key) => key.id === id)
  if (known !== undefined) {
    return { key: known, isRevoked: await isRevokedByCommand(config, known, remarks) }
  }
  const [record, others] = await withLedger(openKeyStore, config, async (store) => {
    const found = await store.get(id)
    return [found, found === undefined ? await store.someIds() : []] as const
  })
  if (record === undefined) {
    const ids = [...configured.map((key) => key.id), ...others]
    return `no key has the id ${quoted(id)}${didYouMean(id, ids)}`
  }
  const owner = catalog.organization(record.organization)
  if (owner === undefined) {
    const name = quoted(record.organization)
    return `key "${id}" is rejected: its organisation ${name} is not in the configuration`
  }
  return { key: storedKey(owner, record), isRevoked: record.revokedMs !== undefined }
}

/** Whether a command revoked a key of the configuration. */
async function isRevokedByCommand(config: Config, key: Key, remarks: Set<string>): Promise<boolean> {
  try {
    const revocations = await withLedger(openKeyStore, config, (store) => store.revocations([key.id]))
    return revocations.get(key.id)?.organization === key.organization.id
  } catch (error) {
    if (!(error instanceof LedgerProblem)) throw error
    remarks.add(error.message)
    return false
  }
}

/** What is used of the limits; undefined if none is set, or if the ledger cannot be read. */
async function figuresOf(config: Config, key: Key, remarks: Set<string>): Promise<AccountUsage | undefined> {
  if (!hasLimits(key)) return undefined
  const { organization } = key
  const account = {
    organization: organization.id,
    organizationLimits: organization.limits,
    key: key.id,
    keyLimits: key.limits,
  }
  try {
    return await withLedger(openAccountUsageReader, config, async (reader) => {
      const warning = await reader.warning()
      if (warning !== undefined) remarks.add(warning)
      return await reader.read(account)
    })
  } catch (error) {
    if (!(error instanceof LedgerProblem)) throw error
    remarks.add(error.message)
    return undefined
  }
}

function hasLimits({ limits, organization }: Key): boolean {
  return hasLimit([limits, organization.limits])
}

/** What the request needs, or what is wrong with the flags. */
export function needsOf(flags: GivenFlags): Needs | string {
  const { images, tools, tokens, ttl } = flags
  if (tokens !== undefined && !/^\d{1,9}$/.test(String(tokens)))
    return `--tokens must be a whole number, not "${tokens}"`
  if (ttl !== undefined && ttl !== '5m' && ttl !== '1h') return `--ttl must be 5m or 1h, not "${ttl}"`
  return {
    ...noNeeds,
    images: images === true,
    tools: tools === true,
    inputTokens: Number(tokens ?? 0),
    cache: ttl !== undefined,
    ttls: ttl === undefined ? [] : [ttl],
  }
}

/** In words; undefined if the target does not rest. */
function restOf({ target }: Pick<Candidate, 'model' | 'target'>, resting: readonly Resting[]): string | undefined {
  const rest = resting.find(({ provider, model }) => provider === target.provider && model === target.model)
  return rest && restWords(rest)
}

function restWords({ reason: why, probing, restMs, asked }: Resting): string {
  if (probing) return `is being probed after ${why}`
  const seconds = Math.ceil(restMs / 1000)
  if (seconds === 0) return `gets one request at a time until it succeeds, after ${why}`
  return `rests for another ${seconds} s after ${why}${asked ? ', as the provider requested' : ''}`
}

/** The lines of `weir explain`. */
function linesOf(
  catalog: Catalog,
  question: Question,
  result: ReturnType<typeof outcomeOf>,
  nowMs: number,
): readonly string[] {
  const { key, name, figures } = question
  return [
    `key "${key.id}" of organisation "${key.organization.id}" asks for ${quoted(name)}`,
    ...unusable(question, nowMs),
    `automatic selection: ${key.auto}`,
    ...(name === AUTO ? catalog.autoCandidates : chain(catalog, name)).map((model) => permission(key, model)),
    ...outcomeLines(result, question),
    limitLine(`organisation "${key.organization.id}"`, key.organization.limits, figures?.organization),
    limitLine(`key "${key.id}"`, key.limits, figures?.key),
    ...(figures === undefined && hasLimits(key)
      ? ['what is left of the limits is unknown: the ledger cannot be read']
      : []),
  ]
}

function unusable(question: Question, nowMs: number): readonly string[] {
  const state = stateOf(question, nowMs)
  return state === 'active' ? [] : [`the key is ${state}: 401 invalid_api_key`]
}

function stateOf({ key, isRevoked }: Question, nowMs: number): KeyState {
  if (!isRevoked && isUsable(key, nowMs)) return 'active'
  return isRevoked ? 'revoked' : key.disabled ? 'disabled' : 'expired'
}

/** The model of that name and its fallbacks. */
function chain(catalog: Catalog, name: string): readonly Model[] {
  const model = catalog.lookup(name)
  if (typeof model === 'string') return []
  return [model, ...model.fallbacks.flatMap((other) => catalog.model(other) ?? [])]
}

function permission(key: Key, model: Model): string {
  const verdict = access(key, model)
  return `${model.name}: ${verdict.allowed ? 'allowed' : 'denied'}, ${reason(key, verdict)}`
}

function reason(key: Key, verdict: Access): string {
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

/** The candidates that would be tried, or the error that the caller would get. */
function outcomeOf(
  catalog: Catalog,
  { key, name, needs, conversation }: Question,
): Resolved | { readonly status: number; readonly code: string; readonly message: string } {
  const model = catalog.lookup(name)
  const kind = typeof model === 'string' ? 'chat' : kindOf(model)
  try {
    const { candidates, excluded } = resolve(catalog, key, { name, kind, needs })
    if (conversation === undefined) return { candidates, excluded }
    const asked = Conversation.withCacheKey(key.organization.id, conversation)
    return { candidates: spread(candidates, { conversationWith: (of) => asked.of(of) }), excluded }
  } catch (failure) {
    if (!(failure instanceof CallerError)) throw failure
    return { status: failure.row.status, code: String(failure.code), message: failure.message }
  }
}

function weightOf({ model, target }: Pick<Candidate, 'model' | 'target'>): number | undefined {
  return model.weights?.[model.targets.indexOf(target)]
}

/** Without a conversation the order of weighted targets is that of the configuration. */
const ANY_CONVERSATION =
  'conversations are spread over targets with a weight; --conversation shows the order for one of them'

function outcomeLines(result: ReturnType<typeof outcomeOf>, { resting, conversation }: Question): readonly string[] {
  if (!('candidates' in result)) return [`rejected: ${result.status} ${result.code}: ${result.message}`]
  return [
    'candidates, in order:',
    ...result.candidates.map((candidate, index) => candidateLine(candidate, index, resting ?? [])),
    ...result.excluded.map(exclusionLine),
    ...(conversation === undefined && result.candidates.some(({ model }) => model.weights !== undefined)
      ? [ANY_CONVERSATION]
      : []),
    ...(resting === undefined ? ['which targets rest is unknown: no gateway runs with this data_dir'] : []),
  ]
}

function exclusionLine({ model, reason }: Exclusion): string {
  return `  excluded: ${model.name} ${reason}`
}

function candidateLine({ model, target }: Candidate, index: number, resting: readonly Resting[]): string {
  const rest = restOf({ model, target }, resting)
  const cannot = [lacks(model, { ...noNeeds, images: true }), lacks(model, { ...noNeeds, tools: true })].filter(
    (lack) => lack !== undefined,
  )
  const remarks = kindOf(model) !== 'chat' || cannot.length === 0 ? '' : `; ${cannot.join(', ')}`
  const weight = weightOf({ model, target })
  const share = weight === undefined ? '' : `; weight ${weight}`
  const place = `  ${index + 1}. ${model.name} at ${target.provider} (${target.model})${share}`
  return `${place}; ${priceText(model.price)}${remarks}${rest === undefined ? '' : `; ${rest}`}`
}

function priceText(price: Price | undefined): string {
  if (price === undefined) return 'no price'
  const parts = [
    ['input', price.input],
    ['cached input', price.cachedInput],
    ['cache write', price.cacheWrite],
    ['cache write 1h', price.cacheWrite1h],
    ['output', price.output],
  ].flatMap(([what, amount]) => (typeof amount === 'number' ? [`${what} ${dollars(amount)}`] : []))
  const tokens = parts.length === 0 ? [] : [`${parts.join(', ')} a million tokens`]
  return [...tokens, ...(price.image === undefined ? [] : [`${dollars(price.image)} an image`])].join(', ')
}

/** The limits of an organisation or a key in one line; `figures` is undefined if what is left is unknown. */
function limitLine(owner: string, limits: Limits, figures: ScopeUsage | undefined): string {
  const parts = figures === undefined ? amounts(limits) : remainingLimits(limits, figures).map(leftText)
  return `limits of ${owner}: ${parts.length === 0 ? 'none' : parts.join(', ')}`
}

function amounts(limits: Limits): readonly string[] {
  return limitTable.flatMap((limit) => {
    const amount = amountOf(limits, limit)
    return amount === undefined ? [] : [amountText(limit, amount)]
  })
}

function amountText(limit: Limit, amount: number): string {
  return `${numberText(limit, amount)} ${limit.words}`
}

function leftText({ limit, most, left, renewsAtMs }: RemainingLimit): string {
  // Windows end with a UTC day.
  const renewal = renewsAtMs === undefined ? '' : `, renews ${new Date(renewsAtMs).toISOString().slice(0, 10)}`
  return `${amountText(limit, most)} (${numberText(limit, left)} left${renewal})`
}

function numberText({ unit }: Limit, amount: number): string {
  return unit === 'micro_usd' ? dollars(amount) : String(amount)
}
