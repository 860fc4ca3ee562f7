/** What of Anthropic's answers has no canonical event → events of its own, for callers of Messages. */

import { CALLS_MAX } from '../../core/completion.ts'
import type { OwnEvent, StreamEvent } from '../../core/event.ts'
import { isObject, type JsonObject, withoutMembers } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'

/** Members that the decoder reads, or that weir writes itself. */
const OF_MESSAGE = ['id', 'type', 'role', 'model', 'content', 'stop_reason', 'stop_sequence', 'usage']
const OF_ENDING = ['type', 'delta', 'usage']
const OF_DELTA = ['stop_reason', 'stop_sequence']
const OF_USAGE = [
  ...['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'cache_creation'],
  'service_tier',
]
const OF_TEXT = ['type', 'text']
const OF_CALL = ['type', 'id', 'name', 'input']
/** Deltas of the blocks that the decoder reads. */
const READ_DELTAS: ReadonlySet<string> = new Set([
  ...['text_delta', 'input_json_delta', 'thinking_delta', 'signature_delta'],
])
const EVENT_NAME = /^[a-z][a-z0-9_.]{0,63}$/

type Kind = 'text' | 'call' | 'thinking' | 'own'

/** Whether a whole message of one block of text has nothing of Anthropic's own. */
export function isPlainMessage(message: JsonObject, block: JsonObject): boolean {
  const usage = objectIn(message['usage'])
  return (
    isEmpty(withoutMembers(message, OF_MESSAGE)) &&
    isEmpty(withoutMembers(block, OF_TEXT)) &&
    isEmpty(withoutMembers(usage, OF_USAGE))
  )
}

/** One per stream. */
export class OwnBlocks {
  /** The kind of each block that has not ended. */
  private readonly open = new Map<number, Kind>()
  /** How many of them are Anthropic's own. */
  private ownOpen = 0
  /** Of the last block that callers see. */
  private last: Kind | undefined
  /** Callers have the block of text that began last: it began as an event, or some of its text has come. */
  private hasText = false

  message(message: JsonObject, events: StreamEvent[]): void {
    const usage = withoutMembers(objectIn(message['usage']), OF_USAGE)
    const members = { ...withoutMembers(message, OF_MESSAGE), ...(!isEmpty(usage) && { usage }) }
    if (!isEmpty(members)) events.push(own('message', members))
  }

  /** `chunk`: the event with the stop reason. */
  ending(chunk: JsonObject, events: StreamEvent[]): void {
    const delta = withoutMembers(objectIn(chunk['delta']), OF_DELTA)
    const usage = withoutMembers(objectIn(chunk['usage']), OF_USAGE)
    const members = withoutMembers(chunk, OF_ENDING)
    if (isEmpty(delta) && isEmpty(usage) && isEmpty(members)) return
    events.push(own('ending', { ...members, delta, usage }))
  }

  event(name: string, chunk: JsonObject, events: StreamEvent[]): void {
    if (EVENT_NAME.test(name)) events.push({ ...own('event', chunk), name })
  }

  /** Whether a block that begins is Anthropic's own. */
  begin(index: number, block: JsonObject, events: StreamEvent[]): boolean {
    const kind = kindOf(block['type'])
    this.end(index, events)
    if (this.open.size >= CALLS_MAX) throw new ProviderError('broken', `more than ${CALLS_MAX} blocks are open`)
    this.open.set(index, kind)
    const before = this.last
    if (kind !== 'thinking') this.last = kind
    if (kind === 'own') {
      this.ownOpen++
      events.push(own('block', block))
    }
    if (kind !== 'text') return kind === 'own'
    const members = withoutMembers(block, OF_TEXT)
    this.hasText = before === 'text' || !isEmpty(members)
    if (this.hasText) events.push(own('text', members))
    else if (block['text']) this.hasText = true
    return false
  }

  /** The call that began last has members of its own. */
  called(block: JsonObject, events: StreamEvent[]): void {
    const members = block['type'] === 'tool_use' ? withoutMembers(block, OF_CALL) : undefined
    const at = events.findLastIndex(({ type }) => type === 'tool-start')
    const start = events[at]
    if (members !== undefined && !isEmpty(members) && start?.type === 'tool-start')
      events[at] = { ...start, own: members }
  }

  /**
   * Whether a delta is Anthropic's own. The number of its block is not read if no such block is open: then frames that
   * differ in it are copied alike.
   */
  delta(indexOf: () => number, delta: JsonObject, events: StreamEvent[]): boolean {
    const isRead = READ_DELTAS.has(String(delta['type']))
    if (delta['text']) this.hasText = true
    if (isRead && this.ownOpen === 0) return false
    const kind = this.open.get(indexOf())
    if (kind === undefined || kind === 'thinking') return false
    if (kind !== 'own' && isRead) return false
    if (kind === 'text' && !this.hasText) {
      this.hasText = true
      events.push(own('text', {}))
    }
    events.push(own('delta', delta))
    return true
  }

  end(index: number, events: StreamEvent[]): void {
    if (this.open.get(index) === 'own') {
      this.ownOpen--
      events.push(own('stop', {}))
    }
    this.open.delete(index)
  }
}

function kindOf(type: unknown): Kind {
  switch (type) {
    case 'text':
      return 'text'
    case 'tool_use':
      return 'call'
    case 'thinking':
    case 'redacted_thinking':
      return 'thinking'
    default:
      return 'own'
  }
}

function own(part: OwnEvent['part'], value: JsonObject): OwnEvent {
  return { type: 'own', part, value }
}

function isEmpty(members: JsonObject): boolean {
  for (const _ in members) return false
  return true
}

function objectIn(value: unknown): JsonObject {
  return isObject(value) ? value : {}
}
