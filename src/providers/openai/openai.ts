/**
 * OpenAI and every server with its Chat Completions or Responses API; Azure, which differs in addresses and a header.
 */

import type { ChatRequest } from '../../core/chat-request.ts'
import { isArray, isObject, type JsonValue } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount, type Usage } from '../../core/token-usage.ts'
import { reportedError } from '../error-response.ts'
import { learningProvider, type RequestApi, type TargetForms } from '../learned-form.ts'
import { deployedIds, listedIds } from '../listed-models.ts'
import { type AnswerReader, type EmbeddingMaker, type Provider, sseStream, type Target } from '../provider.ts'
import { withoutRejectedSampling } from '../rejected-sampling.ts'
import { sentEffort } from './effort.ts'
import {
  azureAddress,
  azureDeployments,
  azureModels,
  openaiAddress,
  openaiModels,
  type ProviderAddress,
} from './endpoints.ts'
import { openaiResponseError } from './error.ts'
import { OpenaiDecoder, openaiEvents, openaiPlain } from './events.ts'
import { azureImages, openaiImages } from './image-api.ts'
import { chatRequest } from './request.ts'
import { needsResponses } from './responses-form.ts'
import { OUTPUT_TOKENS_MIN, responsesRequest } from './responses-request.ts'
import { azureForms, lessonOf, openaiForms, type ServerForm } from './server-form.ts'
import { keptStop, stoppedReader } from './stop-decoder.ts'

const api: RequestApi<ServerForm> = (forms) => ({
  request: (request, target) => {
    const form = forms.of(target)
    const write = (kept: ChatRequest) => {
      if (needsResponses(kept, form)) return responsesRequest(kept, form)
      const stop = form.rejectsStop === true ? keptStop(kept) : undefined
      const sent = chatRequest(kept, form)
      return stop === undefined ? sent : { ...sent, reader: stoppedReader(chatReader, stop) }
    }
    // A model that does not think takes what it else rejects.
    return sentEffort(request, form) === 'none' ? write(request) : withoutRejectedSampling(request, form, write)
  },
  leastOutput: (request, target) => (needsResponses(request, forms.of(target)) ? OUTPUT_TOKENS_MIN : 0),
  thoughtForm: (target, request) => {
    const form = forms.of(target)
    if (needsResponses(request, form)) return form.sendsThoughts ? 'responses' : undefined
    return form.takesThoughts ? 'chat' : undefined
  },
  /** What only Responses has goes to targets that are asked by it. */
  ownForm: (target, request) => (needsResponses(request, forms.of(target)) ? 'responses' : undefined),
})

const chatReader: AnswerReader = {
  ...sseStream,
  decoder: () => new OpenaiDecoder(),
  events: openaiEvents,
  plain: openaiPlain,
  responseError: openaiResponseError,
}

const embeddings = (addressOf: (target: Target, path: string) => ProviderAddress): EmbeddingMaker => ({
  request: (embedding, target) => ({ ...addressOf(target, '/embeddings'), body: embedding.body(target.model) }),
  usage: embeddingUsage,
})

function serverProvider(
  forms: TargetForms<ServerForm>,
  others: Pick<Provider, 'images' | 'embeddings' | 'probe' | 'models'>,
): Provider {
  const reportedUsage = (target: Target) => forms.at(target).reportedUsage()
  return learningProvider({ forms, api, lessonOf }, { ...chatReader, ...others, reportedUsage })
}

export const openai = serverProvider(openaiForms, {
  images: openaiImages,
  embeddings: embeddings(openaiAddress),
  probe: openaiModels,
  models: { requests: (endpoint) => [openaiModels({ endpoint })], names: listedIds },
})

export const azure = serverProvider(azureForms, {
  images: azureImages,
  embeddings: embeddings(azureAddress),
  probe: azureModels,
  models: { requests: (endpoint) => [azureDeployments(endpoint)], names: deployedIds },
})

/** Servers that report no `prompt_tokens` report the same number as `total_tokens`: an embedding has no output. */
function embeddingUsage(body: JsonValue): Usage {
  if (!isObject(body)) throw new ProviderError('broken', 'the answer is not a JSON object')
  if (isObject(body['error'])) throw reportedError(body)
  if (!isArray(body['data'])) throw new ProviderError('broken', 'the answer contains no embeddings')
  const counts = isObject(body['usage']) ? body['usage'] : {}
  return { input: tokenCount(counts['prompt_tokens']) ?? tokenCount(counts['total_tokens']) }
}
