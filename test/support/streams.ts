/**
 * Random answers: canonical events in the order law of `core/event.ts`, and the bytes of a Chat Completions server for
 * them, with the quirks of real servers.
 */

import type { FinishReason, StreamEvent } from '../../src/core/event.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import { bytesOf } from './bytes.ts'
import type { Random } from './random.ts'

/** Text that breaks careless code: lone surrogates, line breaks of all kinds, text that looks like SSE or JSON. */
const WORDS = [
  'Hello',
  ' world',
  '!',
  ' ',
  '\n',
  '\r\n',
  '\t',
  '\u0000\u001f',
  '"',
  '\\',
  '\\u0041',
  '/',
  '</script>',
  '\u0085',
  '\u2028',
  '\u2029',
  '\ufeff',
  'é',
  '日本語',
  '👩‍👩‍👧‍👦',
  '\ud83d',
  '\ude00',
  '\uffff',
  'data: [DONE]\n\n',
  'event: error\n',
  '{"error":{}}',
  '[DONE]',
] as const

/** At most `words` words. `pieces` may split surrogate pairs. */
export function randomText(random: Random, words: number): string {
  return random.list(words, () => random.pick(WORDS)).join('')
}

/** A whole answer as canonical events, from `start` to `end`. */
export function randomEvents(random: Random): StreamEvent[] {
  const events: StreamEvent[] = [{ type: 'start' }]
  const early = () => {
    if (random.chance(0.1)) events.push({ type: 'usage', usage: randomUsage(random) })
  }
  const text = (kind: 'text' | 'refusal', words: number) => {
    for (const piece of random.pieces(randomText(random, words), 8)) {
      events.push({ type: kind, text: piece })
      early()
    }
  }
  if (random.chance(0.85)) text('text', 12)
  else text('refusal', 6)
  const reason = randomReason(random, addCalls(random, events))
  if (random.chance(0.15)) text('text', 4)
  events.push({ type: 'finish', reason })
  if (random.chance(0.8)) events.push({ type: 'usage', usage: randomUsage(random) })
  events.push({ type: 'end' })
  return events
}

/** Calls one after the other or interleaved; returns their number. */
function addCalls(random: Random, events: StreamEvent[]): number {
  const count = random.chance(0.5) ? 0 : random.between(1, 4)
  const interleaved = random.chance(0.3)
  let open: StreamEvent[][] = []
  for (let index = 0; index < count; index++) {
    const json = random.chance(0.2) ? '{}' : JSON.stringify({ q: randomText(random, 5), n: random.below(100) })
    const deltas = random.pieces(json, 6).map((piece) => ({ type: 'tool-delta', index, json: piece }) as const)
    const start = {
      type: 'tool-start',
      index,
      callId: `call_${random.below(1e9)}_${index}`,
      name: random.pick(['ping', 'get_weather', 'x-y_Z9']),
    } as const
    events.push(start)
    if (interleaved) open.push(deltas)
    else events.push(...deltas)
  }
  while (open.length > 0) {
    const next = open[random.below(open.length)]?.shift()
    if (next !== undefined) events.push(next)
    open = open.filter((deltas) => deltas.length > 0)
  }
  return count
}

function randomReason(random: Random, calls: number): FinishReason {
  if (random.chance(0.1)) return 'length'
  if (calls > 0) return 'tool-call'
  return random.chance(0.1) ? 'content-filter' : 'stop'
}

function randomUsage(random: Random): Usage {
  const input = random.below(5000)
  const output = random.below(5000)
  return {
    input,
    output,
    ...(random.chance(0.5) ? { cachedInput: random.between(0, input) } : {}),
    ...(random.chance(0.5) ? { reasoning: random.between(0, output) } : {}),
  }
}

/** The quirks of a server. All of them occur in practice. */
interface Manner {
  readonly newline: '\n' | '\r\n' | '\r'
  readonly bom: boolean
  readonly space: string
  readonly comments: boolean
  readonly extraFields: boolean
  readonly manyLines: boolean
  readonly escapes: boolean
  readonly roleOnAll: boolean
  readonly header: 'once' | 'repeated' | 'blanked'
  readonly index: 'from 0' | 'from 1' | 'none'
  readonly emptyArguments: boolean
  readonly stopForCalls: boolean
  readonly empties: boolean
  readonly reasoning: boolean
  readonly usageNull: boolean
  readonly done: 'yes' | 'spaces' | 'no blank line' | 'missing' | 'and more'
}

function randomManner(random: Random, events: readonly StreamEvent[]): Manner {
  const quirk = (probability = 0.2) => random.chance(probability)
  return {
    newline: quirk(0.3) ? random.pick(['\r\n', '\r']) : '\n',
    bom: quirk(0.1),
    space: quirk() ? '' : ' ',
    comments: quirk(),
    extraFields: quirk(),
    manyLines: quirk(0.1),
    escapes: quirk(),
    roleOnAll: quirk(),
    header: quirk(0.4) ? random.pick(['repeated', 'blanked']) : 'once',
    index: quirk(0.3) ? (isInterleaved(events) ? 'from 1' : random.pick(['from 1', 'none'])) : 'from 0',
    emptyArguments: quirk(),
    stopForCalls: quirk(),
    empties: quirk(),
    reasoning: quirk(),
    usageNull: quirk(),
    done: quirk(0.4) ? random.pick(['spaces', 'no blank line', 'missing', 'and more']) : 'yes',
  }
}

function isInterleaved(events: readonly StreamEvent[]): boolean {
  let last = -1
  return events.some((event) => {
    if (event.type === 'tool-start') last = event.index
    return event.type === 'tool-delta' && event.index !== last
  })
}

/** The bytes of a Chat Completions server for the events. Its decoder must find the same answer. */
export function chatProviderBytes(random: Random, events: readonly StreamEvent[]): Uint8Array {
  const manner = randomManner(random, events)
  const writer = new Writer(random, manner)
  if (random.chance(0.2)) writer.chunk([], { id: '', model: '', prompt_filter_results: [{ prompt_index: 0 }] })
  writer.delta({ role: 'assistant', content: random.chance(0.5) ? '' : null })
  const tools = new ToolWords(manner, events)
  for (const event of events) {
    if (manner.empties && random.chance(0.3)) writer.filler()
    if (manner.reasoning && random.chance(0.2) && event.type === 'text')
      writer.delta({ content: null, reasoning_content: 'hm' })
    if (event.type === 'text') writer.delta({ content: event.text })
    else if (event.type === 'refusal') writer.delta({ refusal: event.text })
    else if (event.type === 'tool-start' || event.type === 'tool-delta') tools.say(writer, event)
    else if (event.type === 'finish') writer.delta({}, finishWord(random, manner, event.reason))
    else if (event.type === 'usage') writer.usage(event.usage)
  }
  writer.done()
  return bytesOf(`${manner.bom ? '\ufeff' : ''}${writer.text}`)
}

function finishWord(random: Random, manner: Manner, reason: FinishReason): string {
  switch (reason) {
    case 'stop':
      return random.chance(0.1) ? random.pick(['eos', 'end_turn', 'COMPLETE']) : 'stop'
    case 'length':
      return 'length'
    case 'content-filter':
      return 'content_filter'
    case 'tool-call':
      return manner.stopForCalls ? 'stop' : 'tool_calls'
  }
}

/** Tool events → `delta.tool_calls` of the server. */
class ToolWords {
  private readonly headers = new Map<number, { id: string; name: string }>()

  constructor(
    private readonly manner: Manner,
    private readonly events: readonly StreamEvent[],
  ) {}

  say(writer: Writer, event: StreamEvent & { readonly type: 'tool-start' | 'tool-delta' }): void {
    const shift = this.manner.index === 'from 1' ? 1 : 0
    const index = this.manner.index === 'none' ? {} : { index: event.index + shift }
    if (event.type === 'tool-start') {
      this.headers.set(event.index, { id: event.callId, name: event.name })
      const call = { ...index, id: event.callId, type: 'function', function: { name: event.name, arguments: '' } }
      writer.delta({ tool_calls: [call] })
      return
    }
    if (this.manner.emptyArguments && this.argumentsOf(event.index) === '{}') return
    const { id = '', name = '' } = this.headers.get(event.index) ?? {}
    const header = this.manner.header
    const words = header === 'repeated' ? { id, type: 'function' } : header === 'blanked' ? { id: '', type: '' } : {}
    const names = header === 'repeated' ? { name } : header === 'blanked' ? { name: '' } : {}
    writer.delta({ tool_calls: [{ ...index, ...words, function: { ...names, arguments: event.json } }] })
  }

  private argumentsOf(index: number): string {
    return this.events
      .flatMap((event) => (event.type === 'tool-delta' && event.index === index ? [event.json] : []))
      .join('')
  }
}

/** Chunks → SSE text of the server. */
class Writer {
  text = ''

  constructor(
    private readonly random: Random,
    private readonly manner: Manner,
  ) {}

  delta(delta: object, finish: string | null = null): void {
    const role = this.manner.roleOnAll ? { role: 'assistant' } : {}
    this.chunk([{ index: 0, delta: { ...role, ...delta }, logprobs: null, finish_reason: finish }])
  }

  chunk(choices: readonly object[], more: object = {}): void {
    const usage = this.manner.usageNull ? { usage: null } : {}
    const extra = this.manner.extraFields ? { obfuscation: 'abc', x_groq: { id: 'r' }, service_tier: 'default' } : {}
    this.event({
      id: 'c1',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices,
      ...usage,
      ...extra,
      ...more,
    })
  }

  usage(usage: Usage): void {
    const details =
      usage.cachedInput === undefined ? {} : { prompt_tokens_details: { cached_tokens: usage.cachedInput } }
    const wrote =
      usage.reasoning === undefined ? {} : { completion_tokens_details: { reasoning_tokens: usage.reasoning } }
    const total = (usage.input ?? 0) + (usage.output ?? 0)
    const counts = {
      prompt_tokens: usage.input,
      completion_tokens: usage.output,
      total_tokens: total,
      ...details,
      ...wrote,
    }
    const choices = this.random.chance(0.3) ? [{ index: 0, delta: { content: '' }, finish_reason: null }] : []
    this.chunk(choices, { usage: counts })
  }

  /** Frames without content, which must be skipped. */
  filler(): void {
    const choice = this.random.pick<object>([
      { delta: {} },
      { delta: { content: '' } },
      { delta: { content: null } },
      { content_filter_results: {} },
    ])
    this.chunk([{ index: 0, finish_reason: null, ...choice }])
  }

  done(): void {
    const { newline, done, space } = this.manner
    if (done === 'missing') return
    if (done === 'no blank line') this.text += `data:${space}[DONE]`
    else this.text += `data:${space}[DONE]${done === 'spaces' ? '  ' : ''}${newline}${newline}`
    if (done === 'and more')
      this.event({ choices: [{ index: 0, delta: { content: 'too late' }, finish_reason: null }] })
  }

  private event(value: object): void {
    const { newline, space, manyLines, extraFields, comments } = this.manner
    if (comments && this.random.chance(0.3))
      this.text += `: OPENROUTER PROCESSING${newline}${this.random.chance(0.5) ? newline : ''}`
    if (extraFields && this.random.chance(0.2)) this.text += `id: 7${newline}retry: 100${newline}`
    const json = manyLines ? JSON.stringify(value, null, 1) : JSON.stringify(value)
    const lines = (this.manner.escapes ? escaped(json) : json).split('\n')
    this.text += lines.map((line) => `data:${space}${line}${newline}`).join('') + newline
  }
}

/** The same JSON with escapes for everything that is not ASCII, as servers in other languages write it. */
function escaped(json: string): string {
  return json.replace(/[^\u0000-\u007e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** One way of cutting bytes into chunks. */
export interface Cutting {
  readonly name: string
  readonly chunks: readonly Uint8Array[]
}

/** Uncut, byte by byte, in sevens, three at random, and every single cut of a short stream (at most `singles`). */
export function* cuts(bytes: Uint8Array, random: Random, singles = 3000): Generator<Cutting> {
  yield { name: 'whole', chunks: [bytes] }
  yield { name: 'byte by byte', chunks: every(bytes, () => 1) }
  yield { name: 'in sevens', chunks: every(bytes, () => 7) }
  for (const most of [20, 200, 2000])
    yield { name: `at random up to ${most}`, chunks: every(bytes, () => random.between(1, most)) }
  for (let at = 0; at <= bytes.length && bytes.length <= singles; at++)
    yield { name: `cut at ${at}`, chunks: [bytes.subarray(0, at), bytes.subarray(at)] }
}

function every(bytes: Uint8Array, size: () => number): Uint8Array[] {
  const chunks: Uint8Array[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + size()
    chunks.push(bytes.subarray(at, end))
    at = end
  }
  return chunks
}
