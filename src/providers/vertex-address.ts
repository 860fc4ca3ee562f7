/** The addresses of Vertex AI: of a model, which has the API of its publisher, and of the lists of models. */

import { EndpointHeaders } from './endpoint-headers.ts'
import { listedModels, pagedList } from './listed-models.ts'
import type { Provider, Target } from './provider.ts'

const CLAUDE = /^(?:publishers\/anthropic\/models\/)?claude/

/** Vertex AI serves Claude in Anthropic's API, and Google's models in Gemini's. */
export function isClaudeOnVertex(model: string): boolean {
  return CLAUDE.test(model)
}

/** A token takes the place of a key: see `Endpoint.identity`. */
export const vertexHeaders = new EndpointHeaders(() => ({}))

/**
 * The address of a model, to which a method is appended. `gemini-…` is short for `publishers/google/models/gemini-…`, a
 * tuned model is `endpoints/ID`.
 */
export function vertexModel({ endpoint }: Target, publisher: 'google' | 'anthropic', model: string): string {
  const { baseUrl, project = '', location = '' } = endpoint
  const path = model.includes('/') ? model : `publishers/${publisher}/models/${model}`
  const segments = ['projects', project, 'locations', location, ...path.split('/')]
  return `${baseUrl}/v1/${segments.map(segment).join('/')}`
}

/** `:` stands before a method and `@` before a version; a path may contain both. */
function segment(text: string): string {
  return encodeURIComponent(text).replaceAll('%40', '@').replaceAll('%3A', ':')
}

/** Whose models weir calls on Vertex AI, with the beginning of their names. */
const PUBLISHERS = [
  ['google', 'gemini'],
  ['anthropic', 'claude'],
] as const
const LISTED = /^publishers\/[^/]+\/models\/((?:gemini|claude)[^/]*)$/
/** The list of a location lacks models that it serves; that of all locations has them all. */
const OF_LOCATION = /^https:\/\/(?:[a-z0-9-]+-aiplatform|aiplatform\.(?:us|eu)\.rep)\.googleapis\.com$/

/** The lists of its publishers, without models that only make embeddings. A model without a version has the latest. */
export const vertexModels: Provider['models'] = {
  requests: (endpoint, prefixes) => {
    const baseUrl = endpoint.baseUrl.replace(OF_LOCATION, 'https://aiplatform.googleapis.com')
    const wanted = PUBLISHERS.filter(([, start]) =>
      prefixes.some((one) => one.startsWith(start) || start.startsWith(one)),
    )
    return wanted.map(([publisher]) =>
      pagedList('nextPageToken', 'pageToken', (page) => ({
        method: 'GET',
        url: `${baseUrl}/v1beta1/publishers/${publisher}/models?pageSize=200${page}`,
        headers: vertexHeaders.of(endpoint),
        body: '',
      })),
    )
  },
  names: (body) =>
    listedModels(body, 'publisherModels').flatMap(({ name }) => {
      const [, model] = LISTED.exec(typeof name === 'string' ? name : '') ?? []
      return model === undefined || model.includes('embedding') ? [] : [model]
    }),
}
