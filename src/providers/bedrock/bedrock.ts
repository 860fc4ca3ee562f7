/** Amazon Bedrock: Converse and ConverseStream, for all their models, and the lists of those. */

import { isObject } from '../../core/json.ts'
import { listedModels, pagedList } from '../listed-models.ts'
import type { Provider } from '../provider.ts'
import { bedrockResponseError } from './error.ts'
import { BedrockDecoder, bedrockEvents, bedrockPlain } from './events.ts'
import { EventStreamFramer } from './framer.ts'
import { authorized, bedrockRequest, signsThoughts } from './request.ts'

/**
 * Two lists of another service, the control plane: models that take requests by their own ids, and AWS's inference
 * profiles, by whose ids all newer models are asked.
 */
const models: Provider['models'] = {
  requests: (endpoint) => {
    const control = endpoint.baseUrl.replace('://bedrock-runtime', '://bedrock')
    const list = (path: string) => authorized({ method: 'GET', url: control + path, body: '' }, endpoint)
    return [
      list('/foundation-models?byInferenceType=ON_DEMAND&byOutputModality=TEXT'),
      pagedList('nextToken', 'nextToken', (page) =>
        list(`/inference-profiles?maxResults=1000&type=SYSTEM_DEFINED${page}`),
      ),
    ]
  },
  names: (body) => {
    const isProfiles = isObject(body) && 'inferenceProfileSummaries' in body
    const items = listedModels(body, isProfiles ? 'inferenceProfileSummaries' : 'modelSummaries')
    const ids = items.map((item) => item[isProfiles ? 'inferenceProfileId' : 'modelId'])
    return ids.filter((id) => typeof id === 'string')
  },
}

export const bedrock: Provider = {
  thoughtForm: ({ model }) => (signsThoughts(model) ? 'converse' : undefined),
  request: bedrockRequest,
  streamType: 'application/vnd.amazon.eventstream',
  framer: (shortcut) => new EventStreamFramer(shortcut),
  decoder: () => new BedrockDecoder(),
  events: bedrockEvents,
  plain: bedrockPlain,
  responseError: bedrockResponseError,
  models,
}
