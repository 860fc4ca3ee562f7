/**
 * ConverseStream's events → canonical events. Text blocks have no start event, usage follows the stop, reasoning has
 * its own deltas.
 */

import type { PlainAnswer } from '../../core/completion.ts'
import type { FinishReason, StreamEvent } from '../../core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue, numberOf, objectOf, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount, type Usage } from '../../core/token-usage.ts'
import { bedrockException } from '../bedrock-error.ts'
import { reportedError } from '../error-response.ts'
import { parseFrame } from '../frame-json.ts'
import type { StreamDecoder } from '../provider.ts'
import { ThoughtBlocks } from '../thought-blocks.ts'
import { ToolBlocks } from '../tool-blocks.ts'

const EXCEPTION = 'exception:'

/** One per stream. Complete after `messageStop` and either `metadata` or a clean end. */
export class BedrockDecoder implements StreamDecoder {
  private readonly tools = new ToolBlocks()
  private readonly reasoning = new ThoughtBlocks()
  private started = false
  private finished = false
  private ended = false

  decode(event: string, data: string): readonly StreamEvent[] {
    if (this.ended) return []
    if (event.startsWith(EXCEPTION)) throw bedrockException(event.slice(EXCEPTION.length), data)
    return this.read(event, parseFrame(data))
  }

  read(event: string, chunk: JsonObject): readonly StreamEvent[] {
    const events: StreamEvent[] = []
    this.apply(event, chunk, events)
    return events
  }

  close(): readonly StreamEvent[] {
    if (this.ended) return []
    if (!this.finished) throw new ProviderError('cut', 'the stream ended before messageStop')
    this.ended = true
    return [{ type: 'end' }]
  }

  /** A whole answer as the events of a stream. */
  body(body: JsonObject): readonly StreamEvent[] {
    const output = isObject(body['output']) ? body['output'] : {}
    const message = isObject(output['message']) ? output['message'] : {}
    const content = message['content']
    if (!isArray(content)) throw new ProviderError('broken', 'the answer has no message')
    const events: StreamEvent[] = []
    this.start(events)
    for (const [index, block] of content.entries()) if (isObject(block)) this.wholeBlock(index, block, events)
    this.finish(stringOf(body['stopReason']) ?? '', events)
    this.metadata(body, events)
    if (!this.ended) events.push({ type: 'end' })
    return events
  }

  private apply(event: string, chunk: JsonObject, events: StreamEvent[]): void {
    if (this.finished && event.startsWith('contentBlock')) return
    switch (event) {
      case 'messageStart':
        this.start(events)
        return
      case 'contentBlockStart':
        this.beginBlock(chunk, events)
        return
      case 'contentBlockDelta':
        this.blockDelta(chunk, events)
        return
      case 'contentBlockStop':
        this.tools.end(blockIndex(chunk), events)
        this.endReasoning(blockIndex(chunk), events)
        return
      case 'messageStop':
        this.finish(stringOf(chunk['stopReason']) ?? '', events)
        return
      case 'metadata':
        this.metadata(chunk, events)
        return
      default:
      // Event types added later.
    }
  }

  private start(events: StreamEvent[]): void {
    if (this.started) return
    this.started = true
    events.push({ type: 'start' })
  }

  private beginBlock(chunk: JsonObject, events: StreamEvent[]): void {
    this.start(events)
    const start = isObject(chunk['start']) ? chunk['start'] : {}
    const tool = start['toolUse']
    if (isObject(tool)) this.tools.begin(blockIndex(chunk), tool['toolUseId'], tool['name'], undefined, events)
  }

  private blockDelta(chunk: JsonObject, events: StreamEvent[]): void {
    this.start(events)
    const delta = isObject(chunk['delta']) ? chunk['delta'] : {}
    this.text(delta['text'], events)
    const reasoning = objectOf(delta['reasoningContent'])
    if (reasoning !== undefined) this.reason(blockIndex(chunk), reasoning, events)
    const tool = delta['toolUse']
    if (isObject(tool)) this.tools.delta(blockIndex(chunk), stringOf(tool['input']) ?? '', events)
  }

  private wholeBlock(index: number, block: JsonObject, events: StreamEvent[]): void {
    this.text(block['text'], events)
    const reasoning = objectOf(block['reasoningContent']) ?? {}
    this.reason(index, { ...reasoning, ...objectOf(reasoning['reasoningText']) }, events)
    this.endReasoning(index, events)
    const tool = block['toolUse']
    if (!isObject(tool)) return
    this.tools.begin(index, tool['toolUseId'], tool['name'], tool['input'], events)
    this.tools.end(index, events)
  }

  private text(text: unknown, events: StreamEvent[]): void {
    if (typeof text === 'string' && text !== '') events.push({ type: 'text', text })
  }

  private reason(index: number, { text, signature, redactedContent }: JsonObject, events: StreamEvent[]): void {
    if (typeof redactedContent === 'string') {
      const json = JSON.stringify({ reasoningContent: { redactedContent } })
      events.push({ type: 'thought', json, isRedacted: true })
    }
    if (typeof text !== 'string' && typeof signature !== 'string') return
    this.reasoning.goOn(index)
    if (typeof text === 'string' && text !== '') events.push({ type: 'reasoning', text })
    if (typeof text === 'string') this.thoughtCopied(text)
    if (typeof signature === 'string') this.reasoning.sign(index, signature)
  }

  thoughtCopied(words: string): void {
    this.reasoning.add(words)
  }

  /** Reasoning without a signature is not wanted back. */
  private endReasoning(index: number, events: StreamEvent[]): void {
    const ended = this.reasoning.end(index)
    if (ended === undefined || ended.signature === '') return
    const reasoningText = { text: ended.words, signature: ended.signature }
    events.push({ type: 'thought', json: JSON.stringify({ reasoningContent: { reasoningText } }) })
  }

  private finish(reason: string, events: StreamEvent[]): void {
    if (this.finished) return
    this.start(events)
    const reported = finishReason(reason)
    this.finished = true
    this.tools.endAll(events)
    events.push({ type: 'finish', reason: this.tools.reason(reported) })
  }

  private metadata(chunk: JsonObject, events: StreamEvent[]): void {
    this.start(events)
    if (isObject(chunk['usage'])) events.push({ type: 'usage', usage: bedrockUsage(chunk['usage']) })
    if (!this.finished) return
    this.ended = true
    events.push({ type: 'end' })
  }
}

/** The events of a non-streamed answer. */
export function bedrockEvents(body: JsonValue): readonly StreamEvent[] {
  if (!isObject(body)) throw new ProviderError('broken', 'the answer is not a JSON object')
  if (isObject(body['error'])) throw reportedError(body)
  return new BedrockDecoder().body(body)
}

/** Undefined for everything but one block of text with a usual reason. */
export function bedrockPlain(body: JsonObject): PlainAnswer | undefined {
  const { error, output, stopReason: stop, usage } = body
  const message = isObject(output) ? output['message'] : undefined
  const content = isObject(message) ? message['content'] : undefined
  const block = isArray(content) && content.length === 1 ? content[0] : undefined
  if (isObject(error) || !isObject(block) || typeof block['text'] !== 'string') return undefined
  if (isObject(block['toolUse']) || isObject(block['reasoningContent'])) return undefined
  if (stop !== 'end_turn' && stop !== 'stop_sequence' && stop !== 'max_tokens') return undefined
  return {
    text: block['text'],
    reason: finishReason(stop),
    usage: isObject(usage) ? bedrockUsage(usage) : undefined,
  }
}

/** Throws `ProviderError` `broken` if the model produced malformed output. */
function finishReason(reason: string): FinishReason {
  switch (reason) {
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return 'length'
    case 'content_filtered':
    case 'guardrail_intervened':
      return 'content-filter'
    case 'tool_use':
      return 'tool-call'
    case 'malformed_model_output':
    case 'malformed_tool_use':
      throw new ProviderError('broken', `the model ended the answer early with ${reason}`)
    default:
      // end_turn, stop_sequence, and reasons added later.
      return 'stop'
  }
}

/**
 * Like Anthropic's counts: the input excludes cached and written tokens, the canonical `input` includes them. Tokens
 * written for 1 hour are counted separately.
 */
function bedrockUsage(usage: JsonObject): Usage {
  const uncached = tokenCount(usage['inputTokens'])
  const read = tokenCount(usage['cacheReadInputTokens'])
  const written = tokenCount(usage['cacheWriteInputTokens'])
  const details = isArray(usage['cacheDetails']) ? usage['cacheDetails'].filter(isObject) : []
  const long = details
    .filter((detail) => detail['ttl'] === '1h')
    .map((detail) => tokenCount(detail['inputTokens']) ?? 0)
  const written1h = long.length > 0 ? long.reduce((sum, count) => sum + count) : undefined
  return {
    input: uncached === undefined ? undefined : uncached + (read ?? 0) + (written ?? 0),
    cachedInput: read,
    cacheWrite5m: written === undefined ? undefined : Math.max(0, written - (written1h ?? 0)),
    cacheWrite1h: written1h,
    output: tokenCount(usage['outputTokens']),
  }
}

function blockIndex(chunk: JsonObject): number {
  return numberOf(chunk['contentBlockIndex']) ?? 0
}
