/** A whole answer → the body of Messages (inference-api.md 2.2, wire.md A4.2). */

import { type Completion, spokenText, type ToolCall } from '../../core/completion.ts'
import type { FinishReason } from '../../core/event.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { mintId } from '../answer-ids.ts'
import type { Served } from '../dialect.ts'
import { messagesUsage } from './usage.ts'

/** Text, then calls. Throws a `ProviderError` where a call's arguments are no JSON object: such an answer cannot be said in this dialect. */
export function messagesAnswer(completion: Completion, served: Served): JsonObject {
  const calls = completion.toolCalls.flatMap((call) => toolUse(call, completion.reason))
  const text = spokenText(completion)
  const content = text === '' && calls.length > 0 ? calls : [{ type: 'text', text }, ...calls]
  return {
    id: mintId('msg'),
    type: 'message',
    role: 'assistant',
    model: served.model,
    content,
    stop_reason: stopReason(completion.reason, completion.toolCalls.length > 0),
    stop_sequence: null,
    usage: messagesUsage(completion.usage),
  }
}

/**
 * The canonical reason in the words of inference-api.md 2.2. `called`: whether the answer has a call. A call that the answer holds is what
 * it stopped for, unless it was stopped in the middle; without one there is none to run.
 */
export function stopReason(reason: FinishReason, called: boolean): string {
  switch (reason) {
    case 'length':
      return 'max_tokens'
    case 'content-filter':
      return 'stop_sequence'
    case 'stop':
    case 'tool-call':
      return called ? 'tool_use' : 'end_turn'
  }
}

/** A call that the output limit or the filter cut in the middle is left out: with a made-up input it might be run. */
function toolUse(call: ToolCall, reason: FinishReason): JsonObject[] {
  const input = parseObject(call.json)
  if (input !== undefined) return [{ type: 'tool_use', id: call.callId, name: call.name, input }]
  if (reason === 'length' || reason === 'content-filter') return []
  throw new ProviderError('broken', `the arguments of the tool call ${call.name} are not a JSON object`)
}

function parseObject(json: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(json)
    return isObject(value) ? value : undefined
  } catch {
    // What is no JSON is no object either; the caller decides what that means.
    return undefined
  }
}
