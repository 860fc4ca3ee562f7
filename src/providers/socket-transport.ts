/** The transport that uses weir's own HTTP client, whose connections all requests of the process share. */

import { ProviderError } from '../core/provider-error.ts'
import { HttpClient } from '../transport/client.ts'
import { Exchange } from '../transport/exchange.ts'
import { requestHead } from '../transport/request-head.ts'
import { TransportError } from '../transport/transport-error.ts'
import type { Dispatch } from './provider.ts'
import { canConnect } from './reachability.ts'
import type { ResponseHandler, Transport } from './transport.ts'

/** Nothing is connected before the first request. */
const shared = new HttpClient()

export class SocketTransport extends Exchange implements Transport {
  private url = ''
  private isInvalid = false

  constructor(private readonly client: HttpClient = shared) {
    super(client)
  }

  send({ url, headers, body, isSentOnce, method }: Dispatch, handler: ResponseHandler): void {
    this.url = url
    try {
      this.start(requestHead(url, headers, method), body, handler, isSentOnce)
    } catch (error) {
      if (!(error instanceof TransportError)) throw error
      this.isInvalid = true
      queueMicrotask(() => handler.fail(new ProviderError('unreachable', error.message, { cause: error })))
    }
  }

  /**
   * A connection that was made for this request proves it. One that was kept proves nothing until a byte has come: the
   * machine may be gone. Then another one is tried, and if that fails, the idle ones are closed.
   */
  async canConnect(ms: number): Promise<boolean> {
    if (this.isInvalid || this.hasHeard) return true
    if (!this.wasConnected) return await this.connectedWithin(ms)
    if (!this.isOnKept) return true
    const can = await canConnect(this.url, ms)
    if (!can) this.client.closeIdle(this.origin)
    return can
  }
}
