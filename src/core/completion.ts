/** A whole answer in the canonical form, and how events fold into it. */

import type { FinishReason, OwnStop, StreamEvent, ThoughtEvent } from './event.ts'
import type { JsonValue } from './json.ts'
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
  /** Chat Completions' `logprobs` objects of the text, in order; absent if the provider sent none. */
  readonly logprobs?: readonly JsonValue[] | undefined
  /** All of the answer in its order; absent if it has no thoughts. */
  readonly blocks?: readonly AnswerBlock[] | undefined
}

/** A piece of an answer that has thoughts. */
type AnswerBlock =
  | ThoughtBlock
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'call'; readonly index: number }

/** `texts`: the parts of the reasoning. */
export interface ThoughtBlock {
  readonly kind: 'thought'
  readonly texts: readonly string[]
  readonly seal?: string | undefined
  readonly isRedacted?: true | undefined
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

/** Gathers the events of one answer into a `Completion`. */
export class Fold {
  private readonly text: string[] = []
  private readonly refusal: string[] = []
  private readonly spoken: string[] = []
  private readonly calls: { callId: string; name: string; json: string[]; isWhole: boolean }[] = []
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
        this.calls[event.index] = { callId: event.callId, name: event.name, json: [], isWhole: false }
        this.blocks.call(event.index)
        return
      case 'tool-delta': {
        const call = this.calls[event.index]
        call?.json.push(event.json)
        if (call !== undefined && event.isLast) call.isWhole = true
        return
      }
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
      logprobs: this.logprobs.length > 0 ? this.logprobs : undefined,
      blocks: this.blocks.whole,
    }
  }
}

/** Gathers an answer in its order. */
class BlockFold {
  private readonly blocks: ({ kind: 'text'; pieces: string[] } | { kind: 'call'; index: number } | OpenThought)[] = []
  private hasThoughts = false

  text(text: string): void {
    const last = this.blocks.at(-1)
    if (last?.kind === 'text') last.pieces.push(text)
    else this.blocks.push({ kind: 'text', pieces: [text] })
  }

  call(index: number): void {
    this.blocks.push({ kind: 'call', index })
  }

  /** A seal ends the thought that is open; without one, it is a thought of which nothing is shown. */
  thought(event: ThoughtEvent): void {
    if (event.type === 'thought' && event.seal === undefined) return
    this.hasThoughts = true
    const last = this.blocks.at(-1)
    const open = last?.kind === 'thought' && last.seal === undefined ? last : undefined
    const thought = open ?? { kind: 'thought', parts: [] }
    if (open === undefined) this.blocks.push(thought)
    if (event.type === 'thought') {
      thought.seal = event.seal
      thought.isRedacted = event.isRedacted
    } else if (thought.parts.length === 0 || event.isNewPart) thought.parts.push([event.text])
    else thought.parts.at(-1)?.push(event.text)
  }

  get whole(): readonly AnswerBlock[] | undefined {
    if (!this.hasThoughts) return undefined
    return this.blocks.map((block) => {
      if (block.kind === 'call') return block
      if (block.kind === 'text') return { kind: 'text', text: block.pieces.join('') }
      const { parts, seal, isRedacted } = block
      return { kind: 'thought', texts: parts.map((pieces) => pieces.join('')), seal, isRedacted }
    })
  }
}

interface OpenThought {
  kind: 'thought'
  readonly parts: string[][]
  seal?: string | undefined
  isRedacted?: true | undefined
}
