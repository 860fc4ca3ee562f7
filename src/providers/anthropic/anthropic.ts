/** Anthropic's Messages API, and the servers that speak it. */

import { isObject } from '../../core/json.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { SseFramer } from '../../wire/frames.ts'
import { responseError } from '../error-response.ts'
import { learnedForm, type RequestApi } from '../learned-form.ts'
import { listedIds } from '../listed-models.ts'
import type { Learned, Provider, Rejection } from '../provider.ts'
import { AnthropicDecoder, anthropicEvents, anthropicPlain } from './events.ts'
import {
  anthropicCountRequest,
  anthropicModels,
  anthropicPlainRequest,
  anthropicRequest,
  thinkingRequest,
} from './request.ts'
import { missesThinking, THINKING, type ThinkingForm, thinkingForms } from './thinking.ts'

/** A plain request has no calls, and so no thinking. */
const messageApi: RequestApi<ThinkingForm> = (forms) => ({
  request: (request, target) =>
    forms.of(target).wantsThinking ? thinkingRequest(request, target) : anthropicRequest(request, target),
  plainRequest: anthropicPlainRequest,
})

function learned(rejection: Rejection): Learned | undefined {
  if (!missesThinking(rejection.error)) return undefined
  return learnedForm({ provider: anthropic, forms: thinkingForms, api: messageApi }, THINKING, rejection)
}

export const anthropic: Provider = {
  ...messageApi(thinkingForms),
  learn: learned,
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new AnthropicDecoder(),
  events: anthropicEvents,
  plain: anthropicPlain,
  responseError,
  counter: {
    request: anthropicCountRequest,
    tokens: (body) => (isObject(body) ? tokenCount(body['input_tokens']) : undefined),
  },
  probe: ({ endpoint }) => anthropicModels(endpoint, 1),
  // The most that it takes.
  models: { request: (endpoint) => anthropicModels(endpoint, 1000), names: listedIds },
}
