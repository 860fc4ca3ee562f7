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
import { LongTexts } from '../../src/core/long-texts.ts'
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
import { inside } from './agent-json.ts'
import { bodyOf, long, mutated, USUAL, written } from './large-bodies.ts'

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

const UNITS = [
  'x',
  'é',
  '日',
  '👩',
  '\\\\',
  '\\"',
  '\\n',
  '\\u00e9',
  '\\ud83d\\ude00',
  '\\\\u00',
  'u0041',
  '\\ud800',
] as const

property('the beginning of a text is that of the whole', 60, (random) => {
  const units = random.chance(0.3) ? [random.pick(UNITS)] : UNITS
  const inside = Array.from({ length: random.between(100, 3000) }, () => random.pick(units as never) as string).join('')
  const bytes = Buffer.from(inside)
  const texts = new LongTexts(bytes, 'Secret0123456789abcdef', [], 0)
  const text = `before ${texts.textAt(0, bytes.length)} after`
  const whole = texts.resolve(text)
  for (const chars of [1, 2, 7, 8, 9, 100, 101, 102, random.below(3000), 1_000_000])
    expect(texts.beginning(text, chars)).toBe(whole.slice(0, chars))
})
