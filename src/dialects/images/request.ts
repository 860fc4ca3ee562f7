/**
 * The body of an image endpoint, JSON or a form → an image request. Only the model and the stream fields are replaced;
 * all others are sent on unchanged, so every string in them is checked: a file id would name a file of the operator's
 * own account, and the provider would fetch a URL.
 */

import { BytePieces } from '../../core/byte-pieces.ts'
import type { ImageBody, ImageKind, ImageRequest } from '../../core/image-request.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import { parseBody } from '../../wire/body.ts'
import { countNames, type JsonMember, membersOf, writeMembers } from '../../wire/members.ts'
import { type FormPart, formText, mintBoundary, writeForm } from '../../wire/multipart.ts'
import { endUserOf } from '../end-user.ts'
import { type MetadataRule, refuseForbidden, refuseForbiddenNames } from '../forbidden-fields.ts'
import { checkImageUrl, type ImageUrls, isAddress } from '../image-url.ts'
import { invalid } from '../invalid-field.ts'
import type { MediaRules } from '../read-media.ts'
import { RequestLimits } from '../request-limits.ts'
import { checkImagesBody, GENERATION_FIELDS, type ImagesBody, STREAM_FIELDS } from './schema.ts'

/** What the operator lets through. */
export interface ImageRules {
  readonly imageUrls: ImageUrls
  readonly metadata: MetadataRule
}

/** Accepts a JSON body. Throws `CallerError` with the path of the invalid field. */
export function acceptImages(kind: ImageKind, bytes: Uint8Array, rules: ImageRules): ImageRequest {
  const body = parseBody(bytes)
  refuseForbidden(body, rules.metadata)
  const checked = checkImagesBody(body)
  const sent = membersOf(bytes).filter(({ name }) => body[name] !== null && isSent(kind, name))
  const checks = { imageUrls: rules.imageUrls, limits: new RequestLimits() }
  for (const member of sent) checkMember(member, body[member.name], checks)
  return requestOf({ kind, user: endUserOf(body), inputs: checked.images?.length ?? 0 }, checked, jsonWriter(sent))
}

/** Not a closure within `acceptImages`, because that would keep the parsed body in memory too. */
function jsonWriter(sent: readonly JsonMember[]): ImageRequest['body'] {
  return (model) => ({ contentType: 'application/json', content: BytePieces.of(writeMembers(['model', model], sent)) })
}

/** The name of a field of any provider; that of a form may have an index or a key. */
const PLAIN_NAME = /^[a-z][a-z0-9_]{0,63}(?:\[[a-z0-9_]{0,63}\])*$/i
/** If it is accepted, it has no effect. */
const METADATA = /^metadata(?:\[|$)/
/** Properties of every object in JavaScript: a provider's server might change those of all its objects. */
const INHERITED_NAME = /(?:^|\[)(?:__proto__|constructor|prototype)(?:\]|\[|$)/

function isSent(kind: ImageKind, name: string): boolean {
  if (name === 'model' || STREAM_FIELDS.has(name) || METADATA.test(name)) return false
  if (kind === 'generations') return GENERATION_FIELDS.has(name)
  return PLAIN_NAME.test(name) && !INHERITED_NAME.test(name)
}

/** Accepts the form of an edit. Files are not copied: the body for a provider has views of them. */
export function acceptImageForm(parts: readonly FormPart[], { imageUrls, metadata }: ImageRules): ImageRequest {
  // SDKs flatten objects: `metadata[a]` is a part of `metadata`.
  const names = parts.map(({ name }) => name.replace(/\[.*$/s, ''))
  refuseForbiddenNames([...new Set(names)], metadata)
  const fields = fieldsOf(parts)
  const checked = checkImagesBody(fields)
  const inputs = parts.filter(({ name }) => name === 'image' || name.startsWith('image[')).length
  const sent = parts.filter(({ name }) => isSent('edits', name))
  for (const part of sent) checkField(part, imageUrls)
  const write = (model: string): ImageBody => {
    const boundary = mintBoundary()
    const pieces = BytePieces.of(writeForm([{ name: 'model', content: Buffer.from(model) }, ...sent], boundary))
    return { contentType: `multipart/form-data; boundary=${boundary}`, content: pieces }
  }
  return requestOf({ kind: 'edits', user: endUserOf(fields), inputs }, checked, write)
}

/** The fields that are checked, as a JSON body would have them. Of several with the same name the last counts. */
function fieldsOf(parts: readonly FormPart[]): JsonObject {
  const text = (name: string) => {
    const part = parts.findLast((each) => each.name === name)
    return part === undefined ? undefined : formText(part.content)
  }
  const given = {
    model: text('model'),
    prompt: text('prompt'),
    size: text('size'),
    quality: text('quality'),
    user: text('user'),
  }
  const n = text('n')
  const stream = text('stream')
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    n: n === undefined ? null : /^\d{1,9}$/.test(n) ? Number(n) : n,
    stream: stream === undefined ? null : stream === 'true' || (stream === 'false' ? false : stream),
  }
}

function requestOf(
  own: Pick<ImageRequest, 'kind' | 'user' | 'inputs'>,
  checked: ImagesBody,
  body: (model: string) => ImageBody,
): ImageRequest {
  return {
    ...own,
    model: checked.model,
    prompt: checked.prompt,
    images: checked.n ?? 1,
    size: checked.size ?? undefined,
    quality: checked.quality ?? undefined,
    stream: checked.stream ?? false,
    body,
  }
}

/** Fields that the model reads as text: URLs in them are not fetched. */
const WORDS: ReadonlySet<string> = new Set(['prompt', 'user'])
/** The name or the path of a field that refers to an uploaded file by its id. */
const FILE_ID = /(?:^|[[.])file_ids?\]?(?:\[\d*\])?$/

/** Checks one member of a JSON body. Throws `CallerError` with the path of the invalid field. */
function checkMember({ name, bytes }: JsonMember, value: JsonValue | undefined, rules: MediaRules): void {
  if (value === undefined || WORDS.has(name)) return
  // Of two members with the same name we read the last, but the provider, which gets both, may read the first.
  if (countNames(bytes) !== 1 + namesIn(value)) throw invalid(name, 'holds an object with a name that comes twice')
  check(value, name, rules)
}

function namesIn(value: JsonValue): number {
  if (isArray(value)) return value.reduce<number>((sum, each) => sum + namesIn(each), 0)
  if (!isObject(value)) return 0
  return Object.values(value).reduce<number>((sum, each) => sum + 1 + (each === undefined ? 0 : namesIn(each)), 0)
}

function check(value: JsonValue, path: string, rules: MediaRules): void {
  if (typeof value === 'string') {
    if (FILE_ID.test(path)) throw byId(path)
    if (!isAddress(value)) return
    rules.limits.count('images', path)
    checkImageUrl(value, path, rules.imageUrls)
  } else if (isArray(value)) {
    for (const [index, each] of value.entries()) check(each, `${path}[${index}]`, rules)
  } else if (isObject(value)) {
    for (const [name, each] of Object.entries(value)) if (each !== undefined) check(each, `${path}.${name}`, rules)
  }
}

/**
 * Checks one part of a form. SDKs flatten objects: `images[0][file_id]`. Throws `CallerError` with the name of the
 * invalid field.
 */
function checkField({ name, filename, content }: FormPart, allowed: ImageUrls): void {
  if (filename !== undefined || WORDS.has(name)) return
  if (FILE_ID.test(name)) throw byId(name)
  if (isAddress(Buffer.from(content.subarray(0, 64)).toString('latin1')))
    checkImageUrl(formText(content), name, allowed)
}

function byId(path: string) {
  return invalid(path, 'files by id are not supported; send the image')
}
