/**
 * Stop sequences for an API, or a model, that takes none: the answer's text ends before the first of them, which may be
 * split over several events.
 */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { StreamEvent } from '../../core/event.ts'
import type { JsonObject } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import type { AnswerReader, StreamDecoder } from '../provider.ts'
import { stopSequences } from '../stop-sequences.ts'

/** Passes events on until a stop sequence. */
class StopFilter {
  /** The end of the text so far, which may be the beginning of a stop sequence. */
  private held = ''
  private hasCalls = false
  isStopped = false

  constructor(private readonly stop: readonly string[]) {}

  /** The events to pass on in place of these. After a stop sequence the answer is over. */
  filter(events: readonly StreamEvent[]): readonly StreamEvent[] {
    const passed: StreamEvent[] = []
    for (const event of events) {
      if (this.isStopped) break
      if (event.type === 'text') this.text(event, passed)
      else {
        if (event.type === 'tool-start') this.hasCalls = true
        if (event.type !== 'usage' && event.type !== 'reasoning') this.release(passed)
        passed.push(event)
      }
    }
    return passed
  }

  private text(event: Extract<StreamEvent, { type: 'text' }>, passed: StreamEvent[]): void {
    const text = this.held + event.text
    const at = this.firstStop(text)
    if (at === -1) {
      const kept = this.beginningAt(text)
      this.held = text.slice(kept)
      if (kept > 0) passed.push({ ...event, text: text.slice(0, kept) })
      return
    }
    this.held = ''
    this.isStopped = true
    if (at > 0) passed.push({ type: 'text', text: text.slice(0, at) })
    passed.push({ type: 'finish', reason: this.hasCalls ? 'tool-call' : 'stop' }, { type: 'end' })
  }

  /** What was held back is no stop sequence: something else follows it. */
  private release(passed: StreamEvent[]): void {
    if (this.held !== '') passed.push({ type: 'text', text: this.held })
    this.held = ''
  }

  /**
   * Where the stop sequence begins that is complete first, as for a provider, which checks after each token; of several
   * that are complete at once, the longest. A longer one that began earlier may be complete only in a later piece, so
   * by their beginnings the answer would depend on how the text is divided.
   */
  private firstStop(text: string): number {
    let [first, firstEnd] = [-1, Number.POSITIVE_INFINITY]
    for (const sequence of this.stop) {
      const at = text.indexOf(sequence)
      const end = at + sequence.length
      if (at === -1 || end > firstEnd || (end === firstEnd && at > first)) continue
      first = at
      firstEnd = end
    }
    return first
  }

  /** Where the longest end of the text begins with which a stop sequence begins. */
  private beginningAt(text: string): number {
    let longest = 0
    for (const sequence of this.stop) {
      let length = Math.min(sequence.length - 1, text.length)
      while (length > longest && !text.endsWith(sequence.slice(0, length))) length--
      longest = Math.max(longest, length)
    }
    return text.length - longest
  }
}

/** A whole answer up to its first stop sequence. The provider has written all of it: its usage stays. */
function stoppedEvents(events: readonly StreamEvent[], stop: readonly string[]): readonly StreamEvent[] {
  const filter = new StopFilter(stop)
  const passed = filter.filter(events)
  if (!filter.isStopped) return passed
  const usage = events.filter(({ type }) => type === 'usage')
  return [...passed.slice(0, -1), ...usage, { type: 'end' }]
}

/** Reads answers up to the first stop sequence. Each text is looked at, so no frame is copied unread. */
export function stoppedReader(reader: AnswerReader, stop: readonly string[]): AnswerReader {
  return {
    ...reader,
    framer: () => reader.framer(),
    decoder: () => new StopDecoder(reader.decoder(), stop),
    events: (body) => stoppedEvents(reader.events(body), stop),
    plain: undefined,
  }
}

/** Those that weir looks for itself. Throws `ProviderError` `rejected` with `unsent` for too many of them. */
export function keptStop(request: ChatRequest): readonly string[] | undefined {
  const stop = stopSequences(request.stop, { isClaude: false })
  if (stop === undefined || (stop.length <= STOP_SEQUENCES_MAX && stop.every(({ length }) => length <= STOP_CHARS_MAX)))
    return stop
  const most = `${STOP_SEQUENCES_MAX} stop sequences of ${STOP_CHARS_MAX} characters`
  throw new ProviderError('rejected', `Too many or too long stop sequences: this model takes ${most}.`, {
    unsent: true,
  })
}

/** weir looks for each stop sequence in each piece of a text. Chat Completions takes four. */
const STOP_SEQUENCES_MAX = 64
const STOP_CHARS_MAX = 1024

class StopDecoder implements StreamDecoder {
  private readonly filter: StopFilter

  constructor(
    private readonly decoder: StreamDecoder,
    stop: readonly string[],
  ) {
    this.filter = new StopFilter(stop)
  }

  get hasStopped(): boolean {
    return this.filter.isStopped
  }

  decode(event: string, data: string): readonly StreamEvent[] {
    return this.hasStopped ? [] : this.filter.filter(this.decoder.decode(event, data))
  }

  read(event: string, chunk: JsonObject): readonly StreamEvent[] {
    return this.hasStopped ? [] : this.filter.filter(this.decoder.read(event, chunk))
  }

  close(): readonly StreamEvent[] {
    return this.hasStopped ? [] : this.filter.filter(this.decoder.close())
  }
}
