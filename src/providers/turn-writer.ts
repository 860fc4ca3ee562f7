/** Turns → the content of a provider's messages: the order and the call ids are the same for all, the blocks each adapter's own. */

import type { ImagePart, TextPart } from '../core/chat-request.ts'
import type { JsonObject } from '../core/json.ts'
import { CallIds } from './tool-calls.ts'
import type { EarlierCall, ToolResult, Turn } from './turns.ts'

/** How an adapter writes its blocks; a block may bring another one, such as a cache point. */
export interface BlockWriter {
  part(part: TextPart | ImagePart): readonly JsonObject[]
  /** `id` is what the provider gets for the caller's; `index` counts the calls of the turn from 0. */
  call(call: EarlierCall, id: string, index: number): readonly JsonObject[]
  /** `id` is that of the call that it answers. */
  result(result: ToolResult, id: string): readonly JsonObject[]
}

/**
 * The content of each turn, in order: results before what the user says, text before calls. Blocks are written in the order in which they
 * stand, so that a writer may count cache marks; call ids are told apart over the whole conversation.
 */
export function contentOf(turns: readonly Turn[], writer: BlockWriter): readonly JsonObject[][] {
  const ids = new CallIds()
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
