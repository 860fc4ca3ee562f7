/**
 * Checks the tools of a large Responses body without parsing them, and writes what the answer repeats of them. Tools in
 * a namespace, which get other names, are `Unusual`: then they are parsed.
 */

import { CallIdSet } from '../../core/call-id-set.ts'
import { OPEN, OPEN_LIST, QUOTE } from '../../core/json-bytes.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { ENTRY_INTS, EntryWriter, INPUT, NAME, STRICT, TEXT, type UnparsedTools } from '../../core/unparsed.ts'
import { END, type JsonCursor, UNKNOWN, unusual, words } from '../../wire/json-cursor.ts'
import { TOOLS_MAX } from '../request-limits.ts'
import { isLegalName, readSchema, ToolMembers } from '../unparsed-members.ts'

const TOOL = words('type', 'name', 'description', 'parameters', 'strict')
const NAMES = { type: 0, name: 1, description: 2, parameters: 3, strict: 4 } as const
const TYPES = words('function', 'namespace')
const [FUNCTION, NAMESPACE] = [0, 1]
const BOOLEANS = words('true', 'false')
/** How many containers the members of a tool are in. */
const TOOL_DEPTH = 3

const entries = new EntryWriter()
const names = new CallIdSet()

/** Reads the list of tools, which is next. Throws `Unusual`. */
export function readFunctions(cursor: JsonCursor): UnparsedTools {
  entries.begin()
  names.begin()
  cursor.list()
  const from = cursor.offset - 1
  const reader = new FunctionReader(cursor)
  do reader.tool()
  while (cursor.isItem())
  const { count, areObjects } = reader
  if (count === 0) unusual()
  return {
    form: 'responses',
    from,
    to: cursor.offset,
    count,
    hasStrict: true,
    areObjects,
    marks: [],
    entries: entries.take(),
  }
}

class FunctionReader {
  count = 0
  areObjects = true
  private readonly found = new ToolMembers(TOOL)

  constructor(private readonly cursor: JsonCursor) {}

  tool(): void {
    const { cursor, found } = this
    cursor.object()
    found.begin()
    let seen = 0
    let type = UNKNOWN
    for (let name = cursor.member(TOOL); name !== END; name = cursor.member(TOOL)) {
      if (name === UNKNOWN) {
        cursor.value(TOOL_DEPTH)
        continue
      }
      if ((seen & (1 << name)) !== 0) unusual()
      seen |= 1 << name
      if (name === NAMES.type) type = this.type()
      else this.member(name)
    }
    if (type === NAMESPACE || (seen & (1 << NAMES.type)) === 0) unusual()
    // Providers have no counterpart for other tools.
    if (type !== FUNCTION) return
    const nameFrom = found.begins(NAMES.name)
    const nameTo = found.ends(NAMES.name)
    if (nameFrom === -1 || found.begins(NAMES.parameters) === -1 || !isLegalName(cursor.bytes, nameFrom, nameTo))
      unusual()
    // A later definition replaces an earlier one.
    if (!names.add(cursor.bytes, nameFrom, nameTo) || ++this.count > TOOLS_MAX) unusual()
    found.addTo(entries, NAME, NAMES.name)
    found.addTo(entries, TEXT, NAMES.description)
    found.addTo(entries, INPUT, NAMES.parameters)
    found.addTo(entries, STRICT, NAMES.strict)
  }

  private type(): number {
    const { cursor } = this
    cursor.string()
    const type = cursor.word(TYPES)
    return type === UNKNOWN && cursor.hasEscape() ? unusual() : type
  }

  /** A value of another kind counts as absent. */
  private member(name: number): void {
    const { cursor, found } = this
    const isText = cursor.isNext(QUOTE)
    const isObject = cursor.isNext(OPEN)
    const isScalar = !isText && !isObject && !cursor.isNext(OPEN_LIST)
    const start = cursor.nextOffset - 1
    if (name === NAMES.parameters && isObject) {
      if (!readSchema(cursor, TOOL_DEPTH)) this.areObjects = false
      found.set(name, start, cursor.offset)
      return
    }
    cursor.value(TOOL_DEPTH)
    if (name === NAMES.parameters) return
    const counts = name === NAMES.strict ? isScalar && cursor.word(BOOLEANS) !== UNKNOWN : isText
    if (counts) found.set(name, cursor.from, cursor.to)
  }
}

const LINE_ENDS = /[\n\r]/g

/** The tools as the answer repeats them: JSON on one line. */
export function functionsJson({ entries: list }: UnparsedTools, longTexts: LongTexts): string {
  const written = (at: number) => longTexts.writtenAt(list[at + 1] ?? 0, list[at + 2] ?? 0)
  let json = ''
  for (let at = 0; at < list.length; ) {
    const name = written(at)
    at += ENTRY_INTS
    let description = 'null'
    let strict = 'null'
    if (list[at] === TEXT) {
      description = `"${written(at)}"`
      at += ENTRY_INTS
    }
    const parameters = written(at)
    at += ENTRY_INTS
    if (list[at] === STRICT) {
      strict = written(at)
      at += ENTRY_INTS
    }
    const comma = json === '' ? '' : ','
    json += `${comma}{"type":"function","name":"${name}","description":${description},"parameters":${parameters},`
    json += `"strict":${strict}}`
  }
  // Within strings they are escapes.
  return json.includes('\n') || json.includes('\r') ? `[${json.replace(LINE_ENDS, ' ')}]` : `[${json}]`
}
