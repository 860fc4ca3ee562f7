/** Google's models on Vertex AI: Gemini's API at other addresses. */

import type { ChatRequest } from '../../core/chat-request.ts'
import { PerTarget } from '../per-target.ts'
import type { Provider, Target, UpstreamRequest } from '../provider.ts'
import { requestBody } from '../request-body.ts'
import { vertexHeaders, vertexModel } from '../vertex-address.ts'
import { gemini } from './gemini.ts'
import { contentRequest, countedContent, type GeminiForm, plainContentRequest } from './request.ts'
import { signatures } from './signatures.ts'

/** Vertex AI rejects ids of calls as unknown fields; it matches results with calls by name and order. */
const forms = new PerTarget((target): GeminiForm & { readonly count: string } => {
  const url = vertexModel(target, 'google', target.model)
  return {
    model: target.model,
    whole: `${url}:generateContent`,
    streamed: `${url}:streamGenerateContent?alt=sse`,
    count: `${url}:countTokens`,
    headers: vertexHeaders.of(target.endpoint),
    callIds: false,
  }
})

export const vertexGemini: Provider = {
  ...gemini,
  request: (request, target) => contentRequest(request, forms.of(target), signatures),
  plainRequest: (request, target) => plainContentRequest(request, forms.of(target)),
  counter: { request: countRequest, tokens: (body) => gemini.counter?.tokens(body) },
}

/** Its counter takes the fields that count as input. */
function countRequest(request: ChatRequest, target: Target): UpstreamRequest {
  const form = forms.of(target)
  const { systemInstruction, tools, contents } = countedContent(request, form, signatures)
  return {
    url: form.count,
    headers: form.headers,
    body: requestBody({ systemInstruction, tools, contents }, request.longTexts),
  }
}
