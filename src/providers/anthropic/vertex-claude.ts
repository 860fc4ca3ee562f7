/** Claude on Vertex AI: the Messages API with the model in the address and the version in the body. */

import type { ChatRequest } from '../../core/chat-request.ts'
import { THINKING_LESSONS } from '../claude-thinking.ts'
import { claudeThinking } from '../efforts.ts'
import { googleResponseError } from '../google-error.ts'
import { type RequestApi, TargetForms } from '../learned-form.ts'
import type { Provider, Target, UpstreamRequest } from '../provider.ts'
import { smallestChat } from '../smallest-chat.ts'
import { vertexHeaders, vertexModel, vertexModels } from '../vertex-address.ts'
import { anthropic } from './anthropic.ts'
import { acceptBetas, betaLesson, learnWithBetas } from './refused-betas.ts'
import {
  claudeLesson,
  countRequest,
  type MessageForm,
  messageRequest,
  passingReader,
  withoutAddresses,
} from './request.ts'
import { STRICT_LESSONS, strictForm } from './strict-tools.ts'

/** The first member of a body. */
const OPENING = '{"anthropic_version":"vertex-2023-10-16"'

const vertexApi: RequestApi<MessageForm> = (known) => ({
  request: (request, target) => messageRequest(withoutAddresses(request), known.of(target)),
})

const forms = new TargetForms<MessageForm>(
  (target) => {
    const url = vertexModel(target, 'anthropic', target.model)
    const model = target.model.slice(target.model.lastIndexOf('/') + 1)
    return {
      opening: OPENING,
      // The counter is a model of its own, to which the counted model is named in the body.
      countOpening: `${OPENING},"model":${JSON.stringify(model)}`,
      whole: `${url}:rawPredict`,
      streamed: `${url}:streamRawPredict`,
      count: vertexModel(target, 'anthropic', 'count-tokens:rawPredict'),
      headers: vertexHeaders.of(target.endpoint),
      takesServiceTier: false,
      betasIn: 'body',
      placesMarks: false,
      statesStream: true,
      passing: { ...passingReader, responseError: googleResponseError },
      ...strictForm(model),
      wantsThinking: false,
      ...claudeThinking(model),
    }
  },
  [...THINKING_LESSONS, ...STRICT_LESSONS],
  betaLesson,
)

/** Its errors are Google's until a request reaches Claude, and Anthropic's from then on. */
export const vertexClaude: Provider = {
  ...anthropic,
  ...vertexApi(forms),
  learn: (rejection) =>
    learnWithBetas(
      {
        ...{ provider: vertexClaude, forms, api: vertexApi },
        lessonOf: ({ error, request }, form) => claudeLesson(error, request, form),
      },
      rejection,
    ),
  accepted: (acceptance) => acceptBetas(forms, acceptance),
  responseError: googleResponseError,
  counter: { request: counted, tokens: (body) => anthropic.counter?.tokens(body) },
  probe: (target) => counted(smallestChat(target.model), target),
  models: vertexModels,
}

function counted(request: ChatRequest, target: Target): UpstreamRequest {
  return countRequest(withoutAddresses(request), forms.of(target))
}
