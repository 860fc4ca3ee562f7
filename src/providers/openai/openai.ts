/** OpenAI and every server with its Chat Completions API; Azure, which differs in addresses and a header. */

import { SseFramer } from '../../wire/frames.ts'
import { learnedForm, type RequestApi, type TargetForms } from '../learned-form.ts'
import { listedIds } from '../listed-models.ts'
import type { Learned, Provider, Rejection } from '../provider.ts'
import { azureEmbeddings, openaiEmbeddings } from './embedding-api.ts'
import { azureModels, openaiModels } from './endpoints.ts'
import { openaiResponseError } from './error.ts'
import { OpenaiDecoder, openaiEvents, openaiPlain } from './events.ts'
import { azureImages, openaiImages } from './image-api.ts'
import { chatRequest } from './request.ts'
import { azureForms, lessonOf, openaiForms, type ServerForm } from './server-form.ts'

const chatApi: RequestApi<ServerForm> = (forms) => ({
  request: (request, target) => chatRequest(request, forms.of(target)),
})

function learned(provider: Provider, forms: TargetForms<ServerForm>, rejection: Rejection): Learned | undefined {
  const lesson = lessonOf(rejection.error, forms.of(rejection.target))
  return lesson === undefined ? undefined : learnedForm({ provider, forms, api: chatApi }, lesson, rejection)
}

export const openai: Provider = {
  ...chatApi(openaiForms),
  learn: (rejection) => learned(openai, openaiForms, rejection),
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new OpenaiDecoder(),
  events: openaiEvents,
  plain: openaiPlain,
  responseError: openaiResponseError,
  images: openaiImages,
  embeddings: openaiEmbeddings,
  probe: openaiModels,
  models: { request: (endpoint) => openaiModels({ endpoint }), names: listedIds },
}

export const azure: Provider = {
  ...openai,
  ...chatApi(azureForms),
  learn: (rejection) => learned(azure, azureForms, rejection),
  images: azureImages,
  embeddings: azureEmbeddings,
  probe: azureModels,
  // It lists models; a request names a deployment.
  models: undefined,
}
