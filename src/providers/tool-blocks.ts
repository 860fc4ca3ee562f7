/** The tool calls of an answer in numbered blocks (Anthropic, Bedrock); block numbers count text and thinking too. */

import type { FinishReason, StreamEvent } from '../core/event.ts'
import { type JsonObject, type JsonValue, stringOf } from '../core/json.ts'
import { isNoArguments, mayBeNoArguments } from '../core/no-arguments.ts'
import { ProviderError } from '../core/provider-error.ts'
import { AnswerCallIds } from './answer-call-ids.ts'
import { inputJson } from './call-arguments.ts'

interface Call {
  readonly index: number
  /** The arguments if no deltas follow, or deltas of none: the input in the start of the block, or `{}`. */
  readonly whole: string
  /** Deltas that may still be no arguments; undefined once others were passed on. */
  heldBack: string | undefined
}

/** One per stream. Calls are numbered from 0 in order of appearance. */
export class ToolBlocks {
  /** Those that have not ended. Made with the first call: most answers have none. */
  private open: Map<number, Call> | undefined
  private readonly ids = new AnswerCallIds()
  private calls = 0

  /** True if the answer holds a call. */
  get any(): boolean {
    return this.calls > 0
  }

  /** True if the block is a call that has not ended. */
  has(block: number): boolean {
    return this.open?.has(block) === true
  }

  /**
   * A block that is a call begins. `input` is an object or its JSON, if the server sends all of it at once; `own`:
   * members that only its API has.
   */
  begin(
    block: number,
    id: unknown,
    name: unknown,
    input: JsonValue | undefined,
    events: StreamEvent[],
    own?: JsonObject,
  ): void {
    const tool = stringOf(name) ?? ''
    if (tool === '') throw new ProviderError('broken', 'a tool call has no name')
    const callId = this.ids.of(stringOf(id) ?? '')
    this.end(block, events)
    const index = this.calls++
    this.open ??= new Map()
    this.open.set(block, { index, whole: inputJson(input), heldBack: '' })
    events.push({ type: 'tool-start', index, callId, name: tool, ...(own !== undefined && { own }) })
  }

  /** A delta of the arguments of a call. */
  delta(block: number, json: string, events: StreamEvent[]): void {
    if (json === '') return
    const call = this.open?.get(block)
    if (call === undefined) throw new ProviderError('broken', 'a delta of a tool call belongs to no call')
    const unsent = call.heldBack === undefined ? json : call.heldBack + json
    const isHeldBack = call.heldBack !== undefined && mayBeNoArguments(unsent)
    call.heldBack = isHeldBack ? unsent : undefined
    if (!isHeldBack) events.push({ type: 'tool-delta', index: call.index, json: unsent })
  }

  /** A block of any kind ends. */
  end(block: number, events: StreamEvent[]): void {
    const call = this.open?.get(block)
    if (call === undefined) return
    this.open?.delete(block)
    const { index, whole, heldBack } = call
    if (heldBack === undefined) return
    events.push({ type: 'tool-delta', index, json: isNoArguments(heldBack) ? whole : heldBack })
  }

  /** The answer ends, and with it blocks whose end the provider did not send. */
  endAll(events: StreamEvent[]): void {
    for (const block of [...(this.open?.keys() ?? [])]) this.end(block, events)
  }

  /**
   * The provider's reason, corrected by the calls seen: `stop` after a call means `tool-call`, `tool-call` without a
   * call means `stop`.
   */
  reason(reported: FinishReason): FinishReason {
    if (reported === 'stop' || reported === 'tool-call') return this.any ? 'tool-call' : 'stop'
    return reported
  }
}
