/** Which HTTP client carries the requests to a provider. */

import type { Endpoint } from '../core/endpoint.ts'
import { FetchTransport } from './fetch-transport.ts'
import { SocketTransport } from './socket-transport.ts'
import type { Transport } from './transport.ts'

export function openTransport(endpoint: Endpoint): Transport {
  return endpoint.viaFetch === true ? new FetchTransport(endpoint) : new SocketTransport()
}
