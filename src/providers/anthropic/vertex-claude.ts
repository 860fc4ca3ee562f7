/** Claude on Vertex AI: the Messages API with the model in the address and the version in the body. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { JsonObject } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { googleResponseError } from '../google-error.ts'
import { PerTarget } from '../per-target.ts'
import type { Provider, Target, UpstreamRequest } from '../provider.ts'
import { requestBody } from '../request-body.ts'
import { smallestChat } from '../smallest-chat.ts'
import { vertexHeaders, vertexModel } from '../vertex-address.ts'
import { anthropic } from './anthropic.ts'
import { anthropicBody, countedInput, type PlainForm, plainMessage } from './request.ts'

const VERSION = 'vertex-2023-10-16'

/** Claude needs nothing that servers of the same API do. */
const { learn: _, ...messages } = anthropic

/** Its errors are Google's until a request reaches Claude, and Anthropic's from then on. */
export const vertexClaude: Provider = {
  ...messages,
  request: messageRequest,
  plainRequest: (request, target) => plainMessage(request, forms.of(target)),
  responseError: googleResponseError,
  counter: { request: countRequest, tokens: (body) => anthropic.counter?.tokens(body) },
  probe: (target) => countRequest(smallestChat(target.model), target),
  models: undefined,
}

const forms = new PerTarget((target): PlainForm & { readonly count: string } => {
  const url = vertexModel(target, 'anthropic', target.model)
  return {
    opening: `{"anthropic_version":"${VERSION}","max_tokens":`,
    whole: `${url}:rawPredict`,
    streamed: `${url}:streamRawPredict`,
    count: vertexModel(target, 'anthropic', 'count-tokens:rawPredict'),
    headers: vertexHeaders.of(target.endpoint),
    serviceTiers: false,
  }
})

/** Throws `ProviderError` `rejected` for an image by URL: Claude on Vertex AI takes image data only. */
function messageRequest(request: ChatRequest, target: Target): UpstreamRequest {
  rejectImageUrls(request)
  const { body, toolNames } = anthropicBody(request, bareName(target.model))
  const { model: _, service_tier: __, ...rest } = body
  const { whole, streamed, headers } = forms.of(target)
  return { url: request.stream ? streamed : whole, headers, body: written(rest, request), toolNames }
}

/** The counter is a model of its own, to which the counted model is named in the body. */
function countRequest(request: ChatRequest, target: Target): UpstreamRequest {
  rejectImageUrls(request)
  const { count, headers } = forms.of(target)
  return { url: count, headers, body: written(countedInput(request, bareName(target.model)), request) }
}

function written(body: JsonObject, { longTexts }: ChatRequest): UpstreamRequest['body'] {
  return requestBody({ anthropic_version: VERSION, ...body }, longTexts)
}

function bareName(model: string): string {
  return model.slice(model.lastIndexOf('/') + 1)
}

/** What is unparsed has no images. */
function rejectImageUrls(request: ChatRequest): void {
  if (request.unparsed?.messages !== undefined) return
  for (const message of request.messages) {
    if (message.role !== 'user') continue
    if (message.parts.every((part) => part.type !== 'image' || part.source.type !== 'url')) continue
    throw new ProviderError('rejected', 'This model takes images as base64 data only, not by address.', {
      unsent: true,
    })
  }
}
