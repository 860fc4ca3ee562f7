/**
 * The law of long texts: whether a body is parsed whole or its long texts stay the bytes that the caller sent, every
 * provider receives the same JSON, the caller the same error, and the conversation the same place.
 */

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Needs, needsOf } from '../../src/catalog/capability.ts'
import type { Model } from '../../src/catalog/catalog.ts'
import { fit } from '../../src/catalog/fitted-request.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import { type ChatRequest, changed } from '../../src/core/chat-request.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import type { LongTexts } from '../../src/core/long-texts.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import type { Dialect, DialectName, Exchange, StreamMeter } from '../../src/dialects/dialect.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { Conversation } from '../../src/gateway/affinity.ts'
import { accepted } from '../../src/http/receive.ts'
import { estimateInput } from '../../src/ledger/estimate.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { parseBody } from '../../src/wire/body.ts'
import { readLargeBody } from '../../src/wire/long-text-body.ts'
import { CALLER, SERVED, sealer } from '../dialects/responses/setting.ts'
import { sentText } from '../providers/conformance.ts'
import { endpoint } from '../providers/requests.ts'
import { property, Random } from '../support/random.ts'
import { inputOfAgent, inside } from './agent-json.ts'

setDefaultTimeout(180_000)

const responsesDialect = responses({ sealer })
const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  chat: chat({ imageUrls: 'any' }),
  messages: messages({ toolResultImages: 'pass' }),
  responses: responsesDialect,
}
/** A request for a summary, of the same bodies. */
const compact: Dialect = {
  ...responsesDialect,
  accept: (body, caller, longTexts) => responsesDialect.acceptCompact(body, caller, longTexts),
}

const CLAUDE = 'claude-sonnet-4-5'
const PROVIDERS: readonly (readonly [name: string, provider: Provider, baseUrl: string, model?: string])[] = [
  ['openai', openai, 'https://provider.test/v1'],
  ['mistral', openai, 'https://api.mistral.ai/v1'],
  ['anthropic', anthropic, 'https://provider.test'],
  ['an older claude', anthropic, 'https://provider.test', 'claude-3-5-haiku'],
  ['gemini', gemini, 'https://provider.test'],
  ['bedrock', bedrock, 'https://provider.test'],
  ['vertex', vertexGemini, 'https://provider.test'],
  ['claude on vertex', vertexClaude, 'https://provider.test'],
]

/** A model that takes cache marks, but not of every TTL, and one that takes none. */
const MODELS = ([true, false] as const).map((explicit): Model => {
  const promptCache: Model['promptCache'] = { key: true, explicit, ttls: new Set(explicit ? ['5m'] : []) }
  return {
    name: 'm',
    aliases: [],
    fallbacks: [],
    targets: [],
    supports: new Set(),
    defaultOutputTokens: 1,
    promptCache,
  }
})

/** What a request comes to. */
interface Outcome {
  /** The JSON that each provider receives, or its error. */
  readonly sent?: Readonly<Record<string, string>>
  /** The inputs of calls that Anthropic receives. */
  readonly inputs?: readonly string[]
  readonly needs?: Needs
  /** What OpenAI and Anthropic receive for a model without cache marks of an hour, and for one without any. */
  readonly fitted?: readonly string[]
  readonly conversation?: string
  /** Whole answers, and the events of a stream. */
  readonly answers?: readonly string[] | undefined
  readonly events?: readonly string[] | undefined
  readonly error?: string
}

function outcomeOf(request: () => ChatRequest | Exchange): Outcome {
  try {
    const made = request()
    const exchange = 'request' in made ? made : undefined
    const canonical = 'request' in made ? made.request : made
    const sent = Object.fromEntries(PROVIDERS.map(([name, ...rest]) => [name, sentBy(canonical, ...rest)]))
    const inputs = writtenInputs(sentJson(canonical, anthropic, 'https://provider.test', CLAUDE))
    const answers = exchange && answersOf(exchange)
    const lenient = changed(canonical, { cacheStrict: false })
    const needs = needsOf(lenient, 0)
    const fitted = MODELS.flatMap((model) => {
      const request = fit(lenient, model, needs)
      return PROVIDERS.slice(0, 3).map(([, ...rest]) => sentBy(request, ...rest))
    })
    return {
      sent,
      inputs,
      needs,
      fitted,
      conversation: new Conversation('acme', canonical).of('m'),
      answers: answers?.map((answer) => sortedJson(JSON.parse(withoutIds(answer)))),
      events: exchange && eventsOf(exchange),
    }
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    return { error: `${error.code} ${error.message} ${JSON.stringify(error.detail)}` }
  }
}

/** The bodies that the caller receives for an answer with a call, and for one of nothing but text. */
function answersOf(exchange: Exchange): readonly string[] {
  const wholes = [
    exchange.answer({ text: 'Done.', toolCalls: CALLS, reason: 'stop', usage: {} }, SERVED),
    exchange.plain?.({ text: 'Done.', reason: 'stop', usage: {} }, SERVED) ?? '{}',
  ]
  return wholes.map((whole) => {
    const filled = exchange.filled?.(whole) ?? whole
    return typeof filled === 'string' ? filled : Buffer.from(filled).toString()
  })
}

/** The JSON of an answer, without what differs each time. */
function withoutIds(json: string): string {
  const replaced = json.replace(/"(?:resp|msg|fc|cmp|chatcmpl)[_-][\w-]+"|"gw1\.[\w-]+"/g, '""')
  return replaced.replace(/"completed_at":\d+/g, '"completed_at":0')
}

const CALLS = [{ callId: 'call_9', name: 'read_file', json: '{}', isWhole: true }]

const METER: StreamMeter = { soFar: {} }

/** The events of a stream of one text. No client may take a character of them for the end of a line. */
function eventsOf(exchange: Exchange): readonly string[] {
  const encoder = exchange.encoder(SERVED, METER)
  const stream = encoder.start() + encoder.encode({ type: 'text', text: 'Done.' }) + encoder.end('stop', {})
  const lines = stream.split(/[\n\r\u0085\u2028\u2029]/).filter((line) => line !== '' && !line.startsWith('event: '))
  return lines.map((line) => {
    if (!line.startsWith('data: ')) throw new Error(`a line of a stream begins with ${line.slice(0, 80)}`)
    return line === 'data: [DONE]' ? line : sortedJson(JSON.parse(withoutIds(line.slice('data: '.length))))
  })
}

/** Fails with the first difference: the bodies have many kilobytes. */
function expectSame(outcome: Outcome, usual: Outcome): void {
  const [one, other] = [JSON.stringify(outcome), JSON.stringify(usual)]
  if (one === other) return
  let at = 0
  while (one[at] === other[at]) at++
  throw new Error(
    `…${one.slice(Math.max(0, at - 200), at + 80)}\ninstead of\n…${other.slice(Math.max(0, at - 80), at + 80)}`,
  )
}

function sentBy(request: ChatRequest, provider: Provider, baseUrl: string, model = CLAUDE): string {
  const json = sentJson(request, provider, baseUrl, model)
  return json.startsWith('{') ? sortedJson(JSON.parse(json)) : json
}

/** The JSON, or the error. */
function sentJson(request: ChatRequest, provider: Provider, baseUrl: string, model: string): string {
  try {
    const sent = provider.request(request, { endpoint: endpoint({ baseUrl, apiKey: 'k' }), model })
    return sentText(sent.body)
  } catch (error) {
    if (error instanceof ProviderError) return `${error.kind} ${error.message}`
    throw error
  }
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g

/**
 * Each member `input` of JSON text, with its members in their order and its numbers as they are written: a model sees
 * both, and providers cache what it has seen. Blanks and escapes do not count.
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
  if (token !== '{' && token !== '[') return token
  const members = new Map<string | number, string>()
  while (tokens[place.at] !== '}' && tokens[place.at] !== ']') {
    if (tokens[place.at] === ',') place.at++
    const name = token === '{' ? writtenValue(tokens, place) : members.size
    if (token === '{') place.at++
    members.set(name, writtenValue(tokens, place))
  }
  place.at++
  const inner = [...members].map(([name, value]) => (typeof name === 'string' ? `${name}:${value}` : value))
  return `${token}${inner.join(',')}`
}

/** The order of members is no part of a value. */
function sortedJson(value: unknown): string {
  const sorted = (_: string, inner: unknown) =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1))) : inner
  return JSON.stringify(value, sorted)
}

function synchronous(exchange: Exchange | Promise<Exchange>): Exchange {
  if (exchange instanceof Promise) throw new Error('nothing has to be looked up')
  return exchange
}

/** Compares both ways; returns the long texts, if there were any. */
function compare(name: DialectName, bytes: Uint8Array, dialect = DIALECTS[name]): LongTexts | undefined {
  const usual = outcomeOf(() => synchronous(dialect.accept(parseBody(bytes), CALLER)))
  // Blanks may take the place of members that no provider gets.
  const copy = Uint8Array.from(bytes)
  const read = readLargeBody(copy, dialect.largeBody)
  if (read === undefined) return undefined
  const accept = (json: JsonObject, longTexts?: LongTexts) => dialect.accept(json, CALLER, longTexts)
  const exchange = () => synchronous(accepted<Exchange>({ bytes: copy, ...read }, accept))
  expectSame(outcomeOf(exchange), usual)
  return read.longTexts
}

/** JSON of a value whose strings `@` are the insides of long strings. */
function written(value: JsonValue, random: Random, bytesMax = 6000): string {
  return JSON.stringify(value).replaceAll('"@"', () => `"${inside(random, bytesMax)}"`)
}

const long = '@'
const schema = { type: 'object', properties: { content: { type: 'string', description: long }, text: { const: long } } }

function callArguments(random: Random): string {
  const json = random.pick([
    '{"path":"a","content":"@"}',
    '{"a":{"b":[1,2,"@"]}}',
    '[1,"@"]',
    '"@"',
    '{"cut":"@',
    '   ',
    ' null',
    ' {"a":"@"}',
    `{"a":${'['.repeat(200)}${']'.repeat(200)},"b":"@"}`,
  ])
  const inner = json.replaceAll('@', () => inside(random, 3000))
  return JSON.stringify(inner).slice(1, -1)
}

/** Nearly always an object; now and then with an escape that hides another one. */
function argumentsOfAgent(random: Random): string {
  if (random.chance(0.03)) return callArguments(random)
  if (random.chance(0.03)) return '{\\"a\\":\\"\\\\\\u0041\\"}'
  const json = random.pick(['{"path":"a","content":"@"}', '{"a":{"b":[1,2.50,"@"]}, "2":null}\n', '{}'])
  return JSON.stringify(json.replaceAll('@', () => inside(random, 3000))).slice(1, -1)
}

const MESSAGES: Readonly<Record<DialectName, (random: Random) => JsonValue>> = {
  chat: (random) =>
    random.pick<JsonValue>([
      { role: 'user', content: long, name: long },
      {
        role: 'user',
        content: [
          { type: 'text', text: long, cache_control: { type: 'ephemeral' } },
          { type: 'text', text: 'a' },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } },
          { type: 'text', text: long },
        ],
      },
      { role: 'system', content: random.pick([long, ' ', '']) },
      {
        role: 'system',
        content: [
          { type: 'text', text: long },
          { type: 'text', text: long, content: long },
        ],
      },
      {
        role: 'assistant',
        content: long,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '#' } }],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', function: { name: 'g', arguments: { content: long } } }],
      },
      {
        role: 'assistant',
        content: [
          { type: 'refusal', refusal: long },
          { type: 'text', text: long },
        ],
      },
      { role: 'tool', tool_call_id: 'c', content: long },
      {
        role: 'tool',
        tool_call_id: 'c',
        content: [
          { type: 'text', text: long },
          { type: 'text', text: long },
        ],
      },
      { role: 'user', content: [{ type: 'text', text: { text: long } }] },
      { role: long, content: long },
      { content: long, unknown: [long, { text: long }] },
    ]),
  messages: (random) =>
    random.pick<JsonValue>([
      { role: 'user', content: long },
      {
        role: 'user',
        content: [
          { type: 'text', text: long },
          { type: 'text', text: 'b', cache_control: { type: 'ephemeral' } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: long },
          { type: 'tool_use', id: 'c', name: 'f', input: { content: long, list: [long, { text: long }] } },
        ],
      },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'g', input: {} }] },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'c', content: long, is_error: random.chance(0.5) }],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'c',
            content: [
              { type: 'text', text: long },
              { type: 'text', text: long },
            ],
          },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD' } },
          { type: 'text', text: long },
        ],
      },
      { role: 'user', content: [{ type: 'document', text: long }] },
      { role: 'assistant', content: long },
    ]),
  responses: (random) =>
    random.pick<JsonValue>([
      { role: 'user', content: long },
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: long }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: long }] },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '#' },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: { content: long } },
      { type: 'function_call_output', call_id: 'c', output: long },
      { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: long }] },
      { type: 'function_call_output', call_id: 'c', output: { text: long, content: [long] } },
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: long }], encrypted_content: long },
      { type: 'additional_tools', tools: [{ type: 'function', name: 'h', description: long, parameters: schema }] },
      { type: 'message', content: { text: long } },
    ]),
}

const BODIES: Readonly<Record<DialectName, (random: Random) => JsonObject>> = {
  chat: (random) => ({
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }, ...random.list(12, () => MESSAGES.chat(random))],
    tools: random.chance(0.6)
      ? [{ type: 'function', function: { name: 'f', description: long, parameters: schema } }]
      : null,
    stop: random.chance(0.2) ? [long] : null,
    user: random.chance(0.2) ? long : null,
    metadata_: long,
  }),
  messages: (random) => ({
    model: 'm',
    system: random.pick<JsonValue>([long, [{ type: 'text', text: long, cache_control: { type: 'ephemeral' } }], null]),
    messages: [{ role: 'user', content: 'Hi' }, ...random.list(12, () => MESSAGES.messages(random))],
    tools: random.chance(0.6) ? [{ name: 'f', description: long, input_schema: schema }] : null,
    metadata: { user_id: long },
  }),
  responses: (random) => ({
    model: 'm',
    instructions: random.chance(0.5) ? long : null,
    input: random.chance(0.1)
      ? long
      : [{ role: 'user', content: 'Hi' }, ...random.list(12, () => MESSAGES.responses(random))],
    tools: random.chance(0.6) ? [{ type: 'function', name: 'f', description: long, parameters: schema }] : null,
    text: { format: { type: 'text' } },
  }),
}

/** A conversation as agents send it, now and then with something that makes a message unusual. */
function usualChat(random: Random): string {
  const odd = <T>(usual: T, ...others: readonly [T, ...T[]]) => (random.chance(0.03) ? random.pick(others) : usual)
  const rest = () => (random.chance(0.1) ? { name: 'n', unknown: [1.5, { a: [true, null, {}] }] } : {})
  const call = (id: string) => ({
    id: odd<JsonValue>(id, 7, long),
    type: odd<JsonValue>('function', null, 'custom'),
    function: { name: odd('read_file', '1st', 'a b', ''), arguments: odd<JsonValue>('#', '', {}), ...rest() },
    ...odd({}, { index: 0 }, { cache_control: null }),
  })
  const step = (own: string): JsonObject[] => {
    const id = odd(own, 'call_0', 'a b')
    return [
      {
        role: 'assistant',
        content: odd<JsonValue>(random.pick([long, null]), '', [], [{ type: 'text', text: long }]),
        tool_calls: odd<JsonValue>(random.chance(0.5) ? [call(id)] : [call(id), call(`${id}b`)], [], null),
        ...rest(),
        ...odd({}, { refusal: null }, { refusal: long }, { tool_call_id: 'x' }),
      },
      ...odd([], [question()]),
      {
        role: 'tool',
        tool_call_id: odd<JsonValue>(id, null),
        content: odd<JsonValue>(long, '', null, '  '),
        ...rest(),
      },
    ]
  }
  const question = (): JsonObject => ({
    role: odd('user', 'developer', 'human'),
    content: odd<JsonValue>(
      long,
      '',
      null,
      [{ type: 'text', text: long }],
      [
        { type: 'text', text: long },
        { type: 'text', text: 'and', ...rest() },
      ],
    ),
    ...odd({}, { cache_control: { type: 'ephemeral' } }, { tool_calls: [] }),
  })
  const steps = Array.from({ length: random.between(1, 8) }, (_, at) =>
    random.chance(0.2) ? [question(), { role: 'assistant', content: odd(long, '') }] : step(`call_${at}`),
  )
  const tool = (name: string) => ({
    type: odd('function', 'web_search'),
    function: {
      name: odd(name, 'a b'),
      description: odd<JsonValue>(long, null),
      parameters: odd<JsonValue>(schema, []),
    },
    ...odd({}, { cache_control: { type: 'ephemeral' } }),
  })
  const body: JsonObject = {
    model: 'm',
    messages: [{ role: 'system', content: odd(long, '') }, question(), ...steps.flat()],
    ...(random.chance(0.8) ? { tools: [tool('read_file'), tool('write_file')] } : random.pick([{}, { tools: [] }])),
    tool_choice: random.pick<JsonValue>([null, 'auto', { type: 'function', function: { name: odd('f', 'a b') } }]),
    max_tokens: 10,
  }
  const json = written(body, random, 3000).replaceAll('"#"', () => `"${argumentsOfAgent(random)}"`)
  const blanks = random.chance(0.3) ? json.replaceAll('":', '" : ').replaceAll('},{', '},\n{') : json
  return random.chance(0.05)
    ? blanks.replace('"role"', () => random.pick(['"role":"user","role"', '"rol\\u0065"']))
    : blanks
}

/** The same in Messages. */
function usualMessages(random: Random): string {
  const odd = <T>(usual: T, ...others: readonly [T, ...T[]]) => (random.chance(0.03) ? random.pick(others) : usual)
  const mark = (): JsonObject =>
    random.chance(0.05)
      ? {
          cache_control: odd<JsonValue>(
            { type: 'ephemeral' },
            null,
            { type: 'ephemeral', ttl: '1h' },
            { ttl: '5m', type: 'ephemeral', scope: 'global' },
            { type: 'other' },
          ),
        }
      : {}
  const rest = (): JsonObject => (random.chance(0.05) ? { citations: null, extra: [1.5, { a: [true, {}, []] }] } : {})
  /** A block whose members are in any order. */
  const block = (members: JsonObject): JsonObject => {
    const all = Object.entries({ ...members, ...mark(), ...rest() })
    return Object.fromEntries(random.chance(0.3) ? all.reverse() : all)
  }
  const text = (): JsonObject => block({ type: 'text', text: odd<JsonValue>(long, '', '  ', 'ok', 7) })
  const call = (id: string): JsonObject =>
    block({
      type: odd('tool_use', 'thinking'),
      id: odd<JsonValue>(id, 'call_0', 'a b', '', 7),
      name: odd('read_file', '1st', 'a b', ''),
      input: odd<JsonValue>(
        random.pick<JsonValue>(['#', { path: 'a', content: long, more: [1, { b: long }] }]),
        {},
        [],
      ),
    })
  const result = (id: string): JsonObject =>
    block({
      type: 'tool_result',
      tool_use_id: odd<JsonValue>(id, 'a b', null),
      ...odd<JsonObject>({ content: long }, {}, { content: null }, { content: '' }, { content: [] }, { content: ' ' }),
      ...(random.chance(0.1) ? { content: random.list(3, text) } : {}),
      ...(random.chance(0.5) ? { is_error: odd<JsonValue>(random.chance(0.5), null, 'no') } : {}),
    })
  const step = (id: string): JsonObject[] => {
    const ids = random.chance(0.5) ? [id] : [id, `${id}b`]
    return [
      { role: 'assistant', content: [...(random.chance(0.5) ? [text()] : []), ...ids.map(call), ...odd([], [text()])] },
      {
        role: 'user',
        content: [...odd([], [text()]), ...ids.map(result), ...(random.chance(0.1) ? [text()] : [])],
        ...rest(),
      },
    ]
  }
  const question = (): JsonObject => ({
    role: odd('user', 'system', 'human'),
    content: odd<JsonValue>([text()], long, '', [], [text(), text()], [{ type: 'image' }]),
  })
  const answer = (): JsonObject => ({ role: 'assistant', content: odd<JsonValue>([text()], long, '', [], '  ') })
  const steps = Array.from({ length: random.between(1, 8) }, (_, at) =>
    random.chance(0.2) ? [question(), answer()] : step(`call_${at}`),
  )
  const tool = (name: string): JsonObject => ({
    ...odd<JsonObject>({ name: odd(name, 'a b') }, { name, type: 'custom' }, { name, type: 'web_search_20250305' }),
    description: odd<JsonValue>(long, null),
    input_schema: odd<JsonValue>(schema, { properties: {} }, [], { ...schema, type: ['object'] }),
    ...odd({}, { strict: true }, { strict: null }, { defer_loading: true }),
    ...mark(),
  })
  const beginning = { model: odd('m', ''), ...odd({}, { cache_control: { type: 'ephemeral' } }) }
  const system = odd<JsonObject>(
    { system: [text(), ...odd([], [text()])] },
    {},
    { system: long },
    { system: null },
    { system: [] },
    { system: [{ type: 'image' }] },
  )
  const turns = {
    messages: [...odd([question()], [], [question(), question()]), ...steps.flat(), ...odd([question()], [])],
  }
  const body: JsonObject = {
    ...beginning,
    ...(random.chance(0.5) ? { ...system, ...turns } : { ...turns, ...system }),
    ...odd({ tools: [tool('read_file'), tool('write_file')] }, {}, { tools: [] }),
    tool_choice: random.pick<JsonValue>([null, { type: 'auto' }, { type: 'tool', name: odd('f', 'a b') }]),
    max_tokens: 10,
  }
  const json = written(body, random, 3000).replaceAll('"#"', () => inputOfAgent(random))
  const blanks = random.chance(0.3) ? json.replaceAll('":', '" : ').replaceAll('},{', '},\n{') : json
  return random.chance(0.05)
    ? blanks.replace('"role"', () => random.pick(['"role":"user","role"', '"rol\\u0065"', '"x":1e999,"role"']))
    : blanks
}

/** The same in Responses. */
function usualResponses(random: Random): string {
  const odd = <T>(usual: T, ...others: readonly [T, ...T[]]) => (random.chance(0.01) ? random.pick(others) : usual)
  const rest = (): JsonObject =>
    random.chance(0.2)
      ? random.pick<JsonObject>([
          { id: 'fc_1', status: 'completed' },
          { internal: [1.5, { a: [true, {}, []], type: 'message', role: 'user' }] },
        ])
      : {}
  /** An item or a part whose members are in any order. */
  const shuffled = (members: JsonObject): JsonObject => {
    const all = Object.entries({ ...rest(), ...members, ...rest() })
    return Object.fromEntries(random.chance(0.3) ? all.reverse() : all)
  }
  const text = (type: string): JsonObject =>
    shuffled({
      type: odd(type, 'text', 'refusal', 'input_image', 'reasoning_text'),
      text: odd<JsonValue>(random.chance(0.1) ? '' : long, 7, null),
      ...odd({}, { annotations: [], logprobs: [] }, { cache_control: null }, { cache_control: { type: 'ephemeral' } }),
    })
  const picture: JsonObject = { type: 'input_image', image_url: 'data:image/png;base64,QUJD', detail: 'high' }
  const message = (role: string, type: string): JsonObject =>
    shuffled({
      ...(random.chance(0.7) ? { type: odd<JsonValue>('message', null, 'Message') } : {}),
      role: random.chance(0.01) ? 'escaped' : odd<JsonValue>(role, 'human', null, 'system', 'developer'),
      content: odd<JsonValue>(
        random.pick<JsonValue>([long, [text(type)], [text(type), text(type)], [text(type), picture]]),
        '',
        [],
        null,
        [picture],
        [text(type), 'and'],
        { text: long },
      ),
    })
  const question = () => message(odd('user', 'system', 'developer'), 'input_text')
  const thought = (): JsonObject =>
    random.pick<JsonObject>([
      shuffled({ type: 'reasoning', summary: [], content: null, encrypted_content: long }),
      { type: 'reasoning', summary: [{ type: 'summary_text', text: long }], content: [{ type: 'reasoning_text' }] },
      { type: 'custom_tool_call', call_id: 'c', name: 'apply_patch', input: long },
      { type: 'custom_tool_call_output', call_id: 'c', output: long },
      { type: 'web_search_call', action: { type: 'search', query: long } },
    ])
  const call = (id: string): JsonObject =>
    shuffled({
      type: odd('function_call', 'mcp_call', 'compaction', 'item_reference'),
      call_id: odd<JsonValue>(id, 'call_0', 'a b', 'c\u0001', '', 7),
      name: odd('read_file', '1st', 'a b', ''),
      arguments: odd<JsonValue>('#', '', null, {}),
      ...odd({}, { namespace: null }, { namespace: '' }, { namespace: 'mcp' }),
    })
  const output = (id: string): JsonObject =>
    shuffled({
      type: 'function_call_output',
      call_id: odd<JsonValue>(id, 'call_0', 'nothing', null),
      ...odd<JsonObject>(
        { output: random.chance(0.8) ? long : [text('input_text'), text('input_text')] },
        { output: '' },
        { output: [] },
        { output: null },
        { output: [picture] },
        { output: { text: long } },
        {},
      ),
    })
  const few = <T>(share: number, make: () => T): readonly T[] => (random.chance(share) ? [make()] : [])
  const step = (id: string): JsonObject[] => {
    const ids = random.chance(0.5) ? [id] : [id, `${id}b`, ...few(0.2, () => id)]
    const outputs = ids.map(output)
    return [
      ...few(0.3, thought),
      ...few(0.6, () => message('assistant', 'output_text')),
      ...ids.map(call),
      ...few(0.1, () => message('assistant', 'output_text')),
      ...few(0.1, thought),
      ...odd<JsonObject[]>([], [question()]),
      ...random.pick([outputs, outputs, outputs, outputs, outputs, outputs, outputs.toReversed(), []]),
    ]
  }
  const steps = Array.from({ length: random.between(1, 8) }, (_, at) =>
    random.chance(0.2) ? [question(), message('assistant', 'output_text')] : step(`call_${at}`),
  )
  const tool = (name: string): JsonObject =>
    shuffled({
      type: odd('function', 'custom', 'web_search', 'namespace'),
      name: odd<JsonValue>(name, 'read_file', 'a b', '', 7),
      ...odd<JsonObject>({ description: long }, {}, { description: null }, { description: '' }),
      ...odd<JsonObject>({ parameters: schema }, {}, { parameters: null }, { parameters: {} }, { parameters: [] }),
      ...random.pick<JsonObject>([{}, { strict: false }, { strict: true }, { strict: null }, { strict: 'no' }]),
    })
  const beginning: JsonObject = {
    model: odd('m', ''),
    ...odd<JsonObject>({ instructions: long }, {}, { instructions: null }, { instructions: '' }, { instructions: 7 }),
  }
  const items = [...odd([question()], [], [question(), question()]), ...steps.flat(), ...odd([question()], [])]
  const input: JsonObject = { input: odd<JsonValue>(items, long, '', [], [question(), 7]) }
  const offered = [tool('read_file'), ...few(0.2, () => ({ type: 'web_search' })), tool('write_file')]
  if (random.chance(0.1)) offered.push(tool('read_file'))
  const body: JsonObject = {
    ...(random.chance(0.5) ? { ...beginning, ...input } : { ...input, ...beginning }),
    ...odd<JsonObject>({ tools: offered }, {}, { tools: [] }, { tools: null }, { tools: [{ type: 'web_search' }] }),
    tool_choice: random.pick<JsonValue>([null, 'auto', 'required', { type: 'function', name: 'read_file' }]),
    ...odd({}, { temperature: 9 }),
    store: false,
    reasoning: { effort: 'high', summary: null },
    include: ['reasoning.encrypted_content'],
  }
  const json = written(body, random, 3000)
    .replaceAll('"#"', () => `"${argumentsOfAgent(random)}"`)
    .replaceAll('"escaped"', '"assist\\u0061nt"')
  const blanks = random.chance(0.3) ? json.replaceAll('":', '" :\r\n').replaceAll('},{', '},\n{') : json
  const again = () =>
    random.pick(['"role":"user","role"', '"rol\\u0065"', '"x":1e999,"role"', '"type":"message","role"'])
  const twice = () =>
    random.pick(['"type":"message","type"', '"typ\\u0065"', '"type":"functi\\u006fn_call","x"', '"call_id":"z","type"'])
  if (random.chance(0.05)) return blanks.replace('"role"', again)
  return random.chance(0.05) ? blanks.replace('"type"', twice) : blanks
}

function bodyOf(name: DialectName, random: Random): string {
  return written(BODIES[name](random), random).replaceAll('"#"', () => `"${callArguments(random)}"`)
}

/** One change that leaves most of a body as it is. */
function mutated(bytes: Uint8Array, random: Random): Uint8Array {
  const at = random.below(bytes.length)
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
  const put = random.pick(['"', '\\', '\n', '\u0001', '{', '}', ',', ':', '\\u12', '\\x', 'é', '\ufeff'])
  switch (random.below(5)) {
    case 0:
      return Buffer.concat([before, after.subarray(1)])
    case 1:
      return Buffer.concat([before, Buffer.of(random.below(256)), after.subarray(1)])
    case 2:
      return Buffer.concat([before, Buffer.from(put), after])
    case 3:
      return Buffer.concat([before, after.subarray(random.below(40)), bytes.subarray(at, at + 30)])
    default:
      return before
  }
}

for (const name of ['chat', 'messages', 'responses'] as const) {
  describe(name, () => {
    const counts = { long: 0, all: 0 }

    property('providers receive the same JSON, and callers the same error', 250, (random) => {
      counts.all++
      if (compare(name, Buffer.from(bodyOf(name, random))) !== undefined) counts.long++
    })

    property('also if the body is damaged', 400, (random) => {
      compareErrors(name, mutated(Buffer.from(bodyOf(name, random)), random))
    })

    test('most of these bodies had long texts', () => expect(counts.long).toBeGreaterThan(counts.all / 2))
  })
}

const USUAL = { chat: usualChat, messages: usualMessages, responses: usualResponses }

for (const [name, cases] of [
  ['chat', 400],
  ['messages', 400],
  ['responses', 200],
] as const) {
  describe(`what agents send as ${name}`, () => {
    const counts = { messages: 0, tools: 0, all: 0 }
    const bodyOfAgent = (random: Random) => Buffer.from(`${USUAL[name](random)}${' '.repeat(9000)}`)

    property('reaches providers as the same JSON', cases, (random) => {
      const bytes = bodyOfAgent(random)
      counts.all++
      const unparsed = compare(name, bytes)?.unparsed
      if (name === 'responses' && random.chance(0.2)) compare(name, bytes, compact)
      if (unparsed?.messages !== undefined) counts.messages++
      if (unparsed?.tools !== undefined) counts.tools++
    })

    property('also if it is damaged', cases, (random) => compareErrors(name, mutated(bodyOfAgent(random), random)))

    test('is seldom parsed', () => {
      expect(counts.messages).toBeGreaterThan(counts.all / 4)
      expect(counts.tools).toBeGreaterThan(counts.all / 2)
    })
  })
}

describe('providers receive the same JSON of Messages', () => {
  const big = 'x'.repeat(9000)
  const question = `{"role":"user","content":[{"type":"text","text":"${big}"}]}`
  const answer = '"content":[{"type":"text","text":"b"}]'
  const picture = '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}'
  const result = `{"type":"tool_result","tool_use_id":"a","content":[${picture}]}`
  const wrong = '{"type":"tool_result","tool_use_id":""}'
  const tools = '"tools":[{"name":"f","input_schema":{"type":"object"}}]'
  const mark = (rest: string) => `"cache_control":{"type":"ephemeral"${rest}}`
  const markedText = `{"type":"text","text":"c",${mark(',"ttl":"5m"')}}`
  const markedResult = `{"type":"tool_result","tool_use_id":"a","content":[${markedText}],${mark('')}}`
  const call = (id: string, number: string) =>
    `{"role":"assistant","content":[{"type":"tool_use","id":"${id}","name":"f","input":{"n":${number}}}]}`

  test.each([
    ['if a role is written with an escape', `{"messages":[${question},{"role":"assist\\u0061nt",${answer}}]}`],
    [
      'if a message is wrong after others that were read as unparsed',
      `{${tools},"messages":[${question},{"role":"user","content":[${result},${wrong}]}]}`,
    ],
    [
      'if a result and its last text have different cache marks',
      `{${tools},"messages":[${question},{"role":"user","content":[${markedResult}]}]}`,
    ],
    [
      'if one input has a long integer, and another one a large number in another form',
      `{${tools},"messages":[${question},${call('a', '12345678901234567890')},${call('b', '1E20')}]}`,
    ],
  ])('%s', (_, text) => {
    expect(compare('messages', Buffer.from(text.replace('{', '{"model":"m",')))).toBeDefined()
  })
  describe('if a turn has several messages', () => {
    const started = `${question},${call('a', '1')}`
    const block = (text: string, rest = '') => `{"type":"text","text":"${text}"${rest}}`
    const user = (...blocks: readonly string[]) => `{"role":"user","content":[${blocks}]}`
    const ended = (rest = '') => `{"type":"tool_result","tool_use_id":"a","content":"${big}"${rest}}`
    const marked = `,${mark('')}`

    test.each([
      ['a result and a question', [user(ended()), user(block('b'))]],
      ['a question and a result', [user(block('b')), user(ended())]],
      ['a result with a text, and a result', [user(ended(), block('b')), user(ended())]],
      ['several questions', [user(block('b'), block('c')), user(block('d')), user(block('e'))]],
      ['cache marks', [user(ended(marked)), user(block('b', marked)), user(block('c', marked))]],
      ['more cache marks than are sent', Array.from({ length: 6 }, () => user(block('b', marked)))],
      ['a blank text', [user(ended()), user(block(' '))]],
      ['a text that is a string', [user(ended()), '{"role":"user","content":"b"}']],
      ['members in another order', [user(ended()), `{"content":[${block('b')}],"role":"user"}`]],
      ['blanks between its members', [user(ended()), `{"role":"user", "content": [${block('b')}] }`]],
      ['unknown members', [user(ended()), `{"role":"user","content":[${block('b', ',"x":1')}],"x":[{"a":1}]}`]],
      ['a role in other letters', [user(ended()), `{"role":"User","content":[${block('b')}]}`]],
      ['no blocks', [user(ended()), user(), user(block('b'))]],
      ['an answer after it', [user(ended()), user(block('b')), '{"role":"assistant","content":"c"}']],
      [
        'several answers after it',
        [user(ended()), ...[1, 2].map((n) => `{"role":"assistant",${answer.replace('b', `${n}`)}}`)],
      ],
    ])('%s', (_, turn) => {
      for (const rest of ['', mark(''), mark(',"ttl":"5m"')]) {
        const body = `{"model":"m",${tools},"messages":[${[started, ...turn]}]${rest && `,${rest}`}}`
        expect(compare('messages', Buffer.from(body))).toBeDefined()
      }
    })
  })
})

describe('providers receive the same JSON of tools', () => {
  const big = 'x'.repeat(9000)
  const { chat, responses } = {
    chat: (tool: string, rest: string) => {
      const messages = `"messages":[{"role":"user","content":"${big}"}]`
      const second = '{"type":"function","function":{"name":"g","parameters":{"type":"object"}}}'
      return `{"model":"m",${messages},"tools":[{"type":"function","function":{${tool}}},${second}]${rest}}`
    },
    responses: (tool: string, rest: string) => {
      const second = '{"type":"function","name":"g","parameters":{"type":"object"}}'
      return `{"model":"m","input":"${big}","tools":[{"type":"function",${tool}},${second}]${rest}}`
    },
  }
  const name = '"name":"f"'
  const choice = (form: string) => `,"tool_choice":{"type":"allowed_tools",${form}}`

  test.each([
    ['a schema of another type', `${name},"parameters":{"type":"string"}`],
    ['a schema of several types', `${name},"parameters":{"type":["object","null"]}`],
    ['a schema without a type', `${name},"parameters":{"properties":{"type":"object"}}`],
    ['a type that is there twice', `${name},"parameters":{"type":"object","type":"array"}`],
    ['a type written with an escape', `${name},"parameters":{"type":"\\u006fbject"}`],
    ['a name written with an escape', `${name},"parameters":{"\\u0074ype":"string","type":"object"}`],
    ['a strict tool', `"strict":true,"parameters":{"type":"object"},${name},"description":"é \\"b\\""`],
    [
      'a tool that is not strict',
      `${name},"description":"","strict":false,"parameters":{ "type" : "object" , "a" : 1.0 }`,
    ],
  ])('%s', (_, tool) => {
    expect(compare('chat', Buffer.from(chat(tool, '')))).toBeDefined()
    expect(compare('responses', Buffer.from(responses(tool, '')))).toBeDefined()
  })

  test('some of which alone are allowed', () => {
    const tool = `${name},"parameters":{"type":"object"}`
    const named = '"tools":[{"type":"function","function":{"name":"g"}}]'
    const ofChat = choice(`"allowed_tools":{"mode":"auto",${named}}`)
    expect(compare('chat', Buffer.from(chat(tool, ofChat)))?.unparsed?.tools).toBeDefined()
    const ofResponses = choice('"mode":"auto","tools":[{"type":"function","name":"g"}]')
    expect(compare('responses', Buffer.from(responses(tool, ofResponses)))?.unparsed?.tools).toBeDefined()
  })
})

/** The same for bytes that may not be JSON. */
function compareErrors(name: DialectName, bytes: Uint8Array): void {
  const { largeBody } = DIALECTS[name]
  if (readLargeBody(Uint8Array.from(bytes), largeBody) === undefined) return
  // What is read with long texts is valid: the usual way must find nothing wrong with it.
  parseBody(bytes)
  compare(name, bytes)
}

const FOLDER = join(import.meta.dir, '../fixtures/callers')

const TEXT_NAMES: readonly string[] = ['content', 'text', 'output']

/** A recorded body with long texts in place of its texts, and of what the recorder has cut. */
function lengthened(value: JsonValue, name = ''): JsonValue {
  if (typeof value === 'string') return value.endsWith('…') || TEXT_NAMES.includes(name) ? long : value
  if (isArray(value)) return value.map((item) => lengthened(item))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([own, member]) => [own, lengthened(member ?? null, own)]))
}

describe('recorded agents', () => {
  const files = ['agents', 'requests'].flatMap((folder) =>
    readdirSync(join(FOLDER, folder)).map((file) => `${folder}/${file}`),
  )
  let found = 0

  test.each(files)('%s', (file) => {
    const { url, path = url, body: recorded } = JSON.parse(readFileSync(join(FOLDER, file), 'utf8'))
    if (JSON.stringify(recorded).includes('item_reference')) return
    const name = path.includes('messages') ? 'messages' : path.includes('responses') ? 'responses' : 'chat'
    for (let seed = 1; seed <= 5; seed++) {
      const body = written(lengthened(recorded), new Random(seed), 3000)
      if (compare(name, Buffer.from(`${body}${' '.repeat(9000)}`)) !== undefined) found++
    }
  })

  test('many of them have long texts', () => expect(found).toBeGreaterThan(50))
})

test('the estimate of long texts is that of the same texts, but for the choice of windows', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed)
    const content = inside(random, 300_000)
    const bytes = Buffer.from(
      `{"model":"m","messages":[{"role":"user","content":"${content} end"}]}${' '.repeat(9000)}`,
    )
    const dialect = DIALECTS.chat
    const read = readLargeBody(bytes, dialect.largeBody)
    if (read === undefined) continue
    const estimated = estimateInput(synchronous(dialect.accept(read.json, CALLER, read.longTexts)).request)
    const usual = estimateInput(synchronous(dialect.accept(parseBody(bytes), CALLER)).request)
    // Measured: 0.8 to 1.25. Escapes such as \u00e9 make a text longer in bytes than in characters.
    expect(estimated / usual).toBeGreaterThan(0.6)
    expect(estimated / usual).toBeLessThan(1.7)
  }
})
