/**
 * The events of a Responses stream → canonical events. Every delta is followed by events that repeat it: at the end of
 * its text, its part, its item and the answer. These are long, so they are not parsed: of the last one only the members
 * that no other event has.
 */

import { CALLS_MAX } from '../../core/completion.ts'
import type { StreamEvent } from '../../core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue, numberOf, objectOf, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { FREE_CLOSING, FREE_OPENING, liftedName } from '../../core/tool-list.ts'
import { membersText } from '../../wire/member-text.ts'
import { isBlank, parseFrame } from '../frame-json.ts'
import type { StreamDecoder } from '../provider.ts'
import { ToolBlocks } from '../tool-blocks.ts'
import { openaiReportedError } from './error.ts'
import { OwnItems } from './own-items.ts'
import { finishReason, hasFilled, partsOf, responsesUsage } from './responses-answer.ts'

/** Where the API's own events, and those of most servers, name their type. */
const TYPE = /^\s*\{\s*"type"\s*:\s*"([a-z_.]{1,64})"/
/** Unescaped quotes stand around names alone, so nothing within a text is taken for it. */
const OUTPUT_INDEX = /"output_index"\s*:\s*(\d{1,6})/
/** What is read of the last event unless the answer has not come before it. */
const LAST_MEMBERS: ReadonlySet<string> = new Set([
  ...['status', 'usage', 'service_tier', 'incomplete_details', 'error', 'tool_usage'],
])

/** In place of the type of reasoning of which words have come. */
const SHOWN = null

export class ResponsesDecoder implements StreamDecoder {
  private started = false
  private ended = false
  /** The types of items that have begun, and of which no text and no arguments have come. By their index. */
  private readonly silent = new Map<number, JsonValue | undefined>()
  /** Whether any item has begun, or any text has come. */
  private hasItems = false
  /** Text has come since the last message ended. */
  private hasText = false
  /** The same for thoughts. */
  private hasThoughts = false
  /** A further part of a summary has begun. */
  private isNewPart = false
  private lastPhase = ''
  /** Made with the first call. */
  private calls: ToolBlocks | undefined
  /** The calls that have not ended and whose tools take a text. */
  private readonly free = new Set<number>()
  /** The indexes of calls by their ids: some servers give one item several indexes. */
  private readonly places = new Map<JsonValue | undefined, number>()
  private readonly own: OwnItems | undefined

  /** `passes`: what has no canonical event becomes one of the API's own. */
  constructor(passes = false) {
    this.own = passes ? new OwnItems() : undefined
  }

  decode(event: string, data: string): readonly StreamEvent[] {
    if (this.ended || isBlank(data)) return []
    const type = event === '' || event === 'message' ? (TYPE.exec(data)?.[1] ?? '') : event
    switch (type) {
      case 'response.created':
      case 'response.in_progress':
      case 'response.queued':
        // They repeat the request's tools.
        return this.begun()
      case 'response.output_item.done':
        if (this.lacks(writtenIndex(data))) return this.read(type, this.parsed(data))
        return this.itemEnds(writtenIndex(data), [])
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        return this.last(type, data)
      default:
        return REPEATING.has(type) || data === '[DONE]' ? [] : this.read(type, this.parsed(data, hasLogprobs))
    }
  }

  /** `repeatsNumbers`: of a frame that does not pass as it is. */
  private parsed(data: string, repeatsNumbers: (frame: JsonObject) => boolean = hasNoNumbers): JsonObject {
    return this.own === undefined ? parseFrame(data, repeatsNumbers) : parseFrame(data)
  }

  /** The first event of a stream. */
  private begun(): readonly StreamEvent[] {
    if (this.started) return []
    this.started = true
    return [{ type: 'start' }]
  }

  read(event: string, chunk: JsonObject): readonly StreamEvent[] {
    const type = stringOf(chunk['type']) ?? event
    if (type === 'error' || (chunk['error'] && !type.startsWith('response.'))) throw openaiReportedError(chunk)
    const events: StreamEvent[] = [...this.begun()]
    switch (type) {
      case 'response.output_text.delta':
        this.text(chunk, events)
        break
      case 'response.refusal.delta':
        this.refusal(stringOf(chunk['delta']), events)
        break
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta':
        this.think(chunk['delta'], events)
        break
      case 'response.reasoning_summary_part.added':
        this.isNewPart = this.hasThoughts
        break
      case 'response.output_item.added':
        this.item(chunk, events)
        break
      case 'response.function_call_arguments.delta':
        this.argumentsOf(chunk, events)
        break
      case 'response.custom_tool_call_input.delta':
        this.argumentsOf({ ...chunk, delta: inside(chunk['delta']) }, events)
        break
      case 'response.output_item.done':
        if (this.lacks(indexOf(chunk))) this.wholeItem(indexOf(chunk), objectOf(chunk['item']) ?? {}, events)
        else this.itemEnds(indexOf(chunk), events)
        break
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        this.finish(objectOf(chunk['response']) ?? {}, type, events)
        break
      default:
        this.own?.event(type, indexOf(chunk), chunk, events)
    }
    return events
  }

  close(): readonly StreamEvent[] {
    if (!this.ended) throw new ProviderError('cut', 'the stream ended without its last event')
    return []
  }

  /** A whole answer as a stream of its items. */
  body(body: JsonObject): readonly StreamEvent[] {
    const { status, output } = body
    if (!isArray(output) && status !== 'failed') throw new ProviderError('broken', 'the answer has no output')
    const events: StreamEvent[] = [...this.begun()]
    this.finish(body, `response.${stringOf(status) ?? 'completed'}`, events)
    return events
  }

  /** A text's number of its item and part are not read: frames that differ in them are copied alike. */
  private text({ delta, logprobs }: JsonObject, events: StreamEvent[]): void {
    this.noteText()
    const text = stringOf(delta) ?? ''
    const probabilities = isArray(logprobs) && logprobs.length > 0 ? chatLogprobs(logprobs) : undefined
    if (probabilities !== undefined) events.push({ type: 'text', text, logprobs: probabilities })
    else if (text !== '') events.push({ type: 'text', text })
  }

  private think(text: JsonValue | undefined, events: StreamEvent[]): void {
    if (typeof text !== 'string' || text === '') return
    this.hasThoughts = true
    for (const [index, type] of this.silent) if (type === 'reasoning') this.silent.set(index, SHOWN)
    events.push(this.isNewPart ? { type: 'reasoning', text, isNewPart: true } : { type: 'reasoning', text })
    this.isNewPart = false
  }

  private refusal(text: string | undefined, events: StreamEvent[]): void {
    this.noteText()
    if (text !== undefined && text !== '') events.push({ type: 'refusal', text })
  }

  private noteText(): void {
    this.hasItems = true
    this.hasText = true
    // It may be the text of any message: which one, the texts that are copied do not show.
    for (const [index, type] of this.silent) if (type === 'message') this.silent.delete(index)
  }

  private item(chunk: JsonObject, events: StreamEvent[]): void {
    const index = indexOf(chunk)
    const item = objectOf(chunk['item']) ?? {}
    this.hasItems = true
    if (this.silent.size >= CALLS_MAX)
      throw new ProviderError('broken', `the answer holds more than ${CALLS_MAX} items`)
    if (this.own?.begin(index, item, events) === true) return
    this.silent.set(index, item['type'])
    if (item['type'] === 'function_call') this.call(index, item, events)
    if (item['type'] === 'custom_tool_call') {
      this.call(index, item, events)
      this.free.add(index)
      this.calls?.delta(index, FREE_OPENING, events)
    }
    if (item['type'] === 'message') this.phase(item, events)
  }

  /**
   * Whether the text that follows is a comment or the answer: models want to know it of their earlier messages.
   */
  private phase({ phase }: JsonObject, events: StreamEvent[]): void {
    if (typeof phase !== 'string' || phase === this.lastPhase) return
    this.lastPhase = phase
    events.push({ type: 'thought', json: JSON.stringify(phase), on: 'text' })
  }

  /**
   * One of a tool in a namespace has the name that other providers get, and its own; one that a program of the model
   * made names that.
   */
  private call(index: number, item: JsonObject, events: StreamEvent[]): void {
    const { call_id, id, name, arguments: written, namespace, caller } = item
    this.calls ??= new ToolBlocks()
    const byProgram =
      this.own !== undefined && isObject(caller) && caller['type'] === 'program' ? { caller } : undefined
    const isOwn = this.own !== undefined && typeof name === 'string' && typeof namespace === 'string'
    if (isOwn && namespace !== '') {
      const members = { name, namespace, ...byProgram }
      this.calls.begin(index, call_id ?? id, liftedName(name, namespace), written, events, members)
    } else this.calls.begin(index, call_id ?? id, name, written, events, byProgram)
    this.places.set(id ?? call_id, index)
  }

  /** The index of the call that has not ended, by the one of an event, or else by the id of its item. */
  private placeOf(index: number, id: JsonValue | undefined): number {
    if (this.calls?.has(index) === true) return index
    const place = this.places.get(id)
    return place !== undefined && this.calls?.has(place) === true ? place : index
  }

  private argumentsOf(chunk: JsonObject, events: StreamEvent[]): void {
    const index = this.placeOf(indexOf(chunk), chunk['item_id'])
    const json = stringOf(chunk['delta']) ?? ''
    if (this.calls === undefined) throw new ProviderError('broken', 'a delta of a tool call belongs to no call')
    if (json !== '') this.silent.delete(index)
    this.calls.delta(index, json, events)
  }

  /** Whether the end of an item is the first that comes of what is in it. */
  private lacks(index: number): boolean {
    if (this.own?.isOpen(index) === true) return true
    return this.silent.has(index) || (!this.hasText && this.calls?.has(index) !== true)
  }

  private itemEnds(index: number, events: StreamEvent[]): readonly StreamEvent[] {
    if (this.calls?.has(index) !== true) this.hasText = false
    this.endCall(index, events)
    return events
  }

  /** The end of a call; of one whose tool takes a text, of that text, too. */
  private endCall(index: number, events: StreamEvent[]): void {
    if (this.free.delete(index)) this.calls?.delta(index, FREE_CLOSING, events)
    this.calls?.end(index, events)
  }

  /** An item with all that is in it. */
  private wholeItem(index: number, item: JsonObject, events: StreamEvent[]): void {
    this.hasItems = true
    const begun = this.silent.get(index)
    const hasBegun = this.silent.delete(index)
    if (this.own?.end(index, item, events) === true) return
    switch (item['type']) {
      case 'message':
        if (!hasBegun) this.own?.begin(index, item, events)
        this.phase(item, events)
        for (const part of partsOf(item)) this.part(part, events)
        this.hasText = false
        return
      case 'custom_tool_call':
        if (!this.free.has(index)) this.wholeCall(index, index, { ...item, arguments: textArguments(item) }, events)
        else {
          this.calls?.delta(index, inside(item['input']), events)
          this.endCall(index, events)
        }
        return
      case 'function_call':
        this.wholeCall(this.placeOf(index, item['id'] ?? item['call_id']), index, item, events)
        return
      case 'reasoning':
        if (hasBegun ? begun !== SHOWN : !this.hasThoughts) this.wholeThought(item, events)
        this.hasThoughts = false
        this.isNewPart = false
        if (item['encrypted_content']) events.push({ type: 'thought', json: JSON.stringify(sealedThought(item)) })
    }
  }

  /** Its content, or else its summary. */
  private wholeThought(item: JsonObject, events: StreamEvent[]): void {
    const content = partsOf(item)
    const summary = isArray(item['summary']) ? item['summary'].filter(isObject) : []
    for (const part of content.length > 0 ? content : summary) {
      this.isNewPart = this.hasThoughts
      this.think(part['text'], events)
    }
  }

  private wholeCall(place: number, index: number, item: JsonObject, events: StreamEvent[]): void {
    if (this.calls?.has(place) !== true) this.call(place, { ...item, arguments: '' }, events)
    const haveArgumentsCome = place !== index && !this.silent.delete(place)
    if (!haveArgumentsCome) this.calls?.delta(place, stringOf(item['arguments']) ?? '', events)
    this.calls?.end(place, events)
  }

  private part(part: JsonObject, events: StreamEvent[]): void {
    if (part['type'] === 'refusal') this.refusal(stringOf(part['refusal']), events)
    else if (part['type'] === 'output_text') {
      this.text({ ...part, delta: part['text'] }, events)
      this.own?.annotated(part, events)
    }
  }

  /** The last event. The members of its answer that no other event has, if the answer has come. */
  private last(type: string, data: string): readonly StreamEvent[] {
    const answer = this.hasItems ? membersText(data, 'response', LAST_MEMBERS) : undefined
    const chunk = answer === undefined ? this.parsed(data) : { response: parseFrame(answer, hasNoNumbers) }
    return this.read(type, chunk)
  }

  private finish(answer: JsonObject, type: string, events: StreamEvent[]): void {
    const { status } = answer
    const usage = responsesUsage(answer)
    if (type === 'response.failed' || status === 'failed') {
      const { kind, message, detail } = openaiReportedError({ error: answer['error'] ?? {} })
      throw new ProviderError(kind, message, events.length === 0 ? { ...detail, usage } : detail)
    }
    if (usage !== undefined) events.push({ type: 'usage', usage })
    if (!this.hasItems && isArray(answer['output']))
      for (const [index, item] of answer['output'].entries()) if (isObject(item)) this.wholeItem(index, item, events)
    const word = stringOf(status) ?? type.slice('response.'.length)
    const reason = finishReason(word, objectOf(answer['incomplete_details'])?.['reason'])
    for (const index of [...this.free]) this.endCall(index, events)
    this.calls?.endAll(events)
    this.own?.finish(answer, events)
    events.push({ type: 'finish', reason: reason === 'stop' && this.calls?.any === true ? 'tool-call' : reason })
    this.ended = true
    events.push({ type: 'end' })
  }
}

function textArguments({ input }: JsonObject): string {
  return FREE_OPENING + inside(input) + FREE_CLOSING
}

/** A text as the inside of a JSON string. */
function inside(text: JsonValue | undefined): string {
  return JSON.stringify(stringOf(text) ?? '').slice(1, -1)
}

/** Events that repeat what has come, and whose item is read at its end if nothing had come. */
const REPEATING: ReadonlySet<string> = new Set([
  'response.output_text.done',
  'response.refusal.done',
  'response.content_part.added',
  'response.content_part.done',
  'response.function_call_arguments.done',
  'response.custom_tool_call_input.done',
  'response.reasoning_text.done',
  'response.reasoning_summary_text.done',
  'response.reasoning_summary_part.done',
])

/** The events of a whole answer. `passes`: as of the decoder. */
export function responsesEvents(body: JsonValue, passes = false): readonly StreamEvent[] {
  if (!isObject(body)) throw new ProviderError('broken', 'the answer is not a JSON object')
  if (body['error'] && body['status'] !== 'failed') throw openaiReportedError(body)
  return new ResponsesDecoder(passes).body(body)
}

/** An item of reasoning as requests have it. Its content is encrypted with it. */
function sealedThought({ id, summary = [], encrypted_content }: JsonObject): JsonObject {
  return { type: 'reasoning', ...(id !== undefined && { id }), summary, encrypted_content: encrypted_content ?? null }
}

/** The index of an item in the text of an event. */
function writtenIndex(data: string): number {
  return Number(OUTPUT_INDEX.exec(data)?.[1] ?? 0)
}

/** Servers that number no items have one. */
function indexOf({ output_index: index }: JsonObject): number {
  return numberOf(index) ?? 0
}

/** The log probabilities of a text in the form of Chat Completions. */
function chatLogprobs(logprobs: readonly JsonValue[]): JsonObject {
  const content = logprobs.filter(isObject).map(({ token, logprob, bytes, top_logprobs: others }) => ({
    token,
    logprob,
    bytes: bytes ?? null,
    top_logprobs: (isArray(others) ? others : []).filter(isObject).map((other) => ({
      token: other['token'],
      logprob: other['logprob'],
      bytes: other['bytes'] ?? null,
    })),
  }))
  return { content, refusal: null }
}

/** Numbers of an event reach the caller in log probabilities alone. */
function hasLogprobs({ logprobs }: JsonObject): boolean {
  return hasFilled(logprobs)
}

function hasNoNumbers(): boolean {
  return false
}
