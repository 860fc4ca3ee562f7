/** How answers of the Responses API are read, whole and as streams. */

import { SseFramer } from '../../wire/frames.ts'
import type { AnswerReader } from '../provider.ts'
import { openaiResponseError } from './error.ts'
import { responsesPlain } from './responses-answer.ts'
import { ResponsesDecoder, responsesEvents } from './responses-events.ts'
import { StopDecoder, stoppedEvents } from './stop-decoder.ts'

export const responsesReader: AnswerReader = {
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut, 'repeat'),
  decoder: () => new ResponsesDecoder(),
  events: responsesEvents,
  plain: responsesPlain,
  responseError: openaiResponseError,
}

/** The same for an answer whose own items and events pass. One of nothing but text is read like others. */
export const passingResponsesReader: AnswerReader = {
  ...responsesReader,
  decoder: () => new ResponsesDecoder(true),
  events: (body) => responsesEvents(body, true),
  plain: undefined,
}

/** The API has no stop sequences. Each text is looked at, so no frame is copied unread. */
export function stoppedReader(stop: readonly string[]): AnswerReader {
  return {
    ...responsesReader,
    framer: () => new SseFramer(undefined, 'repeat'),
    decoder: () => new StopDecoder(new ResponsesDecoder(), stop),
    events: (body) => stoppedEvents(responsesEvents(body), stop),
    plain: undefined,
  }
}
