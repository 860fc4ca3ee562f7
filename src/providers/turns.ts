/**
 * A conversation in the form of Anthropic, Gemini and Bedrock: system text apart, user and assistant alternating, the
 * results of calls at the start of the following user turn, no empty text. It is an order of the conversation's
 * entries: a writer goes over the turns, and over the blocks of each, and writes each block from its entry.
 *
 *     const turns = new Turns(conversation)
 *     const marks = new SentMarks(turns, offeredTools(request, tools), request.cache)
 *     const ids = new SentCallIds(turns)
 *     for (let turn = 0; turn < turns.count; turn++) {
 *       // turns.isAnswer(turn) …
 *       for (let at = turns.firstBlock(turn); at < turns.firstBlock(turn + 1); at++) {
 *         const block = turns.blockAt(at)
 *         switch (turns.kindOf(block)) {
 *           case TEXT: …turns.text(json, block)…
 *           case RESULT_ID: …ids.write(json, block)…, its texts, images and documents by `turns.partOfResult`
 *           case CALL_ID: …ids.write(json, block)…, its name and arguments are the next two entries
 *           case IMAGE: case IMAGE_URL: case DOCUMENT: …
 *         }
 *       }
 *     }
 */

import type { ChatRequest } from '../core/chat-request.ts'
import { type Conversation, isMedia } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import { type JsonBuilder, LINE_END, part } from '../core/json-builder.ts'
import { BACKSLASH } from '../core/json-bytes.ts'
import { ProviderError } from '../core/provider-error.ts'
import { solidEnd, solidStart } from '../core/solid-text.ts'
import type { ToolList } from '../core/tool-list.ts'

/** In place of an entry: the text of a user turn that must exist and that the caller did not send. */
export const PLACEHOLDER = -1
const PLACEHOLDER_TEXT = part('.')

/** No entry. */
export const NO_ENTRY = -1

/** Of each turn: its first block, its first message, and the end of its messages. After all of them, those of none. */
const TURN_INTS = 3

export class Turns {
  /** The system's texts. */
  readonly system: readonly number[]
  /** How many messages they came in. */
  readonly systemMessages: number
  /** Turns begin with one of the user, and alternate; none is empty. */
  readonly count: number
  private readonly blocks: readonly number[]
  private readonly turns: readonly number[]

  /**
   * System messages are moved to the front in order. Adjacent messages of one role become one turn. An assistant
   * message without text and calls is left out; a user message without content stays, because the turns around it would
   * merge without it.
   *
   * Throws `ProviderError` `rejected` with `unsent` for a part that only Chat Completions servers accept: a request
   * must not be answered without a part of it.
   */
  constructor(readonly conversation: Conversation) {
    const order = new TurnBuilder(conversation)
    this.system = order.system
    this.systemMessages = order.systemMessages
    this.blocks = order.blocks
    this.turns = order.turns
    this.count = order.turns.length / TURN_INTS - 1
  }

  isAnswer(turn: number): boolean {
    return turn % 2 === 1
  }

  /** The place of the first block of a turn, for `blockAt`; the blocks end with the first one of the next turn. */
  firstBlock(turn: number): number {
    return this.turns[TURN_INTS * turn] ?? 0
  }

  /**
   * Its messages are those from here to `endOfMessages`, and maybe system messages and empty ones of the assistant
   * among them.
   */
  firstMessage(turn: number): number {
    return this.turns[TURN_INTS * turn + 1] ?? 0
  }

  endOfMessages(turn: number): number {
    return this.turns[TURN_INTS * turn + 2] ?? 0
  }

  /**
   * The entry of a block: a `TEXT`, the first of an image or document, a `RESULT_ID`, a `CALL_ID`, an `OWN_BLOCK`; the
   * first `REFUSAL` of a message is a text, too. Or `PLACEHOLDER`.
   */
  blockAt(place: number): number {
    return this.blocks[place] ?? PLACEHOLDER
  }

  /** The place of the last block of all. */
  get lastPlace(): number {
    return this.blocks.length - 1
  }

  get lastBlock(): number {
    return this.blockAt(this.blocks.length - 1)
  }

  /** The kind of a block, where all texts are `TEXT`. */
  kindOf(block: number): number {
    if (block === PLACEHOLDER) return Kind.TEXT
    const kind = this.conversation.kindAt(block)
    return kind === Kind.REFUSAL ? Kind.TEXT : kind
  }

  /** Writes a text block, as the inside of a string. */
  text(json: JsonBuilder, block: number): void {
    if (block === PLACEHOLDER) return json.part(PLACEHOLDER_TEXT)
    const { conversation } = this
    json.entry(conversation, block)
    if (conversation.kindAt(block) !== Kind.REFUSAL) return
    const end = endOfKind(conversation, block, Kind.REFUSAL)
    for (let next = conversation.next(block); next < end; next = conversation.next(next)) json.entry(conversation, next)
  }

  /** The same without trailing white space, if it is a final text of the assistant: Claude rejects such a prefill. */
  trimmedText(json: JsonBuilder, block: number): void {
    if (block !== this.lastBlock || !this.isAnswer(this.count - 1) || this.endsTight(block))
      return this.text(json, block)
    const { conversation } = this
    const end = endOfKind(conversation, block, conversation.kindAt(block) === Kind.REFUSAL ? Kind.REFUSAL : KIND_OF_ONE)
    let text = conversation.textAt(block)
    for (let next = conversation.next(block); next < end; next = conversation.next(next))
      text += conversation.textAt(next)
    json.inside(text.trimEnd())
  }

  /** Whether a text certainly has no white space at its end, found without decoding it. */
  private endsTight(block: number): boolean {
    const { conversation } = this
    if (conversation.kindAt(block) !== Kind.TEXT) return false
    const { arena } = conversation
    const from = conversation.fromAt(block)
    const end = arena.indexAt(from, conversation.toAt(block))
    return solidEnd(arena.bufferAt(from), arena.indexAt(from), end) === end
  }

  /** Whether a turn begins with the results of calls. */
  isAnswered(turn: number): boolean {
    const first = this.blockAt(this.firstBlock(turn))
    return first !== PLACEHOLDER && this.conversation.kindAt(first) === Kind.RESULT_ID
  }

  /**
   * The first entry at or after this one that is a text of the same result and not blank, an image, a document or a
   * block of the caller's own API, or `NO_ENTRY`.
   */
  partOfResult(entry: number): number {
    const { conversation } = this
    for (let part = entry; part < conversation.end; part = conversation.endOfPart(part)) {
      const kind = conversation.kindAt(part)
      if (isMedia(kind) || kind === Kind.OWN_BLOCK) return part
      if (kind !== Kind.TEXT) break
      if (isSolid(conversation, part)) return part
    }
    return NO_ENTRY
  }

  /** The part of a result after this one, or `NO_ENTRY`. */
  partAfter(part: number): number {
    return this.partOfResult(this.conversation.endOfPart(part))
  }

  /** The first image or document of a result at or after this entry, or `NO_ENTRY`. */
  mediaOfResult(entry: number): number {
    let part = this.partOfResult(entry)
    while (part !== NO_ENTRY && !isMedia(this.conversation.kindAt(part))) part = this.partAfter(part)
    return part
  }

  /** Writes all texts of a result as one, as the inside of a string: a line each, blank ones too. */
  wholeResult(json: JsonBuilder, block: number): void {
    const { conversation } = this
    let isFirst = true
    for (
      let part = conversation.next(block);
      part < conversation.end && conversation.kindAt(part) > Kind.TOOL;
      part = conversation.endOfPart(part)
    ) {
      if (conversation.kindAt(part) !== Kind.TEXT) continue
      if (!isFirst) json.part(LINE_END)
      isFirst = false
      json.entry(conversation, part)
    }
  }

  /** The names of the tools called so far, each once, in order. */
  calledNames(): ReadonlySet<string> {
    const names = new Set<string>()
    const { conversation } = this
    if (!conversation.has(Kind.CALL_ID)) return names
    for (const block of this.blocks)
      if (this.kindOf(block) === Kind.CALL_ID) names.add(conversation.textAt(conversation.next(block)))
    return names
  }
}

/** No kind: the entries of this kind are none. */
const KIND_OF_ONE = -1

/** The first entry after this one that is not of this kind. */
function endOfKind(conversation: Conversation, entry: number, kind: number): number {
  let end = conversation.next(entry)
  while (end < conversation.end && conversation.kindAt(end) === kind) end = conversation.next(end)
  return end
}

const NO_SIDE = -1

/** Puts the entries of a conversation in the order of turns. */
class TurnBuilder {
  readonly system: number[] = []
  readonly blocks: number[] = []
  readonly turns: number[] = []
  systemMessages = 0
  /** Blocks of the open turn that come after all others: texts of the user, calls of the assistant. */
  private readonly later: number[] = []
  private side = NO_SIDE

  constructor(private readonly conversation: Conversation) {
    let end = 0
    for (let message = 0; message < conversation.end; message = end) {
      end = conversation.endOfMessage(message)
      this.add(message, conversation.next(message), end)
    }
    if (this.side === NO_SIDE) this.begin(Kind.USER, conversation.end, conversation.end)
    this.close()
    // So that no turn is read beyond the last one, which is slow.
    this.begin(NO_SIDE, conversation.end, conversation.end)
  }

  private add(message: number, first: number, end: number): void {
    const { conversation } = this
    switch (conversation.kindAt(message)) {
      case Kind.SYSTEM:
        this.systemMessages++
        for (let entry = first; entry < end; entry = conversation.next(entry))
          if (isSolid(conversation, entry)) this.system.push(entry)
        return
      case Kind.USER:
        this.open(Kind.USER, message, end)
        return this.question(first, end)
      case Kind.TOOL:
        this.open(Kind.USER, message, end)
        this.blocks.push(first)
        return
      default:
        return this.answer(message, first, end)
    }
  }

  private question(first: number, end: number): void {
    const { conversation, later } = this
    for (let entry = first; entry < end; entry = conversation.endOfPart(entry)) {
      const kind = conversation.kindAt(entry)
      if (isMedia(kind) || kind === Kind.OWN_BLOCK || (kind === Kind.TEXT && isSolid(conversation, entry)))
        later.push(entry)
      else if (kind === Kind.AUDIO) throw unknown('input_audio')
      else if (kind === Kind.FILE) throw unknown('file')
    }
  }

  private answer(message: number, first: number, end: number): void {
    const { conversation } = this
    for (let entry = first; entry < end; entry = conversation.next(entry)) {
      switch (conversation.kindAt(entry)) {
        case Kind.TEXT:
          if (!isSolid(conversation, entry)) break
          this.open(Kind.ASSISTANT, message, end)
          this.blocks.push(entry)
          break
        case Kind.REFUSAL:
          entry = this.refusal(message, entry, end)
          break
        case Kind.OWN_BLOCK:
          this.open(Kind.ASSISTANT, message, end)
          this.blocks.push(entry)
          break
        case Kind.CALL_ID:
          this.open(Kind.ASSISTANT, message, end)
          this.later.push(entry)
      }
    }
  }

  /** The refusals of a message are one text. Returns the last of them. */
  private refusal(message: number, first: number, end: number): number {
    const { conversation } = this
    const after = endOfKind(conversation, first, Kind.REFUSAL)
    let last = first
    let hasText = false
    for (let entry = first; entry < after; entry = conversation.next(entry)) {
      hasText ||= isSolid(conversation, entry)
      last = entry
    }
    if (hasText) {
      this.open(Kind.ASSISTANT, message, end)
      this.blocks.push(first)
    }
    return last
  }

  /** A message with a block of this side: a turn begins, or the one that is open goes on. */
  private open(side: number, message: number, end: number): void {
    if (this.side === side) this.turns[this.turns.length - 1] = end
    else {
      this.close()
      if (this.side === NO_SIDE && side === Kind.ASSISTANT) {
        this.begin(Kind.USER, message, message)
        this.close()
      }
      this.begin(side, message, end)
    }
  }

  private begin(side: number, message: number, end: number): void {
    this.side = side
    this.turns.push(this.blocks.length, message, end)
  }

  private close(): void {
    const { blocks, later } = this
    if (this.side === NO_SIDE) return
    for (let at = 0; at < later.length; at++) blocks.push(later[at] ?? 0)
    later.length = 0
    if (this.side === Kind.USER && blocks.length === this.turns[this.turns.length - TURN_INTS]) blocks.push(PLACEHOLDER)
  }
}

function unknown(type: string): ProviderError {
  return new ProviderError('rejected', `This model takes text and images, not parts of type "${type}".`, {
    unsent: true,
  })
}

/** True unless a text is blank: every provider rejects blocks of white space. */
function isSolid(conversation: Conversation, entry: number): boolean {
  const from = conversation.fromAt(entry)
  const to = conversation.toAt(entry)
  if (from === to) return false
  const { arena } = conversation
  const buffer = arena.bufferAt(from)
  const start = arena.indexAt(from)
  const first = buffer[start] ?? 0
  if (first > 0x20 && first < 0x7f && first !== BACKSLASH) return true
  return solidStart(buffer, start, arena.indexAt(from, to)) !== -1 || conversation.textAt(entry).trim() !== ''
}

/**
 * The tools to offer. If the caller allows only some, those alone: for providers that cannot limit the choice
 * themselves.
 */
export function offeredTools({ toolChoice }: Pick<ChatRequest, 'toolChoice'>, tools: ToolList): ToolList {
  return toolChoice?.mode === 'allowed' ? tools.only(new Set(toolChoice.names)) : tools
}
