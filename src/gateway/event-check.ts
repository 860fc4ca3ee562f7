/**
 * Stands between a provider's decoder and everything else. Here, and nowhere else, the order law of events is asserted,
 * the arguments of tool calls are judged, tools get back the names that the caller gave them, and the halves of a
 * character that a provider has split become one. What comes after may rely on `core/event.ts`.
 */

import type { OwnEvent, StreamEvent } from '../core/event.ts'
import { ProviderError } from '../core/provider-error.ts'
import { restoreToolName, type UpstreamRequest } from '../providers/provider.ts'
import { DEPTH_MAX, VALUES_MAX } from '../wire/json-shape.ts'
import { ObjectText } from '../wire/object-text.ts'
import { decodedInside } from '../wire/sse.ts'
import type { TextKind } from '../wire/template.ts'
import type { TextCopier } from '../wire/text-copier.ts'
import type { ShownThoughts } from './shown-thoughts.ts'
import type { ThoughtKeeper } from './thought-keeper.ts'

/** Takes the events of one answer. */
export interface EventSink {
  event(event: StreamEvent): void
  /**
   * Events of text, or of reasoning, whose texts were copied: the insides of their JSON strings, in Unicode. `joined`
   * is all of them in one string.
   */
  texts(insides: readonly string[], joined: string, kind: TextKind): void
  /**
   * The same for texts that the copier has, as bytes. Returns how many were copied: 0 if they must come one by one.
   * Absent if they always must.
   */
  copyTexts?(copier: TextCopier, kind: TextKind): number
  /**
   * At most so many texts may come at once: the one after them may be where the answer is cut for its length, and what
   * is before it counts. Absent if any number may.
   */
  readonly room?: number
}

/** How far the answer has come. Plain numbers: the check of an event is one comparison. */
const NOT_STARTED = 0
const ANSWERING = 1
const FINISHED = 2
const ENDED = 3
type Phase = typeof NOT_STARTED | typeof ANSWERING | typeof FINISHED | typeof ENDED
const PHASES = ['before the start', 'in the answer', 'after the finish', 'after the end'] as const

type Written = Extract<StreamEvent, { type: 'text' | 'refusal' | 'tool-delta' }>

/** One an answer. */
export class EventCheck implements EventSink {
  private phase: Phase = NOT_STARTED
  private readonly calls: ObjectText[] = []
  private values = 0
  /** The first half of a surrogate pair, which waits for the second: in Python the two would stay two. */
  private half: Written | undefined

  constructor(
    private readonly sink: EventSink,
    /** Tool names that the provider got in another form; see `UpstreamRequest`. */
    private readonly toolNames: UpstreamRequest['toolNames'],
    /** Absent if no thoughts are kept. */
    private readonly keeper?: ThoughtKeeper,
    /** Absent if the caller sees no thoughts. */
    private readonly shown?: ShownThoughts,
  ) {}

  get room(): number {
    return this.sink.room ?? Number.POSITIVE_INFINITY
  }

  copyTexts(copier: TextCopier, kind: TextKind): number {
    if (this.phase !== ANSWERING || this.half !== undefined) return 0
    const count = this.sink.copyTexts?.(copier, kind) ?? 0
    if (count > 0) this.note(copier.joined, kind)
    return count
  }

  texts(insides: readonly string[], joined: string, kind: TextKind): void {
    if (this.phase !== ANSWERING) throw this.misplaced(kind)
    // No text that is copied is or has a half. Thoughts do not end one.
    if (kind === 'text') this.releaseHalf()
    this.note(joined, kind)
    this.sink.texts(insides, joined, kind)
  }

  /** Copied texts, for what is kept of the answer. */
  private note(joined: string, kind: TextKind): void {
    if (kind === 'text') this.keeper?.inside(joined)
    else this.shown?.add(decodedInside(joined))
  }

  /**
   * Passes the event on. Throws an `Error`, which is a bug of the decoder, if the event breaks the order law. Throws a
   * `ProviderError` if the arguments of a tool call continue after their object, or are so deep or so many that weir
   * would reject them when the caller sends them back; and at the finish if they are not a JSON object, because a
   * caller that runs half a call would run it without arguments. If the output limit or a filter stopped the model, the
   * last call may be half: the finish reason shows the caller.
   */
  event(event: StreamEvent): void {
    const whole = this.half === undefined && !endsInHalf(event) ? event : this.joined(event)
    if (whole !== undefined) this.pass(whole)
  }

  /**
   * The event with the half before it, and without the half at its end, which is held back; undefined if nothing is
   * left of it.
   */
  private joined(event: StreamEvent): StreamEvent | undefined {
    if (event.type === 'usage' || event.type === 'reasoning' || event.type === 'thought') return event
    const { half } = this
    let whole = event
    if (half !== undefined && isContinued(half, event)) {
      this.half = undefined
      whole = withText(event, textOf(half) + textOf(event))
    } else this.releaseHalf()
    if (!endsInHalf(whole)) return whole
    const text = textOf(whole)
    const first = withText(whole, text.slice(0, -1))
    this.half = withText(whole.type === 'text' ? { type: 'text', text: '' } : whole, text.slice(-1))
    return text.length === 1 && !(first.type === 'text' && first.logprobs !== undefined) ? undefined : first
  }

  /** The other half did not come: the provider wrote no more than this. */
  private releaseHalf(): void {
    const { half } = this
    this.half = undefined
    if (half !== undefined) this.pass(half)
  }

  private pass(event: StreamEvent): void {
    switch (event.type) {
      case 'start':
        if (this.phase !== NOT_STARTED) throw this.misplaced(event.type)
        this.phase = ANSWERING
        break
      case 'tool-start':
        if (this.phase !== ANSWERING) throw this.misplaced(event.type)
        if (event.index !== this.calls.length)
          throw new Error(`order of events: call ${event.index} started as the ${this.calls.length}th, counted from 0`)
        this.calls.push(new ObjectText())
        return this.send(restoreToolName(event, this.toolNames))
      case 'tool-delta':
        if (this.phase !== ANSWERING) throw this.misplaced(event.type)
        return this.addArguments(event)
      case 'usage':
        if (this.phase !== ANSWERING && this.phase !== FINISHED) throw this.misplaced(event.type)
        break
      case 'own':
        if (this.phase !== ANSWERING && (this.phase !== FINISHED || isContent(event))) throw this.misplaced(event.type)
        break
      case 'finish':
        if (this.phase !== ANSWERING) throw this.misplaced(event.type)
        this.phase = FINISHED
        this.judgeCalls(event.reason === 'length' || event.reason === 'content-filter')
        break
      case 'end':
        if (this.phase !== FINISHED) throw this.misplaced(event.type)
        this.phase = ENDED
        break
      default:
        if (this.phase !== ANSWERING) throw this.misplaced(event.type)
    }
    this.send(event)
  }

  private send(event: StreamEvent): void {
    const kept = this.keeper === undefined ? event : this.keeper.event(event)
    if (this.shown !== undefined) this.shown.event(event, this.sink)
    else if (kept !== undefined) this.sink.event(kept)
  }

  private addArguments(event: Extract<StreamEvent, { type: 'tool-delta' }>): void {
    const { index, json } = event
    const call = this.calls[index]
    if (call === undefined) throw new Error(`order of events: arguments of call ${index} before its start`)
    const wasOpen = call.state === 'open'
    const before = call.values
    const length = call.add(json)
    this.values += call.values - before
    if (call.problem === 'deep')
      throw new ProviderError('broken', `the arguments of a tool call are nested more than ${DEPTH_MAX} levels deep`)
    if (this.values > VALUES_MAX)
      throw new ProviderError('broken', `the arguments of the tool calls hold more than ${VALUES_MAX} values`)
    if (call.state === 'overrun') throw new ProviderError('broken', 'a tool call continues after its arguments')
    if (call.state !== 'whole') return this.sink.event(event)
    // Blanks after the object are dropped, so that its last delta is the one that is marked.
    if (wasOpen) this.sink.event({ type: 'tool-delta', index, json: json.slice(0, length), isLast: true })
  }

  private judgeCalls(isCut: boolean): void {
    for (const [index, call] of this.calls.entries()) {
      if (call.isEmpty) throw new Error(`order of events: the finish came before any arguments of call ${index}`)
      if (!isCut && call.state !== 'whole')
        throw new ProviderError('broken', 'the arguments of a tool call are not a JSON object')
    }
  }

  private misplaced(type: string): Error {
    return new Error(`order of events: '${type}' ${PHASES[this.phase]}`)
  }
}

/** Whether an event of the provider's own API is part of a block. */
function isContent({ part }: OwnEvent): boolean {
  return part !== 'message' && part !== 'ending' && part !== 'event'
}

function endsInHalf(event: StreamEvent): event is Written {
  switch (event.type) {
    case 'text':
    case 'refusal':
    case 'tool-delta':
      return (textOf(event).charCodeAt(textOf(event).length - 1) & HALVES) === FIRST_HALF
    default:
      return false
  }
}

/** UTF-16 units of first halves are 0xD800 to 0xDBFF, of second ones 0xDC00 to 0xDFFF. */
const HALVES = 0xfc00
const FIRST_HALF = 0xd800
const SECOND_HALF = 0xdc00

/** Whether the event begins with the other half. If not, a copied text and a decoded one are passed on alike. */
function isContinued(half: Written, event: StreamEvent): event is Written {
  const isNext =
    half.type === 'tool-delta'
      ? event.type === 'tool-delta' && event.index === half.index
      : event.type === 'text' || event.type === 'refusal'
  return isNext && event.type === half.type && (textOf(event).charCodeAt(0) & HALVES) === SECOND_HALF
}

function textOf(event: Written): string {
  return event.type === 'tool-delta' ? event.json : event.text
}

function withText(event: Written, text: string): Written {
  return event.type === 'tool-delta' ? { ...event, json: text } : { ...event, text }
}
