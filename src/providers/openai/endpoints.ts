/** The URLs of OpenAI's and Azure's endpoints, and the headers that carry their credentials. */

import type { Target } from '../provider.ts'

export interface ProviderAddress {
  readonly url: string
  /** With a JSON content type; the operator's own headers override these. */
  readonly headers: Readonly<Record<string, string>>
}

export function openaiAddress({ endpoint }: Target, path: string): ProviderAddress {
  const authorization: Record<string, string> =
    endpoint.apiKey === undefined ? {} : { authorization: `Bearer ${endpoint.apiKey}` }
  return {
    url: `${endpoint.baseUrl}${path}`,
    headers: { 'content-type': 'application/json', ...authorization, ...endpoint.headers },
  }
}

/**
 * Azure: the deployment is in the path and the key in `api-key`. A base URL that ends in `/v1` is Azure's newer API,
 * without the deployment in the path.
 */
export function azureAddress({ endpoint, model }: Target, path: string): ProviderAddress {
  const whole = endpoint.baseUrl.endsWith('/v1') ? path : `/openai/deployments/${encodeURIComponent(model)}${path}`
  const version = endpoint.apiVersion === undefined ? '' : `?api-version=${encodeURIComponent(endpoint.apiVersion)}`
  const authorization: Record<string, string> = endpoint.apiKey === undefined ? {} : { 'api-key': endpoint.apiKey }
  return {
    url: `${endpoint.baseUrl}${whole}${version}`,
    headers: { 'content-type': 'application/json', ...authorization, ...endpoint.headers },
  }
}
