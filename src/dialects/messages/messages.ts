/** The Messages dialect. */

import type { Dialect } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import { messagesAnswer, messagesPlain } from './answer.ts'
import { acceptMessages, type MessagesOptions, TEXT_PLACES } from './request.ts'
import { MessagesEncoder } from './stream.ts'

/** `options` are the operator's settings. */
export function messages(options: MessagesOptions): Dialect {
  return {
    name: 'messages',
    textPlaces: TEXT_PLACES,
    accept: (body, _caller, longTexts) => ({
      request: acceptMessages(body, options, longTexts),
      isCompaction: false,
      ignored: ignoredFields('messages', body),
      answer: (completion, served) => JSON.stringify(messagesAnswer(completion, served)),
      plain: messagesPlain,
      encoder: (served, meter) => new MessagesEncoder(served, meter),
    }),
  }
}
