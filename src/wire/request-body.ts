/**
 * A caller's body as its dialect reads it: its settings parsed, and its long lists left in the document, to be read
 * without being parsed.
 */

import { isObject, type JsonObject } from '../core/json.ts'
import { parseBody } from './body.ts'
import { JsonDocument, type LeftOut, NONE, type Words } from './json-document.ts'

/** How a member is left out of what is parsed. */
interface UnparsedMember {
  /**
   * The JSON that is parsed in its place, which the dialect's schema accepts. Undefined for a value that the schema may
   * reject: it is parsed, so that the error is the schema's.
   */
  placeholder(document: JsonDocument, value: number): string | undefined
}

/** The members of a dialect's bodies that are not parsed. */
export interface UnparsedMembers {
  readonly names: Words
  /** In the order of the names; those of further names are parsed. */
  readonly members: readonly UnparsedMember[]
}

export interface RequestBody {
  readonly bytes: Uint8Array
  /** Valid until the next document is read, unless it is kept. */
  readonly document: JsonDocument
  /** All members, with placeholders for those that are not parsed. */
  readonly settings: JsonObject
  /** The value of each unparsed name in the document, or `NONE`. */
  readonly values: Int32Array
}

/** Throws `CallerError` `malformed_body`. */
export function readRequestBody(bytes: Uint8Array, { names, members }: UnparsedMembers): RequestBody {
  const document = JsonDocument.read(bytes)
  if (document === undefined) {
    // Its error names what is wrong.
    parseBody(bytes)
    throw new Error('the structure of a body and its parser disagree')
  }
  const values = new Int32Array(names.length)
  document.select(document.root, names, values)
  const settings = document.parse(leftOutOf(document, values, members))
  if (!isObject(settings)) throw new Error('a body that is an object was parsed as something else')
  return { bytes, document, settings, values }
}

function leftOutOf(
  document: JsonDocument,
  values: Int32Array,
  members: UnparsedMembers['members'],
): readonly LeftOut[] {
  const leftOut: LeftOut[] = []
  for (let index = 0; index < members.length; index++) {
    const value = values[index] ?? NONE
    const placeholder = value === NONE ? undefined : members[index]?.placeholder(document, value)
    if (placeholder !== undefined) leftOut.push({ value, placeholder })
  }
  return leftOut.length > 1 ? leftOut.sort((one, other) => one.value - other.value) : leftOut
}
