/**
 * Anthropic's stream events → canonical events. Thinking becomes `reasoning`; unknown events, blocks and deltas are
 * skipped.
 */

import type { PlainAnswer } from '../../core/completion.ts'
import type { FinishReason, OwnStop, StreamEvent } from '../../core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue, numberOf, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount, type Usage } from '../../core/token-usage.ts'
import { reportedError } from '../error-response.ts'
import { isBlank, parseFrame } from '../frame-json.ts'
import type { StreamDecoder } from '../provider.ts'
import { ThoughtBlocks } from '../thought-blocks.ts'
import { ToolBlocks } from '../tool-blocks.ts'
import { isPlainMessage, OwnBlocks } from './own-blocks.ts'

/** One per stream. Only `message_stop` completes it. */
export class AnthropicDecoder implements StreamDecoder {
  private readonly tools = new ToolBlocks()
  private readonly counts = new Counts()
  private started = false
  private finished = false
  private readonly thinking = new ThoughtBlocks()
  private ended = false
  private readonly own: OwnBlocks | undefined

  /** `passes`: what has no canonical event becomes one of Anthropic's own. */
  constructor(passes = false) {
    this.own = passes ? new OwnBlocks() : undefined
  }

  decode(event: string, data: string): readonly StreamEvent[] {
    return this.ended || isBlank(data)
      ? []
      : this.read(event, parseFrame(data, this.own === undefined ? repeatsNumbers : undefined))
  }

  read(event: string, chunk: JsonObject): readonly StreamEvent[] {
    const events: StreamEvent[] = []
    this.apply(stringOf(chunk['type']) ?? event, chunk, events)
    return events
  }

  close(): readonly StreamEvent[] {
    if (!this.ended) throw new ProviderError('cut', 'the stream ended before message_stop')
    return []
  }

  /** A whole message as the events of a stream. */
  body(message: JsonObject): readonly StreamEvent[] {
    const content = message['content']
    if (!isArray(content)) throw new ProviderError('broken', 'the answer is not a message')
    const events: StreamEvent[] = []
    this.start(events)
    this.own?.message(message, events)
    for (const [index, block] of content.entries()) {
      this.beginBlock({ index, content_block: block }, events)
      this.endBlock(index, events)
    }
    this.messageDelta({ delta: message, usage: message['usage'] }, events)
    this.stop(events)
    return events
  }

  private apply(type: string, chunk: JsonObject, events: StreamEvent[]): void {
    if (this.finished && type.startsWith('content_block')) return
    switch (type) {
      case 'message_start':
        this.messageStart(chunk, events)
        return
      case 'content_block_start':
        this.beginBlock(chunk, events)
        return
      case 'content_block_delta':
        this.blockDelta(chunk, events)
        return
      case 'content_block_stop':
        this.endBlock(blockIndex(chunk), events)
        return
      case 'message_delta':
        this.messageDelta(chunk, events)
        this.own?.ending(chunk, events)
        return
      case 'message_stop':
        this.stop(events)
        return
      case 'error':
        throw reportedError(chunk)
      default:
        // `ping` and event types added later. A proxy's error has no type.
        if (isObject(chunk['error'])) throw reportedError(chunk)
        if (this.own === undefined || type === 'ping') return
        this.start(events)
        this.own.event(type, chunk, events)
    }
  }

  private start(events: StreamEvent[]): void {
    if (this.started) return
    this.started = true
    events.push({ type: 'start' })
  }

  private messageStart(chunk: JsonObject, events: StreamEvent[]): void {
    this.start(events)
    const message = isObject(chunk['message']) ? chunk['message'] : {}
    this.own?.message(message, events)
    if (!isObject(message['usage'])) return
    this.counts.add(message['usage'])
    const usage = this.counts.early
    if (usage !== undefined) events.push({ type: 'usage', usage })
  }

  private beginBlock(chunk: JsonObject, events: StreamEvent[]): void {
    const block = isObject(chunk['content_block']) ? chunk['content_block'] : {}
    this.start(events)
    if (this.own?.begin(blockIndex(chunk), block, events) === true) return
    if (block['type'] === 'text') this.text(block['text'], events)
    if (block['type'] === 'thinking') this.beginThinking(chunk, block, events)
    if (block['type'] === 'redacted_thinking')
      events.push({ type: 'thought', json: JSON.stringify(block), isRedacted: true })
    if (block['type'] === 'tool_use')
      this.tools.begin(blockIndex(chunk), block['id'], block['name'], block['input'], events)
    this.own?.called(block, events)
  }

  private blockDelta(chunk: JsonObject, events: StreamEvent[]): void {
    const delta = isObject(chunk['delta']) ? chunk['delta'] : {}
    this.start(events)
    if (this.own?.delta(() => blockIndex(chunk), delta, events) === true) return
    if (delta['type'] === 'text_delta') this.text(delta['text'], events)
    if (delta['type'] === 'thinking_delta') this.addThinking(delta['thinking'], events)
    if (delta['type'] === 'signature_delta') this.thinking.sign(blockIndex(chunk), stringOf(delta['signature']) ?? '')
    if (delta['type'] === 'input_json_delta') this.pieceOfInput(blockIndex(chunk), delta['partial_json'], events)
  }

  /**
   * Tools that the provider runs itself stream their input in the same way; their blocks were skipped, so their deltas
   * are too.
   */
  private pieceOfInput(block: number, json: unknown, events: StreamEvent[]): void {
    if (this.tools.has(block)) this.tools.delta(block, stringOf(json) ?? '', events)
  }

  private text(text: unknown, events: StreamEvent[]): void {
    if (typeof text === 'string' && text !== '') events.push({ type: 'text', text })
  }

  private beginThinking(chunk: JsonObject, block: JsonObject, events: StreamEvent[]): void {
    this.thinking.begin(blockIndex(chunk), stringOf(block['signature']))
    this.thoughtCopied(stringOf(block['thinking']) ?? '')
    this.thought(block['thinking'], events)
  }

  /** Blocks come one after the other: the number of a delta's block is not read, so that deltas can be copied. */
  private addThinking(text: unknown, events: StreamEvent[]): void {
    if (typeof text === 'string') this.thoughtCopied(text)
    this.thought(text, events)
  }

  thoughtCopied(words: string): void {
    this.thinking.add(words)
  }

  /** Thinking is given back with its signature or, to servers that have none, without. */
  private endBlock(index: number, events: StreamEvent[]): void {
    this.own?.end(index, events)
    this.tools.end(index, events)
    const ended = this.thinking.end(index)
    if (ended === undefined) return
    const { words: thinking, signature } = ended
    if (thinking !== '' || signature !== '')
      events.push({ type: 'thought', json: JSON.stringify({ type: 'thinking', thinking, signature }) })
  }

  private thought(text: unknown, events: StreamEvent[]): void {
    if (typeof text === 'string' && text !== '') events.push({ type: 'reasoning', text })
  }

  private messageDelta(chunk: JsonObject, events: StreamEvent[]): void {
    this.start(events)
    const delta = isObject(chunk['delta']) ? chunk['delta'] : {}
    const reason = stringOf(delta['stop_reason'])
    if (reason !== undefined) this.finish(finishReason(reason), events, ownStop(reason, delta['stop_sequence']))
    if (!isObject(chunk['usage'])) return
    this.counts.add(chunk['usage'])
    events.push({ type: 'usage', usage: this.counts.usage })
  }

  private finish(reason: FinishReason, events: StreamEvent[], own?: OwnStop): void {
    if (this.finished) return
    this.finished = true
    this.tools.endAll(events)
    const finish = { type: 'finish', reason: this.tools.reason(reason) } as const
    events.push(own === undefined ? finish : { ...finish, own })
  }

  private stop(events: StreamEvent[]): void {
    if (!this.started) throw new ProviderError('broken', 'the stream ended before its first event')
    this.finish('stop', events)
    this.ended = true
    events.push({ type: 'end' })
  }
}

/** The events of a non-streamed message. */
export function anthropicEvents(body: JsonValue, passes = false): readonly StreamEvent[] {
  if (!isObject(body)) throw new ProviderError('broken', 'the answer is not a JSON object')
  if (body['type'] === 'error' || isObject(body['error'])) throw reportedError(body)
  return new AnthropicDecoder(passes).body(body)
}

/** As `anthropicPlain`, for an answer whose own members pass: undefined if it has any. */
export function anthropicPlainWithoutOwn(body: JsonObject): PlainAnswer | undefined {
  const { content } = body
  const block = isArray(content) ? content[0] : undefined
  return isObject(block) && isPlainMessage(body, block) ? anthropicPlain(body) : undefined
}

/** Undefined for everything but one block of text with a usual reason. */
export function anthropicPlain(body: JsonObject): PlainAnswer | undefined {
  const { type, error, content, stop_reason: stop, usage } = body
  const block = isArray(content) && content.length === 1 ? content[0] : undefined
  if (type === 'error' || isObject(error) || !isObject(block) || block['type'] !== 'text') return undefined
  if (typeof block['text'] !== 'string') return undefined
  if (stop !== 'end_turn' && stop !== 'max_tokens') return undefined
  const counts = new Counts()
  if (isObject(usage)) counts.add(usage)
  return { text: block['text'], reason: finishReason(stop), usage: isObject(usage) ? counts.usage : undefined }
}

function finishReason(reason: string): FinishReason {
  switch (reason) {
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return 'length'
    case 'refusal':
      return 'content-filter'
    case 'tool_use':
      return 'tool-call'
    default:
      // end_turn, stop_sequence, pause_turn, and reasons added later.
      return 'stop'
  }
}

/** Reasons that say more than the canonical ones. */
const OWN_REASONS: ReadonlySet<string> = new Set([
  'stop_sequence',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
  'compaction',
])

function ownStop(reason: string, sequence: unknown): OwnStop | undefined {
  return OWN_REASONS.has(reason) ? { reason, sequence: stringOf(sequence) ?? null } : undefined
}

/** Numbers of an event reach the caller only in the input of a tool that comes whole. */
function repeatsNumbers({ content_block: block }: JsonObject): boolean {
  return isObject(block) && block['type'] !== 'text'
}

function blockIndex(chunk: JsonObject): number {
  return numberOf(chunk['index']) ?? 0
}

/** Anthropic's counts, which are cumulative: a later number replaces an earlier one, null replaces nothing. */
class Counts {
  private uncached: number | undefined
  private read: number | undefined
  private written: number | undefined
  private written1h: number | undefined
  private output: number | undefined
  private thinking: number | undefined
  private tier: string | undefined

  add(usage: JsonObject): void {
    this.tier = stringOf(usage['service_tier']) || this.tier
    this.uncached = tokenCount(usage['input_tokens']) ?? this.uncached
    this.read = tokenCount(usage['cache_read_input_tokens']) ?? this.read
    const split = isObject(usage['cache_creation']) ? usage['cache_creation'] : {}
    const short = tokenCount(split['ephemeral_5m_input_tokens'])
    const long = tokenCount(split['ephemeral_1h_input_tokens'])
    this.written1h = long ?? this.written1h
    const sum = short === undefined && long === undefined ? undefined : (short ?? 0) + (long ?? 0)
    this.written = tokenCount(usage['cache_creation_input_tokens']) ?? sum ?? this.written
    this.output = tokenCount(usage['output_tokens']) ?? this.output
    const details = isObject(usage['output_tokens_details']) ? usage['output_tokens_details'] : {}
    this.thinking = tokenCount(details['thinking_tokens']) ?? this.thinking
  }

  /**
   * The canonical `input` includes cached and written tokens; Anthropic's `input_tokens` does not. Tokens written
   * without a stated TTL count as written for 5 minutes.
   */
  get usage(): Usage {
    return {
      input: this.uncached === undefined ? undefined : this.uncached + (this.read ?? 0) + (this.written ?? 0),
      cachedInput: this.read,
      cacheWrite5m: this.written === undefined ? undefined : Math.max(0, this.written - (this.written1h ?? 0)),
      cacheWrite1h: this.written1h,
      output: this.output,
      reasoning: this.thinking,
      serviceTier: this.tier,
    }
  }

  /**
   * The counts in `message_start`, without output: that counts the first token alone, and would stand for the whole
   * answer if the stream breaks. Compatible servers report 0 for an input that they have not counted yet, so 0 is left
   * out.
   */
  get early(): Usage | undefined {
    const { output: _, ...input } = this.usage
    if (input.input !== undefined && input.input !== 0) return input
    return this.tier === undefined ? undefined : { serviceTier: this.tier }
  }
}
