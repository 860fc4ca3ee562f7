/**
 * Checks the system texts and messages of a large Messages body without parsing them. It knows what agents send.
 * Everything else, such as an image or a name that must be changed, is `Unusual`: then they are parsed.
 */

import { CallIdSet, isLegalId } from '../../core/call-id-set.ts'
import { CALLS_MAX } from '../../core/completion.ts'
import { OPEN, OPEN_LIST, QUOTE } from '../../core/json-bytes.ts'
import { solidStart } from '../../core/solid-text.ts'
import {
  ASSISTANT,
  CALL_ID,
  CONTINUED,
  EntryWriter,
  EXACT,
  FAILED,
  INPUT,
  MARKED,
  marksOf,
  NAME,
  RESULT_ID,
  SYSTEM,
  TEXT,
  TOOL,
  UnparsedMessages,
  USER,
} from '../../core/unparsed.ts'
import { END, type JsonCursor, UNKNOWN, unusual, words } from '../../wire/json-cursor.ts'
import { isLegalName, Members } from '../unparsed-members.ts'
import { readMark, readNull } from './unparsed-mark.ts'

const MESSAGE = words('role', 'content')
const ROLE = 0
const ROLES = words('user', 'assistant')
const ASSISTANT_ROLE = 1
const BLOCK = words('type', 'text', 'cache_control', 'id', 'name', 'input', 'tool_use_id', 'content', 'is_error')
const NAMES = { type: 0, text: 1, cache: 2, id: 3, name: 4, input: 5, answers: 6, content: 7, isError: 8 } as const
const TEXT_BLOCK = BLOCK.slice(0, 3)
const TYPES = words('text', 'tool_use', 'tool_result')
/** The members that a block of each type has, as bits: those that it may have, and those that it must have. */
const ALLOWED = [0b000_000_111, 0b000_111_101, 0b111_000_101]
const REQUIRED = [0b000_000_011, 0b000_111_001, 0b001_000_001]
const TEXT_TYPE = 0
const CALL_TYPE = 1
const LITERALS = words('true', 'false', 'null')

const entries = new EntryWriter()
/** Entries of the message that is being read: its results, its own texts and its calls. */
const results = new EntryWriter()
const texts = new EntryWriter()
const calls = new EntryWriter()
/** The texts of the result that is read. */
const resultTexts = new EntryWriter()
const callIds = new CallIdSet()

/** Reads the list of messages, which is next. Throws `Unusual`. */
export function readMessages(cursor: JsonCursor): UnparsedMessages {
  entries.begin()
  callIds.begin()
  const reader = new MessageReader(cursor)
  cursor.list()
  do reader.message()
  while (cursor.isItem())
  const read = entries.take()
  const marks = reader.hasMarks ? marksOf(read) : undefined
  return new UnparsedMessages(read, 'messages', reader.hasAnswer, marks, reader.hasOwnTurns)
}

/** Reads the system text or texts, which are next. Throws `Unusual`. */
export function readSystem(cursor: JsonCursor): UnparsedMessages {
  entries.begin()
  texts.begin()
  const from = cursor.nextOffset - 1
  const reader = new TextReader(cursor, texts)
  if (cursor.isNext(QUOTE)) reader.string()
  else if (cursor.isNext(OPEN_LIST)) reader.list(2)
  else unusual()
  if (!texts.isEmpty) {
    entries.add(reader.isList && reader.isExact ? SYSTEM | EXACT : SYSTEM, from, cursor.offset)
    entries.addAll(texts)
  }
  const read = entries.take()
  return new UnparsedMessages(read, 'messages', false, marksOf(read))
}

/** Reads content that is nothing but text, into `texts`. */
class TextReader {
  isList = false
  /** Whether Anthropic would get the same list. */
  isExact = true
  count = 0
  marks = 0

  constructor(
    private readonly cursor: JsonCursor,
    private readonly into: EntryWriter,
  ) {}

  string(): void {
    this.cursor.string()
    this.add(this.cursor.from, this.cursor.to, 0)
  }

  /** Within `depth` containers. */
  list(depth: number): void {
    const { cursor } = this
    this.isList = true
    if (!cursor.hasItems()) return
    do this.block(depth)
    while (cursor.isItem())
  }

  private block(depth: number): void {
    const { cursor } = this
    cursor.object()
    let isText = false
    let from = -1
    let to = -1
    let mark = 0
    const members = new Members(cursor, TEXT_BLOCK, depth + 2)
    for (let name = members.next(); name !== END; name = members.next()) {
      if (name === NAMES.cache) {
        mark = readMark(cursor, members, depth + 2)
        continue
      }
      cursor.string()
      if (name === NAMES.type) isText = cursor.word(TYPES) === TEXT_TYPE
      else {
        from = cursor.from
        to = cursor.to
      }
    }
    if (!isText || from === -1) unusual()
    this.add(from, to, mark)
  }

  /** An empty text is left out, a blank one by most providers. */
  private add(from: number, to: number, mark: number): void {
    if (!isCertainlySolid(this.cursor.bytes, from, to)) this.isExact = false
    if (from === to) return
    this.count++
    if (mark !== 0) this.marks++
    this.into.add(TEXT + mark * MARKED, from, to)
  }
}

function isCertainlySolid(bytes: Uint8Array, from: number, to: number): boolean {
  return solidStart(bytes, from, to) !== -1
}

/** Reads one message after the other into `entries`. */
class MessageReader {
  hasAnswer = false
  hasMarks = false
  hasOwnTurns = true
  private callCount = 0
  private resultCount = 0
  // Of the current message.
  private isExact = true
  /** Whether its blocks are in the order of providers: results before texts, texts before calls. */
  private isOrdered = true
  private hasSolidText = false
  private isMarked = false
  // Of the current block: its mark, and where the values of its members are.
  private mark = 0
  private isFailed = false
  private readonly from = new Int32Array(BLOCK.length)
  private readonly to = new Int32Array(BLOCK.length)

  constructor(private readonly cursor: JsonCursor) {}

  message(): void {
    const { cursor } = this
    const from = cursor.object()
    this.isExact = true
    this.isOrdered = true
    this.hasSolidText = false
    this.isMarked = false
    results.begin()
    texts.begin()
    calls.begin()
    let role = UNKNOWN
    let hasRole = false
    let hasContent = false
    const members = new Members(cursor, MESSAGE, 3)
    for (let name = members.next(); name !== END; name = members.next()) {
      if (name === ROLE) {
        cursor.string()
        role = cursor.word(ROLES)
        if (role === UNKNOWN && cursor.hasEscape()) unusual()
        hasRole = true
      } else {
        this.content()
        hasContent = true
      }
    }
    if (!hasRole || !hasContent) unusual()
    if (!this.isOrdered) {
      this.isExact = false
      // Marks are counted in the order in which they are sent.
      if (this.isMarked) this.hasOwnTurns = false
    }
    this.hasMarks ||= this.isMarked
    if (role === ASSISTANT_ROLE) this.answer(from)
    else this.turn(from, role !== UNKNOWN)
  }

  private answer(from: number): void {
    if (!results.isEmpty) unusual()
    this.hasAnswer = true
    // It would be left out, and the turns around it be one.
    if (!this.hasSolidText && calls.isEmpty) this.hasOwnTurns = false
    entries.add(this.isExact ? ASSISTANT | EXACT : ASSISTANT, from, this.cursor.offset)
    entries.addAll(texts)
    entries.addAll(calls)
  }

  /** Every other role counts as the user's, which is then sent. */
  private turn(from: number, isNamed: boolean): void {
    if (!calls.isEmpty) unusual()
    const first = entries.next
    entries.addAll(results)
    if (!texts.isEmpty || first === entries.next) {
      entries.add(USER | CONTINUED, 0, 0)
      if (texts.isEmpty) {
        entries.add(TEXT, 0, 0)
        this.isExact = false
      } else entries.addAll(texts)
    }
    const kind = entries.kindAt(first)
    entries.set(first, isNamed && this.isExact ? kind | EXACT : kind, from, this.cursor.offset)
  }

  private content(): void {
    const { cursor } = this
    if (cursor.isNext(QUOTE)) {
      cursor.string()
      // Anthropic gets a list.
      this.isExact = false
      this.text(cursor.from, cursor.to, 0)
      return
    }
    if (!cursor.hasItems()) return
    do this.block()
    while (cursor.isItem())
  }

  private block(): void {
    const { cursor, from, to } = this
    cursor.object()
    let type = UNKNOWN
    let seen = 0
    this.mark = 0
    this.isFailed = false
    resultTexts.begin()
    let content: TextReader | undefined
    const members = new Members(cursor, BLOCK, 5)
    for (let name = members.next(); name !== END; name = members.next()) {
      seen |= 1 << name
      switch (name) {
        case NAMES.type:
          cursor.string()
          type = cursor.word(TYPES)
          break
        case NAMES.cache:
          this.mark = readMark(cursor, members, 5)
          break
        case NAMES.input:
          if (!cursor.isNext(OPEN)) unusual()
          from[name] = cursor.nextOffset - 1
          cursor.isRewritten = false
          cursor.value(5)
          // A shorter request is parsed, and the provider must receive the same text in every turn of a conversation.
          if (cursor.isRewritten) this.isExact = false
          to[name] = cursor.offset
          break
        case NAMES.content:
          content = this.resultContent(members)
          break
        case NAMES.isError:
          this.isError(members)
          break
        default:
          cursor.string()
          from[name] = cursor.from
          to[name] = cursor.to
      }
    }
    const required = REQUIRED[type] ?? unusual()
    if ((seen & required) !== required || (seen & ~(ALLOWED[type] ?? 0)) !== 0) unusual()
    if (this.mark !== 0) this.isMarked = true
    if (type === TEXT_TYPE) this.text(from[NAMES.text] ?? 0, to[NAMES.text] ?? 0, this.mark)
    else if (type === CALL_TYPE) this.call()
    else this.result(content)
  }

  /** An empty text is left out. */
  private text(from: number, to: number, mark: number): void {
    if (!calls.isEmpty) this.isOrdered = false
    if (isCertainlySolid(this.cursor.bytes, from, to)) this.hasSolidText = true
    else this.isExact = false
    if (from !== to) texts.add(TEXT + mark * MARKED, from, to)
  }

  private call(): void {
    const { cursor, from, to } = this
    if (++this.callCount > CALLS_MAX) unusual()
    const idFrom = from[NAMES.id] ?? 0
    const idTo = to[NAMES.id] ?? 0
    const nameFrom = from[NAMES.name] ?? 0
    const nameTo = to[NAMES.name] ?? 0
    if (idFrom === idTo || !isLegalName(cursor.bytes, nameFrom, nameTo)) unusual()
    if (!callIds.add(cursor.bytes, idFrom, idTo)) this.hasOwnTurns = false
    calls.add(CALL_ID + this.mark * MARKED, idFrom, idTo)
    calls.add(NAME, nameFrom, nameTo)
    calls.add(INPUT, from[NAMES.input] ?? 0, to[NAMES.input] ?? 0)
  }

  /** If a result is a list, a single text is sent as a string; an empty list has no content. */
  private result(content: TextReader | undefined): void {
    const { cursor, from, to } = this
    if (++this.resultCount > CALLS_MAX) unusual()
    if (!texts.isEmpty) this.isOrdered = false
    const idFrom = from[NAMES.answers] ?? 0
    const idTo = to[NAMES.answers] ?? 0
    if (idFrom === idTo) unusual()
    if (!isLegalId(cursor.bytes, idFrom, idTo)) this.hasOwnTurns = false
    if (content !== undefined) {
      const { isExact, isList, count, marks } = content
      if (!isExact || (isList && (count === 0 || (count === 1 && marks === 0)))) this.isExact = false
      if (marks > 0) this.isMarked = true
      if (marks > 0 && this.mark !== 0) this.hasOwnTurns = false
    }
    results.add(TOOL | CONTINUED, 0, 0)
    results.add(RESULT_ID + (this.isFailed ? FAILED : 0) + this.mark * MARKED, idFrom, idTo)
    results.addAll(resultTexts)
  }

  /** Undefined if it counts as absent. */
  private resultContent(members: Members): TextReader | undefined {
    const { cursor } = this
    const reader = new TextReader(cursor, resultTexts)
    if (cursor.isNext(QUOTE)) reader.string()
    else if (cursor.isNext(OPEN_LIST)) reader.list(5)
    else {
      readNull(cursor, members)
      return undefined
    }
    return reader
  }

  /** False counts as absent. */
  private isError(members: Members): void {
    const literal = this.cursor.literal(LITERALS)
    if (literal === UNKNOWN) unusual()
    if (literal === 0) this.isFailed = true
    else members.leaveOut()
  }
}
