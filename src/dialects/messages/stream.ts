/**
 * Canonical events → the Messages stream. It has one open block at a time, so events of later blocks wait here until
 * the open block is whole.
 */

import type { Compatibility } from '../../core/compatibility.ts'
import type { ContentEvent, FinishReason, OwnEvent, OwnStop, ThoughtEvent } from '../../core/event.ts'
import { type JsonObject, objectOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { PART_SEAM, type Reasoning } from '../../core/reasoning.ts'
import type { Usage } from '../../core/token-usage.ts'
import { joined, jsonInside, jsonLine, KEEP_ALIVE_COMMENT, namedEvent, textEvents } from '../../wire/sse.ts'
import type { TextForm } from '../../wire/text-copier.ts'
import { mintId } from '../answer-ids.ts'
import type { Served, StreamEncoder, StreamMeter } from '../dialect.ts'
import { stopOf } from './answer.ts'
import { messagesUsageJson } from './usage.ts'

/**
 * The most characters that wait for an open call to become whole. None wait unless a provider interleaves parallel
 * calls. Beyond this limit the stream is cut, because closing the open block would lose the rest of it.
 */
export const HELD_CHARACTERS_MAX = 256 * 1024

/** What a waiting block counts besides its text, so that the limit also bounds empty blocks. */
const HELD_BLOCK_CHARACTERS = 256

/** The most characters of events that came after the answer's end and wait for its last event. */
const LATE_CHARACTERS_MAX = 64 * 1024
const NO_MEMBERS: JsonObject = {}

/** The end of a delta, after its text. */
const DELTA_CLOSING = '"}}\n\n'

const PING = namedEvent('ping', { type: 'ping' })
const MESSAGE_STOP = namedEvent('message_stop', { type: 'message_stop' })
const THINKING_DELTA = '"type":"thinking_delta","thinking":"'
const DELTA = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":'

interface Call {
  readonly kind: 'call'
  readonly callId: string
  readonly name: string
  readonly own: JsonObject | undefined
  /** True once its arguments are whole: the block may close. */
  isWhole: boolean
  /** JSON that waits until the block opens. */
  waiting: string
}

interface HeldText {
  readonly kind: 'text'
  /** The inside of a JSON string. */
  inside: string
}

/** A thought, whose seal comes last. */
interface HeldThought {
  readonly kind: 'thought'
  inside: string
  seal: string | undefined
  isRedacted: boolean
}

type Held = Call | HeldText | HeldThought

/**
 * `message_start` waits for the first content, because by then most providers have reported the tokens of the input.
 */
export class MessagesEncoder implements StreamEncoder {
  private begun = false
  /** Blocks opened so far; the open one is the last of them. */
  private blocks = 0
  private open: 'nothing' | 'text' | 'thought' | 'own' | Call = 'nothing'
  /** A block of text has begun, or a call. */
  private hasSpoken = false
  /** Members of the message and of its end that only Anthropic's own API has, and events that came after its end. */
  private members: JsonObject = NO_MEMBERS
  private ending: JsonObject = NO_MEMBERS
  private late = ''
  /** A delta of the open block up to its text. */
  private deltaOpening = ''
  /** The characters between the texts of two deltas of the open block. */
  private deltaSeam = ''
  private readonly calls: Call[] = []
  /** Blocks that wait, in order. Empty unless the open block is a call that is not whole. */
  private readonly held: Held[] = []
  private heldCharacters = 0

  constructor(
    private readonly served: Served,
    private readonly meter: StreamMeter,
    private readonly id: string = mintId('msg'),
    private readonly status: Compatibility['status'] = 'completed',
    /** What the caller sees of thoughts; absent for nothing. */
    private readonly shows?: Reasoning['shows'],
  ) {}

  /**
   * A ping after `message_start`; a comment before it, because strict readers require `message_start` as the first
   * event.
   */
  get keepAlive(): string {
    return this.begun ? PING : KEEP_ALIVE_COMMENT
  }

  encodeText(inside: string): string {
    if (inside === '') return ''
    if (this.open === 'text') return this.deltaOpening + inside + DELTA_CLOSING
    if (this.isBusy()) return this.holdText(inside)
    return this.begin() + this.close() + this.openText(inside)
  }

  /** As `encodeText` for each text. A chunk from a provider often has several. */
  encodeTexts(insides: readonly string[]): string {
    if (this.open !== 'text' || insides.includes('')) {
      let deltas = ''
      for (const inside of insides) deltas += this.encodeText(inside)
      return deltas
    }
    return textEvents(this.deltaOpening, insides, this.deltaSeam, DELTA_CLOSING)
  }

  textForm(): TextForm | undefined {
    return this.formOf('text')
  }

  private formOf(kind: 'text' | 'thought'): TextForm | undefined {
    if (this.open !== kind) return undefined
    return { opening: this.deltaOpening, seam: this.deltaSeam, closing: DELTA_CLOSING }
  }

  start(): string {
    return ''
  }

  encode(event: ContentEvent): string {
    switch (event.type) {
      case 'text':
      case 'refusal':
        return this.encodeText(jsonInside(event.text))
      case 'tool-start':
        return this.startCall(event.index, event.callId, event.name, event.own)
      case 'tool-delta':
        return this.continueCall(event.index, event.json, event.isLast === true)
    }
  }

  encodeThoughts(insides: readonly string[]): string {
    if (this.shows?.texts !== true) return ''
    if (this.open === 'thought') return textEvents(this.deltaOpening, insides, this.deltaSeam, DELTA_CLOSING)
    let events = ''
    for (const inside of insides) events += this.thoughtDelta(inside)
    return events
  }

  thoughtForm(): TextForm | undefined {
    return this.formOf('thought')
  }

  /** Without words, what is left of a thought is its seal. */
  encodeThought(event: ThoughtEvent): string {
    const { shows } = this
    if (shows === undefined) return ''
    if (event.type === 'thought') return event.seal ? this.endThought(event.seal, event.isRedacted === true) : ''
    if (!shows.texts || event.text === '') return ''
    return this.thoughtDelta(jsonInside(event.isNewPart === true ? PART_SEAM + event.text : event.text))
  }

  private thoughtDelta(inside: string): string {
    if (this.open === 'thought') return this.deltaOpening + inside + DELTA_CLOSING
    if (this.isBusy()) return this.holdThought(inside)
    return this.begin() + this.close() + this.openThought(inside)
  }

  private endThought(seal: string, isRedacted: boolean): string {
    if (this.open === 'thought') return this.sealThought(seal)
    const last = this.held.at(-1)
    if (last?.kind === 'thought' && last.seal === undefined) {
      last.seal = seal
      return this.wait(seal.length)
    }
    const thought: HeldThought = { kind: 'thought', inside: '', seal, isRedacted }
    if (this.isBusy()) return this.hold(thought)
    return this.begin() + this.close() + this.openHeld(thought)
  }

  private holdThought(inside: string): string {
    const last = this.held.at(-1)
    if (last?.kind !== 'thought' || last.seal !== undefined)
      return this.hold({ kind: 'thought', inside, seal: undefined, isRedacted: false })
    last.inside += inside
    return this.wait(inside.length)
  }

  private openThought(inside: string): string {
    const start = this.openBlock('{"type":"thinking","thinking":"","signature":""}', THINKING_DELTA)
    this.open = 'thought'
    return inside === '' ? start : start + this.deltaOpening + inside + DELTA_CLOSING
  }

  private sealThought(seal: string): string {
    const delta = `${DELTA}${this.blocks - 1},"delta":{"type":"signature_delta","signature":"${seal}${DELTA_CLOSING}`
    return delta + this.close()
  }

  end(reason: FinishReason, usage: Usage, own?: OwnStop): string {
    const { delta, usage: ownUsage, ...members } = this.ending
    const stopped = withMembers(jsonLine(stopOf({ reason, own }, this.calls.length > 0, this.status)), objectOf(delta))
    const ended = `{"type":"message_delta","delta":${stopped},"usage":${this.usageJson(usage, objectOf(ownUsage))}}`
    const events = `${this.closeAll()}event: message_delta\ndata: ${withMembers(ended, members)}\n\n`
    return events + this.late + MESSAGE_STOP
  }

  own({ part, value, name = '' }: OwnEvent, isLate: boolean): string {
    switch (part) {
      case 'message':
        this.members = value
        return ''
      case 'ending':
        this.ending = value
        return ''
      case 'event':
        if (!isLate) return this.begin() + namedEvent(name, value)
        if (this.late.length > LATE_CHARACTERS_MAX) throw new ProviderError('broken', 'too many events after the end')
        this.late += namedEvent(name, value)
        return ''
      case 'delta':
        if (this.open === 'nothing') return ''
        return `${DELTA}${this.blocks - 1},"delta":${jsonLine(value)}}\n\n`
      case 'stop':
        return this.open === 'own' ? this.close() : ''
      case 'text':
        if (this.isBusy()) return ''
        return this.begin() + this.close() + this.openText('', value)
      case 'block':
        return this.openOwn(value)
    }
  }

  private openOwn(block: JsonObject): string {
    if (this.isBusy()) throw new ProviderError('broken', 'a block began before a tool call was whole')
    const start = this.begin() + this.close() + this.openBlock(jsonLine(block), '')
    this.open = 'own'
    this.hasSpoken = true
    return start
  }

  private usageJson(usage: Usage, own: JsonObject | undefined): string {
    return withMembers(messagesUsageJson(usage), own)
  }

  private startCall(index: number, callId: string, name: string, own: JsonObject | undefined): string {
    const call: Call = { kind: 'call', callId, name, own, isWhole: false, waiting: '' }
    this.calls[index] = call
    if (this.isBusy()) return this.hold(call)
    return this.begin() + this.close() + this.openCall(call)
  }

  private continueCall(index: number, json: string, isLast: boolean): string {
    const call = this.calls[index]
    if (call === undefined) throw new Error(`arguments of call ${index} before its start`)
    call.isWhole = isLast
    if (this.open === call) return this.jsonDelta(call, json) + this.release()
    call.waiting += json
    return this.wait(json.length)
  }

  private closeAll(): string {
    let events = this.begin()
    for (const block of this.held.splice(0)) events += this.close() + this.openHeld(block)
    if (!this.hasSpoken) events += this.close() + this.openText('')
    return events + this.close()
  }

  /**
   * `message_start`, the first time. `input_tokens` is our estimate if the provider has not reported the input yet,
   * because some readers (LangChain) look for it nowhere else. `output_tokens` is 0, because LangChain adds the final
   * figure to it.
   */
  private begin(): string {
    if (this.begun) return ''
    this.begun = true
    const { usage: ownUsage, ...members } = this.members
    const usage = this.usageJson({ ...this.meter.soFar, output: 0 }, objectOf(ownUsage))
    const message =
      `{"id":"${this.id}","type":"message","role":"assistant","model":${jsonLine(this.served.model)},` +
      `"content":[],"stop_reason":null,"stop_sequence":null,"usage":${usage}}`
    const event = `{"type":"message_start","message":${withMembers(message, members)}}`
    return `event: message_start\ndata: ${event}\n\n`
  }

  private openText(inside: string, members?: JsonObject): string {
    const block = withMembers('{"type":"text","text":""}', members)
    const start = this.openBlock(block, '"type":"text_delta","text":"')
    this.open = 'text'
    this.hasSpoken = true
    return start + this.encodeText(inside)
  }

  private openCall(call: Call): string {
    const block = { type: 'tool_use', id: call.callId, name: call.name, input: {}, ...call.own }
    const start = this.openBlock(jsonLine(block), '"type":"input_json_delta","partial_json":"')
    this.open = call
    this.hasSpoken = true
    const { waiting } = call
    call.waiting = ''
    return start + this.jsonDelta(call, waiting)
  }

  private openHeld(block: Held): string {
    if (block.kind === 'call') return this.openCall(block)
    if (block.kind === 'text') return this.openText(block.inside)
    const { inside, seal = '', isRedacted } = block
    if (!isRedacted) return this.openThought(inside) + (seal === '' ? '' : this.sealThought(seal))
    const start = this.openBlock(`{"type":"redacted_thinking","data":"${seal}"}`, '')
    this.open = 'thought'
    return start + this.close()
  }

  private openBlock(json: string, delta: string): string {
    const index = this.blocks++
    this.deltaOpening = joined(DELTA, String(index), ',"delta":{', delta)
    this.deltaSeam = DELTA_CLOSING + this.deltaOpening
    const start = `{"type":"content_block_start","index":${index},"content_block":${json}}`
    return `event: content_block_start\ndata: ${start}\n\n`
  }

  private close(): string {
    if (this.open === 'nothing') return ''
    this.open = 'nothing'
    const stop = `{"type":"content_block_stop","index":${this.blocks - 1}}`
    return `event: content_block_stop\ndata: ${stop}\n\n`
  }

  /** A call without arguments has one empty delta, as Anthropic sends it: readers begin with `input: {}`. */
  private jsonDelta(call: Call, json: string): string {
    if (json === '') return ''
    const inside = json === '{}' && call.isWhole ? '' : jsonInside(json)
    return this.deltaOpening + inside + DELTA_CLOSING
  }

  /** True if the open block is a call that is not whole, so that no other block may open. */
  private isBusy(): boolean {
    return typeof this.open === 'object' && !this.open.isWhole
  }

  private holdText(inside: string): string {
    const last = this.held.at(-1)
    if (last?.kind !== 'text') return this.hold({ kind: 'text', inside })
    last.inside += inside
    return this.wait(inside.length)
  }

  private hold(block: Held): string {
    this.held.push(block)
    return this.wait(heldCharacters(block))
  }

  private wait(characters: number): string {
    this.heldCharacters += characters
    if (this.heldCharacters <= HELD_CHARACTERS_MAX) return ''
    const limit = HELD_CHARACTERS_MAX
    throw new ProviderError('broken', `over ${limit} characters of later blocks came before a tool call was whole`)
  }

  /** Opens the waiting blocks one by one, up to a call that is not whole. */
  private release(): string {
    let events = ''
    while (!this.isBusy()) {
      const next = this.held.shift()
      if (next === undefined) break
      this.heldCharacters -= heldCharacters(next)
      events += this.close() + this.openHeld(next)
    }
    return events
  }
}

function heldCharacters(block: Held): number {
  return HELD_BLOCK_CHARACTERS + charactersOf(block)
}

function charactersOf(block: Held): number {
  switch (block.kind) {
    case 'text':
      return block.inside.length
    case 'thought':
      return block.inside.length + (block.seal?.length ?? 0)
    case 'call':
      return block.callId.length + block.name.length + block.waiting.length
  }
}

/** The JSON of an object, with more members. */
function withMembers(json: string, members: JsonObject | undefined): string {
  if (members === undefined || members === NO_MEMBERS) return json
  const more = jsonLine(members)
  return more === '{}' ? json : `${json.slice(0, -1)},${more.slice(1)}`
}
