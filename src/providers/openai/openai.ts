/** OpenAI and every server with its Chat Completions API; Azure, which differs in addresses and a header. */

import type { ProviderError } from '../../core/provider-error.ts'
import { SseFramer } from '../../wire/frames.ts'
import { responseError } from '../error-response.ts'
import type { PerTarget } from '../per-target.ts'
import type { Learned, Provider, Target } from '../provider.ts'
import { azureEmbeddings, openaiEmbeddings } from './embedding-api.ts'
import { OpenaiDecoder, openaiEvents, openaiPlain } from './events.ts'
import { azureImages, openaiImages } from './image-api.ts'
import { chatRequest, plainChatRequest } from './request.ts'
import { azureForms, changeFor, openaiForms, type ServerForm } from './server-form.ts'

/** What depends on how requests to a target are written. */
function chatApi(forms: Pick<PerTarget<ServerForm>, 'of'>): Pick<Provider, 'request' | 'plainRequest'> {
  return {
    request: (request, target) => chatRequest(request, target.model, forms.of(target)),
    plainRequest: (request, target) => plainChatRequest(request, forms.of(target)),
  }
}

function learnedFrom(
  provider: Provider,
  forms: PerTarget<ServerForm>,
  error: ProviderError,
  target: Target,
): Learned | undefined {
  const change = changeFor(error, forms.of(target))
  if (change === undefined) return undefined
  const changed = () => ({ ...forms.of(target), ...change })
  return { provider: { ...provider, ...chatApi({ of: changed }) }, keep: () => forms.set(target, changed()) }
}

export const openai: Provider = {
  ...chatApi(openaiForms),
  learn: (error, target) => learnedFrom(openai, openaiForms, error, target),
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new OpenaiDecoder(),
  events: openaiEvents,
  plain: openaiPlain,
  responseError,
  images: openaiImages,
  embeddings: openaiEmbeddings,
}

export const azure: Provider = {
  ...openai,
  ...chatApi(azureForms),
  learn: (error, target) => learnedFrom(azure, azureForms, error, target),
  images: azureImages,
  embeddings: azureEmbeddings,
}
