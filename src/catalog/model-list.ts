/** The models that a key may use, as `GET /v1/models` lists them, and in the form of Anthropic's list. */

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
interface ListedNames {
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
    private readonly names: ListedNames,
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

/** The body of `GET /v1/models`. */
export function modelList(catalog: Catalog, key: Key, patterns: Pick<PatternModels, 'of'>): ModelList {
  const item = (id: string): ModelItem => ({ id, object: 'model', created: 0, owned_by: catalog.ownedBy })
  const models = usableModels(catalog, key, patterns)
  const items = models.map((model) => ({ ...item(publicName(model)), ...furtherFields(model) }))
  return { object: 'list', data: key.auto === 'off' ? items : [item(AUTO), ...items] }
}

/** A page of a list in Anthropic's form. */
interface AnthropicModelList {
  readonly data: readonly {
    readonly type: 'model'
    readonly id: string
    readonly display_name: string
    /** Anthropic's documented value for an unknown date of release. */
    readonly created_at: '1970-01-01T00:00:00Z'
  }[]
  readonly has_more: boolean
  readonly first_id: string | null
  readonly last_id: string | null
}

/** Which part of the list: at most `limit` models, after or before one of them. */
interface ModelPage {
  readonly limit: number
  readonly after: string | undefined
  readonly before: string | undefined
}

/** The most models of a page, and how many it has if the caller names no limit. Anthropic takes 1,000 at most, too. */
export const PAGE_MAX = 1000

/** The same models as `modelList`, in Anthropic's form. An id that is not among them begins and ends no page. */
export function anthropicModelList(
  catalog: Catalog,
  key: Key,
  patterns: Pick<PatternModels, 'of'>,
  { limit, after, before }: ModelPage,
): AnthropicModelList {
  const names = usableModels(catalog, key, patterns).map(publicName)
  const all = key.auto === 'off' ? names : [AUTO, ...names]
  const start = after === undefined ? 0 : all.indexOf(after) + 1
  const end = before === undefined ? -1 : all.indexOf(before)
  // A page before an id is the one next to it, in the same order.
  const part = end === -1 ? all.slice(start) : all.slice(start, end)
  const ids = end === -1 ? part.slice(0, limit) : part.slice(-limit)
  return {
    data: ids.map((id) => ({ type: 'model', id, display_name: id, created_at: '1970-01-01T00:00:00Z' })),
    has_more: ids.length < part.length,
    first_id: ids[0] ?? null,
    last_id: ids.at(-1) ?? null,
  }
}

/**
 * In the order of the configuration; the models of a pattern are in its place. `auto` is none of them: it comes first
 * in a list if the key may use it, and alone if the key must use it. Aliases are not listed.
 */
function usableModels(catalog: Catalog, key: Key, patterns: Pick<PatternModels, 'of'>): readonly Model[] {
  const allowed = catalog.allowed(key)
  const all = key.auto === 'mandatory' ? [] : catalog.models
  return all.flatMap((model) => {
    // The lists of a key apply to the names that a pattern stands for, and not to its own.
    if (prefixOf(model.name) !== undefined) return patterns.of(model).filter((one) => catalog.may(key, one))
    return allowed.has(model) ? [model] : []
  })
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
