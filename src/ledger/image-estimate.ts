/** How many tokens an order of images will take, before a provider has counted it. */

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

/** The words and pictures that go in, and all images that come out. What the caller left to the provider counts as the dearest. */
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
