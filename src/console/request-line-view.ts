/** The log line of a request as the console reads it, and its words: result, owner, model. */

import type { State } from './elements.ts'

/** One call to one candidate. */
export interface AttemptView {
  readonly provider: string
  readonly model: string
  readonly status?: number
  /** The kind of failure; absent if the candidate answered. */
  readonly error?: string
  readonly cause?: string
  readonly provider_code?: string
  readonly provider_message?: string
  readonly ms: number
}

/** The fields of the log line that the console shows; each may be absent. */
export interface RequestView {
  readonly request_id: string
  readonly time?: string
  readonly organization?: string
  readonly key?: string
  readonly key_state?: string
  readonly dialect?: string
  readonly requested_model?: string
  readonly served_model?: string
  readonly provider?: string
  readonly fallbacks?: number
  readonly attempts?: readonly AttemptView[]
  readonly status?: number
  readonly streamed?: boolean
  /** `websocket`; absent for HTTP. */
  readonly transport?: string
  readonly socket?: string
  readonly waited_ms?: number
  readonly first_byte_ms?: number
  readonly total_ms?: number
  readonly input_tokens?: number
  readonly cached_input_tokens?: number
  readonly output_tokens?: number
  readonly usage?: string
  readonly cost_micro_usd?: number
  readonly service_tier?: string
  readonly outcome?: string
  readonly finish_reason?: string
  readonly tags?: Readonly<Record<string, string>>
  readonly trace_id?: string
  readonly error?: string
  readonly method?: string
  readonly path?: string
  readonly remote?: string
  readonly param?: string
  readonly limit?: string
  readonly limit_of?: string
}

/** The word for how the request ended; of a refused one, its error. */
export function resultWord({ outcome, error, fallbacks = 0 }: RequestView): string {
  if (error !== undefined) return words(error)
  if (outcome === 'completed' && fallbacks > 0) return 'completed, fallback'
  return outcome === undefined ? 'ended' : words(outcome)
}

function words(code: string): string {
  return code.replaceAll('_', ' ')
}

/** Bad if weir or a provider is the cause. A refused request is no alarm: the operator need not act on it. */
export function resultState({ status = 0, outcome, error }: RequestView): State {
  // Limits of providers are not those of the caller: as the share of failed requests counts them.
  if (status >= 500 || error === 'upstream_rate_limited' || outcome === 'provider_cut' || outcome === 'timed_out')
    return 'bad'
  if (status >= 400 || outcome === 'caller_left' || outcome === 'drained') return 'neutral'
  return 'good'
}

/** Whether the caller did not get a whole answer, whatever the cause. */
export function isFailed({ status = 0, outcome }: RequestView): boolean {
  return status >= 400 || (outcome !== undefined && outcome !== 'completed')
}

/** `acme · ci`; a request without a valid key has neither. */
export function ownerOf({ organization, key, remote }: RequestView): string {
  const parts = [organization, key].filter((part) => part !== undefined)
  return parts.length === 0 ? (remote ?? 'no valid key') : parts.join(' · ')
}

/** `gpt-5-mini`, and what served it if that is another: `gpt-5-mini → claude-sonnet`. */
export function modelOf({ requested_model, served_model }: RequestView): string {
  if (requested_model === undefined) return served_model ?? '–'
  if (served_model === undefined || served_model === requested_model) return requested_model
  return `${requested_model} → ${served_model}`
}

const SEARCHED = [
  'organization',
  'key',
  'dialect',
  'provider',
  'status',
  'outcome',
  'error',
  'limit',
  'remote',
  'transport',
] as const satisfies readonly (keyof RequestView)[]

/** The ids of a request, in lower case: its own, and those of its trace and its socket. */
export function idsOf({ request_id, trace_id = '', socket = '' }: RequestView): readonly string[] {
  return [request_id, trace_id.toLowerCase(), socket]
}

/** The text that a filter searches beside the ids, in lower case. */
export function searchText(line: RequestView): string {
  const fields = SEARCHED.map((name) => line[name])
  const tags = Object.entries(line.tags ?? {}).map(([name, value]) => `${name}=${value}`)
  const attempts = (line.attempts ?? []).flatMap(({ provider, model, error }) => [provider, model, error ?? ''])
  return [...fields, modelOf(line), resultWord(line), ...tags, ...attempts].join(' ').toLowerCase()
}
