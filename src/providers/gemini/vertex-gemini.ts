/** Google's models on Vertex AI: Gemini's API at other addresses. */

import type { ChatRequest } from '../../core/chat-request.ts'
import { TargetForms } from '../learned-form.ts'
import type { Provider, Target, UpstreamRequest } from '../provider.ts'
import { requestBody } from '../request-body.ts'
import { smallestChat } from '../smallest-chat.ts'
import { vertexHeaders, vertexModel } from '../vertex-address.ts'
import { contentApi, gemini, learnedSignatures } from './gemini.ts'
import { countedContent, type GeminiForm, wantsSignatures } from './request.ts'
import { signatures } from './signatures.ts'

interface VertexForm extends GeminiForm {
  /** The address of the token counter. */
  readonly count: string
}

/** Vertex AI rejects ids of calls as unknown fields; it matches results with calls by name and order. */
const forms = new TargetForms((target): VertexForm => {
  const url = vertexModel(target, 'google', target.model)
  return {
    whole: `${url}:generateContent`,
    streamed: `${url}:streamGenerateContent?alt=sse`,
    count: `${url}:countTokens`,
    headers: vertexHeaders.of(target.endpoint),
    callIds: false,
    wantsSignatures: wantsSignatures(target.model),
  }
})

export const vertexGemini: Provider = {
  ...gemini,
  ...contentApi()(forms),
  learn: (rejection) => learnedSignatures(vertexGemini, forms, rejection),
  counter: { request: countRequest, tokens: (body) => gemini.counter?.tokens(body) },
  // Its list of models needs a project for billing in a header; its counter is free as well.
  probe: (target) => countRequest(smallestChat(target.model), target),
  models: undefined,
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
