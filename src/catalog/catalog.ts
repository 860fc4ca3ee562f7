/** Which models exist and who may use them: the catalog, made once a configuration and never changed. */

import type { ModelConfig, Support, Ttl } from '../core/model-config.ts'
import type { KeyConfig, OrganizationConfig } from '../core/organization-config.ts'
import { judge, type Verdict } from '../core/permission.ts'

/** Which endpoints a model answers: the three chat dialects, or the image endpoints. */
export type ModelKind = 'chat' | 'image'

/** The name that asks for automatic selection; no model may carry it. */
export const AUTO = 'auto'

/** A model as the configuration has it, with sets for what every request looks up. */
export interface Model extends Omit<ModelConfig, 'supports' | 'promptCache'> {
  readonly supports: ReadonlySet<Support>
  readonly promptCache: { readonly key: boolean; readonly explicit: boolean; readonly ttls: ReadonlySet<Ttl> }
}

type Organization = Omit<OrganizationConfig, 'keys'>

/** A key with its organisation, without its secret. */
export interface Key extends Omit<KeyConfig, 'sha256'> {
  readonly organization: Organization
}

/** A key and the hash that its bearer's token must have: 64 lower-case hex digits of SHA-256. */
export interface Credential {
  readonly sha256: string
  readonly key: Key
}

/** The part of the configuration that a catalog is built from. */
export interface CatalogConfig {
  readonly ownedBy: string
  readonly models: readonly ModelConfig[]
  readonly organizations: readonly OrganizationConfig[]
  readonly auto: { readonly candidates: readonly string[] }
}

/** How a name was found: `ambiguous` is an alias that two models carry, of which none is guessed. */
type Lookup = Model | 'unknown' | 'ambiguous'

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
  static from(data: CatalogConfig): Catalog {
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

function modelOf(config: ModelConfig): Model {
  return {
    ...config,
    supports: new Set(config.supports),
    promptCache: { ...config.promptCache, ttls: new Set(config.promptCache.ttls) },
  }
}

function organizationOf({ keys: _, ...organization }: OrganizationConfig): Organization {
  return organization
}

/** A key of an organisation: of the configuration, or created on the command line. */
export function keyOf(organization: Organization, key: Omit<KeyConfig, 'sha256'>): Key {
  return {
    id: key.id,
    organization,
    models: key.models,
    auto: key.auto,
    limits: key.limits,
    expiresAtMs: key.expiresAtMs,
    disabled: key.disabled,
  }
}
