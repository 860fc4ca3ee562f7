/** Google's models on Vertex AI: Gemini's API at other addresses. */

import type { ChatRequest } from '../../core/chat-request.ts'
import { isStructuredBesideTools } from '../../core/structured-output.ts'
import { geminiThinking } from '../efforts.ts'
import { TargetForms } from '../learned-form.ts'
import type { Provider, Target, UpstreamRequest } from '../provider.ts'
import { smallestChat } from '../smallest-chat.ts'
import { vertexHeaders, vertexModel, vertexModels } from '../vertex-address.ts'
import { contentApi, gemini, learnedSignatures } from './gemini.ts'
import { contentCountRequest, type GeminiForm, SIGNATURES, wantsSignatures } from './request.ts'
import { budgetLesson, THINKING_LESSONS } from './thinking-config.ts'

/** Vertex AI rejects ids of calls as unknown fields; it matches results with calls by name and order. */
const forms = new TargetForms<GeminiForm>(
  (target): GeminiForm => {
    const url = vertexModel(target, 'google', target.model)
    return {
      whole: `${url}:generateContent`,
      streamed: `${url}:streamGenerateContent?alt=sse`,
      count: `${url}:countTokens`,
      headers: vertexHeaders.of(target.endpoint),
      callIds: false,
      wantsSignatures: wantsSignatures(target.model),
      takesBoth: isStructuredBesideTools(target.model),
      ...geminiThinking(target.model),
    }
  },
  [SIGNATURES, ...THINKING_LESSONS],
  budgetLesson,
)

export const vertexGemini: Provider = {
  ...gemini,
  ...contentApi(forms),
  learn: (rejection) => learnedSignatures(vertexGemini, forms, rejection),
  counter: { request: countRequest, tokens: (body) => gemini.counter?.tokens(body) },
  // Its lists are those of all locations; the counter of the model itself is free as well.
  probe: (target) => countRequest(smallestChat(target.model), target),
  models: vertexModels,
}

function countRequest(request: ChatRequest, target: Target): UpstreamRequest {
  return contentCountRequest(request, forms.of(target))
}
