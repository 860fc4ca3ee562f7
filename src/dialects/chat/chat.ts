/** The Chat Completions dialect. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { Completion, PlainAnswer } from '../../core/completion.ts'
import type { Usage } from '../../core/token-usage.ts'
import { mintId } from '../answer-ids.ts'
import type { Dialect, Exchange, Served } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import type { ImageUrls } from '../image-url.ts'
import { chatAnswer, chatPlain } from './answer.ts'
import { acceptChat, UNPARSED } from './request.ts'
import { ChatEncoder } from './stream.ts'

/** `imageUrls` is the operator's setting: which URLs of images a provider may fetch. */
export function chat({ imageUrls }: { readonly imageUrls: ImageUrls }): Dialect {
  return {
    name: 'chat',
    unparsed: UNPARSED,
    read(body, { compatibility }) {
      const takesContent = compatibility?.content === 'pass'
      const takesReasoning = compatibility?.reasoning === 'pass'
      const takesFree = compatibility?.tools === 'pass'
      const { request, includeUsage } = acceptChat(body, { imageUrls, takesContent, takesFree }, takesReasoning)
      const passesFormat = compatibility?.structured_output === 'pass' && request.sampling.responseFormat !== undefined
      const passed = passesFormat ? { ...request, sampling: { ...request.sampling, passesFormat } } : request
      return new ChatExchange(passed, includeUsage, ignoredFields('chat', body.settings))
    },
  }
}

class ChatExchange implements Exchange {
  readonly isCompaction = false
  /** The tools that take a text. */
  private readonly free: ReadonlySet<string>

  constructor(
    readonly request: ChatRequest,
    private readonly includeUsage: boolean,
    readonly ignored: readonly string[],
  ) {
    this.free = request.tools.freeNames
  }

  answer(completion: Completion, served: Served): string {
    return JSON.stringify(chatAnswer(completion, served, this.free, this.request.reasoning !== undefined))
  }

  plain(answer: PlainAnswer & { readonly usage: Usage }, served: Served): string {
    return chatPlain(answer, served)
  }

  encoder(served: Served): ChatEncoder {
    return new ChatEncoder(
      served,
      this.includeUsage,
      mintId('chatcmpl'),
      this.request.reasoning !== undefined,
      this.free,
    )
  }
}
