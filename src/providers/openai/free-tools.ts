/** Tools that take a text, as OpenAI's two APIs have them. */

import { FREE_FORM, type WireForm } from '../../core/conversation.ts'
import { markOf } from '../../core/entry-marks.ts'
import { isObject, type JsonObject, type JsonValue, objectOf, stringOf } from '../../core/json.ts'
import type { ToolList } from '../../core/tool-list.ts'

/**
 * Such a tool in the form of an API, of the members that it has there: what else a caller has written into its
 * definition is rejected.
 */
export function freeDefinition(tools: ToolList, tool: number, sentName: string, form: WireForm): JsonObject {
  const entry = tools.memberOf(tool, FREE_FORM)
  const written = objectOf(tools.arena.valueAt(tools.fromAt(entry), tools.toAt(entry))) ?? {}
  const { description, format } = tools.form === 'chat' ? (objectOf(written['custom']) ?? {}) : written
  const defined = { name: sentName, description: stringOf(description), format: formatOf(format, form) }
  const mark = markOf(tools.bitsAt(tool))
  const marked = mark && { cache_control: { type: 'ephemeral', ...mark } }
  if (form !== 'responses') return { type: 'custom', custom: defined, ...marked }
  const { defer_loading, allowed_callers } = tools.form === 'responses' ? written : {}
  return { type: 'custom', ...defined, defer_loading, allowed_callers, ...marked }
}

/** The grammar of Chat Completions is in an object of its own. */
function formatOf(format: JsonValue | undefined, form: WireForm): JsonObject | undefined {
  if (!isObject(format)) return undefined
  if (format['type'] !== 'grammar') return { type: 'text' }
  const { syntax, definition } = objectOf(format['grammar']) ?? format
  return { type: 'grammar', ...(form === 'responses' ? { syntax, definition } : { grammar: { syntax, definition } }) }
}
