/** The tools of a Chat Completions body: functions and, if they pass, tools that take a text → entries. */

import type { Arena } from '../../core/arena.ts'
import { OF_OBJECT } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED } from '../../core/entry-marks.ts'
import { EntryWriter } from '../../core/entry-writer.ts'
import { objectOf } from '../../core/json.ts'
import { NO_TOOLS, ToolList } from '../../core/tool-list.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { readMark } from '../cache-mark.ts'
import { refuseForbiddenMembers } from '../forbidden-fields.ts'
import { checkFormat, freeDescription, TEXT_PARAMETERS } from '../free-text.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { RequestLimits } from '../request-limits.ts'
import { NO_PARAMETERS, schemaKind } from '../tool-schema.ts'

const TOOL_MEMBERS = words('type', 'function', 'cache_control', 'custom')
const FUNCTION = words('name', 'description', 'parameters', 'strict')
const TYPES = words('function', 'custom')
const [FUNCTION_TYPE, CUSTOM_TYPE] = [0, 1]
const CUSTOM = words('name', 'description', 'format')

const entries = new EntryWriter()

/** Whether the schema of a body accepts a list of tools. */
export function areTools(document: JsonDocument, tools: number): boolean {
  if (!document.isList(tools)) return false
  const found = new Int32Array(TOOL_MEMBERS.length)
  const members = new Int32Array(FUNCTION.length)
  for (let tool = document.firstItem(tools); tool !== NONE; tool = document.nextItem(tool)) {
    if (!document.isObject(tool)) return false
    document.select(tool, TOOL_MEMBERS, found)
    const type = found[0] ?? NONE
    const called = found[1] ?? NONE
    if (!document.isString(type)) return false
    if (document.isNull(called)) continue
    if (!document.isObject(called)) return false
    document.select(called, FUNCTION, members)
    const name = members[0] ?? NONE
    const description = members[1] ?? NONE
    const parameters = members[2] ?? NONE
    const strict = members[3] ?? NONE
    if (!document.isFilled(name)) return false
    if (!document.isNull(description) && !document.isString(description)) return false
    if (!document.isNull(parameters) && !document.isObject(parameters)) return false
    if (!document.isNull(strict) && !document.isBoolean(strict)) return false
  }
  return true
}

/**
 * `tools`: a list that the schema accepts, or none. Tools of other types than `function` are left out, because most
 * providers have no counterpart; with `takesFree` those are kept that take a text. Throws `CallerError`.
 */
export function readTools(
  document: JsonDocument,
  arena: Arena,
  tools: number,
  limits: RequestLimits,
  takesFree: boolean,
): ToolList {
  if (document.isNull(tools)) return NO_TOOLS
  entries.begin()
  limits.checkTools(document.countItems(tools), 'tools')
  let index = 0
  for (let tool = document.firstItem(tools); tool !== NONE; tool = document.nextItem(tool), index++)
    readTool(document, arena, tool, index, takesFree)
  return new ToolList(arena, entries.take(), 'chat')
}

const toolMembers = new Int32Array(TOOL_MEMBERS.length)
const functionMembers = new Int32Array(FUNCTION.length)

function readTool(document: JsonDocument, arena: Arena, tool: number, index: number, takesFree: boolean): void {
  document.select(tool, TOOL_MEMBERS, toolMembers)
  const type = document.word(toolMembers[0] ?? NONE, TYPES)
  const called = toolMembers[1] ?? NONE
  if (type === CUSTOM_TYPE && takesFree) return readFree(document, arena, tool, `tools[${index}]`)
  if (type !== FUNCTION_TYPE) return
  const path = () => `tools[${index}]`
  if (document.isNull(called)) throw missing(`${path()}.function`)
  document.select(called, FUNCTION, functionMembers)
  const name = functionMembers[0] ?? NONE
  const description = functionMembers[1] ?? NONE
  const parameters = functionMembers[2] ?? NONE
  const strict = functionMembers[3] ?? NONE
  const mark = readMark(document, toolMembers[2] ?? NONE, path)
  entries.addValue(Kind.NAME + mark * MARKED, document, name)
  if (!document.isNull(description)) entries.addValue(Kind.TEXT, document, description)
  if (document.isNull(parameters)) entries.add(Kind.INPUT + OF_OBJECT, arena.addJson(NO_PARAMETERS), arena.end)
  else entries.addValue(schemaKind(document, parameters), document, parameters)
  if (!document.isNull(strict)) entries.addValue(Kind.STRICT, document, strict)
}

/** A tool that takes a text, as a function of one. */
function readFree(document: JsonDocument, arena: Arena, tool: number, path: string): void {
  const custom = toolMembers[3] ?? NONE
  if (document.isNull(custom)) throw missing(`${path}.custom`)
  if (!document.isObject(custom)) throw invalid(`${path}.custom`, 'must be an object')
  refuseForbiddenMembers(document, tool, () => path)
  const mark = readMark(document, toolMembers[2] ?? NONE, () => path)
  document.select(custom, CUSTOM, functionMembers)
  const [name = NONE, description = NONE, format = NONE] = functionMembers
  if (!document.isFilled(name)) throw missing(`${path}.custom.name`)
  if (!document.isNull(description) && !document.isString(description))
    throw invalid(`${path}.custom.description`, 'must be a string')
  const grammar = document.isNull(format) ? undefined : document.value(format)
  if (grammar !== undefined) checkFormat(grammar, `${path}.custom.format`, 'grammar')
  entries.addValue(Kind.NAME + mark * MARKED, document, name)
  const text = document.isNull(description) ? '' : document.text(description)
  const words = freeDescription(text, objectOf(objectOf(grammar)?.['grammar']))
  if (words !== '') entries.addText(Kind.TEXT, arena, words)
  entries.add(Kind.INPUT + OF_OBJECT, arena.addJson(TEXT_PARAMETERS), arena.end)
  entries.addValue(Kind.FREE_FORM, document, tool)
}
