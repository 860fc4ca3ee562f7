/** The arguments of tool calls: of earlier calls as objects for providers, of an answer's calls as JSON for callers. */

import type { Conversation } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import { LONG_NUMBERS_MAX, LongNumbersError, type LongNumbersLeft, parseExact } from '../core/exact-json.ts'
import { isObject, type JsonObject, type JsonValue, objectOf } from '../core/json.ts'
import type { JsonBuilder } from '../core/json-builder.ts'
import { isNoArguments } from '../core/no-arguments.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { ToolList } from '../core/tool-list.ts'
import { JsonDocument } from '../wire/json-document.ts'
import { unescapedWithin } from '../wire/json-text.ts'

/** The arguments of the calls of one request as objects. */
export class CallInputs {
  private readonly longNumbers: LongNumbersLeft = { left: LONG_NUMBERS_MAX }

  /**
   * The arguments of a call as the object that providers require: `{}` if there are none. Anything else that is not a
   * JSON object (a call cut off at the output limit) goes under the key that Anthropic documents for it, so that the
   * model sees what it wrote. Throws `ProviderError` `rejected` with `unsent` for too many long numbers.
   */
  of(json: string): JsonObject {
    if (isNoArguments(json)) return {}
    let input: unknown
    try {
      input = parseExact(json, this.longNumbers)
    } catch (error) {
      if (error instanceof LongNumbersError)
        throw new ProviderError('rejected', `The arguments of tool calls cannot be read: ${error.message}.`, {
          unsent: true,
        })
      // An incomplete call: its text is kept below.
    }
    return isObject(input) ? input : { INVALID_JSON: json }
  }
}

/** Writes the inputs of the calls of one request. */
export class CallInputWriter {
  private readonly inputs = new CallInputs()

  /**
   * Writes the arguments of a call as the object that `CallInputs` makes of them. An `INPUT` is one, and is copied: a
   * provider must receive the same bytes in every turn of a conversation, also if the message around them is copied in
   * one of them. `ARGUMENTS` are copied if they are an object that a parser would write in the same way: parsed and
   * written again, they took three times as long. Throws as `CallInputs` does.
   */
  write(json: JsonBuilder, conversation: Conversation, entry: number): void {
    if (conversation.kindAt(entry) === Kind.INPUT) return json.entry(conversation, entry)
    const { arena } = conversation
    const from = conversation.fromAt(entry)
    const to = conversation.toAt(entry)
    const buffer = arena.bufferAt(from)
    const start = arena.indexAt(from)
    const end = arena.indexAt(from, to)
    const written = unescapedWithin(buffer, start, end)
    if (written !== undefined && JsonDocument.isWrittenObject(written.buffer, written.size))
      json.bytes(written.buffer, written.size)
    else json.text(JSON.stringify(this.inputs.of(arena.stringAt(from, to))))
  }
}

/** Writes the schema of a tool's parameters as that of an object, which is what Anthropic and Bedrock accept. */
export function writeObjectSchema(json: JsonBuilder, tools: ToolList, schema: number): void {
  if (tools.isOfObject(schema)) return json.entry(tools, schema)
  const given = objectOf(tools.arena.valueAt(tools.fromAt(schema), tools.toAt(schema)))
  json.text(JSON.stringify({ ...given, type: 'object' }))
}

/** The input of a whole call as JSON. Some servers send the JSON text itself; anything else is no arguments. */
export function inputJson(input: JsonValue | undefined): string {
  if (isObject(input)) return JSON.stringify(input)
  return typeof input === 'string' && !isNoArguments(input) ? input : '{}'
}
