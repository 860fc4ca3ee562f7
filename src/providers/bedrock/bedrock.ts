/** Amazon Bedrock: Converse and ConverseStream, for all their models. */

import type { Provider } from '../provider.ts'
import { bedrockResponseError } from './error.ts'
import { BedrockDecoder, bedrockEvents, bedrockPlain } from './events.ts'
import { EventStreamFramer } from './framer.ts'
import { bedrockRequest, signsThoughts } from './request.ts'

export const bedrock: Provider = {
  thoughtForm: ({ model }) => (signsThoughts(model) ? 'converse' : undefined),
  request: bedrockRequest,
  streamType: 'application/vnd.amazon.eventstream',
  framer: (shortcut) => new EventStreamFramer(shortcut),
  decoder: () => new BedrockDecoder(),
  events: bedrockEvents,
  plain: bedrockPlain,
  responseError: bedrockResponseError,
}
