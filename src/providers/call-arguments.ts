/** The arguments of tool calls: of earlier calls as objects for providers, of an answer's calls as JSON for callers. */

import { LONG_NUMBERS_MAX, LongNumbersError, type LongNumbersLeft, parseExact } from '../core/exact-json.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import type { LongTexts } from '../core/long-texts.ts'
import { isNoArguments } from '../core/no-arguments.ts'
import { ProviderError } from '../core/provider-error.ts'

/** The arguments of the calls of one request as objects. */
export class CallInputs {
  private readonly longNumbers: LongNumbersLeft = { left: LONG_NUMBERS_MAX }

  constructor(private readonly longTexts?: LongTexts) {}

  /**
   * The arguments of a call as the object that providers require: `{}` if there are none. Anything else that is not a
   * JSON object (a call cut off at the output limit) goes under the key that Anthropic documents for it, so that the
   * model sees what it wrote. Throws `ProviderError` `rejected` with `unsent` for too many long numbers.
   */
  of(text: string): JsonObject {
    const json = this.longTexts?.resolve(text) ?? text
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

/** The input of a whole call as JSON. Some servers send the JSON text itself; anything else is no arguments. */
export function inputJson(input: JsonValue | undefined): string {
  if (isObject(input)) return JSON.stringify(input)
  return typeof input === 'string' && !isNoArguments(input) ? input : '{}'
}
