/** A whole answer → the body of Responses (wire.md A3.2). */

import { type Completion, spokenText } from '../../core/completion.ts'
import type { JsonObject } from '../../core/json.ts'
import { mintId } from '../answer-ids.ts'
import { callItem, messageItem } from './output-items.ts'
import type { Toolbox } from './tools.ts'

/**
 * The items of an answer: the message where there is text, then the calls; exactly one empty message where there is neither. A refusal
 * is text: parts of other types are not in the specification. The reason that the model stopped for has no place in a Responses body.
 */
export function outputItems(completion: Completion, toolbox: Toolbox): JsonObject[] {
  const text = spokenText(completion)
  const calls = completion.toolCalls.map((call) => callItem(mintId('fc'), call, toolbox.ownName(call.name)))
  return text === '' && calls.length > 0 ? calls : [messageItem(mintId('msg'), text), ...calls]
}
