/** Anthropic's Messages API, and the servers that speak it. */

import { isObject } from '../../core/json.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { SseFramer } from '../../wire/frames.ts'
import { responseError } from '../error-response.ts'
import type { RequestApi } from '../learned-form.ts'
import { listedIds } from '../listed-models.ts'
import type { Provider } from '../provider.ts'
import { AnthropicDecoder, anthropicEvents, anthropicPlain } from './events.ts'
import { acceptBetas, learnWithBetas } from './refused-betas.ts'
import {
  anthropicModels,
  claudeLesson,
  countRequest,
  type MessageForm,
  mayThink,
  messageForms,
  messageRequest,
} from './request.ts'
import { missesThinking, THINKING } from './thinking.ts'

const messageApi: RequestApi<MessageForm> = (forms) => ({
  request: (request, target) => messageRequest(request, forms.of(target)),
})

export const anthropic: Provider = {
  thoughtForm: ({ model }) => (mayThink(model) ? 'messages' : undefined),
  ...messageApi(messageForms),
  ownForm: () => 'messages',
  learn: (rejection) =>
    learnWithBetas(
      {
        ...{ provider: anthropic, forms: messageForms, api: messageApi },
        lessonOf: ({ error, request }, form) => (missesThinking(error) ? THINKING : claudeLesson(error, request, form)),
      },
      rejection,
    ),
  accepted: (acceptance) => acceptBetas(messageForms, acceptance),
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new AnthropicDecoder(),
  events: anthropicEvents,
  plain: anthropicPlain,
  responseError,
  counter: {
    request: (request, target) => countRequest(request, messageForms.of(target)),
    tokens: (body) => (isObject(body) ? tokenCount(body['input_tokens']) : undefined),
  },
  probe: ({ endpoint }) => anthropicModels(endpoint, 1),
  // The most that it takes.
  models: { requests: (endpoint) => [anthropicModels(endpoint, 1000)], names: listedIds },
}
