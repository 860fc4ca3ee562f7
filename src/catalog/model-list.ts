/** The body of `GET /v1/models`: the models that a key may use. */

import { prefixOf } from '../core/model-config.ts'
import { AUTO, type Catalog, type Key } from './catalog.ts'

interface ModelItem {
  readonly id: string
  readonly object: 'model'
  /** Always 0: the configuration has no release dates, and SDKs require a number. */
  readonly created: 0
  readonly owned_by: string
}

interface ModelList {
  readonly object: 'list'
  readonly data: readonly ModelItem[]
}

/**
 * In the order of the configuration. `auto` comes first if the key may use it, and alone if the key must use it.
 * Aliases are not listed, nor are patterns, whose models only the provider knows.
 */
export function modelList(catalog: Catalog, key: Key): ModelList {
  const models = key.auto === 'mandatory' ? [] : [...catalog.allowed(key)]
  const names = models.map(({ name }) => name).filter((name) => prefixOf(name) === undefined)
  const ids = key.auto === 'off' ? names : [AUTO, ...names]
  return {
    object: 'list',
    data: ids.map((id) => ({ id, object: 'model', created: 0, owned_by: catalog.ownedBy })),
  }
}
