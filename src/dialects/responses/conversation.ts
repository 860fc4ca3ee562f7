/**
 * Input items in order → the messages of a conversation: calls that belong together in one turn, each output after its
 * turn.
 */

import { type Message, NO_TEXTS, type TextPart } from '../../core/chat-request.ts'
import type { ToolCall } from '../../core/completion.ts'

type ToolMessage = Extract<Message, { readonly role: 'tool' }>

/** One turn of the assistant: its text, its calls and their outputs. */
interface Turn {
  readonly role: 'turn'
  readonly parts: TextPart[]
  readonly calls: ToolCall[]
  readonly outputs: ToolMessage[]
}

type Entry = Turn | Extract<Message, { readonly role: 'system' | 'user' | 'tool' }>

/** Takes items in order; `messages` returns the conversation. */
export class Conversation {
  private readonly entries: Entry[] = []
  private summaries = NO_TEXTS
  /** The turn of each call id. Some models repeat ids from turn to turn; then the latest turn. */
  private callers: Map<string, Turn> | undefined
  /** A message without text was left out. */
  private emptied = false

  /**
   * A message without text is left out, because several providers reject it, unless the conversation would be empty.
   */
  message(role: 'system' | 'user' | 'assistant', parts: readonly TextPart[]): void {
    const filled = parts.every(hasText) ? parts : parts.filter(hasText)
    if (filled.length === 0) this.emptied = true
    else if (role === 'assistant') this.answer(filled)
    else this.entries.push({ role, parts: filled })
  }

  /**
   * Consecutive calls and the assistant's message right before them are one turn: the outputs come after all of its
   * calls.
   */
  call(call: ToolCall): void {
    const turn = this.openTurn() ?? this.addTurn()
    turn.calls.push(call)
    this.callers ??= new Map()
    this.callers.set(call.callId, turn)
  }

  /** An output moves right after the turn of its call. An output without a call keeps its place. */
  output(output: ToolMessage): void {
    const turn = this.callers?.get(output.callId)
    if (turn === undefined) this.entries.push(output)
    else turn.outputs.push(output)
  }

  /** The text of a restored summary. */
  summary(text: string): void {
    this.summaries = [...this.summaries, text]
  }

  /** True if no item had any content. */
  get isEmpty(): boolean {
    return this.entries.length === 0 && this.summaries.length === 0 && !this.emptied
  }

  /**
   * `instructions` first, then the leading system messages, the summaries, and the rest. The summaries follow the
   * system messages because many chat templates accept system messages only at the start.
   */
  messages(instructions: string): Message[] {
    const { entries } = this
    const messages: Message[] = instructions === '' ? [] : [{ role: 'system', parts: [textPart(instructions)] }]
    let at = 0
    for (; entries[at]?.role === 'system'; at++) addMessages(messages, entries[at])
    for (const text of this.summaries) messages.push({ role: 'user', parts: [textPart(text)] })
    for (; at < entries.length; at++) addMessages(messages, entries[at])
    const spoken = messages.some(isSpoken)
    if (!spoken && this.emptied) messages.push({ role: 'user', parts: [textPart('')] })
    return messages
  }

  /**
   * Text that follows calls belongs to their turn: after the outputs it would be the last message of the conversation.
   */
  private answer(parts: readonly TextPart[]): void {
    const open = this.openTurn()
    const turn = open !== undefined && open.calls.length > 0 ? open : this.addTurn()
    turn.parts.push(...parts)
  }

  /** The last turn, if neither a message nor an output has followed it. */
  private openTurn(): Turn | undefined {
    const last = this.entries.at(-1)
    return last?.role === 'turn' && last.outputs.length === 0 ? last : undefined
  }

  private addTurn(): Turn {
    const turn: Turn = { role: 'turn', parts: [], calls: [], outputs: [] }
    this.entries.push(turn)
    return turn
  }
}

function hasText({ text }: TextPart): boolean {
  return text !== ''
}

function isSpoken({ role }: Message): boolean {
  return role !== 'system'
}

function addMessages(messages: Message[], entry: Entry | undefined): void {
  if (entry === undefined) return
  if (entry.role !== 'turn') messages.push(entry)
  else messages.push({ role: 'assistant', parts: entry.parts, toolCalls: entry.calls }, ...entry.outputs)
}

function textPart(text: string): TextPart {
  return { type: 'text', text, cache: undefined }
}
