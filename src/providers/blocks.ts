/** The tool calls of an answer that comes in numbered blocks (Anthropic, Bedrock): block numbers count text and thinking too. */

import type { FinishReason, StreamEvent } from '../core/event.ts'
import { type JsonValue, stringOf } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import { CallerIds } from './call-ids.ts'
import { inputJson } from './tool-calls.ts'

interface Call {
  readonly index: number
  /** What is said where no piece comes: the input that stood in the block's start, or `{}`. */
  readonly whole: string
  written: boolean
}

/** One a stream. Calls are numbered from 0 in order of appearance. */
export class ToolBlocks {
  private readonly open = new Map<number, Call>()
  private readonly ids = new CallerIds()
  private calls = 0

  /** True once the answer holds a call. */
  get any(): boolean {
    return this.calls > 0
  }

  /** True for a block that is a call and is not over. */
  has(block: number): boolean {
    return this.open.has(block)
  }

  /** A block begins that is a call. `input` is an object, or its JSON, where a server gives all of it at once. */
  begin(block: number, id: unknown, name: unknown, input: JsonValue | undefined, events: StreamEvent[]): void {
    const tool = stringOf(name) ?? ''
    if (tool === '') throw new ProviderError('broken', 'a tool call has no name')
    const callId = this.ids.of(stringOf(id) ?? '')
    this.end(block, events)
    const index = this.calls++
    this.open.set(block, { index, whole: inputJson(input), written: false })
    events.push({ type: 'tool-start', index, callId, name: tool })
  }

  /** A piece of the JSON of a call. */
  delta(block: number, json: string, events: StreamEvent[]): void {
    if (json === '') return
    const call = this.open.get(block)
    if (call === undefined) throw new ProviderError('broken', 'a piece of a tool call belongs to no call')
    call.written = true
    events.push({ type: 'tool-delta', index: call.index, json })
  }

  /** A block of any kind is over. */
  end(block: number, events: StreamEvent[]): void {
    const call = this.open.get(block)
    if (call === undefined) return
    this.open.delete(block)
    if (!call.written) events.push({ type: 'tool-delta', index: call.index, json: call.whole })
  }

  /** The answer is over: so are blocks whose end was never said. */
  endAll(events: StreamEvent[]): void {
    for (const block of [...this.open.keys()]) this.end(block, events)
  }

  /** The provider's reason, put right by what was seen: a plain stop after a call means the call, a call that is none means a plain stop. */
  reason(said: FinishReason): FinishReason {
    if (said === 'stop' || said === 'tool-call') return this.any ? 'tool-call' : 'stop'
    return said
  }
}
