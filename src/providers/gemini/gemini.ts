/** Google's Gemini API. */

import { isObject } from '../../core/json.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { SseFramer } from '../../wire/frames.ts'
import { googleResponseError } from '../google-error.ts'
import type { Provider } from '../provider.ts'
import { GeminiDecoder, geminiEvents, geminiPlain } from './events.ts'
import { geminiCountRequest, geminiPlainRequest, geminiRequest } from './request.ts'
import { signatures } from './signatures.ts'

export const gemini: Provider = {
  request: (request, target) => geminiRequest(request, target, signatures),
  plainRequest: geminiPlainRequest,
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
