/**
 * The law of the plain answer: whatever a provider's whole answer holds, the caller's body, the usage and the error are
 * those of the same answer decoded to events and folded.
 */

import { describe, expect, test } from 'bun:test'
import { Fold } from '../../src/core/completion.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import type { DialectName, Exchange } from '../../src/dialects/dialect.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { EventCheck } from '../../src/gateway/event-check.ts'
import { plainAnswer } from '../../src/gateway/plain-answer.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { passingReader } from '../../src/providers/anthropic/request.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { accept, SERVED, plain as withoutIds } from '../dialects/responses/setting.ts'
import { DIALECTS } from '../providers/dialects.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { responsesWriter } from '../providers/openai/responses-writer.ts'
import { answerText } from '../support/bytes.ts'
import { fixtures } from '../support/fixtures.ts'
import { readAtOnce } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'
import { randomText } from '../support/streams.ts'

const PROVIDERS = {
  ...{ openai, anthropic, gemini, bedrock },
  'openai-responses': openaiResponses,
  // What only its own API has passes.
  'anthropic-own': { ...anthropic, ...passingReader },
} as const satisfies Record<string, Provider>
const NAMES = ['openai', 'anthropic', 'gemini', 'bedrock', 'openai-responses', 'anthropic-own'] as const
type Name = (typeof NAMES)[number]

function writerOf(name: Name) {
  if (name === 'anthropic-own') return DIALECTS.anthropic.writer
  return name === 'openai-responses' ? responsesWriter : DIALECTS[name].writer
}

type Answering = Omit<Exchange, 'request'>

const EXCHANGES: Readonly<Record<DialectName, () => Answering>> = {
  chat: () => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'x' }] }
    return readAtOnce(chat({ imageUrls: 'public' }), body)
  },
  messages: () => {
    const body = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] }
    return readAtOnce(messages({ toolResultImages: 'refuse' }), body)
  },
  responses: () => accept({ input: 'x', instructions: 'a\u2028b', temperature: 0.5, max_output_tokens: 99 }),
}
const DIALECT_NAMES = ['chat', 'messages', 'responses'] as const

/** The same answer by events. */
function folded(body: JsonValue, provider: Provider, exchange: Answering, meter: UsageMeter): string {
  const fold = new Fold()
  const event = (each: Parameters<Fold['add']>[0]) => {
    meter.add(each)
    fold.add(each)
  }
  const check = new EventCheck({ event, texts() {} }, undefined)
  for (const each of provider.events(body)) check.event(each)
  if (fold.completion === undefined) throw new ProviderError('cut', 'the answer is not whole')
  const usage = { ...fold.completion.usage, ...meter.count(true).usage }
  return answerText(exchange.answer({ ...fold.completion, usage }, SERVED))
}

type Way = (body: JsonValue, provider: Provider, exchange: Answering, meter: UsageMeter) => string | undefined

function outcome(way: Way, body: JsonValue, provider: Provider, dialect: DialectName) {
  const meter = new UsageMeter(10, 4000)
  try {
    const text = way(body, provider, EXCHANGES[dialect](), meter)
    if (text === undefined) return undefined
    const same = withoutIds(text).replace(/chatcmpl-[\w-]{24}/, 'chatcmpl')
    return { text: same, complete: meter.count(true), cut: meter.count(false), reason: meter.reason }
  } catch (error) {
    if (error instanceof ProviderError) return { error: error.message, cut: meter.count(false) }
    throw error
  }
}

const plainly: Way = (body, provider, exchange, meter) => {
  const answer = plainAnswer(body, provider, exchange, meter, SERVED)
  return answer && answerText(answer)
}

/** True if the answer was plain. */
function holds(body: JsonValue, name: Name, dialect: DialectName): boolean {
  const plain = outcome(plainly, body, PROVIDERS[name], dialect)
  if (plain !== undefined) expect<unknown>(plain).toEqual(outcome(folded, body, PROVIDERS[name], dialect))
  return plain !== undefined
}

/** A plain answer in the provider's API. */
function answerOf(name: Name, text: string, random: Random): JsonObject {
  const finish = random.chance(0.2) ? 'length' : 'stop'
  return JSON.parse(JSON.stringify(writerOf(name).whole({ text, calls: [], finish })))
}

const VALUES: readonly [JsonValue, ...JsonValue[]] = [
  null,
  ...[true, 0, 1, -1, 2.5, 1e12, '', 'stop', 'tool_calls', 'error', 'STOP', 'SAFETY', 'tool_use', 'end_turn'],
  ...[[], {}, [{}], { error: { message: 'no' } }, { text: 'x' }, { index: 1 }, { a: [1] }],
]

const NAMED: readonly [readonly [string, JsonValue], ...(readonly [string, JsonValue])[]] = [
  ['refusal', 'no'],
  ['reasoning', 'hm'],
  ['reasoning_content', 'hm'],
  ['tool_calls', [{ id: 'c1', function: { name: 'f', arguments: '{}' } }]],
  ['tool_calls', []],
  ['logprobs', { content: [] }],
  ['usage', { prompt_tokens: 3, completion_tokens: 4, input_tokens: 5, outputTokens: 6 }],
  ['usage', null],
  ['usageMetadata', { promptTokenCount: 4, totalTokenCount: 9 }],
  ['x_groq', { id: 'r', usage: { prompt_tokens: 3 } }],
  ['x_groq', { error: { message: 'no' } }],
  ['error', { message: 'no' }],
  ['object', 'error'],
  ['type', 'error'],
  ['thought', true],
  ['functionCall', { name: 'f', args: {} }],
  ['toolUse', { toolUseId: 't1', name: 'f', input: {} }],
  ['reasoningContent', { reasoningText: { text: 'hm' } }],
  ['index', 1],
  ['cache_read_input_tokens', 3],
  ['cache_creation', { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 }],
  ['promptFeedback', { blockReason: 'SAFETY' }],
]

/** All objects and lists within a value, the value itself included. */
function placesIn(value: JsonValue): (JsonObject | readonly JsonValue[])[] {
  const within = isArray(value) ? value : isObject(value) ? Object.values(value) : []
  const own = isArray(value) || isObject(value) ? [value] : []
  return [...own, ...within.flatMap((each) => (each === undefined ? [] : placesIn(each)))]
}

/** One to three changes anywhere: another value, a member more or less, an element twice. */
function changed(body: JsonObject, random: Random): JsonObject {
  for (let changes = 1 + random.below(3); changes > 0; changes--) {
    const places = placesIn(body)
    const place = places[random.below(places.length)]
    if (isArray(place)) {
      if (random.chance(0.5)) Reflect.apply(Array.prototype.push, place, structuredClone(place.slice(0, 1)))
      else Reflect.set(place, random.below(place.length + 1), structuredClone(random.pick(VALUES)))
    } else if (place !== undefined) {
      const names = Object.keys(place)
      const member = names[random.below(names.length)] ?? 'a'
      const [name, value] = random.pick(NAMED)
      if (random.chance(0.2)) Reflect.deleteProperty(place, member)
      else if (random.chance(0.4)) Reflect.set(place, name, structuredClone(value))
      else Reflect.set(place, member, structuredClone(random.pick(VALUES)))
    }
  }
  return JSON.parse(JSON.stringify(body))
}

describe.each(NAMES)('%s', (name) => {
  test.each(DIALECT_NAMES)('an answer of text is plain: %s', (dialect) => {
    expect(holds(writerOf(name).whole({ text: 'Hello.', calls: [], finish: 'stop' }), name, dialect)).toBe(true)
  })

  property('plain answers', 300, (random) => {
    expect(holds(answerOf(name, `a${randomText(random, 8)}`, random), name, random.pick(DIALECT_NAMES))).toBe(true)
  })

  property('nearly plain answers', 3000, (random) => {
    const text = random.chance(0.1) ? '' : randomText(random, 8)
    holds(changed(answerOf(name, text, random), random), name, random.pick(DIALECT_NAMES))
  })

  test('tool calls are not plain', () => {
    const calls = [{ id: 'call_1', name: 'now', json: '{}' }]
    const body = JSON.parse(JSON.stringify(writerOf(name).whole({ text: 'One moment.', calls, finish: 'calls' })))
    expect(holds(body, name, 'chat')).toBe(false)
  })

  test.each(
    fixtures(`${name}/`)
      .filter(({ content_type }) => content_type === 'application/json')
      .map((each) => [each.file, each] as const),
  )('recorded: %s', (_, { bytes }) => {
    for (const dialect of DIALECT_NAMES) holds(JSON.parse(Buffer.from(bytes).toString()), name, dialect)
  })
})

test('a compaction is not written plainly', () => {
  expect(accept({ input: [{ type: 'compaction_trigger' }] }).plain).toBeUndefined()
})
