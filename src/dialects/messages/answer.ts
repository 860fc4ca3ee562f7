/** A whole answer → the body of Messages. */

import { type AnswerCall, type Completion, type PlainAnswer, spokenText } from '../../core/completion.ts'
import type { FinishReason } from '../../core/event.ts'
import { parseExact } from '../../core/exact-json.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Usage } from '../../core/token-usage.ts'
import { mintId } from '../answer-ids.ts'
import type { Served } from '../dialect.ts'
import { messagesUsage, messagesUsageJson } from './usage.ts'

/** The text comes first, then the calls. */
export function messagesAnswer(completion: Completion, served: Served): JsonObject {
  const calls = completion.toolCalls.flatMap((call) => toolUse(call))
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

/** The JSON text of `messagesAnswer` for an answer of nothing but text. */
export function messagesPlain(
  { text, reason, usage }: PlainAnswer & { readonly usage: Usage },
  served: Served,
): string {
  return (
    `{"id":"${mintId('msg')}","type":"message","role":"assistant","model":${JSON.stringify(served.model)},` +
    `"content":[{"type":"text","text":${JSON.stringify(text)}}],"stop_reason":"${stopReason(reason, false)}",` +
    `"stop_sequence":null,"usage":${messagesUsageJson(usage)}}`
  )
}

/**
 * The `stop_reason` of Messages. `called`: whether the answer has a tool call. A complete answer with a call stopped
 * for it, whatever the provider reported, and one without a call has none to run.
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

/** A call that the output limit or a filter cut is left out: a caller might run it with a made-up input. */
function toolUse({ callId, name, json, isWhole }: AnswerCall): JsonObject[] {
  return isWhole ? [{ type: 'tool_use', id: callId, name, input: parseExact(json) }] : []
}
