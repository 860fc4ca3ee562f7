/** Which models exist and who may use them: the catalog, made once a configuration and never changed. */

import type { Limits, Price } from '../core/money.ts'

export type Support = 'tools' | 'images' | 'image_generation'
export type Ttl = '5m' | '1h'
export type AutoSetting = 'off' | 'available' | 'mandatory'

export interface TargetRef {
  readonly provider: string
  /** The provider's own name of the model. */
  readonly model: string
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
