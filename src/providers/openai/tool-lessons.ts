/** What rejections teach about tools that only some servers of OpenAI's APIs have: those of a text, and namespaces. */

import type { ChatRequest } from '../../core/chat-request.ts'
import * as Kind from '../../core/entry-kinds.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import { type Lesson, makeLesson, rejecting } from '../learned-form.ts'

/** Which kinds of tools a target has rejected. */
export interface ToolForm {
  readonly rejectsFreeTools?: boolean | undefined
  readonly rejectsNamespaces?: boolean | undefined
}

const NO_FREE_TOOLS = makeLesson<ToolForm>('custom tools', { rejectsFreeTools: true }, /"custom"/gi, 0)
const NO_NAMESPACES = makeLesson<ToolForm>('namespaces of tools', { rejectsNamespaces: true }, /"namespace"/gi, 0)

export const TOOL_LESSONS: readonly Lesson<ToolForm>[] = [NO_FREE_TOOLS, NO_NAMESPACES]

/** "Invalid value: 'custom'", "Custom tools are not supported with", "tools.0.type: Input should be 'function'". */
const PLACE = 'tools\\W+\\d+\\W+(?:type\\W+)?(?:msg\\W+)?'
const rejectsFree = rejecting(`(?:${PLACE})?(?:custom(?:[ _-]?tools?)?|input should be \\W?function)`)
const rejectsNamespace = rejecting(`(?:${PLACE})?(?:(?:input )?tag\\W+)?namespaces?`)
const UNKNOWN =
  /unsupported|not (?:be )?(?:supported|allowed|permitted)|invalid|unknown|unrecognized|unexpected|should be|does not/i

/** `textsOfOne`: how often the body that was rejected names the kind of one such tool, or of a call of it. */
export function toolLessonOf(
  error: ProviderError,
  request: ChatRequest,
  textsOfOne: { readonly tool: number; readonly call: number },
): Lesson<ToolForm> | undefined {
  const { kind, detail, message } = error
  const { tools, own } = request
  if (kind !== 'rejected' || !UNKNOWN.test(message) || !/^(?:body\W)?tools\b|^$/.test(detail.param ?? ''))
    return undefined
  if (tools.has(Kind.FREE_FORM) && rejectsFree(error)) {
    const { freeNames } = tools
    const calls = callsOf(request, freeNames)
    return { ...NO_FREE_TOOLS, own: textsOfOne.tool * freeNames.size + textsOfOne.call * calls }
  }
  if (own?.lifted === undefined || !rejectsNamespace(error)) return undefined
  const spaces = new Set([...own.lifted.values()].map(({ namespace }) => namespace))
  return { ...NO_NAMESPACES, own: spaces.size + callsOf(request, own.lifted) }
}

/** How many calls of the history are of tools with these names. */
function callsOf({ conversation }: ChatRequest, names: { has(name: string): boolean }): number {
  let calls = 0
  for (let entry = 0; entry < conversation.end; entry = conversation.next(entry))
    if (conversation.kindAt(entry) === Kind.CALL_ID && names.has(conversation.textAt(conversation.next(entry)))) calls++
  return calls
}
