/** A Responses body → the canonical request, and what the answer repeats of it. */

import type { ChatRequest, Message, ToolChoice } from '../../core/chat-request.ts'
import type { JsonObject } from '../../core/json.ts'
import type { ItemStore } from '../../items/item-store.ts'
import type { Sealer } from '../../items/sealer.ts'
import type { Caller } from '../dialect.ts'
import { invalid } from '../invalid-field.ts'
import { RequestLimits } from '../request-limits.ts'
import { SUMMARY_INSTRUCTION } from './compaction.ts'
import { conversationOf, type Item, itemsOf, resolveReferences, toolListsOf } from './input.ts'
import { type Echo, echoOf } from './resource.ts'
import { checkResponsesBody, type ResponsesBody } from './schema.ts'
import { Toolbox } from './tools.ts'

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

/**
 * Throws or rejects with `CallerError` with the path of the invalid field. `compact`: the body asks for a compaction
 * without a trigger in its input, and the answer is never streamed.
 */
export function acceptResponses(
  json: JsonObject,
  caller: Caller,
  surroundings: Surroundings,
  compact: boolean,
): AcceptedResponses | Promise<AcceptedResponses> {
  const body = checkResponsesBody(json)
  const resolved = resolveReferences(itemsOf(body.input), caller, surroundings.itemStore)
  const convert = (items: readonly Item[]) => {
    const compaction = compact || items.some((item) => item.type === 'compaction_trigger')
    return accepted(body, items, {
      sealer: surroundings.sealer,
      caller,
      compaction,
      stream: body.stream === true && !compact,
    })
  }
  return resolved instanceof Promise ? resolved.then(convert) : convert(resolved)
}

interface Case {
  readonly sealer: Sealer
  readonly caller: Caller
  readonly compaction: boolean
  readonly stream: boolean
}

function accepted(
  body: ResponsesBody,
  items: readonly Item[],
  { sealer, caller, compaction, stream }: Case,
): AcceptedResponses {
  const limits = new RequestLimits()
  const toolbox = new Toolbox([{ tools: body.tools, path: 'tools' }, ...toolListsOf(items)], limits)
  const conversation = conversationOf(items, { toolbox, sealer, caller, limits })
  if (conversation.isEmpty && !compaction) throw invalid('input', 'holds no item that a model could answer')
  const messages: Message[] = conversation.messages(body.instructions ?? '')
  if (compaction) messages.push({ role: 'user', parts: [{ type: 'text', text: SUMMARY_INSTRUCTION }] })
  const tools = compaction ? [] : toolbox.tools
  const request: ChatRequest = {
    model: body.model,
    stream,
    messages,
    tools,
    toolChoice: tools.length > 0 ? toolChoiceOf(body.tool_choice) : undefined,
    maxOutputTokens: body.max_output_tokens ?? undefined,
    limitsOutput: true,
    stop: [],
    sampling: { temperature: body.temperature ?? undefined, topP: body.top_p ?? undefined },
    hints: {
      serviceTier: body.service_tier ?? undefined,
      promptCacheKey: body.prompt_cache_key ?? undefined,
      promptCacheRetention: body.prompt_cache_retention ?? undefined,
    },
    cacheStrict: true,
  }
  return { request, echo: echoOf(body, compaction ? [] : toolbox.unlifted), toolbox, compaction }
}

/** Only these two are passed on: `auto` is the default, and forced tools have no effect. */
function toolChoiceOf(choice: unknown): ToolChoice | undefined {
  return choice === 'required' || choice === 'none' ? { mode: choice } : undefined
}
