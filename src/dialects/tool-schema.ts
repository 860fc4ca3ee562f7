/** The schema of a tool's parameters, in a caller's body. */

import { OF_OBJECT } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import { type JsonDocument, NONE, words } from '../wire/json-document.ts'

/** Of a tool for which none are written. */
export const NO_PARAMETERS = '{"type":"object","properties":{}}'

const TYPE = words('type')
const OBJECT = words('object')
const found = new Int32Array(TYPE.length)

/** The kind of the entry of a schema, which is an object: Anthropic and Bedrock take those whose type is `object`. */
export function schemaKind(document: JsonDocument, schema: number): number {
  document.select(schema, TYPE, found)
  return document.word(found[0] ?? NONE, OBJECT) === NONE ? Kind.INPUT : Kind.INPUT + OF_OBJECT
}
