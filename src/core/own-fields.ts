/**
 * What a caller sent in the form of its API that the canonical request has no place for. It goes to providers whose API
 * has the same form, all of it or nothing: a beta's header without its fields, or the reverse, is an error there.
 */

import type { WireForm } from './conversation.ts'
import type { JsonObject } from './json.ts'

/** A tool that is no function, as the caller defined it. */
export interface OwnTool {
  /** Without the date at its end: `web_search`. */
  readonly kind: string
  /** Its definition. */
  readonly json: string
  /** The most calls of it that the request allows, if it states that. */
  readonly callsMax?: number | undefined
  /** The provider runs it, although its callers run others of its kind. */
  readonly isHosted?: boolean | undefined
}

/** The caller's own name of a tool. */
export interface OwnName {
  readonly name: string
  readonly namespace?: string | undefined
  /** Of a call: the model's program that made it. */
  readonly caller?: JsonObject | undefined
}

/** A tool of any kind, or a namespace of them: where its definition is among the bytes of the request. */
export interface ListedTool {
  readonly from: number
  readonly to: number
  readonly kind: 'function' | 'strictness unknown' | 'namespace' | 'own'
}

export interface OwnFields {
  readonly form: WireForm
  /** `anthropic-version`. */
  readonly version?: string | undefined
  /** `anthropic-beta`, each once. */
  readonly betas: readonly string[]
  /** Members of the body; of Responses, a dot is before a member of a member. */
  readonly members: JsonObject
  /** Members that ask for what the API does anyway: without them the answer is the same. */
  readonly defaults?: JsonObject | undefined
  readonly tools: readonly OwnTool[]
  /** All tools as the caller listed them, for providers that take them so; absent if the others are all there is. */
  readonly listed?: readonly ListedTool[] | undefined
  /** The tools of namespaces, by the names that other providers get. */
  readonly lifted?: ReadonlyMap<string, OwnName> | undefined
  /** The most calls of all tools together, if the request states that. */
  readonly callsMax?: number | undefined
}

export const NO_BETAS: readonly string[] = []
export const NO_OWN_TOOLS: readonly OwnTool[] = []

/** Whether a beta lets the model think between its calls. */
export function isInterleaving(beta: string): boolean {
  return beta.startsWith('interleaved-thinking-')
}
