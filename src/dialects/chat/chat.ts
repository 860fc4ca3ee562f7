/** The Chat Completions dialect. */

import type { Dialect } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import { chatAnswer } from './answer.ts'
import { acceptChat } from './request.ts'
import { ChatEncoder } from './stream.ts'

export const chat: Dialect = {
  name: 'chat',
  accept(body) {
    const { request, includeUsage } = acceptChat(body)
    return {
      request,
      isCompaction: false,
      ignored: ignoredFields('chat', body),
      answer: chatAnswer,
      encoder: (served) => new ChatEncoder(served, includeUsage),
    }
  },
}
