/**
 * Gemini's chunks → canonical events. Calls arrive whole, or with their arguments in parts; a call does not change the
 * finish reason, and thoughts are separate parts.
 */

import type { PlainAnswer } from '../../core/completion.ts'
import type { FinishReason, StreamEvent } from '../../core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount, type Usage } from '../../core/token-usage.ts'
import { AnswerCallIds } from '../answer-call-ids.ts'
import { inputJson } from '../call-arguments.ts'
import { firstChoice, isBlank, parseFrame } from '../frame-json.ts'
import { googleReportedError } from '../google-error.ts'
import type { StreamDecoder } from '../provider.ts'
import { PartialCall } from './partial-call.ts'

/**
 * One per stream. Complete after a finish reason (or a blocked prompt) and a clean end of the bytes: there is no other
 * marker.
 */
export class GeminiDecoder implements StreamDecoder {
  private readonly ids = new AnswerCallIds()
  private calls = 0
  private started = false
  /**
   * The last reason: older models send one with every chunk, so that only the end of the bytes shows which is final.
   */
  private reason: FinishReason | undefined
  private ended = false
  /** A call whose arguments are still to come. */
  private partial: PartialCall | undefined

  decode(_event: string, data: string): readonly StreamEvent[] {
    // Some proxies add the final marker of other APIs.
    return this.ended || isBlank(data) || data.trim() === '[DONE]' ? [] : this.chunk(parseFrame(data))
  }

  read(_event: string, chunk: JsonObject): readonly StreamEvent[] {
    return this.chunk(chunk)
  }

  close(): readonly StreamEvent[] {
    if (this.ended) return []
    if (this.reason === undefined) throw new ProviderError('cut', 'the stream ended without a finish reason')
    this.ended = true
    const reason = this.reason === 'stop' && this.calls > 0 ? 'tool-call' : this.reason
    const events: StreamEvent[] = []
    this.endPartial(events)
    events.push({ type: 'finish', reason }, { type: 'end' })
    return events
  }

  /** One `GenerateContentResponse`: of a stream, or a whole answer. */
  chunk(chunk: JsonObject): readonly StreamEvent[] {
    if (chunk['error'] !== undefined && chunk['error'] !== null) throw googleReportedError(chunk)
    const events: StreamEvent[] = []
    if (!this.started) events.push({ type: 'start' })
    this.started = true
    const candidate = firstChoice(chunk['candidates'])
    if (candidate !== undefined) this.candidate(candidate, events)
    else if (isBlocked(chunk)) this.finish('content-filter')
    const finished = this.reason !== undefined
    const usage = isObject(chunk['usageMetadata']) ? geminiUsage(chunk['usageMetadata'], finished) : undefined
    if (usage !== undefined) events.push({ type: 'usage', usage })
    return events
  }

  private candidate(candidate: JsonObject, events: StreamEvent[]): void {
    const content = isObject(candidate['content']) ? candidate['content'] : {}
    const parts = isArray(content['parts']) ? content['parts'] : []
    for (const part of parts) if (isObject(part)) this.part(part, events)
    const reason = stringOf(candidate['finishReason']) ?? ''
    if (reason !== '' && reason !== 'FINISH_REASON_UNSPECIFIED') this.finish(finishReason(reason))
  }

  private part(part: JsonObject, events: StreamEvent[]): void {
    const call = part['functionCall']
    if (isObject(call)) this.call(call, part['thoughtSignature'], events)
    const text = stringOf(part['text']) ?? ''
    if (text !== '') events.push({ type: part['thought'] === true ? 'reasoning' : 'text', text })
    const signature = stringOf(part['thoughtSignature'])
    if (signature && !isObject(call)) events.push({ type: 'thought', json: JSON.stringify(signature), on: 'text' })
  }

  /** A call with a signature gets an id of ours, under which only its caller can find the signature again. */
  private call(call: JsonObject, signature: JsonValue | undefined, events: StreamEvent[]): void {
    const name = stringOf(call['name']) ?? ''
    const { partial } = this
    if (name === '' && partial !== undefined) {
      partial.add(call['partialArgs'])
      if (call['willContinue'] !== true) this.endPartial(events)
      return
    }
    this.endPartial(events)
    if (name === '') throw new ProviderError('broken', 'a tool call has no name')
    const signed = typeof signature === 'string' && signature !== ''
    const callId = this.ids.of(signed ? '' : (stringOf(call['id']) ?? ''))
    const index = this.calls++
    if (signed) events.push({ type: 'thought', json: JSON.stringify(signature), on: 'call' })
    events.push({ type: 'tool-start', index, callId, name })
    if (call['willContinue'] !== true && !isArray(call['partialArgs'])) {
      events.push({ type: 'tool-delta', index, json: inputJson(call['args']) })
      return
    }
    this.partial = new PartialCall(index, call['args'])
    this.partial.add(call['partialArgs'])
    if (call['willContinue'] !== true) this.endPartial(events)
  }

  /** Its arguments are complete: it ended, or something else follows it. */
  private endPartial(events: StreamEvent[]): void {
    const { partial } = this
    this.partial = undefined
    if (partial !== undefined) events.push({ type: 'tool-delta', index: partial.index, json: partial.json })
  }

  /** A limit or a filter overrides `stop`, but no later reason overrides it. */
  private finish(reason: FinishReason): void {
    if (this.reason === undefined || this.reason === 'stop') this.reason = reason
  }
}

/** The events of a whole answer, or of the array of chunks that a server without `alt=sse` sends as a stream. */
export function geminiEvents(body: JsonValue): readonly StreamEvent[] {
  const decoder = new GeminiDecoder()
  const chunks: readonly JsonValue[] = isArray(body) ? body : [body]
  const events: StreamEvent[] = []
  for (const chunk of chunks) {
    if (!isObject(chunk)) throw new ProviderError('broken', 'the answer is not a JSON object')
    for (const event of decoder.chunk(chunk)) events.push(event)
  }
  try {
    events.push(...decoder.close())
  } catch (cause) {
    throw new ProviderError('broken', 'the answer has no complete candidate', { cause })
  }
  return events
}

/** Undefined for everything but one candidate with one part of text and a usual reason. */
export function geminiPlain(body: JsonObject): PlainAnswer | undefined {
  const { error, candidates, usageMetadata: usage } = body
  const candidate = isArray(candidates) && candidates.length === 1 ? candidates[0] : undefined
  if ((error !== undefined && error !== null) || !isObject(candidate)) return undefined
  const { index = 0, content, finishReason: finish } = candidate
  const parts = isObject(content) ? content['parts'] : undefined
  const part = isArray(parts) && parts.length === 1 ? parts[0] : undefined
  if (index !== 0 || !isObject(part) || part['thought'] === true || isObject(part['functionCall'])) return undefined

  if (typeof part['text'] !== 'string' || (finish !== 'STOP' && finish !== 'MAX_TOKENS')) return undefined
  const counted = isObject(usage) ? geminiUsage(usage, true) : undefined
  const hasThoughts = part['thoughtSignature'] !== undefined
  return { text: part['text'], reason: finishReason(finish), usage: counted, ...(hasThoughts && { hasThoughts }) }
}

/** Throws `ProviderError` `broken` if the model produced malformed output, such as half a call. */
function finishReason(reason: string): FinishReason {
  switch (reason) {
    case 'MAX_TOKENS':
      return 'length'
    case 'SAFETY':
    case 'RECITATION':
    case 'LANGUAGE':
    case 'BLOCKLIST':
    case 'PROHIBITED_CONTENT':
    case 'SPII':
    case 'MODEL_ARMOR':
    case 'IMAGE_SAFETY':
    case 'IMAGE_PROHIBITED_CONTENT':
    case 'IMAGE_RECITATION':
      return 'content-filter'
    case 'MALFORMED_FUNCTION_CALL':
    case 'UNEXPECTED_TOOL_CALL':
    case 'TOO_MANY_TOOL_CALLS':
    case 'MISSING_THOUGHT_SIGNATURE':
    case 'MALFORMED_RESPONSE':
      throw new ProviderError('broken', `the model ended the answer early with ${reason}`)
    default:
      // STOP, OTHER, and reasons added later.
      return 'stop'
  }
}

function isBlocked(chunk: JsonObject): boolean {
  return isObject(chunk['promptFeedback']) && typeof chunk['promptFeedback']['blockReason'] === 'string'
}

/**
 * Gemini's counts, cumulative in every chunk. The prompt's count includes cached tokens; the candidates' count excludes
 * thoughts. A count of 0 is absent from the JSON, so at the end it is inferred from the total; before the end it is
 * unknown.
 */
function geminiUsage(usage: JsonObject, finished: boolean): Usage {
  const prompt = tokenCount(usage['promptTokenCount'])
  const input = prompt === undefined ? undefined : prompt + (tokenCount(usage['toolUsePromptTokenCount']) ?? 0)
  const candidates = tokenCount(usage['candidatesTokenCount'])
  const thoughts = tokenCount(usage['thoughtsTokenCount'])
  const counted = candidates === undefined && thoughts === undefined ? undefined : (candidates ?? 0) + (thoughts ?? 0)
  const total = tokenCount(usage['totalTokenCount'])
  const rest = finished && total !== undefined && input !== undefined ? Math.max(0, total - input) : undefined
  return {
    input,
    cachedInput: tokenCount(usage['cachedContentTokenCount']),
    output: counted ?? rest,
    reasoning: thoughts,
    audioInput: audioTokens(usage['promptTokensDetails']),
  }
}

/** The tokens of the prompt by modality: the audio among them. */
function audioTokens(details: JsonValue | undefined): number | undefined {
  if (!isArray(details)) return undefined
  const audio = details.find((one) => isObject(one) && one['modality'] === 'AUDIO')
  return isObject(audio) ? tokenCount(audio['tokenCount']) || undefined : undefined
}
