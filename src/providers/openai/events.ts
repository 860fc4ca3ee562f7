/** Chat Completions bytes → canonical events: OpenAI's, and those of all who speak its API in their own way (wire.md E1, E2). */

import type { FinishReason, StreamEvent } from '../../core/event.ts'
import { Fault } from '../../core/fault.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../../core/json.ts'
import { tokenCount, type Usage } from '../../core/usage.ts'
import { faultOfError } from '../fault.ts'
import { mintCallId } from '../ids.ts'
import type { StreamDecoder } from '../provider.ts'
import { Calls } from './calls.ts'

/** `[DONE]` with the spaces that some servers put around it. */
const DONE_CHARS_MAX = 16

/** One a stream. Complete with `[DONE]`, or with a clean end after a finish reason: several servers never send `[DONE]`. */
export class OpenaiDecoder implements StreamDecoder {
  private readonly calls = new Calls(mintCallId)
  private started = false
  private finished = false
  private ended = false

  decode(event: string, data: string): readonly StreamEvent[] {
    if (this.ended) return []
    if (data.length < DONE_CHARS_MAX && data.trim() === '[DONE]') return this.done()
    const chunk = parse(data)
    refuseError(event, chunk)
    const events: StreamEvent[] = []
    this.start(events)
    this.usage(chunk, events)
    const choice = firstChoice(chunk['choices'])
    if (choice !== undefined) this.choice(choice, events)
    return events
  }

  close(): readonly StreamEvent[] {
    if (this.ended) return []
    if (!this.finished) throw new Fault('cut', 'the stream ended without a finish reason')
    this.ended = true
    return [{ type: 'end' }]
  }

  /** A whole body as a stream of one chunk. */
  body(body: JsonObject): readonly StreamEvent[] {
    const events: StreamEvent[] = []
    const choice = firstChoice(body['choices'])
    const message = choice?.['message']
    if (choice === undefined || !isObject(message)) throw new Fault('broken', 'the answer has no choice with a message')
    this.start(events)
    this.usage(body, events)
    this.choice({ ...choice, delta: numberCalls(message), finish_reason: choice['finish_reason'] ?? 'stop' }, events)
    events.push({ type: 'end' })
    return events
  }

  private start(events: StreamEvent[]): void {
    if (this.started) return
    this.started = true
    events.push({ type: 'start' })
  }

  private done(): readonly StreamEvent[] {
    if (!this.started) throw new Fault('broken', 'the stream ended before it said anything')
    const events: StreamEvent[] = []
    if (!this.finished) this.finish('stop', events)
    this.ended = true
    events.push({ type: 'end' })
    return events
  }

  private choice(choice: JsonObject, events: StreamEvent[]): void {
    // What comes behind the finish is annotation (Azure) or usage (OpenRouter), never content.
    if (this.finished) return
    const delta = choice['delta'] ?? choice['message']
    if (isObject(delta)) this.delta(delta, isObject(choice['logprobs']) ? choice['logprobs'] : undefined, events)
    const reason = choice['finish_reason']
    if (typeof reason === 'string' && reason !== '') this.finish(reason, events)
  }

  private delta(delta: JsonObject, logprobs: JsonObject | undefined, events: StreamEvent[]): void {
    const text = textOf(delta['content'])
    if (text !== '' || logprobs !== undefined) {
      events.push(logprobs === undefined ? { type: 'text', text } : { type: 'text', text, logprobs })
    }
    const refusal = stringOf(delta['refusal'])
    if (refusal !== undefined && refusal !== '') events.push({ type: 'refusal', text: refusal })
    const calls = delta['tool_calls']
    if (isArray(calls)) for (const call of calls) if (isObject(call)) this.calls.add(call, events)
  }

  private finish(reason: string, events: StreamEvent[]): void {
    if (reason === 'error') throw new Fault('failed', 'the provider broke the answer off with an error')
    this.finished = true
    this.calls.finish(events)
    events.push({ type: 'finish', reason: finishReason(reason, this.calls.any) })
  }

  private usage(chunk: JsonObject, events: StreamEvent[]): void {
    const usage = isObject(chunk['usage'])
      ? chunk['usage']
      : isObject(chunk['x_groq'])
        ? chunk['x_groq']['usage']
        : undefined
    if (isObject(usage)) events.push({ type: 'usage', usage: openaiUsage(usage) })
  }
}

/** A whole, non-streamed body as events. */
export function openaiEvents(body: JsonValue): readonly StreamEvent[] {
  if (!isObject(body)) throw new Fault('broken', 'the answer is not a JSON object')
  refuseError('', body)
  return new OpenaiDecoder().body(body)
}

/** The provider's word for why it stopped. Where a tool was called, a plain or an unknown word means the call; a limit stays a limit. */
function finishReason(reason: string, called: boolean): FinishReason {
  switch (reason) {
    case 'length':
    case 'max_tokens':
      return 'length'
    case 'content_filter':
      return 'content-filter'
    default:
      return called ? 'tool-call' : 'stop'
  }
}

function openaiUsage(usage: JsonObject): Usage {
  const input = isObject(usage['prompt_tokens_details']) ? usage['prompt_tokens_details'] : {}
  const output = isObject(usage['completion_tokens_details']) ? usage['completion_tokens_details'] : {}
  return {
    input: tokenCount(usage['prompt_tokens']),
    cachedInput: tokenCount(input['cached_tokens']) ?? tokenCount(usage['prompt_cache_hit_tokens']),
    cacheWrite5m: tokenCount(input['cache_write_tokens']),
    output: tokenCount(usage['completion_tokens']),
    reasoning: tokenCount(output['reasoning_tokens']),
  }
}

/** The choice that answers the caller: with several, the one of index 0. Azure and usage chunks have none. */
function firstChoice(choices: JsonValue | undefined): JsonObject | undefined {
  if (!isArray(choices)) return undefined
  for (const choice of choices) if (isObject(choice) && (choice['index'] ?? 0) === 0) return choice
  return undefined
}

/** Text is a string; some servers send it in parts, next to parts of thinking. */
function textOf(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content
  if (!isArray(content)) return ''
  return content
    .map((part) => (isObject(part) && part['type'] === 'text' ? (stringOf(part['text']) ?? '') : ''))
    .join('')
}

/** The calls of a whole message are told apart by their place. */
function numberCalls(message: JsonObject): JsonObject {
  const calls = message['tool_calls']
  if (!isArray(calls)) return message
  return { ...message, tool_calls: calls.map((call, index) => (isObject(call) ? { ...call, index } : call)) }
}

function parse(data: string): JsonObject {
  let chunk: unknown
  try {
    chunk = JSON.parse(data)
  } catch (cause) {
    throw new Fault('broken', 'an event of the stream is not JSON', { cause })
  }
  if (!isObject(chunk)) throw new Fault('broken', 'an event of the stream is not a JSON object')
  return chunk
}

/** All the ways in which an answer under status 200 says that it is none. */
function refuseError(event: string, chunk: JsonObject): void {
  if (chunk['error'] || chunk['object'] === 'error' || event === 'error') throw faultOfError(chunk)
}
