/** Google's Gemini API. */

import { isObject } from '../../core/json.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { SseFramer } from '../../wire/frames.ts'
import { googleResponseError } from '../google-error.ts'
import { learnedForm, type RequestApi } from '../learned-form.ts'
import type { PerTarget } from '../per-target.ts'
import type { Learned, Provider, Target } from '../provider.ts'
import { SIGNATURE_REJECTED } from '../thought-signature.ts'
import { GeminiDecoder, geminiEvents, geminiPlain } from './events.ts'
import { contentRequest, type GeminiForm, geminiCountRequest, geminiForms, plainContentRequest } from './request.ts'
import { Signatures, signatures } from './signatures.ts'

/** With the signatures that are known, or with others. */
export function contentApi<Form extends GeminiForm>(known: Signatures = signatures): RequestApi<Form> {
  return (forms) => ({
    request: (request, target) => contentRequest(request, forms.of(target), known),
    plainRequest: (request, target) => plainContentRequest(request, forms.of(target)),
  })
}

/** Without the known signatures, one of which may be what was rejected: each call gets the replacement. */
export function learnedSignatures<Form extends GeminiForm>(
  provider: Provider,
  forms: PerTarget<Form>,
  { kind, message }: ProviderError,
  target: Target,
): Learned | undefined {
  if (kind !== 'rejected' || !SIGNATURE_REJECTED.test(message)) return undefined
  const change: Partial<GeminiForm> = { wantsSignatures: true }
  return learnedForm<GeminiForm>(provider, forms, target, change, contentApi(new Signatures()))
}

export const gemini: Provider = {
  ...contentApi()(geminiForms),
  learn: (error, target) => learnedSignatures(gemini, geminiForms, error, target),
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new GeminiDecoder(signatures),
  events: (body) => geminiEvents(body, signatures),
  plain: geminiPlain,
  responseError: googleResponseError,
  counter: {
    request: (request, target) => geminiCountRequest(request, target, signatures),
    tokens: (body) => (isObject(body) ? tokenCount(body['totalTokens']) : undefined),
  },
}
