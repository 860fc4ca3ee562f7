/** The items of an answer's `output`, as objects for whole answers and as JSON text for streams, which hold their text escaped already. */

import type { ToolCall } from '../../core/completion.ts'
import type { JsonObject } from '../../core/json.ts'
import { jsonLine } from '../../wire/sse.ts'
import type { OwnName } from './tools.ts'

type ItemStatus = 'in_progress' | 'completed'

/** A part of a message as JSON text. `inside` is the text as the inside of a JSON string (`wire/sse.ts`, `jsonInside`). */
export function textPartJson(inside: string): string {
  return `{"type":"output_text","annotations":[],"logprobs":[],"text":"${inside}"}`
}

/** A message as JSON text. `content` is that of its one part, or '' before the part was added. */
export function messageItemJson(id: string, status: ItemStatus, content: string): string {
  return `{"id":"${id}","type":"message","status":"${status}","role":"assistant","content":[${content}]}`
}

export function messageItem(id: string, text: string): JsonObject {
  const part = { type: 'output_text', annotations: [], logprobs: [], text }
  return { id, type: 'message', status: 'completed', role: 'assistant', content: [part] }
}

/** A call as JSON text. `inside` is that of its arguments, so far or whole. */
export function callItemJson(id: string, status: ItemStatus, inside: string, callId: string, own: OwnName): string {
  const behind = jsonLine(calledAs(callId, own)).slice(1)
  return `{"id":"${id}","type":"function_call","status":"${status}","arguments":"${inside}",${behind}`
}

export function callItem(id: string, call: ToolCall, own: OwnName): JsonObject {
  return { id, type: 'function_call', status: 'completed', arguments: call.json, ...calledAs(call.callId, own) }
}

function calledAs(callId: string, { name, namespace }: OwnName): JsonObject {
  return namespace === undefined ? { call_id: callId, name } : { call_id: callId, name, namespace }
}
