/**
 * The content blocks of Messages → canonical messages. Every block is rebuilt from its known keys, so that unknown ones
 * never reach a provider.
 */

import { CallerError } from '../../core/caller-error.ts'
import type { CacheMark, ImagePart, Message, TextPart, UserPart } from '../../core/chat-request.ts'
import { isArray, isObject, type JsonObject } from '../../core/json.ts'
import { cacheMark } from '../cache-mark.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { RequestLimits } from '../request-limits.ts'

/** What happens to images within the result of a tool: rejected by default, passed on if the operator allows it. */
export type ToolResultImages = 'refuse' | 'pass'

type Content = string | readonly unknown[]
type ToolMessage = Extract<Message, { role: 'tool' }>
type AssistantMessage = Extract<Message, { role: 'assistant' }>
type AcceptedCall = AssistantMessage['toolCalls'][number]

/** What converting a user's message needs besides its content. */
interface UserOptions {
  readonly toolResultImages: ToolResultImages
  readonly limits: RequestLimits
}

/** The result of a tool, and the images that it had. */
interface Result {
  readonly message: ToolMessage
  readonly images: readonly ImagePart[]
}

/** The text of `system` or of a result. Empty texts are left out, because Anthropic rejects them. */
export function acceptTexts(content: Content, path: string): TextPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content, cache: undefined }]
  return content.flatMap((block, index) => {
    const at = `${path}[${index}]`
    if (!isObject(block)) throw invalid(at, 'must be an object')
    if (block['type'] !== 'text') throw unsupportedBlock(`${at}.type`)
    return acceptText(block, at)
  })
}

/**
 * A user's message as canonical messages: first the results of tools, because other APIs require them right after the
 * calls, then the user's own text and images. A message without any content becomes one with an empty text.
 */
export function acceptUser(content: readonly unknown[], path: string, options: UserOptions): Message[] {
  const results: ToolMessage[] = []
  const images: ImagePart[] = []
  const own: UserPart[] = []
  for (const [index, block] of content.entries()) {
    const at = `${path}[${index}]`
    if (!isObject(block)) throw invalid(at, 'must be an object')
    switch (block['type']) {
      case 'text':
        own.push(...acceptText(block, at))
        break
      case 'image':
        own.push(acceptImage(block, at, options.limits))
        break
      case 'tool_result': {
        const result = acceptResult(block, at, options)
        results.push(result.message)
        images.push(...result.images)
        break
      }
      default:
        throw unsupportedBlock(`${at}.type`)
    }
  }
  const parts = [...images, ...own]
  if (parts.length > 0) return [...results, { role: 'user', parts }]
  return results.length > 0 ? results : [{ role: 'user', parts: [{ type: 'text', text: '' }] }]
}

/** An assistant's message. Text after a call moves before it, because other APIs have no order between the two. */
export function acceptAssistant(content: readonly unknown[], path: string, limits: RequestLimits): AssistantMessage {
  const parts: TextPart[] = []
  const toolCalls: AcceptedCall[] = []
  for (const [index, block] of content.entries()) {
    const at = `${path}[${index}]`
    if (!isObject(block)) throw invalid(at, 'must be an object')
    if (block['type'] === 'text') parts.push(...acceptText(block, at))
    else if (block['type'] === 'tool_use') toolCalls.push(acceptCall(block, at, limits))
    else throw unsupportedBlock(`${at}.type`)
  }
  return { role: 'assistant', parts, toolCalls }
}

function acceptText(block: JsonObject, path: string): TextPart[] {
  const text = block['text']
  if (typeof text !== 'string') throw missing(`${path}.text`)
  const cache = cacheMark(block, path)
  return text === '' ? [] : [{ type: 'text', text, cache }]
}

const IMAGE_TYPE = /^image\/[\w.+-]+$/

/** Inline images only: no URL, and no id of a file of the operator's own account. */
function acceptImage(block: JsonObject, path: string, limits: RequestLimits): ImagePart {
  limits.countImage(path)
  const source = block['source']
  if (!isObject(source)) throw missing(`${path}.source`)
  if (source['type'] !== 'base64') throw unsupportedBlock(`${path}.source.type`)
  const { media_type: mediaType, data } = source
  if (typeof mediaType !== 'string') throw missing(`${path}.source.media_type`)
  if (!IMAGE_TYPE.test(mediaType))
    throw invalid(`${path}.source.media_type`, 'must be the media type of an image, such as image/png')
  if (typeof data !== 'string' || data === '') throw missing(`${path}.source.data`)
  return { type: 'image', source: { type: 'base64', mediaType, data }, cache: cacheMark(block, path) }
}

function acceptCall(block: JsonObject, path: string, limits: RequestLimits): AcceptedCall {
  limits.countCall(path)
  const { id, name } = block
  if (typeof id !== 'string' || id === '') throw missing(`${path}.id`)
  if (typeof name !== 'string' || name === '') throw missing(`${path}.name`)
  const input = block['input'] ?? {}
  if (!isObject(input)) throw invalid(`${path}.input`, 'must be an object')
  return { callId: id, name, json: JSON.stringify(input), cache: cacheMark(block, path) }
}

/**
 * Images are taken out of the result, because most providers allow only text there. Its cache mark moves to the last of
 * them, because a mark covers everything before it.
 */
function acceptResult(block: JsonObject, path: string, options: UserOptions): Result {
  options.limits.countResult(path)
  const callId = block['tool_use_id']
  if (typeof callId !== 'string' || callId === '') throw missing(`${path}.tool_use_id`)
  const isError = block['is_error'] === true ? true : undefined
  const cache = cacheMark(block, path)
  const { texts, images } = acceptResultContent(block, path, options)
  if (images.length === 0) return { message: { role: 'tool', callId, parts: texts, isError, cache }, images }
  return { message: { role: 'tool', callId, parts: texts, isError }, images: markLast(images, cache) }
}

function acceptResultContent(
  block: JsonObject,
  path: string,
  { toolResultImages, limits }: UserOptions,
): { readonly texts: TextPart[]; readonly images: ImagePart[] } {
  const content = block['content'] ?? ''
  const at = `${path}.content`
  if (typeof content !== 'string' && !isArray(content)) throw invalid(at, 'must be a string or an array of blocks')
  if (typeof content === 'string' || toolResultImages === 'refuse')
    return { texts: acceptTexts(content, at), images: [] }
  const texts: TextPart[] = []
  const images: ImagePart[] = []
  for (const [index, inner] of content.entries()) {
    const innerAt = `${at}[${index}]`
    if (!isObject(inner)) throw invalid(innerAt, 'must be an object')
    if (inner['type'] === 'text') texts.push(...acceptText(inner, innerAt))
    else if (inner['type'] === 'image') images.push(acceptImage(inner, innerAt, limits))
    else throw unsupportedBlock(`${innerAt}.type`)
  }
  return { texts, images }
}

function markLast(images: readonly ImagePart[], cache: CacheMark | undefined): readonly ImagePart[] {
  const last = images.at(-1)
  if (cache === undefined || last === undefined) return images
  return [...images.slice(0, -1), { ...last, cache }]
}

/** Callers compare the whole message, so it cannot name the block; `param` does. */
function unsupportedBlock(param: string): CallerError {
  return new CallerError('invalid_field', 'Unsupported Anthropic content block', { param })
}
