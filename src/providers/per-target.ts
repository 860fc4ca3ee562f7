/** What an adapter knows of a target before any request: addresses, headers, which form of its API a model takes. */

import type { Endpoint } from '../core/endpoint.ts'
import type { Target } from './provider.ts'

/** Models of one endpoint: with a pattern, callers choose their names. */
const MODELS_MAX = 1000

/**
 * Made once for each endpoint and model, and dropped with the endpoint. Patterns that
 * distinguish servers and models, and the address as one string, took a fifth of the time to write a small request.
 */
export class PerTarget<T> {
  private readonly known = new WeakMap<Endpoint, Map<string, T>>()

  constructor(private readonly make: (target: Target) => T) {}

  of(target: Target): T {
    let models = this.known.get(target.endpoint)
    if (models === undefined) {
      models = new Map()
      this.known.set(target.endpoint, models)
    }
    const key = target.api === undefined ? target.model : `${target.api} ${target.model}`
    let made = models.get(key)
    if (made === undefined) {
      made = this.make(target)
      if (models.size >= MODELS_MAX) models.clear()
      models.set(key, made)
    }
    return made
  }
}
