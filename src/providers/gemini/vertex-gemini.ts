/** Google's models on Vertex AI: Gemini's API at other addresses. */

import { smallestChat } from '../smallest-chat.ts'
import { vertexHeaders, vertexModel, vertexModels } from '../vertex-address.ts'
import { contentProvider } from './gemini.ts'
import { contentForms } from './request.ts'

/** Vertex AI rejects ids of calls as unknown fields; it matches results with calls by name and order. */
const forms = contentForms((target) => ({
  url: vertexModel(target, 'google', target.model),
  headers: vertexHeaders.of(target.endpoint),
  callIds: false,
}))

export const vertexGemini = contentProvider(forms, (count) => ({
  // Its lists are those of all locations; the counter of the model itself is free as well.
  probe: (target) => count(smallestChat(target.model), target),
  models: vertexModels,
}))
