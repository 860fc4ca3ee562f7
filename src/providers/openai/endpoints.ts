/** Where the endpoints of OpenAI and of Azure are, and how each is told who asks. */

import type { Target } from '../provider.ts'

export interface ProviderAddress {
  readonly url: string
  /** With a content type of JSON; the operator's own headers win. */
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

/** Azure: the deployment stands in the path, the key in a header of its own (wire.md E2). A base that ends in `/v1` is its newer API. */
export function azureAddress({ endpoint, model }: Target, path: string): ProviderAddress {
  const whole = endpoint.baseUrl.endsWith('/v1') ? path : `/openai/deployments/${encodeURIComponent(model)}${path}`
  const version = endpoint.apiVersion === undefined ? '' : `?api-version=${encodeURIComponent(endpoint.apiVersion)}`
  const authorization: Record<string, string> = endpoint.apiKey === undefined ? {} : { 'api-key': endpoint.apiKey }
  return {
    url: `${endpoint.baseUrl}${whole}${version}`,
    headers: { 'content-type': 'application/json', ...authorization, ...endpoint.headers },
  }
}
