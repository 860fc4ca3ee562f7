/** How requests reach Bedrock: the address of a model, the headers, and the signature. */

import type { Endpoint } from '../core/endpoint.ts'
import { defaultAwsKeys } from './aws-credentials.ts'
import { signatureHeaders } from './aws-signature.ts'
import { EndpointHeaders } from './endpoint-headers.ts'
import type { Dispatch, Target, UpstreamRequest } from './provider.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const headers = new EndpointHeaders(({ apiKey }): UpstreamRequest['headers'] =>
  apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
)

/** Model ids and ARNs contain `:` and `/`, which must stay inside one path segment. */
export function bedrockModel({ endpoint, model }: Target): string {
  return `${endpoint.baseUrl}/model/${encodeURIComponent(model)}`
}

/**
 * The request with the headers of the endpoint. With `apiKey` (a Bedrock API key) they carry that key; otherwise it is
 * signed with the endpoint's AWS credentials, or with those of the machine.
 */
export function authorized(request: Pick<Dispatch, 'url' | 'body' | 'method'>, endpoint: Endpoint): Dispatch {
  const { apiKey, aws } = endpoint
  const { url, body, method } = request
  const sign =
    apiKey === undefined && aws !== undefined
      ? async () => {
          const keys = aws.keys ?? (await defaultAwsKeys(endpoint, aws.region))
          return { ...(await signatureHeaders(aws.region, keys, url, JSON_TYPE, body, method)), ...endpoint.headers }
        }
      : undefined
  return { ...request, headers: headers.of(endpoint), sign }
}
