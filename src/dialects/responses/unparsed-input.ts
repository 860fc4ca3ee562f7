/**
 * Checks the instructions and the input of a large Responses body without parsing them. It knows what agents send:
 * messages, function calls, and each output right after the turn of its call. Everything else that counts, such as a
 * reference, a compaction or a cache mark, is `Unusual`: then they are parsed.
 */

import { CALLS_MAX } from '../../core/completion.ts'
import { OPEN, OPEN_LIST, QUOTE } from '../../core/json-bytes.ts'
import {
  ARGUMENTS,
  ASSISTANT,
  CALL_ID,
  EntryWriter,
  NAME,
  RESULT_ID,
  SYSTEM,
  TEXT,
  TOOL,
  UnparsedMessages,
  USER,
} from '../../core/unparsed.ts'
import { END, type JsonCursor, UNKNOWN, unusual, words } from '../../wire/json-cursor.ts'
import { VALUES_MAX } from '../../wire/json-shape.ts'
import { valuesWithin } from '../../wire/json-text.ts'
import { isLegalName } from '../unparsed-members.ts'

const ITEM = words('type', 'role', 'content', 'call_id', 'name', 'arguments', 'output', 'namespace')
const NAMES = { type: 0, role: 1, content: 2, callId: 3, name: 4, arguments: 5, output: 6, namespace: 7 } as const
const TYPES = words(
  'message',
  'function_call',
  'function_call_output',
  // Not these.
  'additional_tools',
  'compaction',
  'compaction_summary',
  'compaction_trigger',
  'item_reference',
)
const [MESSAGE, CALL, OUTPUT] = [0, 1, 2]
const ROLES = words('user', 'assistant', 'system', 'developer')
/** The kind of message of each role, by its index in `ROLES`. */
const KINDS = [USER, ASSISTANT, SYSTEM, SYSTEM]
const PART = words('type', 'text', 'cache_control')
const PART_NAMES = { type: 0, text: 1 } as const
const TEXT_TYPES = words('input_text', 'output_text', 'text')
const NULL = words('null')
/** How many containers an item, and a part of its content, is in. */
const ITEM_DEPTH = 3
const PART_DEPTH = 5
/** Outputs in another order than their calls are looked for among this many calls. */
const CALLS_SEARCHED_MAX = 64

const entries = new EntryWriter()
/** The texts of the item that is read. */
const texts = new EntryWriter()
/** The calls of the last turn, which come after all of its texts. */
const calls = new EntryWriter()

/** Reads `instructions`, which are next. Empty ones, and null, are no message. Throws `Unusual`. */
export function readInstructions(cursor: JsonCursor): UnparsedMessages {
  entries.begin()
  if (cursor.isNext(QUOTE)) {
    cursor.string()
    if (cursor.from !== cursor.to) {
      entries.add(SYSTEM, 0, 0)
      entries.add(TEXT, cursor.from, cursor.to)
    }
  } else if (cursor.literal(NULL) !== 0) unusual()
  return new UnparsedMessages(entries.take(), 'responses', false)
}

/** Reads `input`, which is next. Throws `Unusual`. */
export function readInput(cursor: JsonCursor): UnparsedMessages {
  entries.begin()
  calls.begin()
  const reader = new InputReader(cursor)
  if (cursor.isNext(QUOTE)) reader.text()
  else reader.items()
  return new UnparsedMessages(entries.take(), 'responses', reader.hasAnswer)
}

/** What the last message is: an assistant's, one with calls, one with calls and outputs, or another. */
type Last = 'answer' | 'calls' | 'outputs' | 'other'

class InputReader {
  hasAnswer = false
  private last: Last = 'other'
  /** The ids of the calls of the last turn: the first byte of each, and the byte after its last, in turn. */
  private readonly callIds: number[] = []
  /** The index in `callIds` of the call whose output is expected next. */
  private expected = 0
  /** The kind of the message that is being read; a message without a role counts as the user's. */
  private kind = USER
  private isSpoken = false
  /** Whether a message without text was left out. */
  private hasEmpty = false
  private callCount = 0
  private outputCount = 0
  /** Commas and colons within the arguments of calls. */
  private values = 0
  // Of the current item: where the values of its members are.
  private readonly from = new Int32Array(ITEM.length)
  private readonly to = new Int32Array(ITEM.length)

  constructor(private readonly cursor: JsonCursor) {}

  text(): void {
    const { cursor } = this
    cursor.string()
    if (cursor.from === cursor.to) unusual()
    entries.add(USER, 0, 0)
    entries.add(TEXT, cursor.from, cursor.to)
  }

  items(): void {
    const { cursor } = this
    cursor.list()
    do this.item()
    while (cursor.isItem())
    entries.addAll(calls)
    // A conversation without any message is an error, or gets an empty one.
    if (entries.isEmpty || (!this.isSpoken && this.hasEmpty)) unusual()
  }

  private item(): void {
    const { cursor } = this
    cursor.object()
    const { position, offset } = cursor
    const type = this.type()
    cursor.moveTo(position, offset)
    switch (type) {
      case MESSAGE:
        return this.message()
      case CALL:
        return this.call()
      case OUTPUT:
        return this.output()
      case UNKNOWN:
        // Reasoning, searches and what else no model gets.
        this.members(0)
        return
      default:
        unusual()
    }
  }

  /** The type of the item that is next, which is a message if it has a role alone. It may be any of its members. */
  private type(): number {
    const { cursor } = this
    let hasRole = false
    for (let name = cursor.member(ITEM); name !== END; name = cursor.member(ITEM)) {
      if (name === NAMES.type) {
        cursor.string()
        const type = cursor.word(TYPES)
        return type === UNKNOWN && cursor.hasEscape() ? unusual() : type
      }
      hasRole ||= name === NAMES.role && cursor.isNext(QUOTE)
      cursor.value(ITEM_DEPTH)
    }
    return hasRole ? MESSAGE : unusual()
  }

  /**
   * Reads the members of the item. Those of `wanted`, as bits, must be strings, except for content and output. Returns
   * those that are there. Which of two members with the same name counts would depend on the parser.
   */
  private members(wanted: number): number {
    const { cursor, from, to } = this
    texts.begin()
    this.kind = USER
    let seen = 0
    for (let name = cursor.member(ITEM); name !== END; name = cursor.member(ITEM)) {
      if (name >= 0) {
        if ((seen & (1 << name)) !== 0) unusual()
        seen |= 1 << name
      }
      if (name < 0 || (wanted & (1 << name)) === 0) cursor.value(ITEM_DEPTH)
      else if (name === NAMES.content || name === NAMES.output) this.content()
      else {
        cursor.string()
        if (name === NAMES.role) this.role()
        from[name] = cursor.from
        to[name] = cursor.to
      }
    }
    return seen
  }

  private message(): void {
    this.members(MESSAGE_MEMBERS)
    const { kind } = this
    // Several providers reject a message without text.
    if (texts.isEmpty) this.hasEmpty = true
    else if (kind === ASSISTANT) this.answer()
    else {
      entries.addAll(calls)
      entries.add(kind, 0, 0)
      entries.addAll(texts)
      this.last = 'other'
      if (kind === USER) this.isSpoken = true
    }
  }

  /** Every other role counts as the user's. */
  private role(): void {
    const { cursor } = this
    const role = cursor.word(ROLES)
    if (role === UNKNOWN && cursor.hasEscape()) unusual()
    this.kind = KINDS[role] ?? USER
  }

  /** Text that follows calls belongs to their turn. */
  private answer(): void {
    if (this.last !== 'calls') this.turn()
    entries.addAll(texts)
  }

  /** A new turn of the assistant. */
  private turn(): void {
    entries.addAll(calls)
    entries.add(ASSISTANT, 0, 0)
    this.last = 'answer'
    this.hasAnswer = true
    this.isSpoken = true
  }

  private call(): void {
    const { cursor, from, to } = this
    const seen = this.members(CALL_MEMBERS)
    if ((seen & CALL_MEMBERS) !== CALL_MEMBERS || ++this.callCount > CALLS_MAX) unusual()
    // A tool in a namespace has another name for the provider.
    if ((seen & (1 << NAMES.namespace)) !== 0) unusual()
    const idFrom = from[NAMES.callId] ?? 0
    const idTo = to[NAMES.callId] ?? 0
    const nameFrom = from[NAMES.name] ?? 0
    const nameTo = to[NAMES.name] ?? 0
    const argumentsFrom = from[NAMES.arguments] ?? 0
    const argumentsTo = to[NAMES.arguments] ?? 0
    if (idFrom === idTo || !isLegalName(cursor.bytes, nameFrom, nameTo)) unusual()
    // Others may be none, for which `{}` is sent.
    if (argumentsFrom === argumentsTo || cursor.bytes[argumentsFrom] !== OPEN) unusual()
    this.count(argumentsFrom, argumentsTo)
    if (this.last !== 'answer' && this.last !== 'calls') this.turn()
    if (this.last === 'answer') {
      this.callIds.length = 0
      this.expected = 0
    }
    this.last = 'calls'
    this.callIds.push(idFrom, idTo)
    calls.add(CALL_ID, idFrom, idTo)
    calls.add(NAME, nameFrom, nameTo)
    calls.add(ARGUMENTS, argumentsFrom, argumentsTo)
  }

  private count(from: number, to: number): void {
    const values = valuesWithin(this.cursor.bytes, from, to)
    this.values += values
    if (values === -1 || this.values > VALUES_MAX) unusual()
  }

  /** Every other output may have to move. */
  private output(): void {
    const { from, to } = this
    const seen = this.members(OUTPUT_MEMBERS)
    const idFrom = from[NAMES.callId] ?? 0
    const idTo = to[NAMES.callId] ?? 0
    if ((seen & (1 << NAMES.callId)) === 0 || idFrom === idTo || ++this.outputCount > CALLS_MAX) unusual()
    if ((this.last !== 'calls' && this.last !== 'outputs') || !this.isCalled(idFrom, idTo)) unusual()
    this.last = 'outputs'
    entries.addAll(calls)
    entries.add(TOOL, 0, 0)
    entries.add(RESULT_ID, idFrom, idTo)
    entries.addAll(texts)
  }

  /** Whether one of the calls of the last turn has this id. */
  private isCalled(from: number, to: number): boolean {
    const { callIds } = this
    const { bytes } = this.cursor
    const steps = Math.min(callIds.length / 2, CALLS_SEARCHED_MAX)
    for (let step = 0; step < steps; step++) {
      if (this.expected >= callIds.length) this.expected = 0
      const start = callIds[this.expected] ?? 0
      const end = callIds[this.expected + 1] ?? 0
      this.expected += 2
      if (areEqual(bytes, from, to, start, end)) return true
    }
    return false
  }

  /** A string, parts or null. Texts that are not empty count. */
  private content(): void {
    const { cursor } = this
    if (cursor.isNext(QUOTE)) {
      cursor.string()
      addText(cursor.from, cursor.to)
      return
    }
    if (!cursor.isNext(OPEN_LIST)) {
      if (cursor.literal(NULL) !== 0) unusual()
      return
    }
    if (!cursor.hasItems()) return
    do this.part()
    while (cursor.isItem())
  }

  /** Parts that are no text, such as images, do not count. */
  private part(): void {
    const { cursor } = this
    cursor.object()
    let seen = 0
    let from = -1
    let to = -1
    let isText = false
    let hasType = false
    for (let name = cursor.member(PART); name !== END; name = cursor.member(PART)) {
      if (name >= 0) {
        if ((seen & (1 << name)) !== 0) unusual()
        seen |= 1 << name
      }
      if (name === PART_NAMES.type) {
        cursor.string()
        isText = cursor.word(TEXT_TYPES) !== UNKNOWN
        if (!isText && cursor.hasEscape()) unusual()
        hasType = true
      } else if (name === PART_NAMES.text && cursor.isNext(QUOTE)) {
        cursor.string()
        from = cursor.from
        to = cursor.to
      } else if (name >= 0 && name !== PART_NAMES.text) {
        if (cursor.literal(NULL) !== 0) unusual()
      } else cursor.value(PART_DEPTH)
    }
    if (!hasType || (isText && from === -1)) unusual()
    if (isText) addText(from, to)
  }
}

const MESSAGE_MEMBERS = (1 << NAMES.role) | (1 << NAMES.content)
const CALL_MEMBERS = (1 << NAMES.callId) | (1 << NAMES.name) | (1 << NAMES.arguments)
const OUTPUT_MEMBERS = (1 << NAMES.callId) | (1 << NAMES.output)

function addText(from: number, to: number): void {
  if (from !== to) texts.add(TEXT, from, to)
}

function areEqual(bytes: Uint8Array, from: number, to: number, otherFrom: number, otherTo: number): boolean {
  if (to - from !== otherTo - otherFrom) return false
  for (let at = from, other = otherFrom; at < to; at++, other++) if (bytes[at] !== bytes[other]) return false
  return true
}
