/** The Messages dialect. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { Compatibility } from '../../core/compatibility.ts'
import type { Completion, PlainAnswer } from '../../core/completion.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Usage } from '../../core/token-usage.ts'
import { mintId } from '../answer-ids.ts'
import type { Dialect, Exchange, Served, StreamMeter } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import { withoutReasoning } from '../read-reasoning.ts'
import { messagesAnswer, messagesPlain } from './answer.ts'
import { acceptMessages, type MessagesOptions, passesOf, UNPARSED, withoutFormat } from './request.ts'
import { MessagesEncoder } from './stream.ts'

/** `options` are the operator's settings. */
export function messages(options: MessagesOptions): Dialect {
  return {
    name: 'messages',
    unparsed: UNPARSED,
    read(body, caller) {
      const { compatibility } = caller
      const takesFormat = compatibility?.structured_output === 'pass'
      const takesReasoning = compatibility?.reasoning === 'pass'
      const takesContent = compatibility?.content === 'pass'
      const passes = passesOf(caller)
      const request = acceptMessages(body, { ...options, takesFormat, takesReasoning, takesContent, passes })
      const formatted = takesFormat ? withoutFormat(body.settings) : body.settings
      const settings = withoutOwn(takesReasoning ? withoutReasoning(formatted) : formatted, request)
      return new MessagesExchange(request, ignoredFields('messages', settings), compatibility?.status ?? 'completed')
    },
  }
}

/** The settings without those that some provider gets: if it is asked, they have an effect. */
function withoutOwn(settings: JsonObject, { own }: ChatRequest): JsonObject {
  if (own === undefined || Object.keys(own.members).length === 0) return settings
  return Object.fromEntries(Object.entries(settings).filter(([name]) => !Object.hasOwn(own.members, name)))
}

class MessagesExchange implements Exchange {
  readonly isCompaction = false

  constructor(
    readonly request: ChatRequest,
    readonly ignored: readonly string[],
    private readonly status: Compatibility['status'],
  ) {}

  answer(completion: Completion, served: Served): string {
    return JSON.stringify(messagesAnswer(completion, served, this.status, this.request.reasoning?.shows))
  }

  plain(answer: PlainAnswer & { readonly usage: Usage }, served: Served): string {
    return messagesPlain(answer, served, this.status)
  }

  encoder(served: Served, meter: StreamMeter): MessagesEncoder {
    return new MessagesEncoder(served, meter, mintId('msg'), this.status, this.request.reasoning?.shows)
  }
}
