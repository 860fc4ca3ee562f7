/** The Chat Completions dialect. */

import type { Completion } from '../../core/completion.ts'
import type { Dialect, Served } from '../dialect.ts'
import { ignoredFields } from '../ignored-fields.ts'
import type { ImageUrls } from '../image-url.ts'
import { chatAnswer, chatPlain } from './answer.ts'
import { acceptChat, TEXT_PLACES } from './request.ts'
import { ChatEncoder } from './stream.ts'

/** `imageUrls` is the operator's setting: which URLs of images a provider may fetch. */
export function chat({ imageUrls }: { readonly imageUrls: ImageUrls }): Dialect {
  return {
    name: 'chat',
    textPlaces: TEXT_PLACES,
    accept(body, _caller, longTexts) {
      const { request, includeUsage } = acceptChat(body, imageUrls, longTexts)
      return {
        request,
        isCompaction: false,
        ignored: ignoredFields('chat', body),
        answer,
        plain: chatPlain,
        encoder: (served) => new ChatEncoder(served, includeUsage),
      }
    },
  }
}

function answer(completion: Completion, served: Served): string {
  return JSON.stringify(chatAnswer(completion, served))
}
