/** Random requests: calls and results pair, and everything else is as irregular as callers' histories. */

import type { ChatRequest, ToolChoice } from '../../src/core/chat-request.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { CacheMark } from '../../src/core/entry-marks.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { EFFORTS, type Reasoning } from '../../src/core/reasoning.ts'
import { chatRequest, type Literal, type Message, type TextPart, type Tool, type UserPart } from '../support/literal.ts'
import type { Random } from '../support/random.ts'

const TEXTS = ['Hello', ' world \n', '', ' ', '\n\t', 'é日本語👩‍👩‍👧', '"quoted" \\', 'ends in space  ', '.'] as const
const NAMES = [
  'get_weather',
  'get-time',
  'a.b',
  'a_b',
  'a b',
  'mcp__server__tool',
  '1st',
  '-x',
  'naïve',
  'x'.repeat(64),
  'x'.repeat(65),
  'x'.repeat(200),
] as const
const IDS = ['call_1', 'call_2', 'toolu_01A', 'call:3', 'fc/4', '', 'i'.repeat(64), 'i'.repeat(90)] as const
const JSONS = [
  '{"city":"Oslo"}',
  '{}',
  '',
  '{"a":{"b":[1,2,{"c":null}]}}',
  '{"cut":"of',
  '[1]',
  '"text"',
  ' null',
] as const

/** `unmarked` leaves cache marks out. */
export function randomRequest(random: Random, marks: 'marked' | 'unmarked' = 'marked'): Literal {
  return new Maker(random, marks === 'marked' && random.chance(0.6)).request()
}

export function endpoint(more: Partial<Endpoint> = {}): Endpoint {
  return {
    name: 'test',
    baseUrl: 'http://127.0.0.1:1',
    apiKey: 'secret-key',
    headers: {},
    deadlines: { connectMs: 1000, firstByteMs: { stream: 1000, whole: 1000 }, idleMs: 1000, totalMs: 1000 },
    ...more,
  }
}

/** A request with one user text and the test's changes. */
export function plainRequest(more: Partial<Literal> = {}): ChatRequest {
  return chatRequest(plainLiteral(more))
}

/** The same with messages and tools as objects. */
export function plainLiteral(more: Partial<Literal>): Literal {
  return {
    model: 'public-model',
    stream: false,
    messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hi' }] }],
    tools: [],
    limitsOutput: false,
    stop: [],
    sampling: {},
    hints: {},
    cacheStrict: false,
    ...more,
  }
}

/** The request without parts that only Chat Completions servers accept; the same object if there are none. */
export function withoutNative(request: Literal): Literal {
  const isNative = (part: UserPart) => part.type === 'native'
  if (!request.messages.some((message) => message.role === 'user' && message.parts.some(isNative))) return request
  const messages = request.messages.map((message) =>
    message.role === 'user' ? { ...message, parts: message.parts.filter((part) => !isNative(part)) } : message,
  )
  return { ...request, messages }
}

class Maker {
  constructor(
    private readonly random: Random,
    private readonly marked: boolean,
  ) {}

  request(): Literal {
    const { random } = this
    const messages = random.list(6, () => this.exchange()).flat()
    const tools = random.chance(0.7) ? this.tools() : []
    const reasoning = random.chance(0.5) ? undefined : this.reasoning()
    return plainLiteral({
      reasoning,
      stream: random.chance(0.5),
      messages: messages.length > 0 ? messages : [this.user()],
      tools,
      toolChoice: tools.length > 0 ? this.choice(tools) : undefined,
      parallelToolCalls: random.pick([undefined, true, false]),
      maxOutputTokens: random.pick([undefined, 1, 4096, 40_000]),
      stop: random.list(7, () => random.pick(['END', '\n', ' ', 'two words'])),
      sampling: {
        temperature: random.pick([undefined, 0, 0.7, 1, 2]),
        topP: random.pick([undefined, 0.5, 1]),
        frequencyPenalty: random.pick([undefined, 1]),
        seed: random.pick([undefined, 7]),
        reasoningEffort: reasoning === undefined ? random.pick([undefined, 'high']) : undefined,
        responseFormat: random.pick([
          undefined,
          { type: 'json_object' },
          { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties: {} } } },
        ]),
      },
      hints: {
        user: random.pick([undefined, '', 'user-1', 'u'.repeat(300)]),
        serviceTier: random.pick([undefined, 'auto', 'flex']),
      },
      cache: this.mark(),
    })
  }

  /** How much the model is to think, as callers of each dialect state it. */
  private reasoning(): Reasoning {
    const { random } = this
    const effort = random.pick([undefined, ...EFFORTS])
    const shows = { texts: random.chance(0.5), seals: random.chance(0.5) }
    const field = random.pick(['reasoning_effort', 'reasoning', 'thinking', 'output_config'])
    if (field === 'reasoning') return { effort, summary: random.pick([undefined, 'auto']), shows, field }
    if (field !== 'thinking') return { effort, shows, field }
    const thinking = random.pick(['enabled', 'adaptive', 'disabled'] as const)
    const budget = thinking === 'enabled' ? random.pick([1024, 3000, 200_000]) : undefined
    return { effort, thinking, budget, display: random.pick([undefined, 'omitted']), shows, field }
  }

  /** Messages that belong together: a system message, a user message, or an answer with the results of its calls. */
  private exchange(): Message[] {
    const { random } = this
    if (random.chance(0.15)) return [{ role: 'system', parts: this.texts() }]
    if (random.chance(0.5)) return [this.user()]
    const answers = Array.from({ length: random.between(1, 2) }, () => this.assistant())
    const calls = answers.flatMap((answer) => (answer.role === 'assistant' ? answer.toolCalls : []))
    const results = calls.map(
      ({ callId }): Message => ({
        role: 'tool',
        callId,
        parts: this.texts(),
        isError: random.pick([undefined, true, false]),
        cache: this.mark(),
      }),
    )
    // Some callers send the next question before the results.
    return random.chance(0.2) ? [...answers, this.user(), ...results] : [...answers, ...results]
  }

  private assistant(): Message {
    const { random } = this
    return {
      role: 'assistant',
      parts: this.texts(),
      refusal: random.chance(0.1) ? 'I cannot.' : undefined,
      toolCalls: random.list(3, () => ({
        callId: random.pick(IDS),
        name: random.pick(NAMES),
        json: random.pick(JSONS),
        cache: this.mark(),
      })),
    }
  }

  private user(): Message {
    const part = (): UserPart => {
      if (this.random.chance(0.7)) return this.text()
      if (this.random.chance(0.2))
        return { type: 'native', json: { type: 'input_audio', input_audio: { data: 'aGk=' } } }
      return { type: 'image', source: { type: 'base64', mediaType: 'image/jpg', data: 'aGk=' }, cache: this.mark() }
    }
    return { role: 'user', parts: this.random.list(3, part) }
  }

  private texts(): TextPart[] {
    return this.random.list(3, () => this.text())
  }

  private text(): TextPart {
    return { type: 'text', text: this.random.pick(TEXTS), cache: this.mark() }
  }

  private tools(): Tool[] {
    const names = new Set([this.random.pick(NAMES), ...this.random.list(4, () => this.random.pick(NAMES))])
    return [...names].map((name) => ({
      name,
      description: this.random.pick([undefined, 'What it does.']),
      parameters: this.random.pick<JsonObject>([
        { type: 'object', properties: {} },
        { $schema: 'x', type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false },
        { properties: { a: {} } },
      ]),
      strict: this.random.pick([undefined, true, false]),
      cache: this.mark(),
    }))
  }

  private choice(tools: readonly Tool[]): ToolChoice | undefined {
    const [first] = tools
    const names = tools.slice(0, this.random.between(1, tools.length)).map(({ name }) => name)
    return this.random.pick<ToolChoice | undefined>([
      undefined,
      { mode: 'auto' },
      { mode: 'none' },
      { mode: 'required' },
      { mode: 'tool', name: first?.name ?? '' },
      { mode: 'allowed', names, required: this.random.chance(0.5) },
    ])
  }

  private mark(): CacheMark | undefined {
    if (!this.marked || this.random.chance(0.7)) return undefined
    return this.random.pick<CacheMark>([{}, { ttl: '5m' }, { ttl: '1h' }])
  }
}
