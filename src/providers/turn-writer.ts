/**
 * Turns → the content of a provider's messages. Order and call ids are the same for all providers; each adapter writes
 * its own blocks.
 */

import type { ImagePart, TextPart } from '../core/chat-request.ts'
import type { JsonObject } from '../core/json.ts'
import { SentCallIds } from './sent-call-ids.ts'
import type { EarlierCall, ToolResult, Turn } from './turns.ts'

/** Writes the blocks of an adapter; one block may need another, such as a cache point. */
export interface BlockWriter {
  part(part: TextPart | ImagePart): readonly JsonObject[]
  /** `id` is the id to send; `index` counts the calls of the turn from 0. */
  call(call: EarlierCall, id: string, index: number): readonly JsonObject[]
  /** `id` is the sent id of the call that the result answers. */
  result(result: ToolResult, id: string): readonly JsonObject[]
}

/**
 * The content of each turn: results before the user's text, text before calls. Blocks are written in their final order,
 * so that a writer can count cache marks; call ids are unique over the whole conversation.
 */
export function contentOf(turns: readonly Turn[], writer: BlockWriter): readonly JsonObject[][] {
  const ids = new SentCallIds()
  return turns.map((turn) => {
    if (turn.role === 'user') {
      const results = turn.results.flatMap((result) => writer.result(result, ids.result(result.callId)))
      return [...results, ...turn.parts.flatMap((part) => writer.part(part))]
    }
    ids.turn()
    const parts = turn.parts.flatMap((part) => writer.part(part))
    return [...parts, ...turn.calls.flatMap((call, index) => writer.call(call, ids.call(call.callId), index))]
  })
}
