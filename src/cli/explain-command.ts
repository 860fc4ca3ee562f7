/**
 * `weir explain`: shows what would happen to a request of a key for a model. Reads the configuration, what is left of
 * the limits from the ledger, and the resting targets from the running gateway, if there is one.
 */

import { openAccountUsageReader, openKeyStore } from '../assembly/open-ledger.ts'
import { lacks, type Needs, noNeeds } from '../catalog/capability.ts'
import { type Access, AUTO, access, Catalog, type Key, kindOf, type Model } from '../catalog/catalog.ts'
import { type Candidate, type Exclusion, resolve } from '../catalog/resolve.ts'
import type { Config } from '../config/config.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { CallerError } from '../core/caller-error.ts'
import { isArray, isObject, type JsonObject, numberOf, stringOf } from '../core/json.ts'
import { amountOf, hasLimit, type Limit, type Limits, limitTable } from '../core/limits.ts'
import type { Price } from '../core/money.ts'
import { storedKey } from '../keys/key-record.ts'
import { isUsable } from '../keys/key-ring.ts'
import { dollars } from '../ledger/refusal.ts'
import { type RemainingLimit, remainingLimits } from '../ledger/remaining.ts'
import type { AccountUsage, ScopeUsage } from '../ledger/reservation-store.ts'
import { exit, type Flags, misused, parseFlags, printToStderr } from './command.ts'
import { askControl, ControlProblem } from './control-client.ts'
import { configured, LedgerProblem, untilProblem, withLedger } from './ledger-access.ts'

/** A target that rests in the running gateway. */
interface Resting {
  readonly provider: string
  readonly model: string
  readonly words: string
}

/** Returns the exit code: 0 also if the request would be rejected. */
export async function explain(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'explain')
  if ('code' in parsed) return parsed.code
  const { key: id, model: name, config: flag } = parsed.flags
  const needs = needsOf(parsed.flags)
  if (typeof needs === 'string') return misused(needs)
  if (typeof id !== 'string' || typeof name !== 'string') return misused('missing --key ID or --model NAME')
  const read = await configured(flag)
  if ('code' in read) return read.code
  const { config } = read
  return untilProblem(async () => {
    const catalog = Catalog.from(config)
    const asking = await askingKey(catalog, config, id)
    if (typeof asking === 'string') {
      printToStderr(asking)
      return exit.wrong
    }
    const resting = await restingTargets(config.dataDir)
    const figures = await figuresOf(config, asking.key)
    const question = { ...asking, name, needs, resting, figures }
    process.stdout.write(`${explanation(catalog, question, Date.now()).join('\n')}\n`)
    return exit.done
  })
}

interface Asking {
  readonly key: Key
  readonly isRevoked: boolean
}

/** The key with this id from the configuration or else the store; or a line that explains why it cannot be used. */
async function askingKey(catalog: Catalog, config: Config, id: string): Promise<Asking | string> {
  const configured = catalog.credentials.map(({ key }) => key)
  const known = configured.find((key) => key.id === id)
  if (known !== undefined) {
    return { key: known, isRevoked: await isRevokedByCommand(config, known) }
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

/** Whether a command revoked a key of the configuration. A problem of the ledger is printed once: here or later. */
async function isRevokedByCommand(config: Config, key: Key): Promise<boolean> {
  try {
    const revocations = await withLedger(openKeyStore, config, (store) => store.revocations([key.id]))
    return revocations.get(key.id)?.organization === key.organization.id
  } catch (error) {
    if (!(error instanceof LedgerProblem)) throw error
    if (!hasLimits(key)) printToStderr(error.message)
    return false
  }
}

/** What is used of the limits; undefined if none is set, or if the ledger cannot be read. */
async function figuresOf(config: Config, key: Key): Promise<AccountUsage | undefined> {
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
      if (warning !== undefined) printToStderr(warning)
      return await reader.read(account)
    })
  } catch (error) {
    if (!(error instanceof LedgerProblem)) throw error
    printToStderr(error.message)
    return undefined
  }
}

function hasLimits({ limits, organization }: Key): boolean {
  return hasLimit([limits, organization.limits])
}

/** What the request needs, or what is wrong with the flags. */
function needsOf(flags: Flags): Needs | string {
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

/** Undefined if no gateway runs with this data directory, or if it reports an error. */
async function restingTargets(dataDir: string): Promise<readonly Resting[] | undefined> {
  try {
    const rests = (await askControl(dataDir, { ask: 'rests' }))?.['rests']
    if (!isArray(rests)) return undefined
    return rests.flatMap((rest) => {
      if (!isObject(rest)) return []
      const [provider, model] = [stringOf(rest['provider']), stringOf(rest['model'])]
      return provider === undefined || model === undefined ? [] : [{ provider, model, words: restWords(rest) }]
    })
  } catch (error) {
    if (!(error instanceof ControlProblem)) throw error
    printToStderr(error.message)
    return undefined
  }
}

function restWords(rest: JsonObject): string {
  const why = `after ${stringOf(rest['reason']) ?? 'failures'}`
  if (rest['probing'] === true) return `is being probed ${why}`
  const seconds = Math.ceil((numberOf(rest['restMs']) ?? 0) / 1000)
  if (seconds === 0) return `gets one request at a time until it succeeds, ${why}`
  return `rests for another ${seconds} s ${why}${rest['asked'] === true ? ', as the provider requested' : ''}`
}

/** The request, and what the ledger and the running gateway report. */
interface Question extends Asking {
  /** The model as the caller would name it. */
  readonly name: string
  readonly needs: Needs
  /** Undefined if no running gateway reported them. */
  readonly resting: readonly Resting[] | undefined
  readonly figures: AccountUsage | undefined
}

/** The lines of the output. */
function explanation(catalog: Catalog, question: Question, nowMs: number): readonly string[] {
  const { key, name, figures } = question
  return [
    `key "${key.id}" of organisation "${key.organization.id}" asks for ${quoted(name)}`,
    ...unusable(question, nowMs),
    `automatic selection: ${key.auto}`,
    ...(name === AUTO ? catalog.autoCandidates : chain(catalog, name)).map((model) => permission(key, model)),
    ...outcome(catalog, question),
    limitLine(`organisation "${key.organization.id}"`, key.organization.limits, figures?.organization),
    limitLine(`key "${key.id}"`, key.limits, figures?.key),
    ...(figures === undefined && hasLimits(key)
      ? ['what is left of the limits is unknown: the ledger cannot be read']
      : []),
  ]
}

function unusable({ key, isRevoked }: Question, nowMs: number): readonly string[] {
  if (!isRevoked && isUsable(key, nowMs)) return []
  const state = isRevoked ? 'revoked' : key.disabled ? 'disabled' : 'expired'
  return [`the key is ${state}: 401 invalid_api_key`]
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
function outcome(catalog: Catalog, { key, name, needs, resting }: Question): readonly string[] {
  const model = catalog.lookup(name)
  const kind = typeof model === 'string' ? 'chat' : kindOf(model)
  try {
    const { candidates, excluded } = resolve(catalog, key, { name, kind, needs })
    return [
      'candidates, in order:',
      ...candidates.map((candidate, index) => candidateLine(candidate, index, resting ?? [])),
      ...excluded.map(exclusionLine),
      ...(resting === undefined ? ['which targets rest is unknown: no gateway runs with this data_dir'] : []),
    ]
  } catch (failure) {
    if (!(failure instanceof CallerError)) throw failure
    return [`rejected: ${failure.row.status} ${failure.code}: ${failure.message}`]
  }
}

function exclusionLine({ model, reason }: Exclusion): string {
  return `  excluded: ${model.name} ${reason}`
}

function candidateLine({ model, target }: Candidate, index: number, resting: readonly Resting[]): string {
  const rest = resting.find(({ provider, model: name }) => provider === target.provider && name === target.model)
  const cannot = [lacks(model, { ...noNeeds, images: true }), lacks(model, { ...noNeeds, tools: true })].filter(
    (lack) => lack !== undefined,
  )
  const remarks = kindOf(model) !== 'chat' || cannot.length === 0 ? '' : `; ${cannot.join(', ')}`
  const place = `  ${index + 1}. ${model.name} at ${target.provider} (${target.model})`
  return `${place}; ${priceText(model.price)}${remarks}${rest === undefined ? '' : `; ${rest.words}`}`
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
