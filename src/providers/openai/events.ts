/** Chat Completions chunks → canonical events, for OpenAI and all the servers that speak its API in their own ways. */

import type { PlainAnswer } from '../../core/completion.ts'
import type { FinishReason, StreamEvent } from '../../core/event.ts'
import { GatheredText } from '../../core/gathered-text.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount, type Usage } from '../../core/token-usage.ts'
import { firstChoice, isBlank, parseFrame } from '../frame-json.ts'
import type { StreamDecoder } from '../provider.ts'
import { Calls } from './calls.ts'
import { openaiReportedError } from './error.ts'
import { DETAILS_FIELD, ReasoningDetails } from './reasoning-details.ts'

/** `[DONE]` and the white space that some servers put around it. */
const DONE_CHARS_MAX = 16

/**
 * One per stream. Complete after `[DONE]`, or a clean end after a finish reason: several servers never send `[DONE]`.
 */
export class OpenaiDecoder implements StreamDecoder {
  /** Made with the first call, because it is 5 objects, which most open streams never need. */
  private calls: Calls | undefined
  private started = false
  /** The tier of the last chunk that named one: a server may know it only at the end. */
  private tier: string | undefined
  private firstTier: string | undefined
  /** The last reason: some servers send one with each call, so that only the end of the stream shows which is final. */
  private reason: FinishReason | undefined
  private ended = false
  /** The model's thoughts, and the field in which the server sends them. */
  private thoughts: { readonly field: string; readonly text: GatheredText } | undefined
  /** The last of them came in such a field. */
  private isLastInField = false
  /** The same of servers that have them in parts. */
  private details: ReasoningDetails | undefined

  decode(event: string, data: string): readonly StreamEvent[] {
    if (this.ended || isBlank(data)) return []
    if (data.length < DONE_CHARS_MAX && data.trim() === '[DONE]') return this.done()
    return this.read(event, parseFrame(data, repeatsNumbers))
  }

  read(event: string, chunk: JsonObject): readonly StreamEvent[] {
    throwReportedError(event, chunk)
    const events: StreamEvent[] = []
    this.start(chunk, events)
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

  /** A whole answer as a stream of one chunk. */
  body(body: JsonObject): readonly StreamEvent[] {
    const events: StreamEvent[] = []
    const choice = firstChoice(body['choices'])
    const message = choice?.['message']
    if (choice === undefined || !isObject(message))
      throw new ProviderError('broken', 'the answer has no choice with a message')
    this.start(body, events)
    this.usage(body, events)
    this.choice({ ...choice, delta: numberCalls(message), finish_reason: choice['finish_reason'] ?? 'stop' }, events)
    for (const event of this.end()) events.push(event)
    return events
  }

  private start(chunk: JsonObject, events: StreamEvent[]): void {
    this.tier = tierOf(chunk) ?? this.tier
    if (this.started) return
    this.started = true
    this.firstTier = this.tier
    events.push(this.tier === undefined ? { type: 'start' } : { type: 'start', serviceTier: this.tier })
  }

  private done(): readonly StreamEvent[] {
    if (!this.started) throw new ProviderError('broken', 'the stream ended before its first event')
    return this.end()
  }

  private end(): readonly StreamEvent[] {
    const events: StreamEvent[] = []
    this.calls?.finish(events)
    const { thoughts, details } = this
    if (details !== undefined) details.end(events)
    else if (thoughts !== undefined && thoughts.text.length < THOUGHT_CHARS_MAX)
      events.push({
        type: 'thought',
        json: JSON.stringify({ [thoughts.field]: thoughts.text.toString() }),
        on: 'answer',
      })
    const reason = this.reason ?? 'stop'
    events.push({ type: 'finish', reason: reason === 'stop' && this.calls !== undefined ? 'tool-call' : reason })
    if (this.tier !== this.firstTier) events.push({ type: 'usage', usage: { serviceTier: this.tier } })
    this.ended = true
    events.push({ type: 'end' })
    return events
  }

  private choice(choice: JsonObject, events: StreamEvent[]): void {
    // After a reason, a whole message can only repeat the deltas.
    const delta = choice['delta'] ?? (this.reason === undefined ? choice['message'] : undefined)
    if (isObject(delta)) this.delta(delta, isObject(choice['logprobs']) ? choice['logprobs'] : undefined, events)
    const reason = choice['finish_reason']
    if (typeof reason === 'string' && reason !== '') this.finish(finishReason(reason))
    // Moonshot puts the usage here.
    if (isObject(choice['usage'])) events.push({ type: 'usage', usage: openaiUsage(choice['usage']) })
  }

  private delta(delta: JsonObject, logprobs: JsonObject | undefined, events: StreamEvent[]): void {
    const thought = thoughtOf(delta)
    if (thought !== '') this.think(thought, delta, events)
    if (isArray(delta[DETAILS_FIELD])) {
      this.details ??= new ReasoningDetails()
      this.details.add(delta[DETAILS_FIELD])
    }
    const text = textOf(delta['content'])
    if (text !== '' || logprobs !== undefined) {
      events.push(logprobs === undefined ? { type: 'text', text } : { type: 'text', text, logprobs })
    }
    const refusal = stringOf(delta['refusal'])
    if (refusal !== undefined && refusal !== '') events.push({ type: 'refusal', text: refusal })
    const calls = delta['tool_calls']
    if (isArray(calls)) for (const call of calls) if (isObject(call)) this.addCall(call, events)
  }

  private think(thought: string, delta: JsonObject, events: StreamEvent[]): void {
    events.push({ type: 'reasoning', text: thought })
    const field = THOUGHT_FIELDS.find((name) => delta[name] === thought)
    this.isLastInField = field !== undefined
    if (field === undefined) return
    this.thoughts ??= { field, text: new GatheredText() }
    this.thoughtCopied(thought)
  }

  thoughtCopied(words: string): void {
    const { thoughts } = this
    if (this.isLastInField && thoughts !== undefined && thoughts.text.length < THOUGHT_CHARS_MAX)
      thoughts.text.add(words)
  }

  private addCall(call: JsonObject, events: StreamEvent[]): void {
    this.calls ??= new Calls()
    this.calls.add(call, events)
  }

  /** A limit or a filter overrides `stop`, but no later reason overrides it. */
  private finish(reason: FinishReason): void {
    if (this.reason === undefined || this.reason === 'stop') this.reason = reason
  }

  private usage(chunk: JsonObject, events: StreamEvent[]): void {
    const usage = reportedUsage(chunk)
    if (usage !== undefined) events.push({ type: 'usage', usage })
  }
}

const THOUGHT_FIELDS = ['reasoning_content', 'reasoning'] as const
/** Longer thoughts are not kept. */
const THOUGHT_CHARS_MAX = 1024 * 1024

/** The events of a non-streamed answer. */
export function openaiEvents(body: JsonValue): readonly StreamEvent[] {
  if (!isObject(body)) throw new ProviderError('broken', 'the answer is not a JSON object')
  throwReportedError('', body)
  return new OpenaiDecoder().body(body)
}

/** Undefined for everything but one choice with a text, as OpenAI itself writes it. */
export function openaiPlain(body: JsonObject): PlainAnswer | undefined {
  const { choices, error, object, x_groq: groq } = body
  const choice = isArray(choices) && choices.length === 1 ? choices[0] : undefined
  if (!isObject(choice) || error || object === 'error' || (isObject(groq) && groq['error'])) return undefined
  const { index = 0, message, finish_reason: finish, logprobs, usage } = choice
  if (index !== 0 || !isObject(message) || isObject(logprobs) || isObject(usage)) return undefined
  const {
    content,
    refusal,
    tool_calls: calls,
    reasoning,
    reasoning_content: thought,
    reasoning_details: details,
  } = message
  if (typeof content !== 'string' || refusal || reasoning || thought || details) return undefined
  if ((isArray(calls) && calls.length > 0) || (finish !== 'stop' && finish !== 'length')) return undefined
  return { text: content, reason: finish, usage: reportedUsage(body, tierOf(body)) }
}

/** The tier that served the request: of an answer or a chunk of either API. */
export function tierOf({ service_tier: tier }: JsonObject): string | undefined {
  return typeof tier === 'string' && tier !== '' && tier !== 'auto' ? tier : undefined
}

/** `tier`: the one that served the request, to be reported with its usage. */
function reportedUsage(chunk: JsonObject, tier?: string): Usage | undefined {
  const groq = chunk['x_groq']
  const usage = isObject(chunk['usage']) ? chunk['usage'] : isObject(groq) ? groq['usage'] : undefined
  if (isObject(usage)) return openaiUsage(usage, tier)
  return tier === undefined ? undefined : { serviceTier: tier }
}

/**
 * The provider's finish reason; an unknown one is `stop`. Throws `ProviderError` if it means that the answer is
 * incomplete: an engine gave up (OpenRouter, Mistral, vLLM, DeepSeek, GLM), or Gemini's endpoint removed half a call.
 */
function finishReason(word: string): FinishReason {
  const reason = word.toLowerCase()
  switch (reason) {
    case 'length':
    case 'max_tokens':
    // A full context window at Mistral, and at GLM.
    case 'model_length':
    case 'model_context_window_exceeded':
      return 'length'
    // GLM's filter.
    case 'sensitive':
      return 'content-filter'
    case 'error':
    case 'abort':
    case 'network_error':
      throw new ProviderError('failed', 'the provider ended the answer early with an error')
    case 'insufficient_system_resource':
      throw new ProviderError('overloaded', 'the provider ended the answer early for lack of resources')
    default:
      // Gemini's endpoint appends its own reason: `content_filter: PROHIBITED_CONTENT`, `function_call_filter:
      // MALFORMED_FUNCTION_CALL`.
      if (reason.startsWith('function_call_filter'))
        throw new ProviderError('broken', `the model ended the answer early with ${word}`)
      return reason.startsWith('content_filter') ? 'content-filter' : 'stop'
  }
}

const NO_DETAILS: JsonObject = {}

function openaiUsage(usage: JsonObject, serviceTier?: string): Usage {
  const input = isObject(usage['prompt_tokens_details']) ? usage['prompt_tokens_details'] : NO_DETAILS
  const output = isObject(usage['completion_tokens_details']) ? usage['completion_tokens_details'] : NO_DETAILS
  return {
    input: tokenCount(usage['prompt_tokens']),
    cachedInput: cachedTokens(input, usage),
    // The second name is Qwen's.
    cacheWrite5m: tokenCount(input['cache_write_tokens']) ?? tokenCount(input['cache_creation_input_tokens']),
    output: tokenCount(usage['completion_tokens']),
    reasoning: tokenCount(output['reasoning_tokens']),
    total: tokenCount(usage['total_tokens']),
    audioInput: tokenCount(input['audio_tokens']) || undefined,
    serviceTier,
  }
}

/** In the details at most servers, else beside them: one name at DeepSeek, another at Moonshot. */
function cachedTokens(details: JsonObject, usage: JsonObject): number | undefined {
  return (
    tokenCount(details['cached_tokens']) ??
    tokenCount(usage['prompt_cache_hit_tokens']) ??
    tokenCount(usage['cached_tokens'])
  )
}

/** Text is a string; some servers send it in parts, mixed with parts of thinking. */
function textOf(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content
  if (!isArray(content)) return ''
  return content
    .map((part) => (isObject(part) && part['type'] === 'text' ? (stringOf(part['text']) ?? '') : ''))
    .join('')
}

/**
 * The model's reasoning: `reasoning_content` at DeepSeek, SGLang and vLLM, `reasoning` at OpenRouter, Groq and newer
 * vLLM; Mistral sends parts.
 */
function thoughtOf(delta: JsonObject): string {
  const thought = stringOf(delta['reasoning_content']) || stringOf(delta['reasoning'])
  if (thought) return thought
  const parts = isArray(delta['content']) ? delta['content'].filter(isObject) : []
  return parts.map((part) => (part['type'] === 'thinking' ? textOf(part['thinking']) : '')).join('')
}

/** Numbers of a chunk reach the caller in log probabilities, and in arguments of calls that are not a string. */
function repeatsNumbers({ choices }: JsonObject): boolean {
  if (!isArray(choices)) return false
  return choices.some((choice) => isObject(choice) && (isObject(choice['logprobs']) || hasCalls(choice)))
}

function hasCalls({ delta, message }: JsonObject): boolean {
  return (isObject(delta) && isArray(delta['tool_calls'])) || (isObject(message) && isArray(message['tool_calls']))
}

/** The calls of a whole message have no index; their position is used. */
function numberCalls(message: JsonObject): JsonObject {
  const calls = message['tool_calls']
  if (!isArray(calls)) return message
  return { ...message, tool_calls: calls.map((call, index) => (isObject(call) ? { ...call, index } : call)) }
}

/** Throws `ProviderError` if an answer with status 200 reports an error, in any of the known forms. */
function throwReportedError(event: string, chunk: JsonObject): void {
  if (chunk['error'] || chunk['object'] === 'error' || event === 'error') throw openaiReportedError(chunk)
  // Groq's form of an error that ends a stream early.
  const groq = isObject(chunk['x_groq']) ? chunk['x_groq']['error'] : undefined
  if (groq) throw openaiReportedError({ error: groq })
}
