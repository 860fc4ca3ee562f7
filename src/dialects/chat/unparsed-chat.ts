/**
 * Checks the messages and tools of a large Chat Completions body without parsing them. It knows what agents send.
 * Everything else, such as an image, a cache mark or a name that must be changed, is `Unusual`: then they are parsed.
 */

import { CALLS_MAX } from '../../core/completion.ts'
import { OPEN, OPEN_LIST, QUOTE } from '../../core/json-bytes.ts'
import {
  ARGUMENTS,
  ASSISTANT,
  CALL_ID,
  EntryWriter,
  EXACT,
  INPUT,
  NAME,
  RESULT_ID,
  STRICT as STRICT_ENTRY,
  SYSTEM,
  TEXT,
  TOOL,
  UnparsedMessages,
  type UnparsedTools,
  USER,
} from '../../core/unparsed.ts'
import { END, type JsonCursor, UNKNOWN, unusual, words } from '../../wire/json-cursor.ts'
import { VALUES_MAX } from '../../wire/json-shape.ts'
import { valuesWithin } from '../../wire/json-text.ts'
import { TOOLS_MAX } from '../request-limits.ts'
import { isLegalName, Members, readSchema, ToolMembers } from '../unparsed-members.ts'

const MESSAGE = words('role', 'content', 'tool_calls', 'tool_call_id', 'cache_control', 'refusal')
const [ROLE, CONTENT, TOOL_CALLS, TOOL_CALL_ID] = [0, 1, 2, 3]
const ROLES = words('system', 'user', 'assistant', 'tool', 'developer')
/** The kind of message of each role, by its index in `ROLES`. */
const KINDS = [SYSTEM, USER, ASSISTANT, TOOL, SYSTEM]
const DEVELOPER = 4
const PART = words('type', 'text', 'cache_control')
const TEXT_TYPE = words('text')
const CALL = words('id', 'type', 'function')
const CALLED = words('name', 'arguments')
const FUNCTION_TYPE = words('function')
const TOOL_MEMBERS = words('type', 'function', 'cache_control')
const FUNCTION = words('name', 'description', 'parameters', 'strict')
const [TOOL_NAME, DESCRIPTION, PARAMETERS, STRICT] = [0, 1, 2, 3]
const NULL = words('null')
const BOOLEANS = words('true', 'false')

type Content = 'absent' | 'null' | 'empty' | 'text' | 'one part' | 'parts'

const entries = new EntryWriter()

/** Reads the list of messages, which is next. Throws `Unusual`. */
export function readChatMessages(cursor: JsonCursor): UnparsedMessages {
  entries.begin()
  const reader = new MessageReader(cursor)
  cursor.list()
  do reader.message()
  while (cursor.isItem())
  return new UnparsedMessages(entries.take(), 'chat', reader.hasAnswer)
}

class MessageReader {
  hasAnswer = false
  /** Whether the message that is read has nothing that a provider does not get. */
  private isExact = true
  private calls = 0
  private results = 0
  /** Commas and colons within the arguments of calls. */
  private values = 0
  // Of the call that is read: where its name and its arguments are.
  private nameFrom = 0
  private nameTo = 0
  private argumentsFrom = 0
  private argumentsTo = 0

  constructor(private readonly cursor: JsonCursor) {}

  message(): void {
    const { cursor } = this
    const from = cursor.object()
    const entry = entries.add(SYSTEM, from, from)
    this.isExact = true
    let role = UNKNOWN
    let content: Content = 'absent'
    let hasCalls = false
    let hasId = false
    const members = new Members(cursor, MESSAGE, 3)
    for (let name = members.next(); name !== END; name = members.next()) {
      if (name === ROLE) role = this.role()
      else if (name === CONTENT) content = this.content()
      else if (name === TOOL_CALLS) hasCalls = this.toolCalls()
      else if (name === TOOL_CALL_ID) hasId = this.resultId()
      else unusual()
    }
    const kind = KINDS[role] ?? unusual()
    if ((hasCalls && kind !== ASSISTANT) || hasId !== (kind === TOOL)) unusual()
    if (kind === TOOL && ++this.results > CALLS_MAX) unusual()
    if (kind === ASSISTANT) this.hasAnswer = true
    // A user's message always has a text.
    if (kind === USER && (content === 'absent' || content === 'null' || content === 'empty')) entries.add(TEXT, 0, 0)
    const isExact = this.isExact && role !== DEVELOPER && isWritten(content, kind, hasCalls)
    entries.set(entry, isExact ? kind | EXACT : kind, from, cursor.offset)
  }

  private role(): number {
    const { cursor } = this
    cursor.string()
    const role = cursor.word(ROLES)
    return role === UNKNOWN ? unusual() : role
  }

  private content(): Content {
    const { cursor } = this
    if (cursor.isNext(QUOTE)) {
      cursor.string()
      if (cursor.from === cursor.to) return 'empty'
      entries.add(TEXT, cursor.from, cursor.to)
      return 'text'
    }
    if (!cursor.isNext(OPEN_LIST)) return cursor.literal(NULL) === 0 ? 'null' : unusual()
    cursor.list()
    let parts = 0
    do {
      this.part()
      parts++
    } while (cursor.isItem())
    return parts === 1 ? 'one part' : 'parts'
  }

  private part(): void {
    const { cursor } = this
    cursor.object()
    let isText = false
    let from = 0
    let to = 0
    const members = new Members(cursor, PART, 5)
    for (let name = members.next(); name !== END; name = members.next()) {
      if (name > 1) unusual()
      cursor.string()
      if (name === 0) isText = cursor.word(TEXT_TYPE) === 0
      else {
        from = cursor.from
        to = cursor.to
      }
    }
    if (!isText || from === to) unusual()
    entries.add(TEXT, from, to)
  }

  private resultId(): true {
    const { cursor } = this
    cursor.string()
    entries.add(RESULT_ID, cursor.from, cursor.to)
    return true
  }

  private toolCalls(): true {
    const { cursor } = this
    cursor.list()
    do this.toolCall()
    while (cursor.isItem())
    return true
  }

  private toolCall(): void {
    const { cursor } = this
    if (++this.calls > CALLS_MAX) unusual()
    cursor.object()
    let isFunction = false
    let isCalled = false
    let idFrom = -1
    let idTo = -1
    const members = new Members(cursor, CALL, 5)
    for (let name = members.next(); name !== END; name = members.next()) {
      if (name === 2) {
        this.called()
        isCalled = true
        continue
      }
      cursor.string()
      if (name === 1) isFunction = cursor.word(FUNCTION_TYPE) === 0
      else {
        idFrom = cursor.from
        idTo = cursor.to
      }
    }
    if (!isCalled || idFrom === -1) unusual()
    if (!isFunction) this.isExact = false
    entries.add(CALL_ID, idFrom, idTo)
    entries.add(NAME, this.nameFrom, this.nameTo)
    entries.add(ARGUMENTS, this.argumentsFrom, this.argumentsTo)
  }

  private called(): void {
    const { cursor } = this
    cursor.object()
    let nameFrom = 0
    let nameTo = 0
    let from = 0
    let to = 0
    const members = new Members(cursor, CALLED, 6)
    for (let name = members.next(); name !== END; name = members.next()) {
      cursor.string()
      if (name === 0) {
        nameFrom = cursor.from
        nameTo = cursor.to
      } else {
        from = cursor.from
        to = cursor.to
      }
    }
    if (!isLegalName(cursor.bytes, nameFrom, nameTo)) unusual()
    // Others may be none, for which `{}` is sent.
    if (from === to || cursor.bytes[from] !== OPEN) unusual()
    this.count(from, to)
    this.nameFrom = nameFrom
    this.nameTo = nameTo
    this.argumentsFrom = from
    this.argumentsTo = to
  }

  private count(from: number, to: number): void {
    const values = valuesWithin(this.cursor.bytes, from, to)
    this.values += values
    if (values === -1 || this.values > VALUES_MAX) unusual()
  }
}

/** Whether the content is what OpenAI would get for the canonical message. */
function isWritten(content: Content, kind: number, hasCalls: boolean): boolean {
  if (content === 'text') return true
  if (content === 'parts') return kind === USER
  return content === (hasCalls ? 'null' : 'empty')
}

/** Reads the list of tools, which is next. Throws `Unusual`. */
export function readChatTools(cursor: JsonCursor): UnparsedTools {
  entries.begin()
  cursor.list()
  const from = cursor.offset - 1
  const reader = new ToolReader(cursor)
  let count = 0
  do {
    reader.tool()
    if (++count > TOOLS_MAX) unusual()
  } while (cursor.isItem())
  const { areObjects, hasStrict } = reader
  return {
    form: 'chat',
    from,
    to: cursor.offset,
    count,
    hasStrict,
    areObjects,
    marks: [],
    entries: entries.take(),
  }
}

class ToolReader {
  hasStrict = false
  areObjects = true
  private readonly found = new ToolMembers(FUNCTION)

  constructor(private readonly cursor: JsonCursor) {}

  tool(): void {
    const { cursor, found } = this
    cursor.object()
    let isFunction = false
    found.begin()
    const members = new Members(cursor, TOOL_MEMBERS, 3)
    for (let name = members.next(); name !== END; name = members.next()) {
      if (name > 1) unusual()
      if (name === 1) this.described()
      else {
        cursor.string()
        isFunction = cursor.word(FUNCTION_TYPE) === 0
      }
    }
    if (!isFunction || found.begins(TOOL_NAME) === -1 || found.begins(PARAMETERS) === -1) unusual()
    found.addTo(entries, NAME, TOOL_NAME)
    found.addTo(entries, TEXT, DESCRIPTION)
    found.addTo(entries, INPUT, PARAMETERS)
    found.addTo(entries, STRICT_ENTRY, STRICT)
  }

  private described(): void {
    const { cursor } = this
    cursor.object()
    const members = new Members(cursor, FUNCTION, 4)
    for (let name = members.next(); name !== END; name = members.next()) {
      if (name === STRICT) {
        if (cursor.literal(BOOLEANS) === UNKNOWN) unusual()
        this.hasStrict = true
        this.found.set(name, cursor.from, cursor.to)
      } else if (name === PARAMETERS) {
        const from = cursor.nextOffset - 1
        if (!readSchema(cursor, 4)) this.areObjects = false
        this.found.set(name, from, cursor.offset)
      } else {
        cursor.string()
        if (name === TOOL_NAME && !isLegalName(cursor.bytes, cursor.from, cursor.to)) unusual()
        this.found.set(name, cursor.from, cursor.to)
      }
    }
  }
}
