/**
 * Canonical events → the Messages stream (inference-api.md 6.4, wire.md A4.3). Its readers know one open block at a time, so that what
 * belongs to a later block waits here until the open one is whole.
 */

import type { ContentEvent, FinishReason } from '../../core/event.ts'
import { ProviderError } from '../../core/provider-error.ts'
import type { Usage } from '../../core/token-usage.ts'
import { jsonInside, KEEP_ALIVE_COMMENT, namedEvent } from '../../wire/sse.ts'
import { mintId } from '../answer-ids.ts'
import type { Served, StreamEncoder, StreamMeter } from '../dialect.ts'
import { stopReason } from './answer.ts'
import { messagesUsage } from './usage.ts'

/**
 * The most characters that wait behind an open call. Only a provider whose parallel calls interleave makes any wait. Beyond it the stream
 * is cut: to close the open block would lose what still belongs to it.
 */
export const HELD_CHARACTERS_MAX = 256 * 1024

/** What a waiting block takes besides its text: no number of empty ones is free. */
const HELD_BLOCK_CHARACTERS = 256

/** Behind the text of a delta of either kind. */
const DELTA_CLOSING = '"}}\n\n'

const PING = namedEvent('ping', { type: 'ping' })

interface Call {
  readonly kind: 'call'
  readonly callId: string
  readonly name: string
  /** True once its arguments are whole: the block may close. */
  isWhole: boolean
  /** JSON that waits for the block to open. */
  waiting: string
}

interface HeldText {
  readonly kind: 'text'
  /** The inside of a JSON string. */
  inside: string
}

/** `message_start` goes out with the first content: by then most providers have reported the tokens of the input. */
export class MessagesEncoder implements StreamEncoder {
  private begun = false
  /** Blocks opened so far; the open one is the last of them. */
  private blocks = 0
  private open: 'nothing' | 'text' | Call = 'nothing'
  /** From the first byte of a delta of the open block to its text. */
  private deltaOpening = ''
  /** From the text of one delta of the open block to that of the next. */
  private deltaSeam = ''
  private readonly calls: Call[] = []
  /** Blocks that wait, in order of appearance. Empty unless the open block is a call that is not whole. */
  private readonly held: (Call | HeldText)[] = []
  private heldCharacters = 0

  constructor(
    private readonly served: Served,
    private readonly meter: StreamMeter,
    private readonly id: string = mintId('msg'),
  ) {}

  /** A ping once `message_start` was written; an event before it would be the first one of the stream to strict readers. */
  get keepAlive(): string {
    return this.begun ? PING : KEEP_ALIVE_COMMENT
  }

  encodeText(inside: string): string {
    if (inside === '') return ''
    if (this.open === 'text') return this.deltaOpening + inside + DELTA_CLOSING
    if (this.isBusy()) return this.holdText(inside)
    return this.begin() + this.close() + this.openText(inside)
  }

  /** The same for one text after the other: a provider's chunk often brings several. */
  encodeTexts(insides: readonly string[]): string {
    if (this.open === 'text' && !insides.includes('')) {
      return this.deltaOpening + insides.join(this.deltaSeam) + DELTA_CLOSING
    }
    return insides.map((inside) => this.encodeText(inside)).join('')
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
        return this.startCall(event.index, event.callId, event.name)
      case 'tool-delta':
        return this.continueCall(event.index, event.json, event.isLast === true)
    }
  }

  end(reason: FinishReason, usage: Usage): string {
    const delta = { stop_reason: stopReason(reason, this.calls.length > 0), stop_sequence: null }
    return (
      this.closeAll() +
      namedEvent('message_delta', { type: 'message_delta', delta, usage: messagesUsage(usage) }) +
      namedEvent('message_stop', { type: 'message_stop' })
    )
  }

  private startCall(index: number, callId: string, name: string): string {
    const call: Call = { kind: 'call', callId, name, isWhole: false, waiting: '' }
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
    if (this.blocks === 0) events += this.openText('')
    return events + this.close()
  }

  /**
   * `message_start`, the first time. `input_tokens` is our estimate if the provider has not reported the input yet, because some readers
   * (LangChain) look for it nowhere else. `output_tokens` is 0, because LangChain adds the final figure to it.
   */
  private begin(): string {
    if (this.begun) return ''
    this.begun = true
    const message = {
      id: this.id,
      type: 'message',
      role: 'assistant',
      model: this.served.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: messagesUsage({ ...this.meter.soFar, output: 0 }),
    }
    return namedEvent('message_start', { type: 'message_start', message })
  }

  private openText(inside: string): string {
    const start = this.openBlock({ type: 'text', text: '' }, '"type":"text_delta","text":"')
    this.open = 'text'
    return start + this.encodeText(inside)
  }

  private openCall(call: Call): string {
    const block = { type: 'tool_use', id: call.callId, name: call.name, input: {} }
    const start = this.openBlock(block, '"type":"input_json_delta","partial_json":"')
    this.open = call
    const { waiting } = call
    call.waiting = ''
    return start + this.jsonDelta(call, waiting)
  }

  private openHeld(block: Call | HeldText): string {
    return block.kind === 'call' ? this.openCall(block) : this.openText(block.inside)
  }

  private openBlock(block: object, delta: string): string {
    const index = this.blocks++
    this.deltaOpening = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{${delta}`
    this.deltaSeam = DELTA_CLOSING + this.deltaOpening
    return namedEvent('content_block_start', { type: 'content_block_start', index, content_block: block })
  }

  private close(): string {
    if (this.open === 'nothing') return ''
    this.open = 'nothing'
    return namedEvent('content_block_stop', { type: 'content_block_stop', index: this.blocks - 1 })
  }

  /** A call without arguments is one empty delta, as Anthropic says it: every reader begins with `input: {}` (wire.md A4.3). */
  private jsonDelta(call: Call, json: string): string {
    if (json === '') return ''
    const inside = json === '{}' && call.isWhole ? '' : jsonInside(json)
    return this.deltaOpening + inside + DELTA_CLOSING
  }

  /** Whether the open block is one that may still grow and that nothing else may close. */
  private isBusy(): boolean {
    return typeof this.open === 'object' && !this.open.isWhole
  }

  private holdText(inside: string): string {
    const last = this.held.at(-1)
    if (last?.kind !== 'text') return this.hold({ kind: 'text', inside })
    last.inside += inside
    return this.wait(inside.length)
  }

  private hold(block: Call | HeldText): string {
    this.held.push(block)
    return this.wait(heldCharacters(block))
  }

  private wait(characters: number): string {
    this.heldCharacters += characters
    if (this.heldCharacters <= HELD_CHARACTERS_MAX) return ''
    const limit = HELD_CHARACTERS_MAX
    throw new ProviderError('broken', `over ${limit} characters of later blocks came before a tool call was whole`)
  }

  /** Opens what waited, block by block, up to one that is not whole. */
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

function heldCharacters(block: Call | HeldText): number {
  const text =
    block.kind === 'text' ? block.inside.length : block.callId.length + block.name.length + block.waiting.length
  return HELD_BLOCK_CHARACTERS + text
}
