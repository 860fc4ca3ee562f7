/** The types of the items of an input. */

import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { invalid, missing } from '../invalid-field.ts'

const ITEM_TYPES = words(
  'message',
  'function_call',
  'function_call_output',
  'additional_tools',
  'compaction',
  // The name of the item in earlier versions of Codex.
  'compaction_summary',
  'compaction_trigger',
  'item_reference',
  'reasoning',
  'custom_tool_call',
  'custom_tool_call_output',
  // Of OpenAI's own tools: what the model did, and what its caller answers.
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'computer_call',
  'local_shell_call',
  'shell_call',
  'apply_patch_call',
  'tool_search_call',
  'mcp_list_tools',
  'mcp_call',
  'mcp_approval_request',
  'program',
  'program_output',
  'computer_call_output',
  'local_shell_call_output',
  'shell_call_output',
  'apply_patch_call_output',
  'tool_search_output',
  'mcp_approval_response',
)
/** The types of items, by their index in `ITEM_TYPES`. All others are skipped. */
export const ITEMS = {
  message: 0,
  call: 1,
  output: 2,
  tools: 3,
  compaction: 4,
  summary: 5,
  trigger: 6,
  reference: 7,
  reasoning: 8,
  freeCall: 9,
  freeOutput: 10,
} as const
/** The first of the model's items of OpenAI's own tools, and the first of its caller's. */
export const OWN_ITEMS = 11
export const OWN_OUTPUTS = 25
const TYPED = words('type', 'role', 'content', 'id')
const CALLER_TYPE = words('type')
const PROGRAM = words('program')

/** The items of an input, with the type of each as an index, or `NONE`. */
export interface Items {
  readonly items: readonly number[]
  readonly types: readonly number[]
}

/** Throws `CallerError` if the input is no list of items with types, or is empty. */
export function itemsOf(document: JsonDocument, input: number): Items {
  if (!document.isList(input)) throw invalid('input', 'must be a string or an array of items')
  const items: number[] = []
  const types: number[] = []
  for (let item = document.firstItem(input); item !== NONE; item = document.nextItem(item)) {
    types.push(typeOf(document, item, items.length))
    items.push(item)
  }
  if (items.length === 0) throw invalid('input', 'must not be empty')
  return { items, types }
}

const typed = new Int32Array(TYPED.length)

/** Callers leave `type` out of messages; the official schema allows the same for references. */
function typeOf(document: JsonDocument, item: number, index: number): number {
  if (!document.isObject(item)) throw invalid(`input[${index}]`, 'must be an object')
  document.select(item, TYPED, typed)
  const type = typed[0] ?? NONE
  if (!document.isNull(type)) {
    if (!document.isString(type)) throw invalid(`input[${index}].type`, 'must be a string')
    return document.word(type, ITEM_TYPES)
  }
  const id = typed[3] ?? NONE
  if (!document.isNull(typed[1] ?? NONE)) return ITEMS.message
  if (document.isString(id) && document.isNull(typed[2] ?? NONE)) return ITEMS.reference
  throw missing(`input[${index}].type`)
}

/**
 * Whether a program of the model made a call, by the call's `caller`. Such a call and its output pass as they are, or
 * not at all, because they mean nothing without their program.
 */
export function isOfProgram(document: JsonDocument, caller: number): boolean {
  if (!document.isObject(caller)) return false
  return document.word(document.member(caller, CALLER_TYPE), PROGRAM) !== NONE
}
