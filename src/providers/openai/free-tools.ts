/** Tools that take a text, as OpenAI's two APIs have them. */

import { FREE_FORM, type WireForm } from '../../core/conversation.ts'
import { type JsonObject, objectOf } from '../../core/json.ts'
import type { ToolList } from '../../core/tool-list.ts'

/** Such a tool in the form of an API: as its caller defined it, but for the name and what the other API calls it. */
export function freeDefinition(tools: ToolList, tool: number, sentName: string, form: WireForm): JsonObject {
  const entry = tools.memberOf(tool, FREE_FORM)
  const written = objectOf(tools.arena.valueAt(tools.fromAt(entry), tools.toAt(entry))) ?? {}
  const isChat = tools.form === 'chat'
  const { name: _, type: __, ...definition } = isChat ? (objectOf(written['custom']) ?? {}) : written
  if (form === 'responses') {
    const format = isChat ? flat(definition) : definition['format']
    return { type: 'custom', name: sentName, ...definition, format }
  }
  const { description } = definition
  return {
    type: 'custom',
    custom: { name: sentName, description, format: isChat ? definition['format'] : deep(definition) },
  }
}

/** The grammar of Chat Completions is in an object of its own. */
function flat({ format }: JsonObject): JsonObject | undefined {
  const { grammar, ...rest } = objectOf(format) ?? {}
  return format === undefined ? undefined : { ...rest, ...objectOf(grammar) }
}

function deep({ format }: JsonObject): JsonObject | undefined {
  const { type, syntax, definition } = objectOf(format) ?? {}
  if (format === undefined) return undefined
  return type === 'grammar' ? { type, grammar: { syntax, definition } } : { type }
}
