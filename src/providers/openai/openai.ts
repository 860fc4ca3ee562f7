/**
 * OpenAI and every server with its Chat Completions or Responses API; Azure, which differs in addresses and a header.
 */

import type { ChatRequest } from '../../core/chat-request.ts'
import { SseFramer } from '../../wire/frames.ts'
import { learn, type RequestApi, type TargetForms } from '../learned-form.ts'
import { deployedIds, listedIds } from '../listed-models.ts'
import type { Provider, Target } from '../provider.ts'
import { azureEmbeddings, openaiEmbeddings } from './embedding-api.ts'
import { azureDeployments, azureModels, openaiModels } from './endpoints.ts'
import { openaiResponseError } from './error.ts'
import { OpenaiDecoder, openaiEvents, openaiPlain } from './events.ts'
import { azureImages, openaiImages } from './image-api.ts'
import { chatRequest } from './request.ts'
import { needsResponses } from './responses-form.ts'
import { OUTPUT_TOKENS_MIN, responsesRequest } from './responses-request.ts'
import { azureForms, lessonOf, openaiForms, type ServerForm } from './server-form.ts'

type Forms = Pick<TargetForms<ServerForm>, 'of'>

const chatApi = (forms: Forms) => ({
  request: (request: ChatRequest, target: Target) => {
    const form = forms.of(target)
    return needsResponses(request, form) ? responsesRequest(request, form) : chatRequest(request, form)
  },
  leastOutput: (request: ChatRequest, target: Target) =>
    needsResponses(request, forms.of(target)) ? OUTPUT_TOKENS_MIN : 0,
  /** What only Responses has goes to targets that are asked by it. */
  ownForm: (target: Target, request: ChatRequest) =>
    needsResponses(request, forms.of(target)) ? ('responses' as const) : undefined,
})

/** OpenAI's own Chat Completions shows no thoughts; other servers have theirs in a field of the message. */
const openaiApi: RequestApi<ServerForm> = (forms) => ({
  ...chatApi(forms),
  thoughtForm: (target, request) => {
    const form = forms.of(target)
    if (needsResponses(request, form)) return form.sendsThoughts ? 'responses' : undefined
    return form.isOpenai || !form.takesThoughts ? undefined : 'chat'
  },
})

const azureApi: RequestApi<ServerForm> = (forms) => ({
  ...chatApi(forms),
  thoughtForm: (target, request) => {
    const form = forms.of(target)
    return needsResponses(request, form) && form.sendsThoughts ? 'responses' : undefined
  },
})

export const openai: Provider = {
  ...openaiApi(openaiForms),
  learn: (rejection) => learn({ provider: openai, forms: openaiForms, api: openaiApi, lessonOf }, rejection),
  reportedUsage: (target) => openaiForms.reportedUsage(target),
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new OpenaiDecoder(),
  events: openaiEvents,
  plain: openaiPlain,
  responseError: openaiResponseError,
  images: openaiImages,
  embeddings: openaiEmbeddings,
  probe: openaiModels,
  models: { requests: (endpoint) => [openaiModels({ endpoint })], names: listedIds },
}

export const azure: Provider = {
  ...openai,
  ...azureApi(azureForms),
  learn: (rejection) => learn({ provider: azure, forms: azureForms, api: azureApi, lessonOf }, rejection),
  reportedUsage: (target) => azureForms.reportedUsage(target),
  images: azureImages,
  embeddings: azureEmbeddings,
  probe: azureModels,
  models: { requests: (endpoint) => [azureDeployments(endpoint)], names: deployedIds },
}
