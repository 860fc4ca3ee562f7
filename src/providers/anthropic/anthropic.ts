/** Anthropic's Messages API, and the servers that speak it. */

import { isObject } from '../../core/json.ts'
import { tokenCount } from '../../core/token-usage.ts'
import { SseFramer } from '../../wire/frames.ts'
import type { Provider } from '../provider.ts'
import { anthropicResponseError } from './error.ts'
import { AnthropicDecoder, anthropicEvents, anthropicPlain } from './events.ts'
import { anthropicCountRequest, anthropicPlainRequest, anthropicRequest } from './request.ts'

export const anthropic: Provider = {
  request: anthropicRequest,
  plainRequest: anthropicPlainRequest,
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
  decoder: () => new AnthropicDecoder(),
  events: anthropicEvents,
  plain: anthropicPlain,
  responseError: anthropicResponseError,
  counter: {
    request: anthropicCountRequest,
    tokens: (body) => (isObject(body) ? tokenCount(body['input_tokens']) : undefined),
  },
}
