/** Chat Completions bytes → canonical events: OpenAI's, and those of all who speak its API in their own way (wire.md E1, E2). */

import type { FinishReason, StreamEvent } from '../../core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount, type Usage } from '../../core/token-usage.ts'
import { reportedError } from '../error-response.ts'
import { parseFrame } from '../frame-json.ts'
import type { StreamDecoder } from '../provider.ts'
import { Calls } from './calls.ts'

/** `[DONE]` with the spaces that some servers put around it. */
const DONE_CHARS_MAX = 16

/** One a stream. Complete with `[DONE]`, or with a clean end after a finish reason: several servers never send `[DONE]`. */
export class OpenaiDecoder implements StreamDecoder {
  private readonly calls = new Calls()
  private started = false
  /** The reason so far: some servers say one with each call, so that only the end of the stream tells that nothing more comes. */
  private reason: FinishReason | undefined
  private ended = false

  decode(event: string, data: string): readonly StreamEvent[] {
    if (this.ended) return []
    if (data.length < DONE_CHARS_MAX && data.trim() === '[DONE]') return this.done()
    const chunk = parseFrame(data)
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
    if (this.reason === undefined) throw new ProviderError('cut', 'the stream ended without a finish reason')
    return this.end()
  }

  /** A whole body as a stream of one chunk. */
  body(body: JsonObject): readonly StreamEvent[] {
    const events: StreamEvent[] = []
    const choice = firstChoice(body['choices'])
    const message = choice?.['message']
    if (choice === undefined || !isObject(message))
      throw new ProviderError('broken', 'the answer has no choice with a message')
    this.start(events)
    this.usage(body, events)
    this.choice({ ...choice, delta: numberCalls(message), finish_reason: choice['finish_reason'] ?? 'stop' }, events)
    for (const event of this.end()) events.push(event)
    return events
  }

  private start(events: StreamEvent[]): void {
    if (this.started) return
    this.started = true
    events.push({ type: 'start' })
  }

  private done(): readonly StreamEvent[] {
    if (!this.started) throw new ProviderError('broken', 'the stream ended before it said anything')
    return this.end()
  }

  private end(): readonly StreamEvent[] {
    const events: StreamEvent[] = []
    this.calls.finish(events)
    const reason = this.reason ?? 'stop'
    events.push({ type: 'finish', reason: reason === 'stop' && this.calls.any ? 'tool-call' : reason })
    this.ended = true
    events.push({ type: 'end' })
    return events
  }

  private choice(choice: JsonObject, events: StreamEvent[]): void {
    // Behind a reason a whole message can only say again what was said.
    const delta = choice['delta'] ?? (this.reason === undefined ? choice['message'] : undefined)
    if (isObject(delta)) this.delta(delta, isObject(choice['logprobs']) ? choice['logprobs'] : undefined, events)
    const reason = choice['finish_reason']
    if (typeof reason === 'string' && reason !== '') this.finish(finishReason(reason))
    // Moonshot's place for it.
    if (isObject(choice['usage'])) events.push({ type: 'usage', usage: openaiUsage(choice['usage']) })
  }

  private delta(delta: JsonObject, logprobs: JsonObject | undefined, events: StreamEvent[]): void {
    const thought = thoughtOf(delta)
    if (thought !== '') events.push({ type: 'reasoning', text: thought })
    const text = textOf(delta['content'])
    if (text !== '' || logprobs !== undefined) {
      events.push(logprobs === undefined ? { type: 'text', text } : { type: 'text', text, logprobs })
    }
    const refusal = stringOf(delta['refusal'])
    if (refusal !== undefined && refusal !== '') events.push({ type: 'refusal', text: refusal })
    const calls = delta['tool_calls']
    if (isArray(calls)) for (const call of calls) if (isObject(call)) this.calls.add(call, events)
  }

  /** A limit or a filter holds, whatever is said behind it. */
  private finish(reason: FinishReason): void {
    if (this.reason === undefined || this.reason === 'stop') this.reason = reason
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
  if (!isObject(body)) throw new ProviderError('broken', 'the answer is not a JSON object')
  refuseError('', body)
  return new OpenaiDecoder().body(body)
}

/**
 * The provider's word for why it stopped; an unknown one is a plain stop. Throws where it says that the answer is not whole: an engine that
 * gave up (OpenRouter and Mistral, vLLM, DeepSeek), or half a call that Gemini's endpoint took out.
 */
function finishReason(word: string): FinishReason {
  const reason = word.toLowerCase()
  switch (reason) {
    case 'length':
    case 'max_tokens':
    // Mistral's word for a full context window.
    case 'model_length':
      return 'length'
    case 'error':
    case 'abort':
      throw new ProviderError('failed', 'the provider broke the answer off with an error')
    case 'insufficient_system_resource':
      throw new ProviderError('overloaded', 'the provider broke the answer off for want of resources')
    default:
      // Gemini's endpoint puts its own word behind: `content_filter: PROHIBITED_CONTENT`, `function_call_filter: MALFORMED_FUNCTION_CALL`.
      if (reason.startsWith('function_call_filter'))
        throw new ProviderError('broken', `the model broke off with ${word}`)
      return reason.startsWith('content_filter') ? 'content-filter' : 'stop'
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

/** What the model thinks: DeepSeek, SGLang and vLLM call it `reasoning_content`, OpenRouter, Groq and newer vLLM `reasoning`; Mistral sends parts. */
function thoughtOf(delta: JsonObject): string {
  const thought = stringOf(delta['reasoning_content']) || stringOf(delta['reasoning'])
  if (thought) return thought
  const parts = isArray(delta['content']) ? delta['content'].filter(isObject) : []
  return parts.map((part) => (part['type'] === 'thinking' ? textOf(part['thinking']) : '')).join('')
}

/** The calls of a whole message are told apart by their place. */
function numberCalls(message: JsonObject): JsonObject {
  const calls = message['tool_calls']
  if (!isArray(calls)) return message
  return { ...message, tool_calls: calls.map((call, index) => (isObject(call) ? { ...call, index } : call)) }
}

/** All the ways in which an answer under status 200 says that it is none. */
function refuseError(event: string, chunk: JsonObject): void {
  if (chunk['error'] || chunk['object'] === 'error' || event === 'error') throw reportedError(chunk)
  // Groq's word for why it stopped a stream early.
  const groq = isObject(chunk['x_groq']) ? chunk['x_groq']['error'] : undefined
  if (groq) throw reportedError({ error: groq })
}
