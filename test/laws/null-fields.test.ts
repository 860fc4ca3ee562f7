/**
 * The law of null: in every dialect an optional field that is null is as one that is absent, wherever it stands;
 * official SDKs of Python send it so. Optional is whatever a body may lack. What callers own (schemas, arguments,
 * results) is data, in which null means null.
 */

import { describe, expect, test } from 'bun:test'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import { acceptImages } from '../../src/dialects/images/request.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { CALLER, sealer } from '../dialects/responses/setting.ts'
import { requestProblem } from '../support/api-schema.ts'
import { CHAT, IMAGES, MESSAGES, RESPONSES } from '../support/full-bodies.ts'
import { readAtOnce } from '../support/literal.ts'

/** What is the caller's own. */
const DATA: ReadonlySet<string> = new Set([
  'parameters',
  'input_schema',
  'arguments',
  'input_audio',
  'logit_bias',
  'prompt_cache_options',
  'response_format',
])

type Path = readonly (string | number)[]

/** The paths of all members of all objects that are fields. */
function fieldsOf(value: JsonValue, path: Path = []): Path[] {
  if (isArray(value)) return value.flatMap((item, index) => fieldsOf(item, [...path, index]))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([name, member]) => {
    const at = [...path, name]
    const own = path.at(-1) === 'content' && name === 'input'
    return DATA.has(name) || own || member === undefined ? [at] : [at, ...fieldsOf(member, at)]
  })
}

/** A copy in which the field is null, or gone. */
function changed(value: JsonValue, [head, ...rest]: Path, to: null | undefined): JsonValue {
  if (isArray(value)) return value.map((item, index) => (index === head ? changed(item, rest, to) : item))
  if (!isObject(value)) return value
  const entries = Object.entries(value).flatMap(([name, member = null]): (readonly [string, JsonValue])[] => {
    if (name !== head) return [[name, member]]
    if (rest.length > 0) return [[name, changed(member, rest, to)]]
    return to === undefined ? [] : [[name, null]]
  })
  return Object.fromEntries(entries)
}

/** The name of the schema in the reference, a full body, and what the dialect makes of it. */
const DIALECTS: readonly (readonly [string, JsonObject, (body: JsonObject) => unknown])[] = [
  ['ChatRequest', CHAT, (body) => readAtOnce(chat({ imageUrls: 'public' }), body).request],
  ['MessagesRequest', MESSAGES, (body) => readAtOnce(messages({ toolResultImages: 'pass' }), body).request],
  ['ResponsesRequest', RESPONSES, (body) => readAtOnce(responses({ sealer }), body, CALLER).request],
  [
    'ImageGenerationRequest',
    IMAGES,
    (body) => {
      const { body: sent, ...image } = JSON.parse(
        JSON.stringify(
          acceptImages('generations', Buffer.from(JSON.stringify(body)), {
            imageUrls: 'public',
            metadata: 'forbidden',
          }),
        ),
      )
      return { image, sent }
    },
  ],
]

describe.each(DIALECTS)('%s', (schema, body, request) => {
  test('is accepted with all of its fields', () => expect(request(body)).toBeObject())

  test.each(fieldsOf(body).map((path) => [path.join('.'), path] as const))('%s', (__, path) => {
    let absent: unknown
    try {
      absent = request(changed(body, path, undefined) as JsonObject)
    } catch {
      // Required: null is as wrong as nothing.
      expect(() => request(changed(body, path, null) as JsonObject)).toThrow()
      return
    }
    const nulled = changed(body, path, null) as JsonObject
    expect(request(nulled)).toEqual(absent as object)
    if (requestProblem(schema, changed(body, path, undefined)) === undefined)
      expect(requestProblem(schema, nulled)).toBeUndefined()
  })
})
