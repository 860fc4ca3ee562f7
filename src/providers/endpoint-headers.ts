/** The headers that an adapter sends to an endpoint with every request. */

import type { Endpoint } from '../core/endpoint.ts'

type RequestHeaders = Readonly<Record<string, string>>

/**
 * A JSON content type, those of the adapter and those of the operator, of which the later ones win. An endpoint always
 * gets the same object: the transport keeps the head that it has written for it.
 */
export class EndpointHeaders {
  private readonly known = new WeakMap<Endpoint, RequestHeaders>()

  constructor(private readonly own: (endpoint: Endpoint) => RequestHeaders) {}

  of(endpoint: Endpoint): RequestHeaders {
    const known = this.known.get(endpoint)
    if (known !== undefined) return known
    const headers = { 'content-type': 'application/json', ...this.own(endpoint), ...endpoint.headers }
    this.known.set(endpoint, headers)
    return headers
  }
}
