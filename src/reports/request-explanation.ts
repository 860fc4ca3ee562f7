/**
 * What would happen to a request of a key for a model: for `weir explain` and `GET /api/explain`. Reads the
 * configuration, and what is left of the limits from the ledger.
 */

import { tagsReader } from '../assembly/edge-parts.ts'
import { openAccountUsageReader, openKeyStore } from '../assembly/open-ledger.ts'
import { targetsOf } from '../assembly/targets.ts'
import { type Needs, noNeeds } from '../catalog/capability.ts'
import { AUTO, access, Catalog, type Key, kindOf, type Model, type ModelKind, publicName } from '../catalog/catalog.ts'
import { type Candidate, type Resolution, resolve } from '../catalog/resolve.ts'
import type { Config } from '../config/config.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { CallerError } from '../core/caller-error.ts'
import { amountOf, configuredName, hasLimit, type Limit, type Limits, limitTable } from '../core/limits.ts'
import { sentModel } from '../core/model-config.ts'
import { ConversationKey } from '../gateway/affinity.ts'
import { accountOf, type LimitOverrides } from '../gateway/request-budgets.ts'
import { spread } from '../gateway/spread.ts'
import { refusedKeyError } from '../http/credentials.ts'
import { TAGS_HEADER } from '../http/tags-reader.ts'
import { limitsWith, ownLimitsWith } from '../keys/budget-overrides.ts'
import { type BudgetRaise, budgetChangesOf, budgetsRecordId, inForceAt } from '../keys/budget-record.ts'
import { isKeyForId, KEY_FOR_ID } from '../keys/key-format.ts'
import { storedKey } from '../keys/key-record.ts'
import { isUsable } from '../keys/key-ring.ts'
import { storedOrganization } from '../keys/organization-record.ts'
import { type Account, counterName } from '../ledger/ledger.ts'
import { fullError, unreachedError } from '../ledger/refusal.ts'
import { type AccountUsageReader, remainingLimits } from '../ledger/remaining.ts'
import type { AccountUsage, CounterUsage, ScopeUsage } from '../ledger/reservation-store.ts'
import type { Explanation } from './explanation-shape.ts'
import {
  capacityWords,
  type Explained,
  explanationLines,
  type LearnedField,
  learnedWords,
  maxWaitMsOf,
  priceText,
  type Resting,
  type RoomNow,
  reasonWords,
  restWords,
  weightOf,
} from './explanation-words.ts'
import { LedgerProblem, withLedger } from './ledger-part.ts'
import type { Given } from './parameters.ts'
import { type Preview, previewOf } from './request-preview.ts'
import { capacityAt } from './room-preview.ts'

interface ExplanationRequest {
  /** The id of the key. */
  readonly key: string
  /** The model as the caller would name it. */
  readonly model: string
  readonly needs: Needs
  /** The `prompt_cache_key` of a conversation, which decides the order of targets with `spread: weighted`. */
  readonly conversation?: string | undefined
  /** Its `service_tier`. */
  readonly tier?: string | undefined
  /** Its tags, as the header names them. */
  readonly tags?: string | undefined
  /** Undefined if no running gateway reported them. */
  readonly resting: readonly Resting[] | undefined
  /** What the running gateway has learned of targets; empty if none runs. */
  readonly learned?: readonly LearnedField[] | undefined
  readonly room?: RoomNow | undefined
  /** Whether the ledger of the running gateway answers. Undefined if none reported it. */
  readonly isLedgerUp?: boolean | undefined
}

/** An unknown key, or one that cannot be used at all. `message` is one line for the operator. */
export class UnknownKey extends Error {
  override readonly name = 'UnknownKey'
}

/** Throws `UnknownKey`, or `LedgerProblem` if a key that is not in the configuration cannot be looked up. */
export async function explainRequest(config: Config, request: ExplanationRequest): Promise<Explanation> {
  const catalog = Catalog.from(config)
  const remarks = new Set<string>()
  const found = await findKey(catalog, config, request.key, remarks)
  if (typeof found === 'string') throw new UnknownKey(found)
  const { model: name, needs, resting, learned = [], conversation, tier, isLedgerUp, room } = request
  const { tags, refused } = tagsOf(config, found.key, request.tags)
  const { capacity } = config
  const plain = { ...found, name, needs, resting, learned, conversation, tier, tags, capacity, room }
  const overrides = await overridesFor(config, found.key, remarks)
  const asked = { ...plain, account: accountOfAll(catalog, plain, overrides), overrides }
  const state = stateOf(found, Date.now())
  const { figures, now } = await withFigures(config, asked.account, remarks, async (figures, reader, isRead) => {
    const away = (isLedgerUp ?? (isRead || config.ledger.kind === 'embedded')) ? undefined : errorWithout(config)
    return {
      figures,
      now:
        state === 'active' ? (refused ?? (await previewed(catalog, config, asked, reader, away))) : refusedKeyError(),
    }
  })
  return explanationOf(catalog, { ...asked, state, figures, now }, [...remarks])
}

/** The owners of the limits of a request with any of its candidates, those of the first one first. */
function accountOfAll(
  catalog: Catalog,
  request: Pick<ExplainedRequest, 'key' | 'name' | 'needs' | 'conversation' | 'tags'>,
  overrides: LimitOverrides | undefined,
): Account {
  const { key, tags } = request
  const models = new Set(resolutionOf(catalog, request).candidates.map(({ model }) => model))
  const accounts = Array.from(models, (model) => accountOf(key, tags, model, overrides))
  const budgets = new Map(accounts.flatMap((one) => one.budgets ?? []).map((one) => [counterName(one), one]))
  const account = accounts.find((one) => one.budgets !== undefined) ?? accountOf(key, tags, undefined, overrides)
  return budgets.size === 0 ? account : { ...account, budgets: [...budgets.values()] }
}

/** What callers get while the ledger is away; undefined if they are served all the same. */
function errorWithout({ ledger, ledgerUnreachable }: Config): CallerError | undefined {
  if (ledger.kind === 'embedded') return fullError()
  return ledgerUnreachable === 'refuse' ? unreachedError() : undefined
}

/** What the request would get: it takes the way of a real one, to the endpoint of its model's kind. */
function previewed(
  catalog: Catalog,
  config: Config,
  request: Omit<ExplainedRequest, 'state' | 'figures' | 'now' | 'learned'>,
  reader: AccountUsageReader | undefined,
  away: CallerError | undefined,
): Promise<Preview> {
  const { key, name, needs, conversation, tier, tags, overrides, capacity, room, resting = [] } = request
  const limited = capacity && room && capacityAt(capacity, targetsOf(config), room.left)
  const rests = resting.map((rest) => ({ ...rest, rests: 1 }))
  return previewOf(
    { catalog, routing: config.routing, rests, reader, away, overrides, capacity: limited },
    { key, name, kind: kindNamed(catalog, name), needs, conversation, tier, tags },
  )
}

/** What the explanation is made of. */
interface ExplainedRequest
  extends FoundKey,
    Pick<ExplanationRequest, 'needs' | 'tier'>,
    Omit<Explained, 'models' | 'candidates' | 'excluded' | 'asked' | 'raises'> {
  /** As in `core/tags.ts`, with those of the key. */
  readonly tags: string
  readonly overrides: HeldOverrides | undefined
}

function explanationOf(catalog: Catalog, request: ExplainedRequest, remarks: string[]): Explanation {
  const { key, name, state, figures, resting, learned, now, tier, needs, account, overrides } = request
  const asked = { tier, inputTokens: needs.inputTokens }
  const { organization } = key
  const { candidates, excluded } = resolutionOf(catalog, request)
  const models = name === AUTO ? catalog.autoCandidates : chain(catalog, name)
  return {
    key: key.id,
    organization: organization.id,
    model: name,
    key_state: state,
    auto: key.auto,
    compatibility: { ...key.compatibility },
    permissions: models.map((model) => {
      const verdict = access(key, model)
      return { model: publicName(model), allowed: verdict.allowed, reason: reasonWords(key, verdict) }
    }),
    candidates: candidates.map(({ model, target }) => ({
      ...{ model: publicName(model), provider: target.provider, target: sentModel(target) },
      price: priceText(model.price, asked),
      weight: weightOf({ model, target }) ?? null,
      learned: [...learnedWords(target, learned)],
      limits: [...capacityWords(target, request)],
      rest: restWords(target, resting ?? []) ?? null,
    })),
    excluded: excluded.map(({ model, reason: why }) => ({ model: model.name, reason: why })),
    asks: isCandidate(now) ? { provider: now.target.provider, target: now.target.model } : null,
    waits_ms: now === 'waits' && request.capacity ? maxWaitMsOf(key, request.capacity) : null,
    rejected: now instanceof CallerError ? rejectionOf(now) : null,
    limits: [
      ...explainedLimits(null, account.organizationLimits, figures?.organization),
      ...explainedLimits(key.id, key.limits, figures?.key),
      ...(account.budgets ?? []).flatMap(({ name, value, limits }, i) => {
        const found = figures?.budgets?.[i]
        const counter = { budget: name, value: value === '' ? null : value }
        return explainedLimits(null, limits, found?.usage, found?.endsMs).map((row) => ({ ...row, ...counter }))
      }),
    ],
    remarks,
    lines: [...explanationLines({ ...request, asked, models, candidates, excluded, raises: overrides?.raises ?? [] })],
  }
}

function isCandidate(now: Preview): now is Candidate {
  return now !== 'waits' && !(now instanceof CallerError)
}

function rejectionOf(error: CallerError): Explanation['rejected'] {
  const { status, code, message } = error
  return { status, code: String(code), type: error.type, message }
}

function explainedLimits(
  key: string | null,
  limits: Limits,
  figures: ScopeUsage | undefined,
  endsMs?: CounterUsage['endsMs'],
): Explanation['limits'] {
  const row = (limit: Limit, amount: number) => ({ key, limit: configuredName(limit), unit: limit.unit, amount })
  if (figures === undefined) {
    return limitTable.flatMap((limit) => {
      const amount = amountOf(limits, limit)
      return amount === undefined ? [] : [{ ...row(limit, amount), left: null, renews_at: null }]
    })
  }
  return remainingLimits(limits, figures).map(({ limit, most, left, renewsAtMs: ofOwner }) => {
    // The windows of a counter are those of a time zone.
    const ms = ofOwner !== undefined && endsMs !== undefined && limit.kind === 'budget' ? endsMs[limit.name] : ofOwner
    return { ...row(limit, most), left, renews_at: ms === undefined ? null : new Date(ms).toISOString() }
  })
}

/** The tags of a request whose header names these, and the error that the caller gets because of them. */
function tagsOf(config: Config, key: Key, given = ''): { readonly tags: string; readonly refused?: CallerError } {
  const reader = tagsReader(config)
  let tags = ''
  try {
    // As its bytes arrive.
    const header = Buffer.from(given)
      .toString('latin1')
      .replaceAll(/[\0\r\n]/g, ' ')
    const headers = new Headers(given === '' ? {} : { [TAGS_HEADER]: header })
    tags = reader?.read(headers, key, undefined).all ?? ''
    reader?.requireAll(tags)
    return { tags }
  } catch (error) {
    if (error instanceof CallerError) return { tags, refused: error }
    throw error
  }
}

interface HeldOverrides extends LimitOverrides {
  readonly raises: readonly BudgetRaise[]
}

/** The raises and resets that hold for the budgets of a key's organisation, and what it spent elsewhere. */
async function overridesFor(config: Config, key: Key, remarks: Set<string>): Promise<HeldOverrides | undefined> {
  const { id, budgets, limits } = key.organization
  if (budgets === undefined && limits.spend === undefined) return undefined
  return await orRemark<HeldOverrides>(remarks, async () => {
    const record = await withLedger(openKeyStore, config, (store) => store.get(budgetsRecordId(id)))
    const changes = inForceAt(budgetChangesOf(record), Date.now())
    return {
      raises: changes.raises,
      version: 0,
      limitsOf: (_, name, value, limits) => limitsWith(changes, { name, value }, limits, Date.now()),
      ownLimits: (_, limits) => ownLimitsWith(record, limits),
    }
  })
}

/** What is read of the ledger; undefined, and the reason is a remark, if it cannot be read. */
async function orRemark<T>(remarks: Set<string>, read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof LedgerProblem)) throw error
    remarks.add(error.message)
    return undefined
  }
}

interface FoundKey {
  readonly key: Key
  readonly isRevoked: boolean
}

/** The key with this id from the configuration or else the store; or a line that explains why it cannot be used. */
async function findKey(catalog: Catalog, config: Config, id: string, remarks: Set<string>): Promise<FoundKey | string> {
  const configured = catalog.credentials.map(({ key }) => key)
  const known = configured.find((key) => key.id === id)
  if (known !== undefined) {
    return { key: known, isRevoked: await isRevokedByCommand(config, known, remarks) }
  }
  const [record, others, organization] = await withLedger(openKeyStore, config, async (store) => {
    const found = id.includes(':') ? undefined : await store.get(id)
    const owner = found === undefined ? undefined : await store.organization(found.organization)
    return [found, found === undefined ? await store.someIds() : [], owner] as const
  })
  if (record === undefined) {
    if (isKeyForId(id)) return KEY_FOR_ID
    const ids = [...configured.map((key) => key.id), ...others]
    return `no key has the id ${quoted(id)}${didYouMean(id, ids)}`
  }
  const stored = organization === undefined ? undefined : catalog.owner(storedOrganization(organization))
  const owner = catalog.organization(record.organization) ?? stored
  if (owner === undefined) {
    const name = quoted(record.organization)
    return `key "${id}" is rejected: its organisation ${name} is not in the configuration, and no command made it`
  }
  return { key: storedKey(owner, record), isRevoked: record.revokedMs !== undefined }
}

/** Whether a command revoked a key of the configuration. */
async function isRevokedByCommand(config: Config, key: Key, remarks: Set<string>): Promise<boolean> {
  const revocations = await orRemark(remarks, () =>
    withLedger(openKeyStore, config, (store) => store.revocations([key.id])),
  )
  return revocations?.get(key.id)?.organization === key.organization.id
}

/**
 * Calls `use` with what is used of the limits, and a reader of the ledger; with neither if no limit is set, or if the
 * ledger cannot be read (`isRead` is false then).
 */
async function withFigures<Result extends object>(
  config: Config,
  account: Account,
  remarks: Set<string>,
  use: (figures: AccountUsage | undefined, reader: AccountUsageReader | undefined, isRead: boolean) => Promise<Result>,
): Promise<Result> {
  const { organizationLimits, keyLimits, budgets = [] } = account
  if (!hasLimit([organizationLimits, keyLimits, ...budgets.map(({ limits }) => limits)]))
    return await use(undefined, undefined, true)
  const read = () =>
    withLedger(openAccountUsageReader, config, async (reader) => {
      const warning = await reader.warning()
      if (warning !== undefined) remarks.add(warning)
      return await use(await reader.read(account), reader, true)
    })
  return (await orRemark(remarks, read)) ?? (await use(undefined, undefined, false))
}

/** What the request needs, or what is wrong with the flags. */
export function needsOf(flags: Given): Needs | string {
  const { images, tools, tokens, ttl } = flags
  const output = flags['output-tokens']
  if (tokens !== undefined && !/^\d{1,9}$/.test(String(tokens)))
    return `--tokens must be a whole number, not "${tokens}"`
  if (output !== undefined && !/^[1-9]\d{0,8}$/.test(String(output)))
    return `--output-tokens must be a whole number from 1, not "${output}"`
  if (ttl !== undefined && ttl !== '5m' && ttl !== '1h') return `--ttl must be 5m or 1h, not "${ttl}"`
  return {
    ...noNeeds,
    images: images === true,
    tools: tools === true,
    inputTokens: Number(tokens ?? 0),
    maxOutputTokens: output === undefined ? undefined : Number(output),
    cache: ttl !== undefined,
    isMarked: ttl !== undefined,
    ttls: ttl === undefined ? [] : [ttl],
  }
}

function stateOf({ key, isRevoked }: FoundKey, nowMs: number): Explanation['key_state'] {
  if (!isRevoked && isUsable(key, nowMs)) return 'active'
  return isRevoked ? 'revoked' : key.disabled ? 'disabled' : 'expired'
}

/** The model of that name and its fallbacks. */
function chain(catalog: Catalog, name: string): readonly Model[] {
  const model = catalog.lookup(name)
  if (typeof model === 'string') return []
  return [model, ...model.fallbacks.flatMap((other) => catalog.model(other) ?? [])]
}

/** The endpoint that a caller of the model uses. */
function kindNamed(catalog: Catalog, name: string): ModelKind {
  const model = catalog.lookup(name)
  return typeof model === 'string' ? 'chat' : kindOf(model)
}

/** The candidates that would be tried; none if the model cannot be used. */
function resolutionOf(
  catalog: Catalog,
  { key, name, needs, conversation }: Pick<ExplainedRequest, 'key' | 'name' | 'needs' | 'conversation'>,
): Resolution {
  try {
    const { candidates, excluded } = resolve(catalog, key, { name, kind: kindNamed(catalog, name), needs })
    if (conversation === undefined) return { candidates, excluded }
    const byCacheKey = ConversationKey.withCacheKey(key.organization.id, conversation)
    return { candidates: spread(candidates, { conversationWith: (model) => byCacheKey.of(model) }), excluded }
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    return { candidates: [], excluded: [] }
  }
}
