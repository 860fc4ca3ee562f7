/** Input items, one after another → the messages of a conversation (wire.md D2): calls that belong together in one turn, each output behind its call. */

import type { Message, TextPart } from '../../core/chat-request.ts'
import type { ToolCall } from '../../core/completion.ts'

type ToolMessage = Extract<Message, { readonly role: 'tool' }>

/** One turn of the assistant: what it said, what it called, and what came of it. */
interface Turn {
  readonly role: 'turn'
  readonly parts: TextPart[]
  readonly calls: ToolCall[]
  readonly outputs: ToolMessage[]
}

type Entry = Turn | Extract<Message, { readonly role: 'system' | 'user' | 'tool' }>

/** Takes items in their order; `messages` is the conversation. */
export class Conversation {
  private readonly entries: Entry[] = []
  private readonly summaries: string[] = []
  /** Which turn made a call. Where ids repeat, as some models do from turn to turn, the latest. */
  private readonly callers = new Map<string, Turn>()
  private emptied = false

  /** A message without text says nothing, and several providers refuse it: it is left out, unless the conversation would be empty. */
  message(role: 'system' | 'user' | 'assistant', parts: readonly TextPart[]): void {
    const told = parts.filter((part) => part.text !== '')
    if (told.length === 0) this.emptied = true
    else if (role === 'assistant') this.answer(told)
    else this.entries.push({ role, parts: told })
  }

  /** Consecutive calls and the assistant's message right before them are one turn: outputs come after all calls of a turn. */
  call(call: ToolCall): void {
    const turn = this.openTurn() ?? this.addTurn()
    turn.calls.push(call)
    this.callers.set(call.callId, turn)
  }

  /** An output goes right behind the turn that called, wherever the caller put it. One without a call stays where it is. */
  output(output: ToolMessage): void {
    const turn = this.callers.get(output.callId)
    if (turn === undefined) this.entries.push(output)
    else turn.outputs.push(output)
  }

  /** The text of a restored summary. */
  summary(text: string): void {
    this.summaries.push(text)
  }

  /** True where no item said anything. */
  get isEmpty(): boolean {
    return this.entries.length === 0 && this.summaries.length === 0 && !this.emptied
  }

  /**
   * `instructions` first, then what else the system says before anybody speaks, then the summaries, then the conversation: behind the
   * leading system messages, because many a chat template takes those at the start only.
   */
  messages(instructions: string): Message[] {
    const leading = this.entries.findIndex((entry) => entry.role !== 'system')
    const start = leading === -1 ? this.entries.length : leading
    const messages: Message[] = instructions === '' ? [] : [{ role: 'system', parts: [textPart(instructions)] }]
    messages.push(...this.entries.slice(0, start).flatMap(messagesOf))
    messages.push(...this.summaries.map((text): Message => ({ role: 'user', parts: [textPart(text)] })))
    messages.push(...this.entries.slice(start).flatMap(messagesOf))
    const spoken = messages.some((message) => message.role !== 'system')
    if (!spoken && this.emptied) messages.push({ role: 'user', parts: [textPart('')] })
    return messages
  }

  /** Text that follows calls belongs to their turn: behind the outputs it would be the assistant who spoke last. */
  private answer(parts: readonly TextPart[]): void {
    const open = this.openTurn()
    const turn = open !== undefined && open.calls.length > 0 ? open : this.addTurn()
    turn.parts.push(...parts)
  }

  /** The assistant's turn that still goes on: nothing came after it, no output either. */
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

function messagesOf(entry: Entry): Message[] {
  if (entry.role !== 'turn') return [entry]
  return [{ role: 'assistant', parts: entry.parts, toolCalls: entry.calls }, ...entry.outputs]
}

function textPart(text: string): TextPart {
  return { type: 'text', text }
}
