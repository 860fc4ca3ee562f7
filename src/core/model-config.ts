/** A model of the configuration: its public name, its targets, its prices and what it supports. Plain data. */

import type { ChatApi } from './endpoint.ts'
import type { Price } from './money.ts'

export type Support = 'tools' | 'images' | 'documents' | 'structured_output' | 'image_generation' | 'embeddings'
export type Ttl = '5m' | '1h'

/** One model of one provider. */
export interface TargetRef {
  /** The provider's name in the configuration. */
  readonly provider: string
  /** The provider's own name of the model; `us.anthropic.*` for all whose names begin so. */
  readonly model: string
  /** What the provider is asked for, if `model` is such a pattern, which breaker, metrics and usage know alone. */
  readonly concrete?: string | undefined
  /** By which of the provider's APIs it is asked; absent = that of the provider's entry. */
  readonly api?: ChatApi | undefined
}

/** The name that is sent to the provider. */
export function sentModel({ model, concrete }: TargetRef): string {
  return concrete ?? model
}

/** The text before the `*` at the end of a name; undefined for the name of one model. */
export function prefixOf(name: string): string | undefined {
  return name.endsWith('*') ? name.slice(0, -1) : undefined
}

/** A target as the key of a map. It is unambiguous because the name of a provider contains no slash. */
export function targetKey({ provider, model }: TargetRef): string {
  return `${provider}/${model}`
}

export interface ModelConfig {
  /**
   * The public name: printable ASCII without spaces, because it is sent in a header. `anthropic/*` stands for all
   * models whose names begin so; then the targets' models end in `*`, too.
   */
  readonly name: string
  readonly aliases: readonly string[]
  /** Tried in order until one answers. */
  readonly targets: readonly TargetRef[]
  /** The weights of the targets, in their order, if conversations are spread by weight instead. Not all are 0. */
  readonly weights?: readonly number[] | undefined
  /** Public names of other models, tried after the targets. */
  readonly fallbacks: readonly string[]
  readonly price?: Price | undefined
  /** Tokens of input and output together. */
  readonly contextWindow?: number | undefined
  /** Tokens. */
  readonly maxOutputTokens?: number | undefined
  /** Tokens; the output limit of a Responses or Messages request that sets none. */
  readonly defaultOutputTokens: number
  readonly supports: readonly Support[]
  readonly promptCache: { readonly key: boolean; readonly explicit: boolean; readonly ttls: readonly Ttl[] }
}
