/** Estimates the tokens of an images request before a provider has counted them. */

import type { ImageRequest } from '../core/image-request.ts'
import { estimateText } from './estimate.ts'
import { REMOTE_IMAGE_TOKENS } from './image-size.ts'

/** OpenAI's table for gpt-image-1: 1024 × 1024, and the larger of the two oblong sizes. */
const OUTPUT_TOKENS = {
  low: { square: 272, oblong: 408 },
  medium: { square: 1056, oblong: 1584 },
  high: { square: 4160, oblong: 6240 },
} as const

export interface ImageTokens {
  readonly input: number
  readonly output: number
}

/**
 * Input is the prompt and the pictures, output all images. A size or quality that the caller left out counts as the
 * most expensive.
 */
export function estimateImages(
  request: Pick<ImageRequest, 'prompt' | 'inputs' | 'images' | 'size' | 'quality'>,
): ImageTokens {
  const { quality, size } = request
  const row = quality === 'low' || quality === 'medium' ? OUTPUT_TOKENS[quality] : OUTPUT_TOKENS.high
  return {
    input: estimateText(request.prompt) + request.inputs * REMOTE_IMAGE_TOKENS,
    output: request.images * (size === '1024x1024' ? row.square : row.oblong),
  }
}
