/**
 * The laws of the Messages dialect over random answers: its grammar accepts every stream; what an SDK gathers from one
 * equals the whole answer; text that is copied gives the bytes of text that is encoded; nothing ends what did not end;
 * what we sent is accepted back.
 */

import { describe, expect, test } from 'bun:test'
import type { FinishReason, StreamEvent } from '../../src/core/event.ts'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { mergeUsage, type Usage } from '../../src/core/token-usage.ts'
import { messagesAnswer } from '../../src/dialects/messages/answer.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { MessagesEncoder } from '../../src/dialects/messages/stream.ts'
import { jsonInside } from '../../src/wire/sse.ts'
import { fold } from '../support/decode.ts'
import { canBeCopied, Encoding } from '../support/encoding.ts'
import { readAtOnce } from '../support/literal.ts'
import { property, Random } from '../support/random.ts'
import { checkMessagesStream } from './messages-grammar.ts'

const CASES = 2000
const served = { model: 'acme-large', createdAt: 1 }

/**
 * Text that breaks those who are not careful: halves of pairs, line breaks of all kinds, what looks like SSE or JSON.
 */
const WORDS = [
  'Hello',
  ' ',
  '\n\n',
  '\r',
  '"',
  '\\',
  '{',
  '}',
  '[',
  '\u0000',
  '\u0085',
  '\u2028',
  '\u2029',
  'é',
  '日本',
  '👩‍👧',
  '\ud83d',
  '\ude00',
  'event: message_stop\n',
  'data: {"type":"message_stop"}\n\n',
] as const

const randomText = (random: Random) => random.list(8, () => random.pick(WORDS)).join('')

/** The rest of one call, piece by piece. */
interface Pending {
  readonly index: number
  readonly pieces: string[]
}

/** A whole answer in the order law; `takingTurns`: calls and text interleave. */
class Script {
  readonly events: StreamEvent[] = [{ type: 'start' }]
  private calls = 0
  private open: Pending[] = []
  private usage: Usage = {}

  constructor(
    private readonly random: Random,
    private readonly takingTurns: boolean,
    private readonly textType: 'text' | 'refusal',
  ) {}

  build(): StreamEvent[] {
    const { random } = this
    for (let steps = random.below(12); steps > 0; steps--) {
      if (random.chance(0.15)) this.report()
      if (random.chance(0.5)) this.say()
      else if (this.calls < 4) this.call()
      if (!this.takingTurns) this.drain()
      else if (random.chance(0.7)) this.goOn()
    }
    this.drain()
    this.events.push({ type: 'finish', reason: this.reason() })
    if (random.chance(0.8)) this.report()
    this.events.push({ type: 'end' })
    return this.events
  }

  private say(): void {
    for (const piece of this.random.pieces(randomText(this.random), 4))
      this.events.push({ type: this.textType, text: piece })
  }

  private call(): void {
    const { random } = this
    const input = { [randomText(random)]: randomText(random), n: [{}, { x: random.below(9) }] }
    const json = random.chance(0.2) ? '{}' : JSON.stringify(input, null, random.below(3))
    const blanks = random.chance(0.1) ? [' \n'] : []
    const index = this.calls++
    this.events.push({ type: 'tool-start', index, callId: `call_${index}`, name: random.pick(['ping', 'get_weather']) })
    this.open.push({ index, pieces: [...(json === '{}' ? [json] : random.pieces(json, 6)), ...blanks] })
  }

  private goOn(): void {
    const pending = this.open[this.random.below(this.open.length)]
    const json = pending?.pieces.shift()
    if (pending !== undefined && json !== undefined)
      this.events.push({ type: 'tool-delta', index: pending.index, json })
    this.open = this.open.filter(({ pieces }) => pieces.length > 0)
  }

  private drain(): void {
    while (this.open.length > 0) this.goOn()
  }

  /** Figures grow, as a provider's do. */
  private report(): void {
    const { random } = this
    const more = (figure: number | undefined) => (random.chance(0.5) ? (figure ?? 0) + random.below(100) : figure)
    const { cachedInput, cacheWrite5m, cacheWrite1h, output } = this.usage
    const usage = { cachedInput: more(cachedInput), cacheWrite5m: more(cacheWrite5m), cacheWrite1h: more(cacheWrite1h) }
    this.usage = mergeUsage(this.usage, { ...usage, input: 5000 + random.below(100), output: more(output) })
    this.events.push({ type: 'usage', usage: this.usage })
  }

  private reason(): FinishReason {
    if (this.random.chance(0.1)) return this.random.pick(['length', 'content-filter'])
    return this.calls > 0 && this.random.chance(0.8) ? 'tool-call' : 'stop'
  }
}

const script = (random: Random) =>
  new Script(random, random.chance(0.5), random.chance(0.9) ? 'text' : 'refusal').build()

const encoding = () => new Encoding((meter) => new MessagesEncoder(served, meter, 'msg_1'))
const encodeAll = (events: readonly StreamEvent[]) => encoding().addAll(events)

function answerTo(events: readonly StreamEvent[]): JsonObject {
  return messagesAnswer(fold(events), served)
}

/** A message as the official SDK gathers it: by index, without checking any order. */
function gather(stream: string): JsonObject {
  let message: JsonObject = {}
  const blocks: { block: JsonObject; json: string }[] = []
  for (const [, data = ''] of stream.matchAll(/^data: (.*)$/gm)) {
    const event: JsonObject = JSON.parse(data)
    const index = Number(event['index'])
    const at = blocks[index]
    if (isObject(event['message'])) message = event['message']
    if (isObject(event['content_block'])) blocks[index] = { block: event['content_block'], json: '' }
    const delta = isObject(event['delta']) ? event['delta'] : {}
    if (at !== undefined && typeof delta['text'] === 'string')
      at.block = { ...at.block, text: `${at.block['text']}${delta['text']}` }
    if (at !== undefined && typeof delta['partial_json'] === 'string') at.json += delta['partial_json']
    if (event['type'] === 'content_block_stop' && at?.json) at.block = { ...at.block, input: JSON.parse(at.json) }
    if (event['type'] === 'message_delta') {
      const before = isObject(message['usage']) ? message['usage'] : {}
      const usage = isObject(event['usage']) ? event['usage'] : {}
      message = { ...message, ...delta, usage: { ...before, ...usage } }
    }
  }
  return { ...message, content: blocks.map(({ block }) => block) }
}

/** Text first and in one block, as a whole answer has it: a stream may have text after a call. */
function textFirst(message: JsonObject): JsonObject {
  const { content } = message
  if (!isArray(content)) throw new Error('no content')
  const blocks = content.filter(isObject)
  const text = blocks.map((block) => (block['type'] === 'text' ? block['text'] : '')).join('')
  const calls = blocks.filter((block) => block['type'] === 'tool_use')
  return { ...message, content: text === '' && calls.length > 0 ? calls : [{ type: 'text', text }, ...calls] }
}

const textAfterCall = (events: readonly StreamEvent[]) => {
  const first = events.findIndex(({ type }) => type === 'tool-start')
  return first !== -1 && events.slice(first).some(({ type }) => type === 'text' || type === 'refusal')
}

describe('every answer', () => {
  property('order: the grammar accepts its stream', CASES, (random) => {
    const events = script(random)
    const starts = events.flatMap((event) => (event.type === 'tool-start' ? [event.callId] : []))
    const { blocks } = checkMessagesStream(encodeAll(events))
    expect(blocks.flatMap(({ id }) => id ?? [])).toEqual(starts)
  })

  property('fold: what an SDK gathers from its stream equals its body', CASES, (random) => {
    const events = script(random)
    const gathered = gather(encodeAll(events))
    const expected = { ...answerTo(events), id: 'msg_1' }
    expect(textAfterCall(events) ? textFirst(gathered) : gathered).toEqual(expected)
  })

  property('splice: copied text gives the same bytes', CASES, (random) => {
    const events = script(random)
    const one = encoding()
    const copied = events.map((event) => (canBeCopied(event) ? one.copy([jsonInside(event.text)]) : one.add(event)))
    expect(copied.join('')).toBe(encodeAll(events))
  })

  property('splice: texts that are copied together give the same bytes', CASES, (random) => {
    const events = script(random)
    const one = encoding()
    let bytes = ''
    let insides: string[] = []
    const flush = () => {
      if (insides.length > 0) bytes += one.copy(insides)
      insides = []
    }
    for (const event of events) {
      if (canBeCopied(event)) insides.push(jsonInside(event.text))
      if (!canBeCopied(event) || random.chance(0.3)) flush()
      if (!canBeCopied(event)) bytes += one.add(event)
    }
    expect(bytes).toBe(encodeAll(events))
  })

  property('cut: without `end` no event ends the stream', CASES, (random) => {
    const events = script(random)
    const most = encodeAll(events.slice(0, random.below(events.length)))
    expect(most).not.toMatch(/^event: message_(?:delta|stop)$/m)
    expect(most).toMatch(/^(?:event: [^\n]+\ndata: [^\n]+\n\n)*$/)
  })

  property('round trip: its body is accepted back and means the same', CASES, (random) => {
    const events = script(random)
    const { content } = answerTo(events)
    const calls = isArray(content) ? content.filter(isObject).filter((block) => block['type'] === 'tool_use') : []
    const results = calls.map((call) => ({ type: 'tool_result', tool_use_id: call['id'] ?? '', content: 'ok' }))
    const history = [
      { role: 'assistant', content: content ?? '' },
      { role: 'user', content: [...results, { type: 'text', text: 'and?' }] },
    ]
    const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }, ...history] }
    const { request } = readAtOnce(messages({ toolResultImages: 'refuse' }), body)
    const [, assistant, ...rest] = request.messages
    if (assistant?.role !== 'assistant') throw new Error('no assistant')
    const text = isArray(content) && isObject(content[0]) && content[0]['type'] === 'text' ? content[0]['text'] : ''
    expect(assistant.parts.map((part) => part.text).join('')).toBe(String(text))
    expect(assistant.toolCalls.map((call) => ({ id: call.callId, input: JSON.parse(call.json) }))).toEqual(
      calls.map((call) => ({ id: String(call['id']), input: call['input'] })),
    )
    expect(rest.map((message) => (message.role === 'tool' ? message.callId : message.role))).toEqual([
      ...calls.map((call) => String(call['id'])),
      'user',
    ])
  })
})

test('the random answers reach what they are for', () => {
  const seen = new Set<string>()
  for (let seed = 0; seed < 200; seed++) {
    const events = script(new Random(seed))
    if (textAfterCall(events)) seen.add('text after a call')
    const turns = events.flatMap((event) => (event.type === 'tool-delta' ? [event.index] : []))
    if (turns.some((index, at) => index < (turns[at - 1] ?? 0))) seen.add('calls that take turns')
    if (encodeAll(events.slice(0, -2)).includes('"partial_json":""')) seen.add('a call without arguments')
  }
  expect([...seen].sort()).toEqual(['a call without arguments', 'calls that take turns', 'text after a call'])
})
