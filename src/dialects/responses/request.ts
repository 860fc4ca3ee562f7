/** A Responses body → the canonical request, and what the answer repeats of it. */

import {
  type ChatRequest,
  type Message,
  NO_HINTS,
  NO_TEXTS,
  NO_TOOLS,
  type ToolChoice,
} from '../../core/chat-request.ts'
import type { JsonObject } from '../../core/json.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import type { ItemStore } from '../../items/item-store.ts'
import type { Sealer } from '../../items/sealer.ts'
import type { TextPlace } from '../../wire/long-text-body.ts'
import type { Caller } from '../dialect.ts'
import { invalid } from '../invalid-field.ts'
import { RequestLimits } from '../request-limits.ts'
import { SUMMARY_INSTRUCTION } from './compaction.ts'
import { conversationOf, type Item, itemsOf, resolveReferences, toolListsOf } from './input.ts'
import { type Echo, echoOf } from './resource.ts'
import { checkResponsesBody, type ResponsesBody } from './schema.ts'
import { EMPTY_TOOLBOX, Toolbox } from './tools.ts'

/**
 * Texts that are passed on, or read with `LongTexts` alone. `instructions` and tools are none, because the answer
 * repeats them.
 */
export const TEXT_PLACES: readonly TextPlace[] = [
  { under: 'input', depth: 1, name: 'input' },
  { under: 'input', depth: 3, name: 'content' },
  { under: 'input', depth: 5, name: 'text' },
  { under: 'input', depth: 3, name: 'output' },
  { under: 'input', depth: 3, name: 'arguments', holds: 'json' },
]

/** What accepting needs besides the body. */
export interface Surroundings {
  readonly sealer: Sealer
  /** Absent: no items are stored. */
  readonly itemStore?: ItemStore | undefined
}

export interface AcceptedResponses {
  readonly request: ChatRequest
  readonly echo: Echo
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
  const body = checkResponsesBody(json)
  const resolved = resolveReferences(itemsOf(body.input), one.caller, one.itemStore)
  if (resolved instanceof Promise) return resolved.then((items) => accepted(body, items, one))
  return accepted(body, resolved, one)
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
  if (compaction) messages.push({ role: 'user', parts: [{ type: 'text', text: SUMMARY_INSTRUCTION }] })
  const tools = compaction ? NO_TOOLS : toolbox.tools
  const request: ChatRequest = {
    model: body.model,
    stream: body.stream === true && !compact,
    messages,
    tools,
    toolChoice: tools.length > 0 ? toolChoiceOf(body.tool_choice) : undefined,
    maxOutputTokens: body.max_output_tokens ?? undefined,
    limitsOutput: true,
    stop: NO_TEXTS,
    sampling: { temperature: body.temperature ?? undefined, topP: body.top_p ?? undefined },
    hints: hintsOf(body),
    cacheStrict: true,
    longTexts,
  }
  return { request, echo: echoOf(body, compaction ? NO_TOOLS : toolbox.unlifted), toolbox, compaction }
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
