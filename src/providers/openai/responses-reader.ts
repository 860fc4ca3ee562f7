/** How answers of the Responses API are read, whole and as streams. */

import { FRAME_CHARS_MAX, SseFramer } from '../../wire/frames.ts'
import type { AnswerReader } from '../provider.ts'
import { openaiResponseError } from './error.ts'
import { ResponsesDecoder, responsesEvents, responsesPlain } from './responses-events.ts'
import { StopDecoder, stoppedEvents } from './stop-decoder.ts'

/** The last event repeats the whole answer and the tools of the request. */
const LAST_EVENT_CHARS_MAX = 8 * FRAME_CHARS_MAX

export const responsesReader: AnswerReader = {
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut, LAST_EVENT_CHARS_MAX),
  decoder: () => new ResponsesDecoder(),
  events: responsesEvents,
  plain: responsesPlain,
  responseError: openaiResponseError,
}

/** The API has no stop sequences. Each text is looked at, so no frame is copied unread. */
export function stoppedReader(stop: readonly string[]): AnswerReader {
  return {
    ...responsesReader,
    framer: () => new SseFramer(undefined, LAST_EVENT_CHARS_MAX),
    decoder: () => new StopDecoder(new ResponsesDecoder(), stop),
    events: (body) => stoppedEvents(responsesEvents(body), stop),
    plain: () => undefined,
  }
}
