/** A whole answer → the output items of Responses, and the JSON text of items and their parts. */

import type { AnswerBlock, ThoughtBlock } from '../../core/answer-blocks.ts'
import { type AnswerCall, type Completion, spokenText } from '../../core/completion.ts'
import { isArray, type JsonObject, stringOf } from '../../core/json.ts'
import type { OwnName } from '../../core/own-fields.ts'
import type { Reasoning } from '../../core/reasoning.ts'
import type { ItemText } from '../../items/item-store.ts'
import { jsonInside, jsonLine } from '../../wire/sse.ts'
import { mintId } from '../answer-ids.ts'
import { callText } from '../free-text.ts'
import type { Ending } from './resource.ts'
import type { Toolbox } from './toolbox.ts'

/**
 * The items of an answer: a message if there is text, then the calls; one empty message if there is neither. A refusal
 * is text, because weir sends no parts of other types. The reason of the finish is no item: `resource.ts` writes it as
 * `incomplete_details`. `shows`: what the caller sees of thoughts; absent: none.
 */
export function outputItems(
  completion: Completion,
  toolbox: Toolbox,
  ending: Ending,
  shows?: Reasoning['shows'],
): ItemText[] {
  const { blocks } = completion
  const hasOwn = blocks?.some(isOwn) === true
  if (blocks !== undefined && (hasOwn || shows !== undefined)) return itemsInOrder(completion, toolbox, ending, shows)
  const text = spokenText(completion)
  const calls = completion.toolCalls.map((call) => callItem(call, toolbox, call.isWhole ? 'completed' : ending.status))
  return text === '' && calls.length > 0 ? calls : [messageItem(mintId('msg'), text, ending), ...calls]
}

/** Something of OpenAI's own tools, or a text that is a message of its own. */
function isOwn(block: AnswerBlock): boolean {
  return block.kind === 'own' || (block.kind === 'text' && block.members !== undefined)
}

/**
 * In the order in which they began: a model wants each thought before what followed it. All texts are one message,
 * unless an item of OpenAI's own tools is between them, or the provider has sent several.
 */
function itemsInOrder(
  completion: Completion,
  toolbox: Toolbox,
  ending: Ending,
  shows: Reasoning['shows'] | undefined,
): ItemText[] {
  const items: ItemText[] = []
  let message:
    | { readonly place: number; readonly phase: string | undefined; text: string; annotations: string }
    | undefined
  const endMessage = () => {
    if (message === undefined) return
    const { place, phase, text, annotations } = message
    items[place] = messageItem(mintId('msg'), text, ending, annotations, phase)
    message = undefined
  }
  let [isEmpty, text] = [true, '']
  for (const block of completion.blocks ?? []) {
    if (isOwn(block)) endMessage()
    if (block.kind === 'thought') items.push(...(shows === undefined ? [] : thoughtItems(block, shows)))
    else if (block.kind === 'text') {
      if (block.text === '') continue
      const phase = stringOf(block.members?.['phase'])
      message ??= { place: items.push(EMPTY) - 1, phase, text: '', annotations: '' }
      message.text += block.text
      const { annotations } = block.members ?? {}
      if (isArray(annotations)) message.annotations = annotations.map((one) => JSON.stringify(one)).join()
    } else if (block.kind === 'own') {
      isEmpty = false
      items.push({ id: stringOf(block.block['id']) ?? '', json: JSON.stringify(block.block) })
    } else {
      const call = completion.toolCalls[block.index]
      if (call !== undefined) items.push(callItem(call, toolbox, call.isWhole ? 'completed' : ending.status))
    }
    if (block.kind === 'text') text += block.text
  }
  endMessage()
  if (text !== '' || completion.toolCalls.length > 0 || !isEmpty) return items
  return [...items, messageItem(mintId('msg'), '', ending)]
}

const EMPTY: ItemText = { id: '', json: '' }

/** None for a thought of which the caller sees nothing. */
function thoughtItems({ texts, seal = '' }: ThoughtBlock, shows: Reasoning['shows']): ItemText[] {
  const words = shows.texts ? texts.filter((text) => text !== '') : []
  if (words.length === 0 && seal === '') return []
  const id = mintId('rs')
  const insides = words.map((text) => JSON.stringify(text).slice(1, -1))
  return [{ id, json: thoughtItemJson(id, insides, seal) }]
}

/** A thought as JSON text. `insides`: the parts of its summary, as the insides of JSON strings. */
export function thoughtItemJson(id: string, insides: readonly string[], seal: string): string {
  const sealed = seal === '' ? '' : `,"encrypted_content":"${seal}"`
  return `{"id":"${id}","type":"reasoning","summary":[${insides.map(summaryPartJson).join()}]${sealed}}`
}

export function summaryPartJson(inside: string): string {
  return `{"type":"summary_text","text":"${inside}"}`
}

/** The message of a whole answer. */
export function messageItem(
  id: string,
  text: string,
  { status }: Ending,
  annotations = '',
  phase?: string | undefined,
): ItemText {
  return { id, json: messageItemJson(id, status, quotedTextPartJson(JSON.stringify(text), annotations), phase) }
}

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

/**
 * A part of a message as JSON text. `inside` is the text as the inside of a JSON string (`wire/sse.ts`, `jsonInside`).
 */
export function textPartJson(inside: string, annotations = ''): string {
  return quotedTextPartJson(`"${inside}"`, annotations)
}

/** The same from the text as a JSON string. */
function quotedTextPartJson(text: string, annotations = ''): string {
  return `{"type":"output_text","annotations":[${annotations}],"logprobs":[],"text":${text}}`
}

/** A message as JSON text. `content` is the JSON of its part, or '' before the part was added. */
export function messageItemJson(id: string, status: ItemStatus, content: string, phase?: string | undefined): string {
  const named = phase === undefined ? '' : `"phase":${jsonLine(phase)},`
  return `{"id":"${id}","type":"message","status":"${status}",${named}"role":"assistant","content":[${content}]}`
}

/**
 * A call as JSON text. `inside` is its arguments, whole or so far, as the inside of a JSON string; `isFree`: the text
 * of a tool that takes one instead.
 */
export function callItemJson(
  isFree: boolean,
  { id, status }: { readonly id: string; readonly status: ItemStatus },
  inside: string,
  callId: string,
  own: OwnName,
): string {
  const [type, member] = isFree ? ['custom_tool_call', 'input'] : ['function_call', 'arguments']
  const rest = jsonLine(calledAs(callId, own)).slice(1)
  return `{"id":"${id}","type":"${type}","status":"${status}","${member}":"${inside}",${rest}`
}

function callItem(call: AnswerCall, toolbox: Toolbox, status: ItemStatus): ItemText {
  const own = toolbox.ownName(call.name, call.own)
  if (toolbox.takesText(call.name)) {
    const id = mintId('ctc')
    return { id, json: callItemJson(true, { id, status }, jsonInside(callText(call)), call.callId, own) }
  }
  const id = mintId('fc')
  const item = { id, type: 'function_call', status, arguments: call.json, ...calledAs(call.callId, own) }
  return { id, json: JSON.stringify(item) }
}

function calledAs(callId: string, { name, namespace, caller }: OwnName): JsonObject {
  return {
    ...{ call_id: callId, name },
    ...(namespace !== undefined && { namespace }),
    ...(caller !== undefined && { caller }),
  }
}
