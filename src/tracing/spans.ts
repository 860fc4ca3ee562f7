/**
 * The spans of a request that has ended: names, kinds, times, status and attributes, by the semantic conventions of
 * OpenTelemetry for HTTP servers and for generative AI. They never hold content.
 */

import type { SpanContext } from '@opentelemetry/api'
import type { Usage } from '../core/token-usage.ts'
import type { RequestLine } from '../gateway/request-line.ts'
import type { CallEnd } from '../gateway/request-trace.ts'
import type { Span } from './otlp.ts'

type Attributes = Record<string, string | number | boolean | string[]>
type Resource = Span['resource']
type Providers = ReadonlyMap<string, ProviderNames>

/** A provider's name in the conventions, and its address. */
export interface ProviderNames {
  /** `gen_ai.provider.name` */
  readonly system: string
  readonly address: string
  readonly port: number
  /** Whether calls to it carry `traceparent`. */
  readonly propagates: boolean
}

/** A request that has ended. Times are Unix milliseconds with fractions. */
export interface EndedRequest {
  readonly traceId: string
  readonly spanId: string
  readonly parentId: string | undefined
  readonly state: string | undefined
  readonly flags: number
  readonly startMs: number
  readonly endMs: number
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly line: RequestLine
  readonly usage: Usage | undefined
  /** The requested model is one of the configuration, and not a text of the caller's. */
  readonly isModelKnown: boolean
  readonly calls: readonly EndedCall[]
}

export interface EndedCall {
  readonly spanId: string
  readonly startMs: number
  /** When the answer began, if it did. */
  readonly beganMs: number | undefined
  readonly endMs: number
  /** The provider's name in the configuration, and its own name of the model. */
  readonly provider: string
  readonly model: string
  readonly end: CallEnd | undefined
}

/** `SpanKind` and `SpanStatusCode` of OpenTelemetry, whose package is not loaded for four numbers. */
const SERVER = 1
const CLIENT = 2
const UNSET = { code: 0 } as const
const ERROR = { code: 2 } as const

const NOTHING: never[] = []
/** The same of all spans. */
const COMMON = {
  instrumentationScope: { name: 'weir' },
  links: NOTHING,
  events: NOTHING,
  ended: true,
  droppedAttributesCount: 0,
  droppedEventsCount: 0,
  droppedLinksCount: 0,
}

/** The methods that the conventions know. */
const METHODS: ReadonlySet<string> = new Set([
  ...['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'QUERY', 'TRACE'],
])

/** One span of the request, and one of each call. */
export function spansOf(request: EndedRequest, providers: Providers, resource: Resource): readonly Span[] {
  const operation = operationOf(request)
  const server = serverSpan(request, operation, providers, resource)
  const clients = request.calls.map((_, index) => clientSpan(request, index, operation, providers, resource))
  return [server, ...clients]
}

function serverSpan(
  request: EndedRequest,
  operation: string | undefined,
  providers: Providers,
  resource: Resource,
): Span {
  const { line, method, path } = request
  const route = line.dialect === undefined ? undefined : path
  const failure = serverFailure(line)
  const attributes: Attributes = { 'http.request.method': METHODS.has(method) ? method : '_OTHER', 'url.path': path }
  set(attributes, 'url.scheme', 'http')
  set(attributes, 'http.route', route)
  // A caller that left before the answer got no status.
  const isUnsent = line.outcome === 'caller_left' && line.status >= 400
  set(attributes, 'http.response.status_code', isUnsent ? undefined : line.status)
  set(attributes, 'error.type', line.error ?? failure)
  setOperation(attributes, operation, providers.get(line.provider ?? ''))
  set(attributes, 'gen_ai.request.model', line.requested_model)
  set(attributes, 'gen_ai.response.model', line.served_model)
  set(attributes, 'gen_ai.request.stream', line.streamed || undefined)
  set(attributes, 'gen_ai.response.time_to_first_chunk', line.streamed ? seconds(line.first_byte_ms) : undefined)
  setAnswer(attributes, request)
  setWeir(attributes, line)
  return {
    resource,
    ...COMMON,
    ...contextOf(request, request.spanId, request.parentId, true),
    ...timesOf(request.startMs, request.endMs),
    name: serverName(request, operation, route),
    kind: SERVER,
    status: failure === undefined ? UNSET : ERROR,
    attributes,
  }
}

function clientSpan(
  request: EndedRequest,
  index: number,
  operation: string | undefined,
  providers: Providers,
  resource: Resource,
): Span {
  const { line, calls } = request
  const call = calls[index]
  if (call === undefined) throw new RangeError(`the request has no call ${index}`)
  const { provider, model, beganMs, end } = call
  const names = providers.get(provider)
  const attributes: Attributes = { 'gen_ai.request.model': model }
  setOperation(attributes, operation, names)
  set(attributes, 'server.address', names?.address)
  set(attributes, 'server.port', names?.port)
  set(attributes, 'http.response.status_code', end?.status ?? (beganMs === undefined ? undefined : 200))
  set(attributes, 'error.type', end?.error)
  set(attributes, 'gen_ai.request.stream', line.streamed || undefined)
  if (beganMs !== undefined) {
    attributes['gen_ai.response.model'] = model
    set(attributes, 'gen_ai.response.time_to_first_chunk', line.streamed ? seconds(beganMs - call.startMs) : undefined)
  }
  // Only the last call can be charged: those before it failed, which costs nothing.
  if (index === calls.length - 1) setAnswer(attributes, request)
  attributes['weir.provider'] = provider
  attributes['weir.attempt'] = index + 1
  attributes['weir.request_id'] = line.request_id
  set(attributes, 'weir.outcome', end?.outcome === 'completed' ? undefined : end?.outcome)
  return {
    resource,
    ...COMMON,
    ...contextOf(request, call.spanId, request.spanId, false),
    ...timesOf(call.startMs, call.endMs),
    name: operation === undefined ? model : `${operation} ${model}`,
    kind: CLIENT,
    status: end?.error === undefined ? UNSET : ERROR,
    attributes,
  }
}

/** By the dialect of a request. */
const OPERATIONS: Readonly<Record<string, string>> = {
  ...{ chat: 'chat', responses: 'chat', messages: 'chat' },
  ...{ images: 'generate_content', embeddings: 'embeddings' },
}

/** Undefined for requests that ask no model. */
function operationOf({ line: { dialect = '' }, path }: EndedRequest): string | undefined {
  return dialect === 'messages' && path.endsWith('/count_tokens') ? 'count_tokens' : OPERATIONS[dialect]
}

/** Backends group spans by their names, so that no name has a text that a caller made up. */
function serverName(request: EndedRequest, operation: string | undefined, route: string | undefined): string {
  const { line, method, isModelKnown } = request
  if (operation !== undefined) return isModelKnown ? `${operation} ${line.requested_model}` : operation
  const verb = METHODS.has(method) ? method : 'HTTP'
  return route === undefined ? verb : `${verb} ${route}`
}

/**
 * The error of a server span, if it is one: a status of 500 or more, or an answer that broke off. By the conventions a
 * 4xx is the caller's error, and so is leaving.
 */
function serverFailure({ status, outcome, error }: RequestLine): string | undefined {
  if (outcome === 'caller_left') return undefined
  if (status >= 500) return error ?? String(status)
  return status < 400 && outcome !== 'completed' ? (error ?? outcome) : undefined
}

function setOperation(attributes: Attributes, operation: string | undefined, names: ProviderNames | undefined): void {
  set(attributes, 'gen_ai.operation.name', operation)
  if (operation === 'generate_content') attributes['gen_ai.output.type'] = 'image'
  set(attributes, 'gen_ai.provider.name', names?.system)
}

function setAnswer(attributes: Attributes, { line, usage }: EndedRequest): void {
  const { finish_reason: reason } = line
  if (reason !== undefined) attributes['gen_ai.response.finish_reasons'] = [reason]
  set(attributes, 'gen_ai.usage.input_tokens', line.input_tokens)
  set(attributes, 'gen_ai.usage.cache_read.input_tokens', line.cached_input_tokens || undefined)
  const written = (usage?.cacheWrite5m ?? 0) + (usage?.cacheWrite1h ?? 0)
  set(attributes, 'gen_ai.usage.cache_creation.input_tokens', written || undefined)
  set(attributes, 'gen_ai.usage.output_tokens', line.output_tokens)
  set(attributes, 'gen_ai.usage.reasoning.output_tokens', usage?.reasoning || undefined)
}

function setWeir(attributes: Attributes, line: RequestLine): void {
  attributes['weir.request_id'] = line.request_id
  attributes['weir.outcome'] = line.outcome
  set(attributes, 'weir.organization', line.organization)
  set(attributes, 'weir.key', line.key)
  set(attributes, 'weir.dialect', line.dialect)
  set(attributes, 'weir.provider', line.provider)
  set(attributes, 'weir.fallbacks', line.fallbacks)
  set(attributes, 'weir.cost_micro_usd', line.cost_micro_usd)
  set(attributes, 'weir.usage', line.usage)
}

function set(attributes: Attributes, name: string, value: string | number | boolean | undefined): void {
  if (value !== undefined) attributes[name] = value
}

/** The encoder writes a whole number as an integer, and backends keep one type for each attribute. */
function seconds(ms: number | undefined): number | undefined {
  if (ms === undefined) return undefined
  return Number.isInteger(ms / 1000) ? ms / 1000 + 1e-9 : ms / 1000
}

function contextOf(
  { traceId, flags, state }: EndedRequest,
  spanId: string,
  parentId: string | undefined,
  isRemote: boolean,
): Pick<Span, 'spanContext' | 'parentSpanContext'> {
  const traceState = state === undefined ? undefined : stateOf(state)
  const context: SpanContext = { traceId, spanId, traceFlags: flags, ...(traceState && { traceState }) }
  const spanContext = () => context
  if (parentId === undefined) return { spanContext }
  return { spanContext, parentSpanContext: { traceId, spanId: parentId, traceFlags: flags, isRemote } }
}

/** A list that is passed on as it came. */
function stateOf(list: string): NonNullable<SpanContext['traceState']> {
  const state: NonNullable<SpanContext['traceState']> = {
    serialize: () => list,
    get: () => undefined,
    set: () => state,
    unset: () => state,
  }
  return state
}

function timesOf(startMs: number, endMs: number): Pick<Span, 'startTime' | 'endTime' | 'duration'> {
  return { startTime: timeOf(startMs), endTime: timeOf(endMs), duration: timeOf(endMs - startMs) }
}

/** Seconds and nanoseconds. */
function timeOf(ms: number): [number, number] {
  const whole = Math.floor(ms / 1000)
  return [whole, Math.round((ms - whole * 1000) * 1_000_000)]
}

/** The interface has more than the encoder reads, which is `attributes`. */
export function resourceOf(attributes: Readonly<Record<string, string>>): Resource {
  const resource: Resource = {
    attributes: { ...attributes },
    merge: () => resource,
    getRawAttributes: () => Object.entries(attributes),
  }
  return resource
}
