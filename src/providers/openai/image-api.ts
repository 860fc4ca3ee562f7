/** The image API of OpenAI, of compatible servers and of Azure: requests, and the figures of an answer. */

import type { ImageFigures, ImageRequest } from '../../core/image-request.ts'
import { isArray, isObject, type JsonValue, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { reportedError } from '../error-response.ts'
import type { Dispatch, ImageMaker } from '../provider.ts'
import { azureAddress, openaiAddress, type ProviderAddress } from './endpoints.ts'

export const openaiImages: ImageMaker = {
  request: (image, target) => dispatch(image, target.model, openaiAddress(target, `/images/${image.kind}`)),
  figures,
}

export const azureImages: ImageMaker = {
  request: (image, target) => dispatch(image, target.model, azureAddress(target, `/images/${image.kind}`)),
  figures,
}

/** A form's content type contains its boundary, so it overrides the operator's headers. */
function dispatch(image: ImageRequest, model: string, { url, headers }: ProviderAddress): Dispatch {
  const { contentType, content } = image.body(model)
  return { url, headers: { ...headers, 'content-type': contentType }, body: content }
}

function figures(body: JsonValue): ImageFigures {
  if (!isObject(body)) throw new ProviderError('broken', 'the answer is not a JSON object')
  const { data, created, error, usage } = body
  if (isObject(error)) throw reportedError(body)
  const images = isArray(data) ? data.length : undefined
  if (images === undefined && (data !== undefined || typeof created !== 'number')) {
    throw new ProviderError('broken', 'the answer contains no images')
  }
  const counts = isObject(usage) ? usage : {}
  return {
    images,
    usage: { input: tokenCount(counts['input_tokens']), output: tokenCount(counts['output_tokens']) },
    quality: stringOf(body['quality']),
    size: stringOf(body['size']),
  }
}
