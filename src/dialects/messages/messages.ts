/** The Messages dialect. */

import type { Dialect } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import { messagesAnswer, messagesPlain } from './answer.ts'
import { acceptMessages, type MessagesOptions } from './request.ts'
import { MessagesEncoder } from './stream.ts'

/** `options` are the operator's settings. */
export function messages(options: MessagesOptions): Dialect {
  return {
    name: 'messages',
    accept: (body) => ({
      request: acceptMessages(body, options),
      isCompaction: false,
      ignored: ignoredFields('messages', body),
      answer: (completion, served) => JSON.stringify(messagesAnswer(completion, served)),
      plain: messagesPlain,
      encoder: (served, meter) => new MessagesEncoder(served, meter),
    }),
  }
}
