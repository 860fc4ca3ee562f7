/** OpenAI and every server with its Chat Completions API; Azure, which differs in addresses and a header. */

import type { ProviderError } from '../../core/provider-error.ts'
import { SseFramer } from '../../wire/frames.ts'
import { learnedForm, type RequestApi } from '../learned-form.ts'
import type { PerTarget } from '../per-target.ts'
import type { Learned, Provider, Target } from '../provider.ts'
import { azureEmbeddings, openaiEmbeddings } from './embedding-api.ts'
import { openaiResponseError } from './error.ts'
import { OpenaiDecoder, openaiEvents, openaiPlain } from './events.ts'
import { azureImages, openaiImages } from './image-api.ts'
import { chatRequest, plainChatRequest } from './request.ts'
import { azureForms, changeFor, openaiForms, type ServerForm } from './server-form.ts'

const chatApi: RequestApi<ServerForm> = (forms) => ({
  request: (request, target) => chatRequest(request, target.model, forms.of(target)),
  plainRequest: (request, target) => plainChatRequest(request, forms.of(target)),
})

function learned(
  provider: Provider,
  forms: PerTarget<ServerForm>,
  error: ProviderError,
  target: Target,
): Learned | undefined {
  const change = changeFor(error, forms.of(target))
  return change === undefined ? undefined : learnedForm(provider, forms, target, change, chatApi)
}

export const openai: Provider = {
  ...chatApi(openaiForms),
  learn: (error, target) => learned(openai, openaiForms, error, target),
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new OpenaiDecoder(),
  events: openaiEvents,
  plain: openaiPlain,
  responseError: openaiResponseError,
  images: openaiImages,
  embeddings: openaiEmbeddings,
}

export const azure: Provider = {
  ...openai,
  ...chatApi(azureForms),
  learn: (error, target) => learned(azure, azureForms, error, target),
  images: azureImages,
  embeddings: azureEmbeddings,
}
