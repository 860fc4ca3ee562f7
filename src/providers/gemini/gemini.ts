/** Google's Gemini API. */

import type { ChatRequest } from '../../core/chat-request.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { isObject } from '../../core/json.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { SseFramer } from '../../wire/frames.ts'
import { googleResponseError } from '../google-error.ts'
import { learn, type RequestApi, type TargetForms } from '../learned-form.ts'
import type { Learned, Provider, Rejection } from '../provider.ts'
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

export const contentApi: RequestApi<GeminiForm> = (forms) => ({
  request: (request, target) => contentRequest(request, forms.of(target)),
})

/** Without signatures, one of which may be what was rejected: each call gets the replacement. */
const unsignedApi: RequestApi<GeminiForm> = (forms) => ({
  request: (request, target) => contentRequest({ ...request, thoughts: undefined }, forms.of(target)),
})

export function learnedSignatures(
  provider: Provider,
  forms: TargetForms<GeminiForm>,
  rejection: Rejection,
): Learned | undefined {
  const lessonOf = ({ error, request }: Rejection, form: GeminiForm) =>
    rejectsSignature(error) ? { ...SIGNATURES, own: signedCalls(request) } : thinkingLesson(error, request, form)
  const retryApi = rejectsSignature(rejection.error) ? unsignedApi : contentApi
  return learn({ provider, forms, lessonOf, api: contentApi, retryApi }, rejection)
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

export const gemini: Provider = {
  thoughtForm: ({ model }) => (mayThink(model) ? 'gemini' : undefined),
  ...contentApi(geminiForms),
  learn: (rejection) => learnedSignatures(gemini, geminiForms, rejection),
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new GeminiDecoder(),
  events: geminiEvents,
  plain: geminiPlain,
  responseError: googleResponseError,
  counter: {
    request: (request, target) => contentCountRequest(request, geminiForms.of(target)),
    tokens: (body) => (isObject(body) ? tokenCount(body['totalTokens']) : undefined),
  },
  probe: ({ endpoint }) => geminiModels(endpoint, 1),
  // The most that it takes.
  models: { requests: (endpoint) => [geminiModels(endpoint, 1000)], names: geminiNames },
}
