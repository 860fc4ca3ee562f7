/** The tools of a Messages body → entries. */

import type { Arena } from '../../core/arena.ts'
import { type BlockSpan, OF_OBJECT } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED } from '../../core/entry-marks.ts'
import { EntryWriter } from '../../core/entry-writer.ts'
import { NO_OWN_TOOLS, type OwnTool } from '../../core/own-fields.ts'
import { NO_TOOLS, ToolList } from '../../core/tool-list.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { isWholeMark, readMark } from '../cache-mark.ts'
import { refuseForbiddenMembers } from '../forbidden-fields.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { RequestLimits } from '../request-limits.ts'
import { NO_PARAMETERS, schemaKind } from '../tool-schema.ts'

const TOOL = words('type', 'name', 'description', 'input_schema', 'cache_control', 'strict', 'max_uses')
const MEMBERS = { type: 0, name: 1, description: 2, schema: 3, cache: 4, strict: 5, uses: 6 } as const
const CUSTOM = words('custom')

const entries = new EntryWriter()

function isCount(value: number | undefined): value is number {
  return value !== undefined && Number.isSafeInteger(value) && value >= 0
}

/** What passes of tools: members that functions of the canonical form lack, and tools that are no functions. */
interface PassedTools {
  readonly members: boolean
  readonly others: boolean
}

interface ReadTools {
  readonly tools: ToolList
  /** Those that are no functions, if they pass. */
  readonly own: readonly OwnTool[]
}

/**
 * `tools`: a list, or none. Tools that Anthropic defines (`web_search_20250305`, …) are no functions, because other
 * providers have no counterpart. Throws `CallerError` with the path of the invalid field.
 */
export function readTools(
  document: JsonDocument,
  arena: Arena,
  tools: number,
  limits: RequestLimits,
  passed: PassedTools,
): ReadTools {
  if (document.isNull(tools)) return { tools: NO_TOOLS, own: NO_OWN_TOOLS }
  entries.begin()
  limits.checkTools(document.countItems(tools), 'tools')
  const reader = new ToolReader(document, arena, passed)
  for (let tool = document.firstItem(tools); tool !== NONE; tool = document.nextItem(tool)) reader.tool(tool)
  const exactTo = reader.areExact ? document.toOf(tools) : 0
  const list = new ToolList(arena, entries.take(), 'messages', document.fromOf(tools), exactTo, reader.blocks)
  return { tools: list, own: reader.own ?? NO_OWN_TOOLS }
}

/** Finds tools for the model among those whose definitions it does not get at first: without a price of its own. */
const TOOL_SEARCH = /^tool_search_tool/
/** The date at the end of a type. */
const DATE = /_\d{8}$/

class ToolReader {
  /** Whether Anthropic would get the same tools as they came, if it takes `strict`. */
  areExact = true
  /** Where functions are that have members of which the entries know nothing. */
  blocks: Map<number, BlockSpan> | undefined
  own: OwnTool[] | undefined
  private index = -1
  private readonly found = new Int32Array(TOOL.length)

  constructor(
    private readonly document: JsonDocument,
    private readonly arena: Arena,
    private readonly passed: PassedTools,
  ) {}

  private readonly path = (): string => `tools[${this.index}]`

  tool(tool: number): void {
    const { document, found, path } = this
    this.index++
    if (!document.isObject(tool)) throw invalid(path(), 'must be an object')
    const members = document.select(tool, TOOL, found)
    const type = found[MEMBERS.type] ?? NONE
    const name = found[MEMBERS.name] ?? NONE
    const passes = this.passed.members
    if (type !== NONE && !passes) this.areExact = false
    if (!document.isNull(type) && document.word(type, CUSTOM) === NONE) return this.other(tool, type)
    if (!document.isFilled(name)) throw missing(`${path()}.name`)
    const description = found[MEMBERS.description] ?? NONE
    const hasDescription = !document.isNull(description)
    if (hasDescription && !document.isString(description)) throw invalid(`${path()}.description`, 'must be a string')
    const schema = found[MEMBERS.schema] ?? NONE
    const hasSchema = !document.isNull(schema)
    if (hasSchema && !document.isObject(schema)) throw invalid(`${path()}.input_schema`, 'must be an object')
    const cache = found[MEMBERS.cache] ?? NONE
    const mark = readMark(document, cache, path)
    if (cache !== NONE && !passes && !isWholeMark(document, cache, mark)) this.areExact = false
    entries.addValue(Kind.NAME + mark * MARKED, document, name)
    if (hasDescription) entries.addValue(Kind.TEXT, document, description)
    if (hasSchema) this.schema(schema)
    else entries.add(Kind.INPUT + OF_OBJECT, this.arena.addJson(NO_PARAMETERS), this.arena.end)
    const strict = found[MEMBERS.strict] ?? NONE
    const hasStrict = document.isBoolean(strict)
    if (hasStrict) entries.addValue(Kind.STRICT, document, strict)
    const written = 1 + (hasDescription ? 1 : 0) + (hasSchema ? 1 : 0) + (hasStrict ? 1 : 0) + (mark === 0 ? 0 : 1)
    if (!hasSchema || (members !== written && !passes)) this.areExact = false
    else if (members !== written) this.note(tool, document.fromOf(name), mark)
  }

  /** A function with members of its own. */
  private note(tool: number, name: number, mark: number): void {
    const { document } = this
    refuseForbiddenMembers(document, tool, this.path)
    this.blocks ??= new Map()
    this.blocks.set(name, { from: document.fromOf(tool), to: document.toOf(tool), marks: mark })
  }

  /** A tool that is no function. */
  private other(tool: number, type: number): void {
    const { document, passed } = this
    const name = document.isString(type) ? document.text(type) : ''
    if (!passed.others && !(passed.members && TOOL_SEARCH.test(name))) {
      this.areExact = false
      return
    }
    refuseForbiddenMembers(document, tool, this.path)
    const uses = this.found[MEMBERS.uses] ?? NONE
    const callsMax = document.isScalar(uses) ? Number(document.written(uses)) : undefined
    this.own ??= []
    const kind = name.replace(DATE, '').replace(/_toolset$/, '')
    this.own.push({ kind, json: document.written(tool), callsMax: isCount(callsMax) ? callsMax : undefined })
  }

  private schema(schema: number): void {
    const { document } = this
    const kind = schemaKind(document, schema)
    if (kind === Kind.INPUT) this.areExact = false
    entries.addValue(kind, document, schema)
  }
}
