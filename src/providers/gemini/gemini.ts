/** Google's Gemini API. */

import { SseFramer } from '../../wire/frames.ts'
import type { Provider } from '../provider.ts'
import { GeminiDecoder, geminiEvents } from './events.ts'
import { geminiFault } from './fault.ts'
import { geminiRequest } from './request.ts'
import { Signatures } from './signatures.ts'

const signatures = new Signatures()

export const gemini: Provider = {
  request: (request, target) => geminiRequest(request, target, signatures),
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new GeminiDecoder(signatures),
  events: (body) => geminiEvents(body, signatures),
  fault: geminiFault,
}
