/** The catalog: the models, organisations and keys of one configuration. Immutable. */

import type { AlertsConfig } from '../core/alerts-config.ts'
import { type BudgetConfig, matchesKey, matchesModel } from '../core/budget-config.ts'
import { type Compatibility, type CompatibilitySettings, compatibilityOf } from '../core/compatibility.ts'
import { takesDocuments } from '../core/document-support.ts'
import type { Limits } from '../core/limits.ts'
import { type ModelConfig, prefixOf, type Support, sentModel, type TargetRef, type Ttl } from '../core/model-config.ts'
import type { KeyConfig, OrganizationConfig } from '../core/organization-config.ts'
import { judge, type Verdict } from '../core/permission.ts'
import type { ProviderDialect } from '../core/provider-dialect.ts'
import { type TierApi, tierApiOf } from '../core/service-tier.ts'
import { takesJsonMode, takesSchema } from '../core/structured-output.ts'

/** Which endpoints serve a model: the three chat dialects, the image endpoints, or the embeddings endpoint. */
export type ModelKind = 'chat' | 'image' | 'embedding'

/** The model name that requests automatic selection; no model may have it. */
export const AUTO = 'auto'

/** A model as the configuration has it, with sets for what every request looks up. */
export interface Model extends Omit<ModelConfig, 'supports' | 'promptCache'> {
  /** What the caller wrote, if `name` is a pattern. Only callers and the log see it: metrics and usage are bounded. */
  readonly asked?: string | undefined
  readonly supports: ReadonlySet<Support>
  readonly promptCache: { readonly key: boolean; readonly explicit: boolean; readonly ttls: ReadonlySet<Ttl> }
}

interface Organization extends Omit<OrganizationConfig, 'keys' | 'compatibility'> {
  readonly compatibility: Compatibility
  /** Shares of its spend limits, and of those of its keys, that are reported; absent if there are none. */
  readonly alertShares: readonly number[] | undefined
}

/** What the configuration sets for every organisation. */
type ForAll = Pick<Organization, 'alertShares' | 'compatibility'>

/** A key with its organisation, without its secret. */
export interface Key extends Omit<KeyConfig, 'sha256' | 'compatibility'> {
  readonly compatibility: Compatibility
  readonly organization: Organization
}

/** A key and the SHA-256 hash of its token, as 64 lower-case hex digits. */
export interface HashedKey {
  readonly sha256: string
  readonly key: Key
}

/** The part of the configuration that a catalog is built from. */
export interface CatalogConfig {
  readonly ownedBy: string
  readonly models: readonly ModelConfig[]
  readonly organizations: readonly OrganizationConfig[]
  readonly auto: { readonly candidates: readonly string[] }
  /** Absent: none of them has service tiers. */
  readonly providers?: readonly { readonly name: string; readonly dialect: ProviderDialect; readonly baseUrl: string }[]
  readonly alerts?: Pick<AlertsConfig, 'spend'> | undefined
  readonly compatibility?: CompatibilitySettings
}

/** The public name that callers see. */
export function publicName({ name, asked }: Model): string {
  return asked ?? name
}

/** The result of a look-up by name. `ambiguous`: an alias of several models. */
type Lookup = Model | 'unknown' | 'ambiguous'

/**
 * Whether a key may use a model. Denied by the lists of the organisation and the key, or because the model lacks what a
 * spend limit needs: a `price` or, for a strict limit, an `output limit` (`max_output_tokens`).
 */
export type Access = Verdict | { readonly allowed: false; readonly by: 'price' | 'output limit' }

/** The longest public name, as in the configuration. */
const NAME_MAX = 128
/** Names that matched a pattern and are kept. */
const MATCHED_MAX = 1000
/** What a caller may write for the `*`: it becomes part of an address, so no path leads upwards. */
const MATCHED = /^[A-Za-z0-9][\w.:@+-]*(?:\/[A-Za-z0-9][\w.:@+-]*)*$/

export class Catalog {
  private readonly byName = new Map<string, Model>()
  private readonly byAlias = new Map<string, Model | 'ambiguous'>()
  /** The service tiers that any model has a price for, and their aliases. */
  readonly tierNames: ReadonlySet<string>
  /** Models whose names are patterns, the longest first. */
  private readonly patterns: readonly Model[]
  /** The models of names that matched a pattern, most of which are asked for again. */
  private readonly matched = new Map<string, Model>()
  private readonly organizationById = new Map<string, Organization>()
  /**
   * The models that each key may use, in the order of the configuration. Filled at a key's first request; dropped with
   * the key.
   */
  private readonly allowedOf = new WeakMap<Key, ReadonlySet<Model>>()

  private constructor(
    private readonly forAll: ForAll,
    /** The `owned_by` of every item of the model list. */
    readonly ownedBy: string,
    /** In the order of the configuration. */
    readonly models: readonly Model[],
    readonly organizations: readonly Organization[],
    /** The keys of the configuration; `KeyRing` finds them. */
    readonly credentials: readonly HashedKey[],
    /** The candidates of `auto`, in order. */
    readonly autoCandidates: readonly Model[],
    private readonly tierApis: ReadonlyMap<string, TierApi>,
    private readonly providerDialects: ReadonlyMap<string, ProviderDialect>,
  ) {
    for (const model of models) this.byName.set(model.name, model)
    for (const model of models) {
      for (const alias of model.aliases) this.byAlias.set(alias, this.byAlias.has(alias) ? 'ambiguous' : model)
    }
    this.patterns = models
      .filter(({ name }) => prefixOf(name) !== undefined)
      .sort((one, other) => other.name.length - one.name.length)
    for (const organization of organizations) this.organizationById.set(organization.id, organization)
    this.tierNames = new Set(models.flatMap(({ price }) => price?.tiers?.flatMap(({ names }) => names) ?? []))
  }

  /** Expects a checked configuration: names are unique and references exist. A name that does not exist is left out. */
  static from(data: CatalogConfig): Catalog {
    const models = data.models.map(modelOf)
    const credentials: HashedKey[] = []
    const { spend = [] } = data.alerts ?? {}
    const forAll: ForAll = {
      alertShares: spend.length === 0 ? undefined : spend,
      compatibility: compatibilityOf(data.compatibility),
    }
    const organizations = data.organizations.map((item) => {
      const organization = organizationOf(item, forAll)
      for (const key of item.keys) credentials.push({ sha256: key.sha256, key: keyOf(organization, key) })
      return organization
    })
    const candidates = data.auto.candidates.flatMap((name) => models.filter((model) => model.name === name))
    const tierApis = new Map<string, TierApi>()
    for (const provider of data.providers ?? []) {
      const api = tierApiOf(provider.dialect, provider.baseUrl)
      if (api !== undefined) tierApis.set(provider.name, api)
    }
    const dialects = new Map(data.providers?.map(({ name, dialect }) => [name, dialect]))
    return new Catalog(forAll, data.ownedBy, models, organizations, credentials, candidates, tierApis, dialects)
  }

  /** The service tiers that the API of a provider has; undefined if it has none. */
  tierApi(provider: string): TierApi | undefined {
    return this.tierApis.get(provider)
  }

  /** Whether a target of a model follows a schema for its answer, or answers in JSON by any. */
  followsSchema({ supports }: Model, target: TargetRef, anyJson = false): boolean {
    const dialect = this.providerDialects.get(target.provider)
    const takes = anyJson ? takesJsonMode : takesSchema
    return supports.has('structured_output') || (dialect !== undefined && takes(dialect, sentModel(target)))
  }

  /** Whether a target of a model takes documents. */
  takesDocuments({ supports }: Model, target: TargetRef): boolean {
    const dialect = this.providerDialects.get(target.provider)
    return supports.has('documents') || (dialect !== undefined && takesDocuments(dialect, sentModel(target)))
  }

  /** Whether any model is of this kind. */
  has(kind: ModelKind): boolean {
    return this.models.some((model) => kindOf(model) === kind)
  }

  /** Finds a model by the name that a caller wrote: first public names, then aliases, then the longest pattern. */
  lookup(name: string): Lookup {
    const known = this.byName.get(name)
    const hasPatterns = this.patterns.length > 0
    // A pattern is no model itself.
    if (known !== undefined) return hasPatterns && prefixOf(name) !== undefined ? 'unknown' : known
    return this.byAlias.get(name) ?? (hasPatterns ? this.match(name) : 'unknown')
  }

  private match(name: string): Lookup {
    const known = this.matched.get(name)
    if (known !== undefined) return known
    const model = this.made(name)
    if (model === undefined) return 'unknown'
    if (this.matched.size >= MATCHED_MAX) this.matched.clear()
    this.matched.set(name, model)
    return model
  }

  /** The model that the longest pattern makes of a name; undefined if the name fits none. */
  private made(name: string): Model | undefined {
    const pattern = this.patterns.find((model) => name.startsWith(prefixOf(model.name) ?? name))
    const rest = pattern && name.slice(pattern.name.length - 1)
    if (pattern === undefined || rest === undefined || name.length > NAME_MAX || !isRest(rest)) return undefined
    const targets = pattern.targets.map((target) => ({ ...target, concrete: `${prefixOf(target.model)}${rest}` }))
    return { ...pattern, targets, asked: name }
  }

  /** The model of the pattern with `rest` for its `*`, if a request for that name is one for this pattern. */
  through(pattern: Model, rest: string): Model | undefined {
    const name = `${prefixOf(pattern.name)}${rest}`
    if (name === AUTO || this.byName.has(name) || this.byAlias.has(name)) return undefined
    const model = this.made(name)
    return model?.name === pattern.name ? model : undefined
  }

  /** Finds a model by its public name alone. */
  model(name: string): Model | undefined {
    return this.byName.get(name)
  }

  organization(id: string): Organization | undefined {
    return this.organizationById.get(id)
  }

  /** An organisation that is not of the configuration, as requests use it. */
  owner(organization: OrganizationConfig): Organization {
    return organizationOf(organization, this.forAll)
  }

  /** Whether the lists of the organisation and the key allow the model, and every spend limit can price it. */
  may(key: Key, model: Model): boolean {
    return model.asked === undefined ? this.allowed(key).has(model) : access(key, model).allowed
  }

  /** Every model that the key may use, in the order of the configuration. */
  allowed(key: Key): ReadonlySet<Model> {
    return this.allowedOf.get(key) ?? this.findAllowed(key)
  }

  private findAllowed(key: Key): ReadonlySet<Model> {
    const allowed = new Set(this.models.filter((model) => access(key, model).allowed))
    this.allowedOf.set(key, allowed)
    return allowed
  }
}

/** Whether a text may stand for the `*` of a pattern. */
export function isRest(text: string): boolean {
  return text.length <= NAME_MAX && MATCHED.test(text)
}

/**
 * Whether a key may use a model, and which rule decides. Too slow for each request, for which `may` caches the result.
 */
export function access(key: Key, model: Model): Access {
  const verdict = judge(key.organization, key, publicName(model))
  if (!verdict.allowed || !isSpendLimitedFor(key, publicName(model))) return verdict
  if (model.price === undefined) return { allowed: false, by: 'price' }
  const isOpen = kindOf(model) === 'chat' && model.maxOutputTokens === undefined && (model.price.output ?? 0) > 0
  return isOpen && isStrict(key) ? { allowed: false, by: 'output limit' } : verdict
}

/** Whether a spend limit holds for a key, if only that of a budget which counts a part of its requests. */
export function isSpendLimited(key: Key): boolean {
  const { limits, organization } = key
  return limits.spend !== undefined || organization.limits.spend !== undefined || budgetsOfKey(key).some(hasSpend)
}

function isSpendLimitedFor(key: Key, model: string): boolean {
  const { limits, organization } = key
  const isOfModel = (budget: BudgetConfig) => hasSpend(budget) && matchesModel(budget, model)
  return limits.spend !== undefined || organization.limits.spend !== undefined || budgetsOfKey(key).some(isOfModel)
}

/** Whether a spend limit reserves the maximum cost of a request from the start: the key's, or one as above. */
export function isStrict(key: Key): boolean {
  const known = strictKeys.get(key)
  if (known !== undefined) return known
  const { limits, organization } = key
  const isOwn = limits.spend?.strict === true || organization.limits.spend?.strict === true
  const isOf = (budget: BudgetConfig) => limitsWithin(budget).some(({ spend }) => spend?.strict === true)
  const strict = isOwn || budgetsOfKey(key).some(isOf)
  strictKeys.set(key, strict)
  return strict
}

/** Every request asks six times, and a budget may have limits for a hundred values. */
const strictKeys = new WeakMap<Key, boolean>()

function hasSpend(budget: BudgetConfig): boolean {
  return limitsWithin(budget).some(({ spend }) => spend !== undefined)
}

/** All limits that a budget may have for some value. */
function limitsWithin({ limits, except }: BudgetConfig): readonly Limits[] {
  return [limits, ...except.values()]
}

const NO_BUDGETS: readonly BudgetConfig[] = []
const budgetsOfKeys = new WeakMap<Key, readonly BudgetConfig[]>()

/** The budgets that may count requests of a key, whatever their tags and models are. */
export function budgetsOfKey(key: Key): readonly BudgetConfig[] {
  const { budgets } = key.organization
  if (budgets === undefined) return NO_BUDGETS
  return budgetsOfKeys.getOrInsertComputed(key, () => budgets.filter((budget) => matchesKey(budget, key.id)))
}

export function kindOf(model: Model): ModelKind {
  if (model.supports.has('image_generation')) return 'image'
  return model.supports.has('embeddings') ? 'embedding' : 'chat'
}

function modelOf(config: ModelConfig): Model {
  return {
    ...config,
    supports: new Set(config.supports),
    promptCache: { ...config.promptCache, ttls: new Set(config.promptCache.ttls) },
  }
}

function organizationOf({ keys: _, compatibility, ...organization }: OrganizationConfig, forAll: ForAll): Organization {
  const { alertShares } = forAll
  return { ...organization, alertShares, compatibility: compatibilityOf(compatibility, forAll.compatibility) }
}

/** A key of an organisation: of the configuration, or created on the command line. */
export function keyOf(organization: Organization, key: Omit<KeyConfig, 'sha256'>): Key {
  return {
    id: key.id,
    organization,
    models: key.models,
    auto: key.auto,
    limits: key.limits,
    compatibility: compatibilityOf(key.compatibility, organization.compatibility),
    tags: key.tags,
    fixedTags: key.fixedTags,
    priority: key.priority,
    maxWaitMs: key.maxWaitMs,
    expiresAtMs: key.expiresAtMs,
    disabled: key.disabled,
  }
}
