/**
 * The log line of a request: its fields, and their JSON. `JSON.stringify` takes 0.4 µs in a loop and three times that
 * in a server, so the usual line is a template.
 */

import type { ProviderError, ProviderErrorKind } from '../core/provider-error.ts'
import type { Outcome } from '../ledger/ledger.ts'
import { loggedMessage } from '../providers/scrub.ts'

/** One call to one candidate. */
export interface AttemptLine {
  readonly provider: string
  /** The provider's own name of the model. */
  readonly model: string
  readonly status?: number | undefined
  /** The kind of provider error, or why the call was interrupted; absent if the candidate answered. */
  readonly error?: string | undefined
  /** Why the provider could not be reached: `ECONNREFUSED`, `connect_timeout`, … */
  readonly cause?: string | undefined
  /** The provider's own code and message, without secrets. */
  readonly provider_code?: string | undefined
  readonly provider_message?: string | undefined
  readonly ms: number
}

/** Why an attempt failed. */
export type AttemptFailure = Pick<AttemptLine, 'cause' | 'provider_code' | 'provider_message'> & {
  readonly error: ProviderErrorKind
}

export function failureOf(error: ProviderError): AttemptFailure {
  const { kind, causeCode, detail } = error
  const { providerCode, providerMessage } = detail
  return {
    error: kind,
    cause: causeCode,
    provider_code: providerCode,
    provider_message: providerMessage && loggedMessage(providerMessage),
  }
}

/** The fields of the log line of a request. The logger adds `time` and `level`. */
export interface RequestLine {
  readonly request_id: string
  readonly organization?: string | undefined
  readonly key?: string | undefined
  readonly dialect?: string | undefined
  readonly requested_model?: string | undefined
  readonly served_model?: string | undefined
  readonly provider?: string | undefined
  readonly fallbacks?: number | undefined
  readonly attempts?: readonly AttemptLine[] | undefined
  readonly status: number
  readonly streamed: boolean
  /** How long it waited for room at a provider; absent if it did not. */
  readonly waited_ms?: number | undefined
  readonly first_byte_ms?: number | undefined
  readonly total_ms: number
  readonly input_tokens?: number | undefined
  readonly cached_input_tokens?: number | undefined
  readonly output_tokens?: number | undefined
  readonly usage?: 'provider' | 'estimated' | undefined
  readonly cost_micro_usd?: number | undefined
  /** The tier that served the request: aliases resolved, `default` for the base tier, '' if the answer names none. */
  readonly service_tier?: string | undefined
  /** How often the provider has run its own tools, by kind; absent if it has run none. */
  readonly tool_calls?: Readonly<Record<string, number>> | undefined
  /** Fields that were accepted and have no effect; absent if there are none. */
  readonly ignored?: readonly string[] | undefined
  readonly outcome: Outcome
  /** Why the model stopped, in OpenAI's words; absent if it did not, or none was asked. */
  readonly finish_reason?: string | undefined
  readonly tags?: Readonly<Record<string, string>> | undefined
  /** The id of the trace that the request belongs to. */
  readonly trace_id?: string | undefined
  /** The caller's address: digits, letters, dots and colons. */
  readonly remote: string
  /** Absent for HTTP. */
  readonly transport?: 'websocket' | undefined
  /** The id of the socket, which its last line has, too. */
  readonly socket?: string | undefined
  readonly error?: string | undefined
}

/** What the line of a refused request has in addition. */
export interface RefusedLine extends RequestLine {
  readonly method: string
  /** Without the query, at most 100 characters. */
  readonly path: string
  /** The field that is wrong. */
  readonly param?: string | undefined
  /** The limit that was reached, and whose it is: `requests_per_minute` of `organization:acme`. */
  readonly limit?: string | undefined
  readonly limit_of?: string | undefined
  /** Why a known key is not accepted. */
  readonly key_state?: string | undefined
}

/** The fields of a line that are the same for many requests of one key, and their JSON in their order. */
interface Repeated
  extends Pick<
    RequestLine,
    'organization' | 'dialect' | 'requested_model' | 'served_model' | 'provider' | 'fallbacks'
  > {
  readonly json: string
}

/** What the last request of each key wrote. */
const repeatedOf = new Map<string, Repeated>()
const KEYS_MAX = 4096

/** The fields of a line as JSON, without the braces around them: what `JSON.stringify` writes. */
export function fieldsOfLine(line: RequestLine): string {
  const { key, usage, attempts, ignored, error, socket, first_byte_ms, finish_reason, tags, trace_id } = line
  if (
    key === undefined ||
    usage === undefined ||
    (attempts ?? ignored ?? error ?? line.tool_calls ?? line.waited_ms) !== undefined
  )
    return JSON.stringify(line).slice(1, -1)
  const tier = line.service_tier === undefined ? '' : `,"service_tier":"${line.service_tier}"`
  const firstByte = first_byte_ms === undefined ? '' : `,"first_byte_ms":${first_byte_ms}`
  const finish = finish_reason === undefined ? '' : `,"finish_reason":"${finish_reason}"`
  const tagged = tags === undefined ? '' : `,"tags":${JSON.stringify(tags)}`
  const trace = trace_id === undefined ? '' : `,"trace_id":"${trace_id}"`
  return (
    `"request_id":"${line.request_id}",${repeated(line, key)},"status":${line.status},"streamed":${line.streamed}` +
    `${firstByte},"total_ms":${line.total_ms},"input_tokens":${line.input_tokens},"cached_input_tokens":` +
    `${line.cached_input_tokens},"output_tokens":${line.output_tokens},"usage":"${usage}","cost_micro_usd":` +
    `${line.cost_micro_usd}${tier},"outcome":"${line.outcome}"` +
    `${finish}${tagged}${trace},"remote":"${line.remote}"` +
    (socket === undefined ? '' : `,"transport":"websocket","socket":"${socket}"`)
  )
}

function repeated(line: RequestLine, key: string): string {
  const known = repeatedOf.get(key)
  if (known !== undefined && isSame(known, line)) return known.json
  const { organization, dialect, requested_model, served_model, provider, fallbacks } = line
  const fields = { organization, key, dialect, requested_model, served_model, provider, fallbacks }
  const json = JSON.stringify(fields).slice(1, -1)
  if (repeatedOf.size >= KEYS_MAX) repeatedOf.clear()
  repeatedOf.set(key, { ...fields, json })
  return json
}

function isSame(known: Repeated, line: RequestLine): boolean {
  return (
    known.requested_model === line.requested_model &&
    known.served_model === line.served_model &&
    known.provider === line.provider &&
    known.fallbacks === line.fallbacks &&
    known.dialect === line.dialect &&
    known.organization === line.organization
  )
}
