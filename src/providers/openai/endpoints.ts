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
  const url = `${newerBase(endpoint) ?? `${endpoint.baseUrl}/openai`}/models${azureVersion(endpoint)}`
  return { method: 'GET', url, headers: azureHeaders.of(endpoint), body: '' }
}

/** The only version of the API with the key of a resource that lists deployments, by whose names requests go. */
const DEPLOYMENTS_VERSION = '2022-12-01'

export function azureDeployments(endpoint: Target['endpoint']): Dispatch {
  const resource = endpoint.baseUrl.replace(/(?:\/openai)?\/v1$/, '')
  const url = `${resource}/openai/deployments?api-version=${DEPLOYMENTS_VERSION}`
  return { method: 'GET', url, headers: azureHeaders.of(endpoint), body: '' }
}

/** Azure with a dated version: the deployment is in the path. The key is in `api-key`. */
export function azureAddress({ endpoint, model }: Target, path: string): ProviderAddress {
  const base = newerBase(endpoint) ?? `${endpoint.baseUrl}/openai/deployments/${encodeURIComponent(model)}`
  return { url: `${base}${path}${azureVersion(endpoint)}`, headers: azureHeaders.of(endpoint) }
}

/** Azure's Responses API has the deployment in the body with every version. */
export function azureResponses({ endpoint }: Target): ProviderAddress {
  const base = newerBase(endpoint) ?? `${endpoint.baseUrl}/openai`
  return { url: `${base}/responses${azureVersion(endpoint)}`, headers: azureHeaders.of(endpoint) }
}

/**
 * Azure's newer API has OpenAI's paths, and the deployment in every body: by its versions, or by a base URL that ends
 * so. Undefined for dated versions.
 */
function newerBase({ baseUrl, apiVersion }: Target['endpoint']): string | undefined {
  if (baseUrl.endsWith('/v1')) return baseUrl
  return apiVersion === 'v1' || apiVersion === 'preview' ? `${baseUrl}/openai/v1` : undefined
}

function azureVersion({ apiVersion }: Target['endpoint']): string {
  return apiVersion === undefined ? '' : `?api-version=${encodeURIComponent(apiVersion)}`
}
