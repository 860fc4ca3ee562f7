/** A Responses body → the canonical request, and what the answer repeats of it. */

import {
  type ChatRequest,
  type Message,
  NO_HINTS,
  NO_TEXTS,
  NO_TOOLS,
  type Tool,
  type ToolChoice,
} from '../../core/chat-request.ts'
import { messagesOf, parsedWhenRead } from '../../core/convert-unparsed.ts'
import type { JsonObject, JsonValue } from '../../core/json.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { ENTRY_INTS, type UnparsedMessages } from '../../core/unparsed.ts'
import type { ItemStore } from '../../items/item-store.ts'
import type { Sealer } from '../../items/sealer.ts'
import { words } from '../../wire/json-cursor.ts'
import type { LargeBody } from '../../wire/long-text-body.ts'
import type { Caller } from '../dialect.ts'
import { invalid } from '../invalid-field.ts'
import { RequestLimits } from '../request-limits.ts'
import { SUMMARY_INSTRUCTION } from './compaction.ts'
import { conversationOf, type Item, itemsOf, resolveReferences, toolListsOf } from './input.ts'
import { type Echo, echoOf, NO_TOOLS_JSON, toolsJson } from './resource.ts'
import { checkResponsesBody, type ResponsesBody } from './schema.ts'
import { EMPTY_TOOLBOX, Toolbox } from './tools.ts'
import { readFunctions } from './unparsed-functions.ts'
import { readInput, readInstructions } from './unparsed-input.ts'
import { UnreadEcho } from './unread-echo.ts'

/**
 * The texts are passed on, or read with `LongTexts` alone. `instructions` and tools are none, because the answer
 * repeats them.
 */
export const LARGE_BODY: LargeBody = {
  textPlaces: [
    { under: 'input', depth: 1, name: 'input' },
    { under: 'input', depth: 3, name: 'content' },
    { under: 'input', depth: 5, name: 'text' },
    { under: 'input', depth: 3, name: 'output' },
    { under: 'input', depth: 3, name: 'arguments', holds: 'json' },
  ],
  lists: {
    names: words('input', 'tools', 'instructions'),
    messages: readInput,
    tools: readFunctions,
    system: readInstructions,
    placeholders: ['[]', '[]', '"-"'],
  },
}

const SUMMARY_REQUEST: Message = {
  role: 'user',
  parts: [{ type: 'text', text: SUMMARY_INSTRUCTION, cache: undefined }],
}

/** What accepting needs besides the body. */
export interface Surroundings {
  readonly sealer: Sealer
  /** Absent: no items are stored. */
  readonly itemStore?: ItemStore | undefined
}

export interface AcceptedResponses {
  readonly request: ChatRequest
  readonly echo: Echo
  /** What of the echo is still bytes of the request, so that it is wrong in `echo`. */
  readonly unread?: UnreadEcho | undefined
  readonly toolbox: Toolbox
  /** True if the answer must be a sealed summary. */
  readonly compaction: boolean
}

/** One request beside its body. */
interface Case extends Surroundings {
  readonly caller: Caller
  /** The body asks for a compaction without a trigger in its input, and the answer is never streamed. */
  readonly compact: boolean
  readonly longTexts: LongTexts | undefined
}

/** Throws or rejects with `CallerError` with the path of the invalid field. */
export function acceptResponses(json: JsonObject, one: Case): AcceptedResponses | Promise<AcceptedResponses> {
  const body = bodyOf(json, one.longTexts)
  const { longTexts } = one
  const messages = longTexts?.unparsed?.messages
  if (longTexts !== undefined && messages !== undefined) return acceptedUnparsed(body, one, longTexts, messages)
  const resolved = resolveReferences(itemsOf(body.input), one.caller, one.itemStore)
  if (resolved instanceof Promise) return resolved.then((items) => accepted(body, items, one))
  return accepted(body, resolved, one)
}

/** Tools are parsed after all if the input was. */
function bodyOf(json: JsonObject, longTexts: LongTexts | undefined): ResponsesBody {
  const body = checkResponsesBody(json)
  const { messages, tools } = longTexts?.unparsed ?? {}
  if (longTexts === undefined || messages !== undefined || tools === undefined) return body
  return checkResponsesBody({ ...json, tools: longTexts.valueAt(tools.from, tools.to) })
}

function accepted(
  body: ResponsesBody,
  items: readonly Item[],
  { sealer, longTexts, caller, compact }: Case,
): AcceptedResponses {
  const compaction = compact || items.some(isTrigger)
  const limits = new RequestLimits(longTexts?.argumentValues)
  const lists = toolListsOf(body.tools, items)
  const toolbox = lists.length === 0 ? EMPTY_TOOLBOX : new Toolbox(lists, limits)
  const conversation = conversationOf(items, { toolbox, sealer, caller, limits })
  if (conversation.isEmpty && !compaction) throw invalid('input', 'holds no item that a model could answer')
  const messages: Message[] = conversation.messages(body.instructions ?? '')
  if (compaction) messages.push(SUMMARY_REQUEST)
  const tools = compaction ? NO_TOOLS : toolbox.tools
  const request = requestOf(body, { compact, longTexts, messages, tools, offersTools: tools.length > 0 })
  const echo = echoOf(body, instructionsJson(body), toolsJson(compaction ? NO_TOOLS : toolbox.unlifted))
  return { request, echo, toolbox, compaction }
}

/** The same if the input and the instructions were not parsed: the input has only messages, calls and outputs. */
function acceptedUnparsed(
  body: ResponsesBody,
  { compact }: Case,
  longTexts: LongTexts,
  messages: UnparsedMessages,
): AcceptedResponses {
  const tools = longTexts.unparsed?.tools
  const lists = tools === undefined ? toolListsOf(body.tools, []) : []
  const toolbox = lists.length === 0 ? EMPTY_TOOLBOX : new Toolbox(lists, new RequestLimits())
  const instructions = unparsedInstructions(body, messages)
  if (compact) {
    const all = [...messagesOf(messages.entries, longTexts), SUMMARY_REQUEST]
    const request = requestOf(body, { compact, longTexts, messages: all, tools: NO_TOOLS, offersTools: false })
    const unread = new UnreadEcho(longTexts, instructions, undefined)
    const echo = unread.read(echoOf(body, instructionsJson(body), NO_TOOLS_JSON))
    return { request, echo, toolbox, compaction: true }
  }
  const offersTools = tools !== undefined || toolbox.tools.length > 0
  const request = requestOf(body, { compact, longTexts, messages: [], tools: toolbox.tools, offersTools })
  const unparsed = { messages, tools }
  return {
    request: parsedWhenRead({ ...request, unparsed }, longTexts, unparsed, functionsIn),
    echo: echoOf(body, instructionsJson(body), toolsJson(toolbox.unlifted)),
    unread:
      instructions === undefined && tools === undefined ? undefined : new UnreadEcho(longTexts, instructions, tools),
    toolbox,
    compaction: false,
  }
}

/** If they are not empty they are the first message. What was parsed in place of them is not empty either. */
function unparsedInstructions(
  { instructions }: ResponsesBody,
  { entries }: UnparsedMessages,
): readonly [from: number, to: number] | undefined {
  if ((instructions ?? '') === '') return undefined
  return [entries[ENTRY_INTS + 1] ?? 0, entries[ENTRY_INTS + 2] ?? 0]
}

function instructionsJson({ instructions }: ResponsesBody): string {
  return JSON.stringify(instructions ?? null)
}

/** The functions in a list of tools that was checked without parsing it. */
function functionsIn(tools: JsonValue): readonly Tool[] {
  return new Toolbox([{ tools, path: 'tools' }], new RequestLimits()).tools
}

/** What of a request does not follow from its body alone. */
interface Conversed {
  readonly compact: boolean
  readonly longTexts: LongTexts | undefined
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  readonly offersTools: boolean
}

function requestOf(body: ResponsesBody, { compact, longTexts, messages, tools, offersTools }: Conversed): ChatRequest {
  return {
    model: body.model,
    stream: body.stream === true && !compact,
    messages,
    tools,
    toolChoice: offersTools ? toolChoiceOf(body.tool_choice) : undefined,
    maxOutputTokens: body.max_output_tokens ?? undefined,
    limitsOutput: true,
    stop: NO_TEXTS,
    sampling: { temperature: body.temperature ?? undefined, topP: body.top_p ?? undefined },
    hints: hintsOf(body),
    cacheStrict: true,
    longTexts,
  }
}

function hintsOf({
  service_tier: tier,
  prompt_cache_key: key,
  prompt_cache_retention: retention,
}: ResponsesBody): ChatRequest['hints'] {
  if ((tier ?? key ?? retention ?? undefined) === undefined) return NO_HINTS
  return {
    serviceTier: tier ?? undefined,
    promptCacheKey: key ?? undefined,
    promptCacheRetention: retention ?? undefined,
  }
}

function isTrigger({ type }: Item): boolean {
  return type === 'compaction_trigger'
}

/** Only these two are passed on: `auto` is the default, and forced tools have no effect. */
function toolChoiceOf(choice: unknown): ToolChoice | undefined {
  return choice === 'required' || choice === 'none' ? { mode: choice } : undefined
}
