/**
 * OpenAI and every server with its Chat Completions or Responses API; Azure, which differs in addresses and a header.
 */

import { SseFramer } from '../../wire/frames.ts'
import { learn, type RequestApi, type TargetForms } from '../learned-form.ts'
import { deployedIds, listedIds } from '../listed-models.ts'
import type { Provider } from '../provider.ts'
import { azureEmbeddings, openaiEmbeddings } from './embedding-api.ts'
import { azureDeployments, azureModels, openaiModels } from './endpoints.ts'
import { openaiResponseError } from './error.ts'
import { OpenaiDecoder, openaiEvents, openaiPlain } from './events.ts'
import { azureImages, openaiImages } from './image-api.ts'
import { chatRequest } from './request.ts'
import { needsResponses } from './responses-form.ts'
import { OUTPUT_TOKENS_MIN, responsesRequest } from './responses-request.ts'
import { azureForms, lessonOf, openaiForms, type ServerForm } from './server-form.ts'

const chatApi: RequestApi<ServerForm> = (forms) => ({
  request: (request, target) => {
    const form = forms.of(target)
    return needsResponses(request, form) ? responsesRequest(request, form) : chatRequest(request, form)
  },
  leastOutput: (request, target) => (needsResponses(request, forms.of(target)) ? OUTPUT_TOKENS_MIN : 0),
})

/** OpenAI's own Chat Completions shows no thoughts; other servers have theirs in a field of the message. */
const openaiThoughts: Provider['thoughtForm'] = (target, request) => {
  const form = openaiForms.of(target)
  if (needsResponses(request, form)) return form.sendsThoughts ? 'responses' : undefined
  return form.isOpenai || !form.takesThoughts ? undefined : 'chat'
}

const azureThoughts: Provider['thoughtForm'] = (target, request) => {
  const form = azureForms.of(target)
  return needsResponses(request, form) && form.sendsThoughts ? 'responses' : undefined
}

/** What only Responses has goes to targets that are asked by it. */
const ownForm =
  (forms: Pick<TargetForms<ServerForm>, 'of'>): NonNullable<Provider['ownForm']> =>
  (target, request) =>
    needsResponses(request, forms.of(target)) ? 'responses' : undefined

export const openai: Provider = {
  thoughtForm: openaiThoughts,
  ownForm: ownForm(openaiForms),
  ...chatApi(openaiForms),
  learn: (rejection) => learn({ provider: openai, forms: openaiForms, api: chatApi, lessonOf }, rejection),
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
  thoughtForm: azureThoughts,
  ownForm: ownForm(azureForms),
  ...chatApi(azureForms),
  learn: (rejection) => learn({ provider: azure, forms: azureForms, api: chatApi, lessonOf }, rejection),
  reportedUsage: (target) => azureForms.reportedUsage(target),
  images: azureImages,
  embeddings: azureEmbeddings,
  probe: azureModels,
  models: { requests: (endpoint) => [azureDeployments(endpoint)], names: deployedIds },
}
