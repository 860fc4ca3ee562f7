/**
 * The content parts of a chat message → canonical ones: texts, refusals, images, audio and files. Every part is rebuilt
 * from its known keys, so that unknown ones never reach a provider.
 */

import type { ImagePart, TextPart, UserPart } from '../../core/chat-request.ts'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf, stringOf } from '../../core/json.ts'
import { cacheMark } from '../cache-mark.ts'
import { checkImageUrl, type ImageUrls, isAddress } from '../image-url.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { RequestLimits } from '../request-limits.ts'

/** What converting a message needs besides the message. */
export interface Reading {
  readonly limits: RequestLimits
  readonly imageUrls: ImageUrls
}

/**
 * The `content` of a role that has only text. Agents send it absent, null, as a string or as parts, for every role.
 * `refusalOf` reads the refusal parts of an assistant message.
 */
export function textParts(message: JsonObject, path: string): TextPart[] {
  const content = message['content'] ?? ''
  const mark = cacheMark(message, path)
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content, cache: mark }]
  if (!isArray(content)) throw invalid(`${path}.content`, 'must be a string or an array of parts')
  return markLast(textPartsOf(content, path), mark)
}

function textPartsOf(content: readonly JsonValue[], path: string): TextPart[] {
  return content.flatMap((part, index) => {
    const at = `${path}.content[${index}]`
    if (isObject(part) && part['type'] === 'refusal') return []
    const text = textPart(part, at)
    if (text === undefined) throw invalid(`${at}.type`, "must be 'text'")
    return text
  })
}

export function userParts(message: JsonObject, path: string, reading: Reading): readonly UserPart[] {
  const content = message['content'] ?? ''
  const mark = cacheMark(message, path)
  if (typeof content === 'string') return [{ type: 'text', text: content, cache: mark }]
  if (!isArray(content)) throw invalid(`${path}.content`, 'must be a string or an array of parts')
  return markLast(userPartsOf(content, path, reading), mark)
}

function userPartsOf(content: readonly JsonValue[], path: string, reading: Reading): UserPart[] {
  return content.map((part, index) => userPart(part, `${path}.content[${index}]`, reading))
}

/** Several callers set `cache_control` on the message; it then applies to the last part. */
function markLast<T extends UserPart>(parts: readonly T[], mark: ReturnType<typeof cacheMark>): T[] {
  const last = parts.at(-1)
  if (mark === undefined || last === undefined || last.type === 'native') return [...parts]
  return [...parts.slice(0, -1), { ...last, cache: mark }]
}

function userPart(part: JsonValue, path: string, { limits, imageUrls }: Reading): UserPart {
  const text = textPart(part, path)
  if (text !== undefined) return text
  if (!isObject(part)) throw invalid(path, 'must be an object')
  switch (part['type']) {
    case 'image_url':
      limits.countImage(path)
      return imagePart(part, path, imageUrls)
    case 'input_audio':
      return audioPart(part, path, imageUrls)
    case 'file':
      return filePart(part, path, imageUrls)
    default:
      throw invalid(`${path}.type`, "must be one of 'text', 'image_url', 'input_audio' and 'file'")
  }
}

function textPart(part: JsonValue, path: string): TextPart | undefined {
  if (!isObject(part) || part['type'] !== 'text') return undefined
  const text = part['text']
  if (typeof text !== 'string') throw missing(`${path}.text`)
  return { type: 'text', text, cache: cacheMark(part, path) }
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w=.+-]+)*;base64,/
/** No image has a longer head. Without a limit, the pattern would scan a long text to its end. */
const DATA_URL_HEAD_CHARS_MAX = 1024

function imagePart(part: JsonObject, path: string, imageUrls: ImageUrls): ImagePart {
  const image = part['image_url']
  const url = typeof image === 'string' ? image : stringOf(objectOf(image)?.['url'])
  if (url === undefined) throw missing(`${path}.image_url.url`)
  const detail = objectOf(image)?.['detail']
  const rest = {
    detail: detail === 'auto' || detail === 'low' || detail === 'high' ? detail : undefined,
    cache: cacheMark(part, path),
  } as const
  const inline = DATA_URL.exec(url.slice(0, DATA_URL_HEAD_CHARS_MAX))
  if (inline !== null) {
    const source = { type: 'base64', mediaType: inline[1] ?? '', data: url.slice(inline[0].length) } as const
    return { type: 'image', source, ...rest }
  }
  checkImageUrl(url, `${path}.image_url.url`, imageUrls)
  return { type: 'image', source: { type: 'url', url }, ...rest }
}

function audioPart(part: JsonObject, path: string, imageUrls: ImageUrls): UserPart {
  const audio = objectOf(part['input_audio'])
  const data = stringOf(audio?.['data'])
  if (data === undefined) throw missing(`${path}.input_audio.data`)
  if (isAddress(data)) checkImageUrl(data, `${path}.input_audio.data`, imageUrls)
  const format = stringOf(audio?.['format'])
  return {
    type: 'native',
    json: { type: 'input_audio', input_audio: format === undefined ? { data } : { data, format } },
  }
}

/** Inline files only, because an id would name a file of the operator's own account at the provider. */
function filePart(part: JsonObject, path: string, imageUrls: ImageUrls): UserPart {
  const file = objectOf(part['file'])
  const data = stringOf(file?.['file_data'])
  if (data === undefined) throw invalid(`${path}.file.file_data`, 'must hold the file; files by id are not supported')
  // Some servers fetch a URL in this field.
  if (isAddress(data)) checkImageUrl(data, `${path}.file.file_data`, imageUrls)
  const name = stringOf(file?.['filename'])
  return {
    type: 'native',
    json: { type: 'file', file: name === undefined ? { file_data: data } : { filename: name, file_data: data } },
  }
}

export function refusalOf(content: JsonValue | undefined): string | undefined {
  if (!isArray(content)) return undefined
  const refusals = content.flatMap((part) =>
    isObject(part) && part['type'] === 'refusal' ? (stringOf(part['refusal']) ?? []) : [],
  )
  return refusals.length > 0 ? refusals.join('') : undefined
}
