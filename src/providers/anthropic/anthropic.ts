/** Anthropic's Messages API, and the servers that speak it. */

import type { ChatRequest } from '../../core/chat-request.ts'
import { isObject } from '../../core/json.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { missesThinking, THINKING } from '../claude-thinking.ts'
import { claudeThinks } from '../efforts.ts'
import type { RequestApi, TargetForms } from '../learned-form.ts'
import { listedIds } from '../listed-models.ts'
import type { Provider, Target } from '../provider.ts'
import { betaProvider } from './refused-betas.ts'
import {
  anthropicModels,
  claudeLesson,
  countRequest,
  type MessageForm,
  messageForms,
  messageReader,
  messageRequest,
} from './request.ts'

const messageApi: RequestApi<MessageForm> = (forms) => ({
  request: (request, target) => messageRequest(request, forms.of(target)),
})

/** What all that take the Messages API have. */
export function messageMembers(
  forms: TargetForms<MessageForm>,
  taken: (request: ChatRequest) => ChatRequest,
): typeof messageReader & Pick<Required<Provider>, 'thoughtForm' | 'ownForm' | 'counter'> {
  return {
    ...messageReader,
    thoughtForm: ({ model }) => (claudeThinks(model) ? 'messages' : undefined),
    ownForm: () => 'messages',
    counter: {
      request: (request: ChatRequest, target: Target) => countRequest(taken(request), forms.of(target)),
      tokens: (body) => (isObject(body) ? tokenCount(body['input_tokens']) : undefined),
    },
  }
}

export const anthropic = betaProvider(
  {
    forms: messageForms,
    api: messageApi,
    lessonOf: ({ error, request }, form) => (missesThinking(error) ? THINKING : claudeLesson(error, request, form)),
  },
  {
    ...messageMembers(messageForms, (request) => request),
    probe: ({ endpoint }) => anthropicModels(endpoint, 1),
    // The most that it takes.
    models: { requests: (endpoint) => [anthropicModels(endpoint, 1000)], names: listedIds },
  },
)
