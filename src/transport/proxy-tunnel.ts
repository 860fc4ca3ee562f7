/** A tunnel through a forward proxy (`CONNECT`; RFC 9110, 9.3.6): after it, the connection leads to the origin. */

import type { Socket } from 'node:net'
import type { ForwardProxy } from '../core/forward-proxies.ts'
import { authorityOf, type Origin, type Peer } from './origin.ts'
import { ResponseHead, ResponseSyntaxError } from './response-head.ts'
import { TransportError } from './transport-error.ts'

const HEAD_END = '\r\n\r\n'
/** A longer answer without an end is none. */
const HEAD_BYTES_MAX = 64 * 1024

/** Asks the proxy at the other end of the socket for a tunnel. Calls `done` once: without an error if there is one. */
export function openTunnel(
  socket: Socket,
  proxy: ForwardProxy,
  origin: Origin,
  done: (error: TransportError | undefined) => void,
): void {
  const authority = authorityOf(origin)
  const { authorization } = proxy
  const credential = authorization === undefined ? '' : `proxy-authorization: ${authorization}\r\n`
  let heard: Buffer = Buffer.alloc(0)
  const hear = (bytes: Buffer) => {
    heard = Buffer.concat([heard, bytes])
    const answer = answerOf(heard)
    if (answer === undefined) return
    socket.off('data', hear)
    done(answer === 'open' ? undefined : proxyRefusal(proxy, answer))
  }
  socket.on('data', hear)
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\nuser-agent: weir\r\n${credential}\r\n`)
}

/** Why no connection to the proxy was made; `code` is that of the system or of the TLS library. */
export function unreachableProxy(proxy: ForwardProxy, code: string): TransportError {
  return new TransportError('unconnected', `no connection to the proxy ${authorityOf(proxy)}`, `proxy_${code}`)
}

/** Undefined if more of the answer is to come; 0 if it cannot be understood. */
function answerOf(heard: Buffer): 'open' | number | undefined {
  for (let from = 0; ; ) {
    const end = heard.indexOf(HEAD_END, from)
    if (end === -1) return heard.length > HEAD_BYTES_MAX ? 0 : undefined
    const status = statusOf(heard, from, end)
    from = end + HEAD_END.length
    // Servers with TLS wait for their client, so nothing can follow.
    if (status >= 200 && status < 300) return from === heard.length ? 'open' : 0
    if (status === 0 || status >= 300) return status
  }
}

function statusOf(heard: Buffer, from: number, to: number): number {
  try {
    return new ResponseHead(heard, from, to).status
  } catch (error) {
    if (error instanceof ResponseSyntaxError) return 0
    throw error
  }
}

/** The proxy has answered `CONNECT`, or a request that it should have passed on. `status`: 0 if it is not HTTP. */
export function proxyRefusal(proxy: Peer, status: number): TransportError {
  const place = `the proxy ${authorityOf(proxy)}`
  if (status === 0) return new TransportError('unconnected', `${place} did not answer in HTTP`, 'proxy_malformed')
  // Some answer 401, although RFC 9110 (15.5.8) has 407 for a proxy.
  const advice = status === 407 || status === 401 ? '; check the user and the password in its address' : ''
  return new TransportError('unconnected', `${place} answered ${status}${advice}`, `proxy_${status}`)
}
