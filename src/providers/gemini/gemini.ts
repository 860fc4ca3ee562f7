/** Google's Gemini API. */

import type { ChatRequest } from '../../core/chat-request.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { isObject } from '../../core/json.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { googleResponseError } from '../google-error.ts'
import { type Lesson, learn, learningProvider, type RequestApi, type TargetForms } from '../learned-form.ts'
import { type Provider, type Rejection, sseStreamOfDocuments, type Target, type UpstreamRequest } from '../provider.ts'
import { rejectsSignature } from '../thought-signature.ts'
import { GeminiDecoder, geminiEvents, geminiPlain } from './events.ts'
import {
  contentCountRequest,
  contentRequest,
  type GeminiForm,
  geminiForms,
  geminiModels,
  geminiNames,
  mayThink,
  SIGNATURES,
} from './request.ts'
import { thinkingLesson } from './thinking-config.ts'

const contentApi: RequestApi<GeminiForm> = (forms) => ({
  request: (request, target) => contentRequest(request, forms.of(target)),
})

/** Without signatures, one of which may be what was rejected: each call gets the replacement. */
const unsignedApi: RequestApi<GeminiForm> = (forms) => ({
  request: (request, target) => contentRequest({ ...request, thoughts: undefined }, forms.of(target)),
})

function lessonOf({ error, request }: Rejection, form: GeminiForm): Lesson<GeminiForm> | undefined {
  return rejectsSignature(error) ? { ...SIGNATURES, own: signedCalls(request) } : thinkingLesson(error, request, form)
}

/** Calls that are sent with their own signature. */
function signedCalls({ conversation, thoughts }: ChatRequest): number {
  if (thoughts === undefined) return 0
  let signed = 0
  for (let entry = 0; entry < conversation.end; entry = conversation.next(entry)) {
    const isCall = conversation.kindAt(entry) === Kind.CALL_ID
    if (isCall && thoughts.with(entry) !== undefined) signed++
  }
  return signed
}

/** Gemini's API at the addresses of these forms. */
export function contentProvider(
  forms: TargetForms<GeminiForm>,
  others: (count: (request: ChatRequest, target: Target) => UpstreamRequest) => Pick<Provider, 'probe' | 'models'>,
): Provider {
  const count = (request: ChatRequest, target: Target) => contentCountRequest(request, forms.of(target))
  return learningProvider(
    { forms, api: contentApi, lessonOf },
    {
      thoughtForm: ({ model }) => (mayThink(model) ? 'gemini' : undefined),
      ...sseStreamOfDocuments,
      decoder: () => new GeminiDecoder(),
      events: geminiEvents,
      plain: geminiPlain,
      responseError: googleResponseError,
      counter: {
        request: count,
        tokens: (body) => (isObject(body) ? tokenCount(body['totalTokens']) : undefined),
      },
      ...others(count),
    },
    (usual, rejection, provider) =>
      learn(rejectsSignature(rejection.error) ? { ...usual, retryApi: unsignedApi } : usual, rejection, provider),
  )
}

export const gemini = contentProvider(geminiForms, () => ({
  probe: ({ endpoint }) => geminiModels(endpoint, 1),
  // The most that it takes.
  models: { requests: (endpoint) => [geminiModels(endpoint, 1000)], names: geminiNames },
}))
