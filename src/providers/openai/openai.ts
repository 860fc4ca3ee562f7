/** OpenAI and every server with its Chat Completions API; Azure, which differs in addresses and a header. */

import { SseFramer } from '../../wire/frames.ts'
import { responseError } from '../error-response.ts'
import type { Provider } from '../provider.ts'
import { azureEmbeddings, openaiEmbeddings } from './embedding-api.ts'
import { OpenaiDecoder, openaiEvents, openaiPlain } from './events.ts'
import { azureImages, openaiImages } from './image-api.ts'
import { azurePlainRequest, azureRequest, openaiPlainRequest, openaiRequest } from './request.ts'
import { azureLearn, openaiLearn } from './server-form.ts'

export const openai: Provider = {
  request: openaiRequest,
  plainRequest: openaiPlainRequest,
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new OpenaiDecoder(),
  events: openaiEvents,
  plain: openaiPlain,
  responseError,
  learn: openaiLearn,
  images: openaiImages,
  embeddings: openaiEmbeddings,
}

export const azure: Provider = {
  ...openai,
  request: azureRequest,
  plainRequest: azurePlainRequest,
  learn: azureLearn,
  images: azureImages,
  embeddings: azureEmbeddings,
}
