/** The embeddings API of OpenAI, of compatible servers and of Azure: requests, and the usage of an answer. */

import type { EmbeddingRequest } from '../../core/embedding-request.ts'
import { isArray, isObject, type JsonValue } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount, type Usage } from '../../core/token-usage.ts'
import { reportedError } from '../error-response.ts'
import type { EmbeddingMaker, Target } from '../provider.ts'
import { azureAddress, openaiAddress } from './endpoints.ts'

const PATH = '/embeddings'

export const openaiEmbeddings: EmbeddingMaker = {
  request: (embedding: EmbeddingRequest, target: Target) => ({
    ...openaiAddress(target, PATH),
    body: embedding.body(target.model),
  }),
  usage,
}

export const azureEmbeddings: EmbeddingMaker = {
  request: (embedding: EmbeddingRequest, target: Target) => ({
    ...azureAddress(target, PATH),
    body: embedding.body(target.model),
  }),
  usage,
}

/** Servers that report no `prompt_tokens` report the same number as `total_tokens`: an embedding has no output. */
function usage(body: JsonValue): Usage {
  if (!isObject(body)) throw new ProviderError('broken', 'the answer is not a JSON object')
  if (isObject(body['error'])) throw reportedError(body)
  if (!isArray(body['data'])) throw new ProviderError('broken', 'the answer contains no embeddings')
  const counts = isObject(body['usage']) ? body['usage'] : {}
  return { input: tokenCount(counts['prompt_tokens']) ?? tokenCount(counts['total_tokens']) }
}
