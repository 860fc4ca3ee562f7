/**
 * One connection to one address, with TLS if it is asked for and through a proxy if there is one, that can be abandoned
 * while it is being made.
 *
 * `Bun.connect` offers no way to do that: the kernel would go on for two minutes, with a socket for each request to a
 * host that does not answer. `node:net` closes such a socket at once, and verifies certificates by name. After that,
 * Bun's own socket is taken out of it, and its callbacks are replaced by ours: no stream of Node is in between.
 */

import { connect, isIP, type Socket as NodeSocket } from 'node:net'
import { type ConnectionOptions, connect as connectSecurely, createSecureContext, type SecureContext } from 'node:tls'
import type { Socket } from 'bun'
import type { ForwardProxy } from '../core/forward-proxies.ts'
import { codeOf } from '../core/system-error.ts'
import type { Origin, Peer } from './origin.ts'
import { openTunnel, unreachableProxy } from './proxy-tunnel.ts'
import { TransportError } from './transport-error.ts'

/** Takes what happens on a connection. It is the `data` of its socket. */
export interface SocketEvents {
  received(bytes: Buffer): void
  /** The socket takes bytes again. */
  drained(): void
  /** The peer sends nothing more. */
  ended(): void
  /** The connection is gone. */
  broke(code: string): void
}

export type RawSocket = Socket<SocketEvents>

/** The handlers of all sockets. */
const HANDLERS = {
  data: (socket: RawSocket, bytes: Buffer) => socket.data.received(bytes),
  drain: (socket: RawSocket) => socket.data.drained(),
  end: (socket: RawSocket) => socket.data.ended(),
  close: (socket: RawSocket, error?: Error) => socket.data.broke(codeOf(error)),
  error: (socket: RawSocket, error: Error) => socket.data.broke(codeOf(error)),
}

/** Takes the outcome, once; nothing after `abandon`. */
interface DialOwner {
  /** It must set the `data` of the socket before it returns. */
  connected(dial: Dial, socket: RawSocket): void
  failed(dial: Dial, error: TransportError): void
}

export class Dial {
  private isOver = false
  private socket: NodeSocket
  /** What is connected to now, if it is not the origin. */
  private proxy: ForwardProxy | undefined

  /** `address` is one of the origin, or of its proxy if it has one. */
  constructor(
    private readonly origin: Origin,
    address: string,
    private readonly authorities: Authorities,
    private readonly owner: DialOwner,
  ) {
    const peer = origin.proxy ?? origin
    this.proxy = origin.proxy
    const place = { host: address, port: peer.port }
    this.socket = this.opened(peer.isSecure ? this.secured(place, peer) : connect(place), peer)
  }

  abandon(): void {
    this.isOver = true
    this.socket.destroy()
  }

  private secured(place: ConnectionOptions, { hostname }: Peer): NodeSocket {
    const name = isIP(hostname) === 0 ? { servername: hostname } : {}
    return connectSecurely({ ...place, ...name, secureContext: this.authorities.context })
  }

  private opened(socket: NodeSocket, { isSecure }: Peer): NodeSocket {
    socket.once(isSecure ? 'secureConnect' : 'connect', () => this.connected())
    socket.on('error', (error) => this.failed(codeOf(error)))
    socket.on('close', () => this.failed(''))
    return socket
  }

  private connected(): void {
    if (this.isOver) return
    const { origin, proxy, socket } = this
    if (proxy === undefined || !origin.isSecure) return this.finish()
    openTunnel(socket, proxy, origin, (error) => {
      if (this.isOver) return
      if (error !== undefined) return this.fail(error)
      this.proxy = undefined
      // From here on the other socket reports what happens to both.
      socket.removeAllListeners().on('error', () => {})
      this.socket = this.opened(this.secured({ socket, host: origin.hostname }, origin), origin)
    })
  }

  private finish(): void {
    this.isOver = true
    const socket = handleOf(this.socket)
    socket.reload({ socket: HANDLERS })
    socket.setNoDelay(true)
    this.owner.connected(this, socket)
  }

  private failed(code: string): void {
    const reason = code || 'ECONNRESET'
    this.fail(
      this.proxy === undefined
        ? new TransportError('unconnected', 'no connection was made', reason)
        : unreachableProxy(this.proxy, reason),
    )
  }

  private fail(error: TransportError): void {
    if (this.isOver) return
    this.isOver = true
    this.socket.destroy()
    this.owner.failed(this, error)
  }
}

/** Bun's own socket in one of Node's. A field without a promise: `test/runtime-facts.test.ts` has what is relied on. */
export function handleOf(socket: NodeSocket): RawSocket {
  return (socket as unknown as { readonly _handle: RawSocket })._handle
}

/**
 * Whose certificates are accepted: the system's authorities and those of `NODE_EXTRA_CA_CERTS`, or other ones in PEM.
 * One TLS context for all connections, because each would hold the parsed certificates of all authorities.
 */
export class Authorities {
  private made: SecureContext | undefined

  constructor(private readonly ca?: string) {}

  get context(): SecureContext {
    this.made ??= createSecureContext(this.ca === undefined ? {} : { ca: this.ca })
    return this.made
  }
}
