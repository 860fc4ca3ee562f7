/**
 * Law 6, round trip: a history that we produced is accepted back, in every dialect, over three turns, with nothing
 * lost; and what every provider is then asked keeps the rules that it publishes.
 */

import { describe, expect } from 'bun:test'
import type { StreamEvent } from '../../src/core/event.ts'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import type { Dialect, DialectName } from '../../src/dialects/dialect.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { CALLER, dialect as responses, SERVED } from '../dialects/responses/setting.ts'
import { objectOf } from '../providers/conformance.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { endpoint } from '../providers/requests.ts'
import { responsesRules } from '../providers/responses-rules.ts'
import { anthropicRules, bedrockRules, geminiRules, vertexClaudeRules, vertexGeminiRules } from '../providers/rules.ts'
import { answerText } from '../support/bytes.ts'
import { fold } from '../support/decode.ts'
import { Encoding } from '../support/encoding.ts'
import { chatRequest, type Literal, readBody, type Seen } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'
import { randomEvents } from '../support/streams.ts'
import { checkChatStream } from './chat-grammar.ts'
import { checkMessagesStream } from './messages-grammar.ts'
import { checkResponsesStream } from './responses-grammar.ts'

const TOOLS = ['ping', 'get_weather', 'x-y_Z9']
const parameters = { type: 'object', properties: {} }

/** How callers of a dialect keep a conversation. */
interface Keeper {
  readonly dialect: Dialect
  body(history: readonly JsonObject[]): JsonObject
  /** What a caller keeps of an answer, read from a stream or from a body. */
  kept(random: Random, exchange: Seen, events: readonly StreamEvent[]): readonly JsonObject[]
  /** The results of these calls and the user's next message. */
  next(calls: readonly string[], words: string): readonly JsonObject[]
}

const streamOf = (exchange: Seen, events: readonly StreamEvent[]) => Encoding.of(exchange, SERVED).addAll(events)

const bodyOf = (exchange: Seen, events: readonly StreamEvent[]): JsonObject =>
  JSON.parse(answerText(exchange.answer(fold(events), SERVED)))

const objects = (value: unknown) => (isArray(value) ? value.filter(isObject) : [])

const chatKeeper: Keeper = {
  dialect: chat({ imageUrls: 'public' }),
  body: (history) => ({
    model: 'm',
    messages: history,
    tools: TOOLS.map((name) => ({ type: 'function', function: { name, parameters } })),
  }),
  kept(random, exchange, events) {
    if (random.chance(0.5)) {
      const [choice] = objects(bodyOf(exchange, events)['choices'])
      return objects([choice?.['message']])
    }
    const { text, refusal, toolCalls } = checkChatStream(streamOf(exchange, events), { includeUsage: false })
    const calls = toolCalls.map(({ id, ...called }) => ({ id, type: 'function', function: called }))
    const content = text === '' ? null : text
    return [{ role: 'assistant', content, refusal: refusal || null, ...(calls.length > 0 && { tool_calls: calls }) }]
  },
  next: (calls, words) => [
    ...calls.map((id) => ({ role: 'tool', tool_call_id: id, content: `of ${id}` })),
    { role: 'user', content: words },
  ],
}

const messagesKeeper: Keeper = {
  dialect: messages({ toolResultImages: 'refuse' }),
  body: (history) => ({
    model: 'm',
    max_tokens: 300,
    messages: history,
    tools: TOOLS.map((name) => ({ name, input_schema: parameters })),
  }),
  kept(random, exchange, events) {
    if (random.chance(0.5)) return [{ role: 'assistant', content: bodyOf(exchange, events)['content'] }]
    const { blocks } = checkMessagesStream(streamOf(exchange, events))
    const content = blocks.map(({ type, id, name, content: written }) =>
      type === 'text' ? { type, text: written } : { type, id, name, input: JSON.parse(written || '{}') },
    )
    return [{ role: 'assistant', content }]
  },
  next: (calls, words) => [
    {
      role: 'user',
      content: [
        ...calls.map((id) => ({ type: 'tool_result', tool_use_id: id, content: `of ${id}` })),
        { type: 'text', text: words },
      ],
    },
  ],
}

const responsesKeeper: Keeper = {
  dialect: responses,
  body: (history) => ({
    model: 'm',
    input: history,
    tools: TOOLS.map((name) => ({ type: 'function', name, parameters })),
  }),
  kept(random, exchange, events) {
    const output = random.chance(0.5)
      ? checkResponsesStream(streamOf(exchange, events)).output
      : objects(bodyOf(exchange, events)['output'])
    return output.map((item) => (random.chance(0.3) ? { type: 'item_reference', id: item['id'] } : item))
  },
  next: (calls, words) => [
    ...calls.map((id) => ({ type: 'function_call_output', call_id: id, output: `of ${id}` })),
    { role: 'user', content: words },
  ],
}

const KEEPERS: Readonly<Record<DialectName, Keeper>> = {
  chat: chatKeeper,
  messages: messagesKeeper,
  responses: responsesKeeper,
}

async function accepted({ dialect, body }: Keeper, history: readonly JsonObject[]): Promise<Seen> {
  return await readBody(dialect, body(history), CALLER)
}

/** The turn's events under call ids of its own. */
const turnOf = (random: Random, turn: number) =>
  randomEvents(random).map((event) =>
    event.type === 'tool-start' ? { ...event, callId: `${event.callId}_${turn}` } : event,
  )

/** What the model gets as its own earlier turns: all texts as one, and calls with their inputs. */
function keptIn({ messages: turns }: Literal) {
  const assistant = turns.flatMap((turn) => (turn.role === 'assistant' ? [turn] : []))
  return {
    text: assistant.map(({ parts, refusal = '' }) => parts.map((part) => part.text).join('') + refusal).join(''),
    calls: assistant.flatMap(({ toolCalls }) =>
      toolCalls.map(({ callId, name, json }) => ({ callId, name, input: JSON.parse(json) })),
    ),
    results: turns.flatMap((turn) => (turn.role === 'tool' ? [turn.callId] : [])),
  }
}

/** A stream has the refusal in its place; a kept message has it after the text. */
const letters = (text: string) => [...text].sort().join('')

const PROVIDERS = [
  [openai, (body: JsonObject) => expect(objects(body['messages']).length).toBeGreaterThan(0)],
  [openaiResponses, responsesRules],
  [anthropic, anthropicRules],
  [gemini, geminiRules],
  [bedrock, bedrockRules],
  [vertexGemini, vertexGeminiRules],
  [vertexClaude, vertexClaudeRules],
] as const

describe.each(Object.entries(KEEPERS))('%s', (_, keeper) => {
  property('three turns', 150, async (random) => {
    const history: JsonObject[] = [{ role: 'user', content: 'turn 0' }]
    const texts: string[] = []
    const calls: ReturnType<typeof keptIn>['calls'] = []
    let mixes = false
    for (let turn = 1; turn <= 3; turn++) {
      const events = turnOf(random, turn)
      const { text, refusal = '', toolCalls } = fold(events)
      history.push(...keeper.kept(random, await accepted(keeper, history), events))
      history.push(
        ...keeper.next(
          toolCalls.map((call) => call.callId),
          `turn ${turn}`,
        ),
      )
      texts.push(text + refusal)
      mixes ||= text !== '' && refusal !== ''
      calls.push(...toolCalls.map(({ callId, name, json }) => ({ callId, name, input: JSON.parse(json) })))
    }
    const { request } = await accepted(keeper, history)
    const kept = keptIn(request)
    const order = mixes ? letters : (text: string) => text
    expect(order(kept.text)).toBe(order(texts.join('')))
    expect(kept.calls).toEqual(calls)
    expect(kept.results).toEqual(kept.calls.map(({ callId }) => callId))
    for (const [provider, rules] of PROVIDERS) {
      const { body } = provider.request(chatRequest(request), { endpoint: endpoint(), model: 'claude-sonnet-4-5' })
      rules(objectOf(body), request)
    }
  })
})
