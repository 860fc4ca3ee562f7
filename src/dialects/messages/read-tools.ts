/** The tools of a Messages body → entries. */

import type { Arena } from '../../core/arena.ts'
import { INPUT, MARKED, NAME, NO_TOOLS, OF_OBJECT, STRICT, TEXT, ToolList } from '../../core/conversation.ts'
import { EntryWriter } from '../../core/entry-writer.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { isWholeMark, readMark } from '../cache-mark.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { RequestLimits } from '../request-limits.ts'
import { schemaKind } from '../tool-schema.ts'

const TOOL = words('type', 'name', 'description', 'input_schema', 'cache_control', 'strict')
const MEMBERS = { type: 0, name: 1, description: 2, schema: 3, cache: 4, strict: 5 } as const
const CUSTOM = words('custom')
const NO_PARAMETERS = '{"type":"object","properties":{}}'

const entries = new EntryWriter()

/**
 * `tools`: a list, or none. Tools that Anthropic itself runs (`web_search_20250305`, …) are left out, because other
 * providers have no counterpart. Throws `CallerError` with the path of the invalid field.
 */
export function readTools(document: JsonDocument, arena: Arena, tools: number, limits: RequestLimits): ToolList {
  if (document.isNull(tools)) return NO_TOOLS
  entries.begin()
  limits.checkTools(document.countItems(tools), 'tools')
  const reader = new ToolReader(document, arena)
  for (let tool = document.firstItem(tools); tool !== NONE; tool = document.nextItem(tool)) reader.tool(tool)
  const exactTo = reader.areExact ? document.toOf(tools) : 0
  return new ToolList(arena, entries.take(), 'messages', document.fromOf(tools), exactTo)
}

class ToolReader {
  /** Whether Anthropic would get the same tools as they came, if it takes `strict`. */
  areExact = true
  private index = -1
  private readonly found = new Int32Array(TOOL.length)

  constructor(
    private readonly document: JsonDocument,
    private readonly arena: Arena,
  ) {}

  private readonly path = (): string => `tools[${this.index}]`

  tool(tool: number): void {
    const { document, found, path } = this
    this.index++
    if (!document.isObject(tool)) throw invalid(path(), 'must be an object')
    const members = document.select(tool, TOOL, found)
    const type = found[MEMBERS.type] ?? NONE
    const name = found[MEMBERS.name] ?? NONE
    if (type !== NONE) this.areExact = false
    if (!document.isNull(type) && document.word(type, CUSTOM) === NONE) return
    if (name === NONE || !document.isString(name) || document.fromOf(name) === document.toOf(name))
      throw missing(`${path()}.name`)
    const description = found[MEMBERS.description] ?? NONE
    const hasDescription = !document.isNull(description)
    if (hasDescription && !document.isString(description)) throw invalid(`${path()}.description`, 'must be a string')
    const schema = found[MEMBERS.schema] ?? NONE
    const hasSchema = !document.isNull(schema)
    if (hasSchema && !document.isObject(schema)) throw invalid(`${path()}.input_schema`, 'must be an object')
    const cache = found[MEMBERS.cache] ?? NONE
    const mark = readMark(document, cache, path)
    if (cache !== NONE && !isWholeMark(document, cache, mark)) this.areExact = false
    entries.add(NAME + mark * MARKED, document.fromOf(name), document.toOf(name))
    if (hasDescription) entries.add(TEXT, document.fromOf(description), document.toOf(description))
    if (hasSchema) this.schema(schema)
    else entries.add(INPUT + OF_OBJECT, this.arena.addJson(NO_PARAMETERS), this.arena.end)
    const strict = found[MEMBERS.strict] ?? NONE
    const hasStrict = strict !== NONE && document.isBoolean(strict)
    if (hasStrict) entries.add(STRICT, document.fromOf(strict), document.toOf(strict))
    const written = 1 + (hasDescription ? 1 : 0) + (hasSchema ? 1 : 0) + (hasStrict ? 1 : 0) + (mark === 0 ? 0 : 1)
    if (!hasSchema || members !== written) this.areExact = false
  }

  private schema(schema: number): void {
    const { document } = this
    const kind = schemaKind(document, schema)
    if (kind === INPUT) this.areExact = false
    entries.add(kind, document.fromOf(schema), document.toOf(schema))
  }
}
