/** Claude on Vertex AI: the Messages API with the model in the address and the version in the body. */

import { googleResponseError } from '../google-error.ts'
import type { RequestApi } from '../learned-form.ts'
import { smallestChat } from '../smallest-chat.ts'
import { vertexHeaders, vertexModel, vertexModels } from '../vertex-address.ts'
import { messageMembers } from './anthropic.ts'
import { betaProvider } from './refused-betas.ts'
import {
  claudeForms,
  claudeLesson,
  type MessageForm,
  messageRequest,
  passingReader,
  withoutAddresses,
} from './request.ts'

/** The first member of a body. */
const OPENING = '{"anthropic_version":"vertex-2023-10-16"'

const vertexApi: RequestApi<MessageForm> = (known) => ({
  request: (request, target) => messageRequest(withoutAddresses(request), known.of(target)),
})

const forms = claudeForms((target) => {
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
    isOwnApi: false,
    statesStream: true,
    passing: { ...passingReader, responseError: googleResponseError },
  }
})

const members = messageMembers(forms, withoutAddresses)

/** Its errors are Google's until a request reaches Claude, and Anthropic's from then on. */
export const vertexClaude = betaProvider(
  { forms, api: vertexApi, lessonOf: ({ error, request }, form) => claudeLesson(error, request, form) },
  {
    ...members,
    responseError: googleResponseError,
    probe: (target) => members.counter.request(smallestChat(target.model), target),
    models: vertexModels,
  },
)
