/**
 * The suite for every dialect: the same conversation, the same answers in canonical form, and the same requirements.
 */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import type { FinishReason, StreamEvent } from '../../src/core/event.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import type { Dialect } from '../../src/dialects/dialect.ts'
import { errorBody } from '../../src/dialects/error-body.ts'
import { jsonInside } from '../../src/wire/sse.ts'
import { type Meaning, meaningOf } from '../laws/reading.ts'
import { answerText } from '../support/bytes.ts'
import { fold } from '../support/decode.ts'
import { canBeCopied, Encoding } from '../support/encoding.ts'
import { type Literal, readAtOnce, type Seen } from '../support/literal.ts'
import { property } from '../support/random.ts'
import { randomEvents } from '../support/streams.ts'

export interface Conformant {
  readonly dialect: Dialect
  /** A body with every required field and this as the user's one message. */
  readonly hello: JsonObject
  /** The conversation of `CONVERSATION`, with the tool of `TOOL`. */
  readonly conversation: JsonObject
  /** The field that holds the conversation. */
  readonly history: string
  /** Optional fields that may be null, as official SDKs send them. */
  readonly optional: readonly string[]
  /** A field that has an effect elsewhere and none in weir, with a value that requests something. */
  readonly ignored: readonly [field: string, value: JsonObject | string | number | boolean]
  /** The word for why an answer stopped, in an answer without tool calls. */
  readonly reasons: Readonly<Record<Exclude<FinishReason, 'tool-call'>, string>>
  /** The word for it in an answer with a tool call. */
  readonly reasonOfCalls: string
  /** Matches the event that ends a whole stream. */
  readonly terminator: RegExp
  /** The usage object of a body, or of an event that has one. */
  readonly usage: (body: JsonObject) => JsonObject | undefined
  /** Canonical counts, and the usage object that reports them. */
  readonly usages: readonly (readonly [usage: Usage, figures: JsonObject])[]
}

export const TOOL = { name: 'get_weather', description: 'Weather', parameters: { type: 'object', properties: {} } }

/** What every dialect's `conversation` means. */
const CONVERSATION = [
  { role: 'system', text: 'Be brief.' },
  { role: 'user', text: 'Weather in Oslo?' },
  {
    role: 'assistant',
    text: 'Let me check.',
    calls: [{ callId: 'call_a1', name: 'get_weather', input: { q: 'Oslo' } }],
  },
  { role: 'tool', callId: 'call_a1', text: 'rain' },
  { role: 'user', text: 'And Rome?' },
]

const CALLER = { organization: 'acme' }
const SERVED = { model: 'acme-large', createdAt: 1763650000 }

const text = (...pieces: string[]): StreamEvent[] => pieces.map((piece) => ({ type: 'text', text: piece }))
const call = (index: number, ...pieces: string[]): StreamEvent[] => [
  { type: 'tool-start', index, callId: `call_${index}`, name: 'get_weather' },
  ...pieces.map((json): StreamEvent => ({ type: 'tool-delta', index, json })),
]
function answer(
  content: readonly StreamEvent[],
  reason: FinishReason = 'stop',
  usage: Usage = { input: 9, output: 3 },
): StreamEvent[] {
  return [{ type: 'start' }, ...content, { type: 'finish', reason }, { type: 'usage', usage }, { type: 'end' }]
}

interface Row {
  readonly name: string
  readonly events: readonly StreamEvent[]
  readonly text: string
  readonly inputs?: readonly JsonObject[]
}

const ANSWERS: readonly Row[] = [
  { name: 'text', events: answer(text('Hel', 'lo')), text: 'Hello' },
  { name: 'nothing', events: answer([]), text: '' },
  {
    name: 'text that looks like an event',
    events: answer(text('data: [DONE]\n\nevent: x')),
    text: 'data: [DONE]\n\nevent: x',
  },
  {
    name: 'a refusal',
    events: answer([
      { type: 'refusal', text: 'I will ' },
      { type: 'refusal', text: 'not.' },
    ]),
    text: 'I will not.',
  },
  {
    name: 'reasoning, which no caller sees',
    events: answer([{ type: 'reasoning', text: 'secret' }, ...text('a')]),
    text: 'a',
  },
  { name: 'a call', events: answer(call(0, '{"q":', '"x"}'), 'tool-call'), text: '', inputs: [{ q: 'x' }] },
  { name: 'a call without arguments', events: answer(call(0, '{}'), 'tool-call'), text: '', inputs: [{}] },
  {
    name: 'a call with blanks around its arguments',
    events: answer(call(0, ' {"q":1}', '\n'), 'tool-call'),
    text: '',
    inputs: [{ q: 1 }],
  },
  {
    name: 'text and a call',
    events: answer([...text('a'), ...call(0, '{"q":1}')], 'tool-call'),
    text: 'a',
    inputs: [{ q: 1 }],
  },
  {
    name: 'calls one after another',
    events: answer([...call(0, '{"q":1}'), ...call(1, '{"q":2}')], 'tool-call'),
    text: '',
    inputs: [{ q: 1 }, { q: 2 }],
  },
  {
    name: 'calls that interleave',
    events: answer(
      [
        ...call(0, '{"q"'),
        ...call(1, '{"q":'),
        { type: 'tool-delta', index: 0, json: ':1}' },
        { type: 'tool-delta', index: 1, json: '2}' },
      ],
      'tool-call',
    ),
    text: '',
    inputs: [{ q: 1 }, { q: 2 }],
  },
]

/** The answers to `hello`, streamed and whole. */
class Subject {
  constructor(private readonly of: Conformant) {}

  accept(body: JsonObject): Seen {
    return readAtOnce(this.of.dialect, body, CALLER)
  }

  encoding(): Encoding {
    const body = { ...this.of.hello, stream: true, ...(this.isChat ? { stream_options: { include_usage: true } } : {}) }
    return Encoding.of(this.accept(body), SERVED)
  }

  stream(events: readonly StreamEvent[]): string {
    return this.encoding().addAll(events)
  }

  whole(events: readonly StreamEvent[]): JsonObject {
    return JSON.parse(answerText(this.accept(this.of.hello).answer(fold(events), SERVED)))
  }

  meaning(events: readonly StreamEvent[], form: 'streamed' | 'whole'): Meaning {
    const written = form === 'streamed' ? this.stream(events) : JSON.stringify(this.whole(events))
    return meaningOf(this.of.dialect.name, form === 'streamed', written)
  }

  /** The error that accepting a body throws. */
  errorOf(body: JsonObject): CallerError {
    try {
      this.accept(body)
    } catch (error) {
      if (error instanceof CallerError) return error
      throw error
    }
    throw new Error('nothing was thrown')
  }

  private get isChat(): boolean {
    return this.of.dialect.name === 'chat'
  }
}

/** A canonical conversation in the form of `CONVERSATION`. */
function conversationOf({ messages }: Literal) {
  return messages.map((message) => {
    const text = message.parts.map((part) => (part.type === 'text' ? part.text : part.type)).join('')
    if (message.role === 'tool') return { role: message.role, callId: message.callId, text }
    if (message.role !== 'assistant') return { role: message.role, text }
    const calls = message.toolCalls.map(({ callId, name, json }) => ({ callId, name, input: JSON.parse(json) }))
    return { role: message.role, text, calls }
  })
}

export function conforms(of: Conformant): void {
  const subject = new Subject(of)
  describe(of.dialect.name, () => {
    accepts(of, subject)
    rejects(of, subject)
    describe.each(['streamed', 'whole'] as const)('an answer, %s', (form) => answers(of, subject, form))
    streams(of, subject)
  })
}

function accepts(of: Conformant, subject: Subject): void {
  test('the conversation means the same in every dialect', () => {
    const { request } = subject.accept(of.conversation)
    expect<unknown>(conversationOf(request)).toEqual(CONVERSATION)
    expect(request.tools.map(({ name, description, parameters }) => ({ name, description, parameters }))).toEqual([
      TOOL,
    ])
    expect([request.model, request.stream]).toEqual(['m', false])
  })

  test('a null field equals an absent field', () => {
    const made = (body: JsonObject) => subject.accept(body).request
    const request = made(of.hello)
    const nulls = Object.fromEntries(of.optional.map((field) => [field, null]))
    expect(made({ ...of.hello, ...nulls })).toEqual(request)
    for (const field of of.optional) expect(made({ ...of.hello, [field]: null })).toEqual(request)
  })

  test('an unknown field is ignored, and one that would have an effect elsewhere is named', () => {
    const request = subject.accept(of.hello).request
    const unknown = subject.accept({ ...of.hello, no_such_field: { a: 1 } })
    expect([unknown.request, unknown.ignored] as unknown[]).toEqual([request, []])
    const [field, value] = of.ignored
    const ignored = subject.accept({ ...of.hello, [field]: value })
    expect([ignored.request, ignored.ignored] as unknown[]).toEqual([request, [field]])
  })
}

function rejects(of: Conformant, subject: Subject): void {
  const { model: _, ...nameless } = of.hello
  const { [of.history]: __, ...silent } = of.hello
  const rows: readonly (readonly [name: string, body: JsonObject, kind: string, param: string])[] = [
    ['no model', nameless, 'missing_field', 'model'],
    ['a model that is no text', { ...of.hello, model: 7 }, 'invalid_field', 'model'],
    ['an empty model', { ...of.hello, model: '' }, 'invalid_field', 'model'],
    ['no conversation', silent, 'missing_field', of.history],
    ['a conversation that is a number', { ...of.hello, [of.history]: 7 }, 'invalid_field', of.history],
    ['an empty conversation', { ...of.hello, [of.history]: [] }, 'invalid_field', of.history],
    ['a message that is no object', { ...of.hello, [of.history]: [7] }, 'invalid_field', `${of.history}[0]`],
    ['a temperature above 2', { ...of.hello, temperature: 2.1 }, 'invalid_field', 'temperature'],
    ['a stream that is a text', { ...of.hello, stream: 'yes' }, 'invalid_field', 'stream'],
    ['tools that are no list', { ...of.hello, tools: {} }, 'invalid_field', 'tools'],
    ['a tool that is no object', { ...of.hello, tools: ['x'] }, 'invalid_field', 'tools[0]'],
  ]
  test.each(rows)('%s is rejected, and the error names the field', (_name, body, kind, param) => {
    const error = subject.errorOf(body)
    expect([error.kind, error.row.status, error.detail.param] as unknown[]).toEqual([kind, 400, param])
    expect(error.message).toContain(param)
    const family = of.dialect.name === 'messages' ? 'messages' : 'chat'
    const { error: shown } = errorBody(error, family, 'req_1')
    expect(isObject(shown) ? shown['param'] : undefined).toBe(param)
  })
}

function answers(of: Conformant, subject: Subject, form: 'streamed' | 'whole'): void {
  test.each(ANSWERS.map((row) => [row.name, row] as const))('%s', (_, { events, text: expected, inputs = [] }) => {
    const meaning = subject.meaning(events, form)
    expect(meaning.text).toBe(expected)
    const calls = inputs.map((input, index) => ({ id: `call_${index}`, name: 'get_weather', input }))
    expect(meaning.calls).toEqual(calls)
    expect([meaning.input, meaning.output]).toEqual([9, 3])
    expect(meaning.finish).toBe(inputs.length > 0 ? of.reasonOfCalls : of.reasons.stop)
  })

  test.each(Object.entries(of.reasons))('the reason %s', (reason, word) => {
    expect(subject.meaning(answer(text('a'), reason as FinishReason), form).finish).toBe(word)
  })

  test.each(of.usages)('the usage %j', (usage, figures) => {
    const events = answer(text('a'), 'stop', usage)
    const data = [...subject.stream(events).matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json))
    const bodies = form === 'whole' ? [subject.whole(events)] : data
    expect(bodies.flatMap((body) => of.usage(body) ?? []).at(-1)).toEqual(figures)
  })

  test('has the public name of the model, and an id of its own', () => {
    const write = () =>
      form === 'whole' ? JSON.stringify(subject.whole(answer(text('a')))) : subject.stream(answer(text('a')))
    const ids = [write(), write()].map((written) => {
      expect(written).toContain('"model":"acme-large"')
      return /"id":"([^"]+)"/.exec(written)?.[1]
    })
    expect(ids[0]).toBeString()
    expect(ids[0]).not.toBe(ids[1])
  })

  test('a call whose arguments are not an object is a provider error', () => {
    for (const json of ['{"q":', '[1]', 'x', '{}{}'])
      expect(() => subject.meaning(answer(call(0, json), 'tool-call'), form)).toThrow(ProviderError)
  })
}

function streams(of: Conformant, subject: Subject): void {
  property('a stream without its end has no terminator, wherever it was cut', 60, (random) => {
    const events = randomEvents(random)
    const encoding = subject.encoding()
    for (const event of events.slice(0, -1)) expect(encoding.add(event)).not.toMatch(of.terminator)
    expect(encoding.addAll(events.slice(-1))).toMatch(of.terminator)
  })

  property('a stream and a whole answer of the same events mean the same', 60, (random) => {
    const events = randomEvents(random)
    expect(subject.meaning(events, 'streamed')).toEqual(subject.meaning(events, 'whole'))
  })

  property('keep-alives between all events change nothing', 60, (random) => {
    const events = randomEvents(random)
    const encoding = subject.encoding()
    const written = events.map((event) => encoding.encoder.keepAlive + encoding.add(event)).join('')
    expect(meaningOf(of.dialect.name, true, written)).toEqual(subject.meaning(events, 'streamed'))
  })

  property('copied texts give the bytes of text events', 60, (random) => {
    const events = randomEvents(random)
    const encoding = subject.encoding()
    const copied = events.map((event) =>
      canBeCopied(event) ? encoding.copy([jsonInside(event.text)]) : encoding.add(event),
    )
    const anonymous = (stream: string) =>
      stream.replace(/"(?:msg|fc|resp|chatcmpl)[_-][\w-]{24}"|"completed_at":\d+/g, '"id"')
    expect(anonymous(copied.join(''))).toBe(anonymous(subject.stream(events)))
  })
}
