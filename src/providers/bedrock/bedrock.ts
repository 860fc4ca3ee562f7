/** Amazon Bedrock: Converse and ConverseStream, for all their models, and the lists of those. */

import { isObject } from '../../core/json.ts'
import { authorized } from '../bedrock-access.ts'
import { bedrockResponseError } from '../bedrock-error.ts'
import type { ThinkingForm } from '../claude-thinking.ts'
import { claudeThinks } from '../efforts.ts'
import { EVENT_STREAM_TYPE, EventStreamFramer } from '../event-stream.ts'
import { learningProvider, type RequestApi } from '../learned-form.ts'
import { listedModels, pagedList } from '../listed-models.ts'
import type { Provider } from '../provider.ts'
import { BedrockDecoder, bedrockEvents, bedrockPlain } from './events.ts'
import { isClaudeModel, thinkingForms, thinkingLessonOf } from './model-fields.ts'
import { bedrockRequest } from './request.ts'

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

const converseApi: RequestApi<ThinkingForm> = (forms) => ({
  request: (request, target) => bedrockRequest(request, target, forms.of(target)),
})

export const bedrock = learningProvider(
  {
    forms: thinkingForms,
    api: converseApi,
    lessonOf: ({ error, request, target }, form) => thinkingLessonOf(error, request, target.model, form),
  },
  {
    thoughtForm: ({ model }) => (isClaudeModel(model) && claudeThinks(model) ? 'converse' : undefined),
    streamType: EVENT_STREAM_TYPE,
    framer: (shortcut) => new EventStreamFramer(shortcut),
    decoder: () => new BedrockDecoder(),
    events: bedrockEvents,
    plain: bedrockPlain,
    responseError: bedrockResponseError,
    models,
  },
)
