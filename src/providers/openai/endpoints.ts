/** The URLs of OpenAI's and Azure's endpoints, and the headers that carry their credentials. */

import { EndpointHeaders } from '../endpoint-headers.ts'
import type { Dispatch, Target } from '../provider.ts'

export interface ProviderAddress {
  readonly url: string
  /** With a JSON content type; the operator's own headers override these. */
  readonly headers: Readonly<Record<string, string>>
}

const openaiHeaders = new EndpointHeaders(({ apiKey }): ProviderAddress['headers'] =>
  apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
)
const azureHeaders = new EndpointHeaders(({ apiKey }): ProviderAddress['headers'] =>
  apiKey === undefined ? {} : { 'api-key': apiKey },
)

export function openaiAddress({ endpoint }: Pick<Target, 'endpoint'>, path: string): ProviderAddress {
  return { url: `${endpoint.baseUrl}${path}`, headers: openaiHeaders.of(endpoint) }
}

export function openaiModels(target: Pick<Target, 'endpoint'>): Dispatch {
  return { method: 'GET', ...openaiAddress(target, '/models'), body: '' }
}

/** The models of the resource, of which the deployments are made. */
export function azureModels({ endpoint }: Target): Dispatch {
  const path = endpoint.baseUrl.endsWith('/v1') ? '/models' : '/openai/models'
  const url = `${endpoint.baseUrl}${path}${azureVersion(endpoint)}`
  return { method: 'GET', url, headers: azureHeaders.of(endpoint), body: '' }
}

/** The only version of the API with the key of a resource that lists deployments, by whose names requests go. */
const DEPLOYMENTS_VERSION = '2022-12-01'

export function azureDeployments(endpoint: Target['endpoint']): Dispatch {
  const resource = endpoint.baseUrl.replace(/(?:\/openai)?\/v1$/, '')
  const url = `${resource}/openai/deployments?api-version=${DEPLOYMENTS_VERSION}`
  return { method: 'GET', url, headers: azureHeaders.of(endpoint), body: '' }
}

/**
 * Azure: the deployment is in the path and the key in `api-key`. A base URL that ends in `/v1` is Azure's newer API,
 * without the deployment in the path.
 */
export function azureAddress({ endpoint, model }: Target, path: string): ProviderAddress {
  const whole = endpoint.baseUrl.endsWith('/v1') ? path : `/openai/deployments/${encodeURIComponent(model)}${path}`
  return { url: `${endpoint.baseUrl}${whole}${azureVersion(endpoint)}`, headers: azureHeaders.of(endpoint) }
}

/**
 * Azure's Responses API, which has the deployment in the body: a path of its own for dated versions, and the one that
 * OpenAI has for the newer `v1` and `preview`.
 */
export function azureResponses({ endpoint }: Target): ProviderAddress {
  const { baseUrl, apiVersion } = endpoint
  const isNew = apiVersion === 'v1' || apiVersion === 'preview'
  const path = baseUrl.endsWith('/v1') ? '/responses' : isNew ? '/openai/v1/responses' : '/openai/responses'
  return { url: `${baseUrl}${path}${azureVersion(endpoint)}`, headers: azureHeaders.of(endpoint) }
}

function azureVersion({ apiVersion }: Target['endpoint']): string {
  return apiVersion === undefined ? '' : `?api-version=${encodeURIComponent(apiVersion)}`
}
