/** Checks the tools of a large Messages body without parsing them. */

import { QUOTE } from '../../core/json-bytes.ts'
import {
  EntryWriter,
  INPUT,
  MARKED,
  MARKS,
  NAME as NAME_ENTRY,
  STRICT as STRICT_ENTRY,
  TEXT,
  type UnparsedMark,
  type UnparsedTools,
} from '../../core/unparsed.ts'
import { END, type JsonCursor, UNKNOWN, unusual, words } from '../../wire/json-cursor.ts'
import { TOOLS_MAX } from '../request-limits.ts'
import { isLegalName, Members, readSchema, ToolMembers } from '../unparsed-members.ts'
import { readMark, readNull } from './unparsed-mark.ts'

const TOOL = words('name', 'description', 'input_schema', 'cache_control', 'strict', 'type')
const [NAME, DESCRIPTION, INPUT_SCHEMA, CACHE_CONTROL, STRICT] = [0, 1, 2, 3, 4]
const CUSTOM = words('custom')
const LITERALS = words('true', 'false', 'null')
const IS_NULL = 2

const entries = new EntryWriter()

/** Reads the list of tools, which is next. Throws `Unusual`. */
export function readTools(cursor: JsonCursor): UnparsedTools {
  cursor.list()
  entries.begin()
  const from = cursor.offset - 1
  const reader = new ToolReader(cursor)
  let count = 0
  do {
    reader.tool()
    if (++count > TOOLS_MAX) unusual()
  } while (cursor.isItem())
  const { hasStrict, marks } = reader
  return {
    form: 'messages',
    from,
    to: cursor.offset,
    count,
    hasStrict,
    areObjects: true,
    marks,
    entries: entries.take(),
  }
}

class ToolReader {
  hasStrict = false
  readonly marks: UnparsedMark[] = []
  /** The cache mark of the current tool. */
  private mark = 0
  private readonly found = new ToolMembers(TOOL)

  constructor(private readonly cursor: JsonCursor) {}

  tool(): void {
    const { cursor, found } = this
    cursor.object()
    let isNamed = false
    let hasSchema = false
    this.mark = 0
    found.begin()
    const members = new Members(cursor, TOOL, 3)
    for (let name = members.next(); name !== END; name = members.next()) {
      if (name === NAME) {
        cursor.string()
        isNamed = isLegalName(cursor.bytes, cursor.from, cursor.to)
        found.set(name, cursor.from, cursor.to)
      } else if (name === INPUT_SCHEMA) {
        const from = cursor.nextOffset - 1
        hasSchema = readSchema(cursor, 3)
        found.set(name, from, cursor.offset)
      } else this.optional(name, members)
    }
    if (!isNamed || !hasSchema) unusual()
    found.addTo(entries, NAME_ENTRY + this.mark * MARKED, NAME)
    found.addTo(entries, TEXT, DESCRIPTION)
    found.addTo(entries, INPUT, INPUT_SCHEMA)
    found.addTo(entries, STRICT_ENTRY, STRICT)
  }

  private optional(name: number, members: Members): void {
    const { cursor } = this
    if (name === CACHE_CONTROL) {
      this.mark = readMark(cursor, members, 3)
      const mark = MARKS[this.mark]
      if (mark !== undefined) this.marks.push(mark)
    } else if (name === STRICT) {
      const literal = cursor.literal(LITERALS)
      if (literal === UNKNOWN) unusual()
      if (literal === IS_NULL) members.leaveOut()
      else {
        this.hasStrict = true
        this.found.set(name, cursor.from, cursor.to)
      }
    } else if (!cursor.isNext(QUOTE)) {
      readNull(cursor, members)
    } else {
      cursor.string()
      if (name === DESCRIPTION) return this.found.set(name, cursor.from, cursor.to)
      // Tools of other types are the provider's own.
      if (cursor.word(CUSTOM) !== 0) unusual()
      members.leaveOut()
    }
  }
}
