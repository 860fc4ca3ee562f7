/**
 * Checks the input images of an edit that are not uploads. Fields are sent on unchanged, so every string in them is
 * checked: a file id would name a file of the operator's own account, and the provider would fetch a URL.
 */

import { isArray, isObject, type JsonValue } from '../../core/json.ts'
import { countNames, type JsonMember } from '../../wire/members.ts'
import { type FormPart, formText } from '../../wire/multipart.ts'
import { checkImageUrl, type ImageUrls, isAddress } from '../image-url.ts'
import { invalid } from '../invalid-field.ts'
import type { MediaRules } from '../read-media.ts'

/** Fields that the model reads as text: URLs in them are not fetched. */
const WORDS: ReadonlySet<string> = new Set(['prompt', 'user'])
/** The name or the path of a field that refers to an uploaded file by its id. */
const FILE_ID = /(?:^|[[.])file_ids?\]?(?:\[\d*\])?$/

/** Checks one member of a JSON body. Throws `CallerError` with the path of the invalid field. */
export function checkMember({ name, bytes }: JsonMember, value: JsonValue | undefined, rules: MediaRules): void {
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
    rules.limits.countImage(path)
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
export function checkField({ name, filename, content }: FormPart, allowed: ImageUrls): void {
  if (filename !== undefined || WORDS.has(name)) return
  if (FILE_ID.test(name)) throw byId(name)
  if (isAddress(Buffer.from(content.subarray(0, 64)).toString('latin1')))
    checkImageUrl(formText(content), name, allowed)
}

function byId(path: string) {
  return invalid(path, 'files by id are not supported; send the image')
}
