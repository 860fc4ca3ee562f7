/** A whole answer in the canonical form, and how events fold into it. */

import { type AnswerBlock, BlockFold, type OwnMembers } from './answer-blocks.ts'
import type { FinishReason, OwnStop, StreamEvent } from './event.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { mergeUsage, type Usage } from './token-usage.ts'

/** The most tool calls of one conversation, and of one answer. An agent's longest conversation has some hundreds. */
export const CALLS_MAX = 4096

export interface ToolCall {
  readonly callId: string
  readonly name: string
  /** The arguments as the JSON text that the model wrote. */
  readonly json: string
}

/** A call of an answer. */
export interface AnswerCall extends ToolCall {
  /** False if the output limit or a filter stopped the model before the arguments were a whole JSON object. */
  readonly isWhole: boolean
  /** Members of the call that only the provider's own API has. */
  readonly own?: JsonObject | undefined
}

export interface Completion {
  readonly text: string
  /** Absent if the model did not refuse in so many words. */
  readonly refusal?: string | undefined
  /** Text and refusal in the order in which they came, if the answer has both. */
  readonly mixed?: string | undefined
  readonly toolCalls: readonly AnswerCall[]
  readonly reason: FinishReason
  readonly own?: OwnStop | undefined
  readonly usage: Usage
  /** Present if the answer holds something of the provider's own API. */
  readonly ownMembers?: OwnMembers | undefined
  /** Chat Completions' `logprobs` objects of the text, in order; absent if the provider sent none. */
  readonly logprobs?: readonly JsonValue[] | undefined
  /** All of the answer in its order; absent if it has no thoughts, and nothing of the provider's own. */
  readonly blocks?: readonly AnswerBlock[] | undefined
}

/** A whole answer of nothing but text, which most answers are. */
export interface PlainAnswer {
  readonly text: string
  readonly reason: FinishReason
  /** Absent if the provider reported none. */
  readonly usage: Usage | undefined
  /** It came with thoughts that the provider wants back, or that a caller may see. */
  readonly hasThoughts?: boolean
}

/**
 * Text and refusal as one text, for dialects that have no refusals. A stream of the same answer has them in the same
 * order.
 */
export function spokenText({ text, refusal = '', mixed }: Completion): string {
  return mixed ?? text + refusal
}

interface GatheredCall {
  readonly callId: string
  readonly name: string
  readonly json: string[]
  isWhole: boolean
  readonly own: JsonObject | undefined
}

/** Gathers the events of one answer into a `Completion`. */
export class Fold {
  private readonly text: string[] = []
  private readonly refusal: string[] = []
  private readonly spoken: string[] = []
  private readonly calls: GatheredCall[] = []
  private readonly logprobs: JsonValue[] = []
  private readonly blocks = new BlockFold()
  private reason: FinishReason = 'stop'
  private own: OwnStop | undefined
  private usage: Usage = {}
  private ended = false

  add(event: StreamEvent): void {
    switch (event.type) {
      case 'text':
        this.text.push(event.text)
        this.spoken.push(event.text)
        this.blocks.text(event.text)
        if (event.logprobs !== undefined) this.logprobs.push(event.logprobs)
        return
      case 'refusal':
        this.refusal.push(event.text)
        this.spoken.push(event.text)
        this.blocks.text(event.text)
        return
      case 'tool-start':
        this.calls[event.index] = { callId: event.callId, name: event.name, json: [], isWhole: false, own: event.own }
        this.blocks.call(event.index)
        return
      case 'tool-delta': {
        const call = this.calls[event.index]
        call?.json.push(event.json)
        if (call !== undefined && event.isLast) call.isWhole = true
        return
      }
      case 'own':
        this.blocks.ownEvent(event)
        return
      case 'finish':
        this.reason = event.reason
        this.own = event.own
        return
      case 'usage':
        this.usage = mergeUsage(this.usage, event.usage)
        return
      case 'end':
        this.ended = true
        return
      case 'start':
        if (event.serviceTier !== undefined) this.usage = { serviceTier: event.serviceTier }
        return
      case 'reasoning':
      case 'thought':
        this.blocks.thought(event)
        return
    }
  }

  /** The answer; undefined until `end` was added. */
  get completion(): Completion | undefined {
    if (!this.ended) return undefined
    return {
      text: this.text.join(''),
      refusal: this.refusal.length > 0 ? this.refusal.join('') : undefined,
      mixed: this.refusal.length > 0 && this.text.length > 0 ? this.spoken.join('') : undefined,
      toolCalls: this.calls.map((call) => ({ ...call, json: call.json.join('') })),
      reason: this.reason,
      own: this.own,
      usage: this.usage,
      ownMembers: this.blocks.own,
      logprobs: this.logprobs.length > 0 ? this.logprobs : undefined,
      blocks: this.blocks.whole,
    }
  }
}
