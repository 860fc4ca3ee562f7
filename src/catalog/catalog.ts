/** Which models exist and who may use them: the catalog, made once a configuration and never changed. */

import type { Limits } from '../core/limits.ts'
import type { Price } from '../core/money.ts'
import { judge, type Verdict } from '../core/permission.ts'

export type Support = 'tools' | 'images' | 'image_generation'
export type Ttl = '5m' | '1h'
export type AutoSetting = 'off' | 'available' | 'mandatory'
/** Which endpoints a model answers: the three chat dialects, or the image endpoints. */
export type ModelKind = 'chat' | 'image'

/** The name that asks for automatic selection; no model may carry it. */
export const AUTO = 'auto'

export interface TargetRef {
  readonly provider: string
  /** The provider's own name of the model. */
  readonly model: string
}

/** A target as the key of a map. No name of a provider holds a slash. */
export function targetKey({ provider, model }: TargetRef): string {
  return `${provider}/${model}`
}

export interface Model {
  /** The public name: printable ASCII without spaces, so that it can stand in a header. */
  readonly name: string
  readonly aliases: readonly string[]
  readonly targets: readonly TargetRef[]
  /** Public names of other models. */
  readonly fallbacks: readonly string[]
  readonly price: Price | undefined
  readonly contextWindow: number | undefined
  readonly maxOutputTokens: number | undefined
  readonly defaultOutputTokens: number
  readonly supports: ReadonlySet<Support>
  readonly promptCache: { readonly key: boolean; readonly explicit: boolean; readonly ttls: ReadonlySet<Ttl> }
}

export interface Rule {
  readonly effect: 'allow' | 'deny'
  /** Globs over public names. */
  readonly models: readonly string[]
  /** Globs over key ids; absent = all keys. */
  readonly keys: readonly string[] | undefined
}

export interface Organization {
  readonly id: string
  /** Globs over public names; absent = all. */
  readonly models: readonly string[] | undefined
  /** The first that matches decides; none = allowed. */
  readonly rules: readonly Rule[]
  readonly auto: AutoSetting
  readonly limits: Limits
}

export interface Key {
  readonly id: string
  readonly organization: Organization
  readonly models: readonly string[] | undefined
  /** The key's own setting, already narrowed by its organisation's. */
  readonly auto: AutoSetting
  readonly limits: Limits
  readonly expiresAtMs: number | undefined
  readonly disabled: boolean
}

/** A key and the hash that its bearer's token must have: 64 lower-case hex digits of SHA-256. */
export interface Credential {
  readonly sha256: string
  readonly key: Key
}

/** What a catalog is made of: plain data, of which the configuration is one. */
export interface CatalogData {
  readonly ownedBy: string
  readonly models: readonly ModelData[]
  readonly organizations: readonly OrganizationData[]
  readonly auto: { readonly candidates: readonly string[] }
}

export interface ModelData {
  readonly name: string
  readonly aliases: readonly string[]
  readonly targets: readonly TargetRef[]
  readonly fallbacks: readonly string[]
  readonly price?: Price | undefined
  readonly contextWindow?: number | undefined
  readonly maxOutputTokens?: number | undefined
  readonly defaultOutputTokens: number
  readonly supports: readonly Support[]
  readonly promptCache: { readonly key: boolean; readonly explicit: boolean; readonly ttls: readonly Ttl[] }
}

export interface OrganizationData {
  readonly id: string
  readonly models?: readonly string[] | undefined
  readonly rules: readonly {
    readonly effect: 'allow' | 'deny'
    readonly models: readonly string[]
    readonly keys?: readonly string[] | undefined
  }[]
  readonly auto: AutoSetting
  readonly limits: Limits
  readonly keys: readonly KeyData[]
}

export interface KeyData {
  readonly id: string
  readonly sha256: string
  readonly models?: readonly string[] | undefined
  readonly auto: AutoSetting
  readonly limits: Limits
  readonly expiresAtMs?: number | undefined
  readonly disabled: boolean
}

/** How a name was found: `ambiguous` is an alias that two models carry, of which none is guessed. */
export type Lookup = Model | 'unknown' | 'ambiguous'

/**
 * The verdict of the organisation's and the key's lists, or what a spend limit needs and the model lacks: `price`, or, for a strict spend
 * limit, `output limit`: the model has no `max_output_tokens`.
 */
export type Access = Verdict | { readonly allowed: false; readonly by: 'price' | 'output limit' }

export class Catalog {
  private readonly byName = new Map<string, Model>()
  private readonly byAlias = new Map<string, Model | 'ambiguous'>()
  private readonly organizationById = new Map<string, Organization>()
  /** The models of each key, in the order of the configuration; filled at a key's first request and dropped with the key. */
  private readonly allowedOf = new WeakMap<Key, ReadonlySet<Model>>()

  private constructor(
    /** The `owned_by` of every item of the model list. */
    readonly ownedBy: string,
    /** In the order of the configuration. */
    readonly models: readonly Model[],
    readonly organizations: readonly Organization[],
    /** The keys of the configuration; `KeyRing` finds them. */
    readonly credentials: readonly Credential[],
    /** The candidates of `auto`, in order. */
    readonly autoCandidates: readonly Model[],
  ) {
    for (const model of models) this.byName.set(model.name, model)
    for (const model of models) {
      for (const alias of model.aliases) this.byAlias.set(alias, this.byAlias.has(alias) ? 'ambiguous' : model)
    }
    for (const organization of organizations) this.organizationById.set(organization.id, organization)
  }

  /** Takes data that the configuration has checked: unique names, references that exist. A name that does not exist is left out. */
  static from(data: CatalogData): Catalog {
    const models = data.models.map(modelOf)
    const credentials: Credential[] = []
    const organizations = data.organizations.map((item) => {
      const organization = organizationOf(item)
      for (const key of item.keys) credentials.push({ sha256: key.sha256, key: keyOf(organization, key) })
      return organization
    })
    const candidates = data.auto.candidates.flatMap((name) => models.filter((model) => model.name === name))
    return new Catalog(data.ownedBy, models, organizations, credentials, candidates)
  }

  /** A name as a caller wrote it: first as a public name, then as an alias. */
  lookup(name: string): Lookup {
    return this.byName.get(name) ?? this.byAlias.get(name) ?? 'unknown'
  }

  /** A model by its public name alone. */
  model(name: string): Model | undefined {
    return this.byName.get(name)
  }

  organization(id: string): Organization | undefined {
    return this.organizationById.get(id)
  }

  /** True if the organisation's models, its rules and the key's models all allow it, and a spend limit can tell what it may cost. */
  may(key: Key, model: Model): boolean {
    return this.allowed(key).has(model)
  }

  /** Every model that the key may use, in the order of the configuration. */
  allowed(key: Key): ReadonlySet<Model> {
    let allowed = this.allowedOf.get(key)
    if (allowed === undefined) {
      allowed = new Set(this.models.filter((model) => access(key, model).allowed))
      this.allowedOf.set(key, allowed)
    }
    return allowed
  }
}

/** What allows or denies a model to a key, and by which rule. Not for every request: `Catalog.may` remembers it. */
export function access(key: Key, model: Model): Access {
  const verdict = judge(key.organization, key, model.name)
  const limited = key.limits.spend !== undefined || key.organization.limits.spend !== undefined
  if (!verdict.allowed || !limited) return verdict
  if (model.price === undefined) return { allowed: false, by: 'price' }
  const isOpen = kindOf(model) === 'chat' && model.maxOutputTokens === undefined && (model.price.output ?? 0) > 0
  return isOpen && isStrict(key) ? { allowed: false, by: 'output limit' } : verdict
}

/** True if a spend limit of the key or of its organisation holds the worst case from the start. */
export function isStrict({ limits, organization }: Key): boolean {
  return limits.spend?.strict === true || organization.limits.spend?.strict === true
}

export function kindOf(model: Model): ModelKind {
  return model.supports.has('image_generation') ? 'image' : 'chat'
}

function modelOf(data: ModelData): Model {
  return {
    name: data.name,
    aliases: data.aliases,
    targets: data.targets,
    fallbacks: data.fallbacks,
    price: data.price,
    contextWindow: data.contextWindow,
    maxOutputTokens: data.maxOutputTokens,
    defaultOutputTokens: data.defaultOutputTokens,
    supports: new Set(data.supports),
    promptCache: { ...data.promptCache, ttls: new Set(data.promptCache.ttls) },
  }
}

function organizationOf(data: OrganizationData): Organization {
  return {
    id: data.id,
    models: data.models,
    rules: data.rules.map((rule) => ({ effect: rule.effect, models: rule.models, keys: rule.keys })),
    auto: data.auto,
    limits: data.limits,
  }
}

/** A key of an organisation, also one that is not in the configuration but was made on the command line. */
export function keyOf(organization: Organization, data: Omit<KeyData, 'sha256'>): Key {
  return {
    id: data.id,
    organization,
    models: data.models,
    auto: data.auto,
    limits: data.limits,
    expiresAtMs: data.expiresAtMs,
    disabled: data.disabled,
  }
}
