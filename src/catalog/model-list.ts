/** The body of `GET /v1/models`: the models that a key may use. */

import { prefixOf, type Support } from '../core/model-config.ts'
import { AUTO, type Catalog, type Key, type Model, publicName } from './catalog.ts'

interface ModelItem {
  readonly id: string
  readonly object: 'model'
  /** Always 0: the configuration has no release dates, and SDKs require a number. */
  readonly created: 0
  readonly owned_by: string
  readonly display_name?: string
  readonly context_window?: number
  readonly max_output_tokens?: number
  readonly supports?: readonly Support[]
}

interface ModelList {
  readonly object: 'list'
  readonly data: readonly ModelItem[]
}

/** What providers list of their own models, as far as it is known. */
interface ProviderNames {
  /** Another number after each change. */
  readonly version: number
  /** Sorted; empty if the list of the provider is not known. */
  of(provider: string): readonly string[]
}

/** The models that the patterns of a catalog stand for, as far as providers list them. */
export class PatternModels {
  private models: ReadonlyMap<Model, readonly Model[]> = new Map()
  private version = Number.NaN

  constructor(
    private readonly catalog: Catalog,
    private readonly names: ProviderNames,
  ) {}

  /** Those of one pattern. They are found once for each change of a list: there may be thousands. */
  of(pattern: Model): readonly Model[] {
    if (this.version !== this.names.version) {
      this.version = this.names.version
      const patterns = this.catalog.models.filter(({ name }) => prefixOf(name) !== undefined)
      this.models = new Map(patterns.map((one) => [one, this.find(one)]))
    }
    return this.models.get(pattern) ?? []
  }

  private find(pattern: Model): readonly Model[] {
    const rests = pattern.targets.flatMap(({ provider, model }) => {
      const prefix = prefixOf(model) ?? model
      const names = this.names.of(provider).filter((name) => name.startsWith(prefix))
      return names.map((name) => name.slice(prefix.length))
    })
    return [...new Set(rests)].flatMap((rest) => this.catalog.through(pattern, rest) ?? [])
  }
}

/**
 * In the order of the configuration; the models of a pattern are in its place. `auto` comes first if the key may use
 * it, and alone if the key must use it. Aliases are not listed.
 */
export function modelList(catalog: Catalog, key: Key, patterns: Pick<PatternModels, 'of'>): ModelList {
  const allowed = catalog.allowed(key)
  const all = key.auto === 'mandatory' ? [] : catalog.models
  const models = all.flatMap((model) => {
    // The lists of a key apply to the names that a pattern stands for, and not to its own.
    if (prefixOf(model.name) !== undefined) return patterns.of(model).filter((one) => catalog.may(key, one))
    return allowed.has(model) ? [model] : []
  })
  const item = (id: string): ModelItem => ({ id, object: 'model', created: 0, owned_by: catalog.ownedBy })
  const items = models.map((model) => ({ ...item(publicName(model)), ...furtherFields(model) }))
  return { object: 'list', data: key.auto === 'off' ? items : [item(AUTO), ...items] }
}

/** What SDKs of OpenAI ignore, and clients that know more of a model than its name may show. */
function furtherFields(model: Model): Partial<ModelItem> {
  const { contextWindow, maxOutputTokens, supports } = model
  return {
    display_name: publicName(model),
    ...(contextWindow === undefined ? {} : { context_window: contextWindow }),
    ...(maxOutputTokens === undefined ? {} : { max_output_tokens: maxOutputTokens }),
    supports: [...supports],
  }
}
