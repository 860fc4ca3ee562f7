/**
 * What this version and an earlier one make of a body. The earlier one parsed whole bodies and wrote objects;
 * `fixtures/conversions/earlier-conversions.js` has its dialects and adapters as `bun build` made them: never
 * regenerate it.
 */

import { needsOf } from '../../src/catalog/capability.ts'
import type { Model } from '../../src/catalog/catalog.ts'
import { fit } from '../../src/catalog/fitted-request.ts'
import type { CallerError } from '../../src/core/caller-error.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { isExactNumber } from '../../src/core/exact-json.ts'
import { isObject, type JsonObject, parseObject } from '../../src/core/json.ts'
import { isInNumber } from '../../src/core/json-bytes.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import type { Caller, Dialect, DialectName, Exchange, StreamMeter } from '../../src/dialects/dialect.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider, Target, UpstreamRequest } from '../../src/providers/provider.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { CALLER, SERVED, sealer } from '../dialects/responses/setting.ts'
import { sentText } from '../providers/conformance.ts'
import { endpoint } from '../providers/requests.ts'
import { atOnce } from '../support/literal.ts'

export type BodyName = DialectName | 'compact'

/** What a body comes to: JSON or an error, each with what it is. */
type Outcome = readonly (readonly [what: string, text: string])[]

/** A version of weir. Its canonical request is its own. */
interface Version<Request> {
  readonly providers: Readonly<Record<string, { request(request: Request, target: Target): UpstreamRequest }>>
  readonly fit: (request: Request, model: Model) => Request
  readonly accept: (name: BodyName, bytes: Uint8Array) => Omit<Exchange, 'request'> & { readonly request: Request }
}

const CLAUDE = 'claude-sonnet-4-5'
const TARGETS: readonly (readonly [name: string, provider: string, baseUrl: string, model?: string])[] = [
  ['openai', 'openai', 'https://provider.test/v1'],
  ['anthropic', 'anthropic', 'https://provider.test'],
  ['mistral', 'openai', 'https://api.mistral.ai/v1'],
  ['moonshot', 'openai', 'https://api.moonshot.ai/v1'],
  ['an older claude', 'anthropic', 'https://provider.test', 'claude-3-5-haiku'],
  ['gemini', 'gemini', 'https://provider.test'],
  ['gemini 3', 'gemini', 'https://provider.test', 'gemini-3-pro'],
  ['bedrock', 'bedrock', 'https://provider.test'],
  ['another model on bedrock', 'bedrock', 'https://provider.test', 'amazon.nova-pro'],
  ['vertex', 'vertexGemini', 'https://provider.test'],
  ['claude on vertex', 'vertexClaude', 'https://provider.test'],
]
/** Of these, how many are asked for fitted requests. */
const FITTED = 2

/** A model that takes cache marks, but not of every TTL, and one that takes none. */
const MODELS = ([true, false] as const).map((explicit): Model => {
  const promptCache: Model['promptCache'] = { key: true, explicit, ttls: new Set(explicit ? ['5m'] : []) }
  return {
    ...{ name: 'm', aliases: [], fallbacks: [], targets: [], supports: new Set() },
    ...{ defaultOutputTokens: 1, promptCache },
  }
})

/** The outcome in this version. */
export function outcomeOf(name: BodyName, bytes: Uint8Array): Outcome {
  return outcome(CURRENT, name, bytes)
}

/** Where each dialect's own form is written: by whom, at which address, for which model. */
const OWN_FORMS: Readonly<Record<DialectName, readonly [Provider, Partial<Endpoint>, model: string]>> = {
  chat: [openai, { baseUrl: 'https://api.openai.com/v1' }, 'gpt-4.1'],
  messages: [anthropic, { baseUrl: 'https://provider.test' }, CLAUDE],
  responses: [openai, { baseUrl: 'https://api.openai.com/v1', api: 'responses' }, 'gpt-4.1'],
}

/** What a reader makes of a body, written back in its own form; undefined if the reader or the provider rejects it. */
export function writtenBack(name: DialectName, bytes: Uint8Array): JsonObject | undefined {
  const [provider, place, model] = OWN_FORMS[name]
  try {
    const { request } = CURRENT.accept(name, bytes)
    const sent = provider.request(request, { endpoint: endpoint({ apiKey: 'k', ...place }), model })
    return parseObject(sentText(sent.body))
  } catch (error) {
    if (isCallerError(error) || error instanceof ProviderError) return undefined
    throw error
  }
}

/** The outcome in the earlier version. */
export function earlierOutcomeOf(name: BodyName, bytes: Uint8Array): Outcome {
  return outcome(EARLIER, name, bytes)
}

const ofResponses = responses({ sealer })
const dialects: Readonly<Record<BodyName, Dialect>> = {
  chat: chat({ imageUrls: 'any' }),
  messages: messages({ toolResultImages: 'pass' }),
  responses: ofResponses,
  compact: { ...ofResponses, read: ofResponses.readCompact },
}
const CURRENT: Version<ChatRequest> = {
  providers: { openai, anthropic, gemini, bedrock, vertexGemini, vertexClaude } satisfies Record<string, Provider>,
  fit: (request, model) => {
    const lenient = { ...request, cacheStrict: false }
    return fit(lenient, model, needsOf(lenient, 0))
  },
  accept: (name, bytes) => {
    const { read, unparsed } = dialects[name]
    return atOnce(read(readRequestBody(bytes, unparsed), CALLER))
  },
}

interface EarlierRequest {
  readonly cacheStrict: boolean
}
type EarlierExchange = Omit<Exchange, 'request'> & { readonly request: EarlierRequest }
type Accept = (body: JsonObject, caller: Caller) => EarlierExchange | Promise<EarlierExchange>
type EarlierProvider = Version<EarlierRequest>['providers'][string]
interface EarlierModule {
  readonly chat: (options: { readonly imageUrls: string }) => { readonly accept: Accept }
  readonly messages: (options: { readonly toolResultImages: string }) => { readonly accept: Accept }
  readonly responses: (options: { readonly sealer: typeof sealer }) => {
    readonly accept: Accept
    readonly acceptCompact: Accept
  }
  readonly parseBody: (bytes: Uint8Array) => JsonObject
  readonly needsOf: (request: EarlierRequest, inputTokens: number) => never
  readonly fit: (request: EarlierRequest, model: Model, needs: never) => EarlierRequest
  readonly openai: EarlierProvider
  readonly anthropic: EarlierProvider
  readonly gemini: EarlierProvider
  readonly bedrock: EarlierProvider
  readonly vertexGemini: EarlierProvider
  readonly vertexClaude: EarlierProvider
}

const EARLIER = await earlierVersion('../fixtures/conversions/earlier-conversions.js')

async function earlierVersion(path: string): Promise<Version<EarlierRequest>> {
  const module: EarlierModule = await import(path)
  const ofEarlier = module.responses({ sealer })
  const accept: Readonly<Record<BodyName, Accept>> = {
    chat: module.chat({ imageUrls: 'any' }).accept,
    messages: module.messages({ toolResultImages: 'pass' }).accept,
    responses: ofEarlier.accept,
    compact: ofEarlier.acceptCompact,
  }
  return {
    providers: providersOf(module),
    fit: (request, model) => {
      const lenient = { ...request, cacheStrict: false }
      return module.fit(lenient, model, module.needsOf(lenient, 0))
    },
    accept: (name, bytes) => synchronous(accept[name](module.parseBody(bytes), CALLER)),
  }
}

function providersOf({ openai, anthropic, gemini, bedrock, vertexGemini, vertexClaude }: EarlierModule) {
  return { openai, anthropic, gemini, bedrock, vertexGemini, vertexClaude }
}

function synchronous<T>(value: T | Promise<T>): T {
  if (value instanceof Promise) throw new Error('nothing has to be looked up')
  return value
}

function outcome<Request>(version: Version<Request>, name: BodyName, bytes: Uint8Array): Outcome {
  try {
    const exchange = version.accept(name, bytes)
    const { request } = exchange
    const json = (one: Request, [, provider, baseUrl, model = CLAUDE]: (typeof TARGETS)[number]) =>
      sentJson(() => version.providers[provider]?.request(one, { endpoint: endpoint({ baseUrl, apiKey: 'k' }), model }))
    const sent = TARGETS.map((target) => [target[0], json(request, target)] as const)
    // For a model without cache marks of an hour, and for one without any.
    const fitted = MODELS.flatMap((model) => {
      const one = version.fit(request, model)
      return TARGETS.slice(0, FITTED).map((target) => [`${target[0]}, fitted`, json(one, target)] as const)
    })
    // The inputs of calls as they are written.
    const inputs = writtenInputs(sent.find(([name]) => name === 'anthropic')?.[1] ?? '')
    return [
      ...sent,
      ['inputs', JSON.stringify(inputs)],
      ...fitted,
      ...answersOf(exchange).map((text) => ['answer', text] as const),
      ...eventsOf(exchange).map((text) => ['event', text] as const),
    ]
  } catch (error) {
    if (!isCallerError(error)) throw error
    return [['error', `${error.code} ${error.message} ${JSON.stringify(error.detail)}`]]
  }
}

/** Each version has a class of its own. */
export function isCallerError(error: unknown): error is CallerError {
  return error instanceof Error && error.name === 'CallerError'
}

/** The JSON, or the provider's error. */
function sentJson(make: () => UpstreamRequest | undefined): string {
  try {
    const sent = make()
    return sent === undefined ? '' : sentText(sent.body)
  } catch (error) {
    if (error instanceof Error && error.name === 'ProviderError') return `${error.message}`
    throw error
  }
}

/**
 * Whether two texts are the same JSON, or the same text. The order of members is no part of a value. Most texts are
 * equal to the byte, or nearly: bringing each into one order would take three quarters of the time.
 */
export function isSameJson(one: string, other: string): boolean {
  if (one === other) return true
  if (!one.startsWith('{') || !other.startsWith('{')) return false
  const values: readonly [unknown, unknown] = [JSON.parse(one), JSON.parse(other)]
  return Bun.deepEquals(...values, true) || inOrder(values[0]) === inOrder(values[1])
}

/** JSON with the members of each object in the order of their names. */
export function inOrder(value: unknown): string {
  const ordered = (_: string, inner: unknown) =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1))) : inner
  return JSON.stringify(value, ordered)
}

const CALLS = [{ callId: 'call_9', name: 'read_file', json: '{}', isWhole: true }]
const METER: StreamMeter = { soFar: {} }

/** The bodies that the caller receives for an answer with a call, and for one of nothing but text. */
function answersOf(exchange: Omit<Exchange, 'request'>): readonly string[] {
  const wholes = [
    exchange.answer({ text: 'Done.', toolCalls: CALLS, reason: 'stop', usage: {} }, SERVED),
    exchange.plain?.({ text: 'Done.', reason: 'stop', usage: {} }, SERVED) ?? '{}',
  ]
  return wholes.map((whole) => withoutIds(typeof whole === 'string' ? whole : Buffer.from(whole).toString()))
}

/** The events of a stream of one text. No client may take a character of them for the end of a line. */
function eventsOf(exchange: Omit<Exchange, 'request'>): readonly string[] {
  const encoder = exchange.encoder(SERVED, METER)
  const stream = encoder.start() + encoder.encode({ type: 'text', text: 'Done.' }) + encoder.end('stop', {})
  const lines = stream.split(/[\n\r\u0085\u2028\u2029]/).filter((line) => line !== '' && !line.startsWith('event: '))
  return lines.map((line) => {
    if (!line.startsWith('data: ')) throw new Error(`a line of a stream begins with ${line.slice(0, 80)}`)
    return withoutIds(line.slice('data: '.length))
  })
}

/** The JSON of an answer, without what differs each time. */
function withoutIds(json: string): string {
  const replaced = json.replace(/"(?:resp|msg|fc|cmp|chatcmpl)[_-][\w-]+"|"gw1\.[\w-]+"/g, '""')
  return replaced.replace(/"completed_at":\d+/g, '"completed_at":0')
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g

/**
 * Each member `input` of JSON text, with its members in the order and its numbers in the form that a parser gives them:
 * the earlier version parsed it. Numbers that a double cannot hold stay as they are. Blanks and escapes do not count.
 */
function writtenInputs(json: string): readonly string[] {
  const tokens = json.match(TOKEN) ?? []
  const found: string[] = []
  for (let at = 0; at < tokens.length; at++)
    if (tokens[at] === '"input"' && tokens[at + 1] === ':') found.push(writtenValue(tokens, { at: at + 2 }))
  return found
}

/** The value whose tokens begin at `place`, which moves after it. Of members with the same name the last one counts. */
function writtenValue(tokens: readonly string[], place: { at: number }): string {
  const token = tokens[place.at++] ?? ''
  if (token.startsWith('"')) return JSON.stringify(JSON.parse(token))
  if (token !== '{' && token !== '[') return isInNumber(token.charCodeAt(0)) ? writtenNumber(token) : token
  const isList = token === '['
  const members = new Map<string, string>()
  while (tokens[place.at] !== '}' && tokens[place.at] !== ']') {
    if (tokens[place.at] === ',') place.at++
    const name = isList ? `${members.size}` : String(JSON.parse(writtenValue(tokens, place)))
    if (!isList) place.at++
    members.set(name, writtenValue(tokens, place))
  }
  place.at++
  // An object has names of digits first.
  const ordered = Object.entries(Object.fromEntries(members))
  return `${token}${ordered.map(([name, value]) => (isList ? value : `${JSON.stringify(name)}:${value}`)).join(',')}`
}

function writtenNumber(token: string): string {
  return isExactNumber(token) ? String(Number(token)) : token
}
