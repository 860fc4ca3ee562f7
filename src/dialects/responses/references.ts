/** Stored items in place of the references to them: the body as its caller could have sent it. */

import { CallerError } from '../../core/caller-error.ts'
import { isObject, type JsonObject, stringOf } from '../../core/json.ts'
import { type Later, laterOf } from '../../core/later.ts'
import type { ItemStore } from '../../items/item-store.ts'
import { type JsonDocument, words } from '../../wire/json-document.ts'
import { type RequestBody, readRequestBody, type UnparsedMembers } from '../../wire/request-body.ts'
import type { Caller } from '../dialect.ts'
import { invalid, missing } from '../invalid-field.ts'
import { ITEMS, type Items } from './item-types.ts'

/** More references than any conversation has. */
const REFERENCES_MAX = 4096
/** All stored items of one request together: as much as a body may have. */
const RECALLED_CHARS_MAX = 10 * 1024 * 1024
const ID = words('id')

interface Reference {
  readonly value: number
  readonly path: string
  readonly id: string
}

/** The body with each reference replaced by the stored item; later if a store is asked, the same if there is none. */
export function withoutReferences(
  body: RequestBody,
  { items, types }: Items,
  unparsed: UnparsedMembers,
  /** The number of the first item. */
  first: number,
  caller: Caller,
  itemStore: ItemStore | undefined,
): RequestBody | Later<RequestBody> {
  if (!types.includes(ITEMS.reference)) return body
  const references = items.flatMap((value, index) =>
    types[index] === ITEMS.reference ? referenceOf(body.document, value, `input[${first + index}]`) : [],
  )
  const ids = [...new Set(references.map(({ id }) => id))]
  if (ids.length > REFERENCES_MAX) throw invalid('input', `must not refer to more than ${REFERENCES_MAX} items`)
  // Another body may be read before the items have come.
  const places = references.map(({ value, ...rest }) => {
    return { ...rest, from: body.document.fromOf(value), to: body.document.toOf(value) }
  })
  const fill = (found: readonly (JsonObject | undefined)[]) =>
    filledIn(body.bytes, places, new Map(ids.map((id, index) => [id, found[index]])), unparsed)
  return itemStore === undefined
    ? fill([])
    : laterOf(Promise.all(ids.map((id) => itemStore.get(caller.organization, id)))).map(fill)
}

function referenceOf(document: JsonDocument, value: number, path: string): Reference {
  const id = document.member(value, ID)
  if (document.isNull(id)) throw missing(`${path}.id`)
  if (!document.isString(id)) throw invalid(`${path}.id`, 'must be a string')
  if (!document.isFilled(id)) throw missing(`${path}.id`)
  return { value, path, id: document.text(id) }
}

interface Place {
  readonly path: string
  readonly id: string
  /** The bytes of the reference. */
  readonly from: number
  readonly to: number
}

/** A short reference may stand for a long item: together they must not exceed the limit of a body. */
function filledIn(
  bytes: Uint8Array,
  places: readonly Place[],
  recalled: ReadonlyMap<string, JsonObject | undefined>,
  unparsed: UnparsedMembers,
): RequestBody {
  const texts = new Map([...recalled].map(([id, json]) => [id, json === undefined ? '' : JSON.stringify(json)]))
  const pieces: Uint8Array[] = []
  let [chars, at] = [0, 0]
  for (const { path, id, from, to } of places) {
    const text = texts.get(id) ?? ''
    chars += text.length
    if (chars > RECALLED_CHARS_MAX) throw tooLarge('are larger than 10 MiB', path)
    if (!isItem(recalled.get(id))) throw notFound(id, path)
    pieces.push(bytes.subarray(at, from), Buffer.from(text))
    at = to
  }
  pieces.push(bytes.subarray(at))
  try {
    return readRequestBody(Buffer.concat(pieces), unparsed)
  } catch (error) {
    // The caller's body was valid by itself.
    if (error instanceof CallerError) throw tooLarge('hold too many values', 'input')
    throw error
  }
}

function isItem(json: JsonObject | undefined): boolean {
  return isObject(json) && stringOf(json['type']) !== undefined
}

function tooLarge(what: string, param: string): CallerError {
  return new CallerError('too_large', `The items that the input refers to ${what}.`, { param })
}

function notFound(id: string, path: string): CallerError {
  const what = `Item '${id.slice(0, 64)}' was not found or has expired.`
  const message = `${what} Send the item itself instead of a reference (with most SDKs: \`store: false\`).`
  return new CallerError('invalid_field', message, { param: `${path}.id` })
}
