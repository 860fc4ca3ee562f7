/**
 * `input` → items, with stored items in place of references, and items → a conversation. Every part is rebuilt from its
 * known keys.
 */

import { CallerError } from '../../core/caller-error.ts'
import type { CacheMark, TextPart } from '../../core/chat-request.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../../core/json.ts'
import { argumentsOrNone } from '../../core/no-arguments.ts'
import type { ItemStore } from '../../items/item-store.ts'
import type { Sealer } from '../../items/sealer.ts'
import { cacheMark } from '../cache-mark.ts'
import type { Caller } from '../dialect.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { RequestLimits } from '../request-limits.ts'
import { openSummary, summaryText } from './compaction.ts'
import { Conversation } from './conversation.ts'
import type { Toolbox, ToolList } from './tools.ts'

const REFERENCE = 'item_reference'
/** More references than any conversation has. */
const REFERENCES_MAX = 4096
/** All stored items of one request together: as much as a body may have. */
const RECALLED_CHARS_MAX = 10 * 1024 * 1024

/** An item of the input, with its type if it has none itself. */
export interface Item {
  readonly type: string
  readonly json: JsonObject
  /** `input[3]`. */
  readonly path: string
}

/** Throws `CallerError` if the input is neither a string nor an array of items, or is empty. */
export function itemsOf(input: unknown): readonly Item[] {
  if (typeof input === 'string') {
    return [{ type: 'message', json: { role: 'user', content: input }, path: 'input' }]
  }
  if (!isArray(input)) throw invalid('input', 'must be a string or an array of items')
  if (input.length === 0) throw invalid('input', 'must not be empty')
  return input.map((json, index) => {
    const path = `input[${index}]`
    if (!isObject(json)) throw invalid(path, 'must be an object')
    return { type: typeOf(json, path), json, path }
  })
}

/** Callers leave `type` out of messages; the official schema allows the same for references. */
function typeOf(json: JsonObject, path: string): string {
  const type = json['type'] ?? undefined
  if (typeof type === 'string') return type
  if (type !== undefined) throw invalid(`${path}.type`, 'must be a string')
  const [role, content] = [json['role'] ?? undefined, json['content'] ?? undefined]
  if (role !== undefined) return 'message'
  if (typeof json['id'] === 'string' && content === undefined) return REFERENCE
  throw missing(`${path}.type`)
}

/** The items, with each reference replaced by the stored item. A promise only if the item store returns one. */
export function resolveReferences(
  items: readonly Item[],
  caller: Caller,
  itemStore: ItemStore | undefined,
): readonly Item[] | Promise<readonly Item[]> {
  if (!items.some(isReference)) return items
  const ids = [
    ...new Set(items.flatMap((item) => (item.type === REFERENCE ? required(item.json, 'id', item.path) : []))),
  ]
  if (ids.length > REFERENCES_MAX) throw invalid('input', `must not refer to more than ${REFERENCES_MAX} items`)
  const recalled = ids.map((id) => itemStore?.get(caller.organization, id))
  const fill = (found: readonly (JsonObject | undefined)[]) => {
    return fillIn(items, new Map(ids.map((id, index) => [id, found[index]])))
  }
  const atHand = recalled.flatMap((item) => (item instanceof Promise ? [] : [item]))
  return atHand.length === recalled.length ? fill(atHand) : Promise.all(recalled).then(fill)
}

function isReference({ type }: Item): boolean {
  return type === REFERENCE
}

/** A short reference may stand for a long item: together they must not exceed the limit of a body. */
function fillIn(items: readonly Item[], recalled: ReadonlyMap<string, JsonObject | undefined>): Item[] {
  const sizes = new Map([...recalled].map(([id, json]) => [id, json === undefined ? 0 : JSON.stringify(json).length]))
  let chars = 0
  return items.map((item) => {
    if (item.type !== REFERENCE) return item
    const id = required(item.json, 'id', item.path)
    chars += sizes.get(id) ?? 0
    if (chars > RECALLED_CHARS_MAX) {
      throw new CallerError('too_large', 'The items that the input refers to are larger than 10 MiB.', {
        param: item.path,
      })
    }
    return recalledItem(item.path, id, recalled.get(id))
  })
}

function recalledItem(path: string, id: string, json: JsonObject | undefined): Item {
  const type = stringOf(json?.['type'])
  if (json !== undefined && type !== undefined) return { type, json, path }
  const what = `Item '${id.slice(0, 64)}' was not found or has expired.`
  const message = `${what} Send the item itself instead of a reference (with most SDKs: \`store: false\`).`
  throw new CallerError('invalid_field', message, { param: `${path}.id` })
}

/** The body's list of tools, and those within the input. */
export function toolListsOf(tools: unknown, items: readonly Item[]): readonly ToolList[] {
  const isListed = tools !== undefined && tools !== null
  if (!isListed && !items.some(isToolList)) return NO_LISTS
  const lists: ToolList[] = isListed ? [{ tools, path: 'tools' }] : []
  for (const item of items) if (isToolList(item)) lists.push({ tools: item.json['tools'], path: `${item.path}.tools` })
  return lists
}

const NO_LISTS: readonly ToolList[] = []

function isToolList({ type }: Item): boolean {
  return type === 'additional_tools'
}

/** What converting items needs. */
interface Reading {
  readonly toolbox: Toolbox
  readonly sealer: Sealer
  readonly caller: Caller
  readonly limits: RequestLimits
}

/**
 * Items of unsupported types, `reasoning` among them, are skipped. Throws `CallerError` with the path of the invalid
 * field.
 */
export function conversationOf(items: readonly Item[], reading: Reading): Conversation {
  const conversation = new Conversation()
  for (const item of items) addItem(conversation, item, reading)
  return conversation
}

function addItem(conversation: Conversation, { type, json, path }: Item, reading: Reading): void {
  const { toolbox, sealer, caller, limits } = reading
  switch (type) {
    case 'message':
      conversation.message(roleOf(json['role']), textParts(json['content'], contentPath(path)))
      break
    case 'function_call': {
      limits.countCall(path)
      const callId = required(json, 'call_id', path)
      const namespace = stringOf(json['namespace']) || undefined
      const name = toolbox.sentName({ name: required(json, 'name', path), namespace })
      const written = argumentsOf(json['arguments'])
      limits.addCallJson(written, `${path}.arguments`)
      conversation.call({ callId, name, json: written })
      break
    }
    case 'function_call_output': {
      limits.countResult(path)
      const callId = required(json, 'call_id', path)
      conversation.output({ role: 'tool', callId, parts: outputParts(json['output'], `${path}.output`) })
      break
    }
    // The name of the item in earlier versions of Codex.
    case 'compaction_summary':
    case 'compaction': {
      limits.countCompaction(path)
      const summary = openSummary(sealer, caller.organization, json['encrypted_content'])
      if (summary === undefined) throw unreadable(`${path}.encrypted_content`)
      conversation.summary(summaryText(summary))
    }
  }
}

/** One message for all causes: naming the check that failed would help only a forger. */
function unreadable(param: string): CallerError {
  return new CallerError(
    'invalid_field',
    `'${param}' could not be read. Send the item back unchanged, or start from the original conversation.`,
    {
      param,
    },
  )
}

/** For a string input, the content is `input` itself. */
function contentPath(path: string): string {
  return path === 'input' ? path : `${path}.content`
}

function roleOf(role: JsonValue | undefined): 'system' | 'user' | 'assistant' {
  switch (role) {
    case 'assistant':
      return 'assistant'
    case 'system':
    case 'developer':
      return 'system'
    default:
      return 'user'
  }
}

function required(json: JsonObject, field: string, path: string): string {
  const value = json[field]
  if (typeof value === 'string' && value !== '') return value
  if (value === undefined || value === null || value === '') throw missing(`${path}.${field}`)
  throw invalid(`${path}.${field}`, 'must be a string')
}

/** Some callers send the arguments as an object rather than as JSON text. */
function argumentsOf(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return '{}'
  return argumentsOrNone(typeof value === 'string' ? value : JSON.stringify(value))
}

/**
 * A string, or parts of which only text counts; images and all other parts are ignored. The mark of an ignored part
 * moves to the part before it, because a mark covers everything before it, or to the part after it if there is none
 * before.
 */
function textParts(content: JsonValue | undefined, path: string): TextPart[] {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return [{ type: 'text', text: content, cache: undefined }]
  if (!isArray(content)) throw invalid(path, 'must be a string or an array of parts')
  const parts: TextPart[] = []
  let first: CacheMark | undefined
  for (const [index, part] of content.entries()) {
    const { text, cache } = partOf(part, `${path}[${index}]`)
    const last = parts.at(-1)
    if (text !== '') parts.push({ type: 'text', text, cache: last === undefined ? (cache ?? first) : cache })
    else if (last === undefined) first = cache ?? first
    else if (cache !== undefined) parts[parts.length - 1] = { ...last, cache }
  }
  return parts
}

/** The text of a part, empty if the part is ignored, and its mark. */
function partOf(part: JsonValue, path: string): { readonly text: string; readonly cache: CacheMark | undefined } {
  if (!isObject(part)) throw invalid(path, 'must be an object')
  const mark = cacheMark(part, path)
  const cache = mark && { ...mark, path: `${path}.cache_control` }
  switch (part['type']) {
    case 'input_text':
    case 'output_text':
    case 'text': {
      const { text } = part
      if (typeof text !== 'string')
        throw text === undefined ? missing(`${path}.text`) : invalid(`${path}.text`, 'must be a string')
      return { text, cache }
    }
    default:
      return { text: '', cache }
  }
}

/** Outputs are strings or parts. Any other value that a caller's function returned goes to the model as JSON. */
function outputParts(output: JsonValue | undefined, path: string): TextPart[] {
  const isContent = output === undefined || output === null || typeof output === 'string' || isArray(output)
  const parts = isContent ? textParts(output, path) : textParts(JSON.stringify(output), path)
  return parts.filter((part) => part.text !== '')
}
