/** The Messages dialect. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { Completion, PlainAnswer } from '../../core/completion.ts'
import type { Usage } from '../../core/token-usage.ts'
import type { Dialect, Exchange, Served, StreamMeter } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import { messagesAnswer, messagesPlain } from './answer.ts'
import { acceptMessages, type MessagesOptions, UNPARSED } from './request.ts'
import { MessagesEncoder } from './stream.ts'

/** `options` are the operator's settings. */
export function messages(options: MessagesOptions): Dialect {
  return {
    name: 'messages',
    unparsed: UNPARSED,
    read: (body) => new MessagesExchange(acceptMessages(body, options), ignoredFields('messages', body.settings)),
  }
}

class MessagesExchange implements Exchange {
  readonly isCompaction = false

  constructor(
    readonly request: ChatRequest,
    readonly ignored: readonly string[],
  ) {}

  answer(completion: Completion, served: Served): string {
    return JSON.stringify(messagesAnswer(completion, served))
  }

  plain(answer: PlainAnswer & { readonly usage: Usage }, served: Served): string {
    return messagesPlain(answer, served)
  }

  encoder(served: Served, meter: StreamMeter): MessagesEncoder {
    return new MessagesEncoder(served, meter)
  }
}
