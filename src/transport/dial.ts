/**
 * One connection to one address, with TLS if it is asked for, that can be abandoned while it is being made.
 *
 * `Bun.connect` offers no way to do that: the kernel would go on for two minutes, with a socket for each request to a
 * host that does not answer. `node:net` closes such a socket at once, and verifies certificates by name. After that,
 * Bun's own socket is taken out of it, and its callbacks are replaced by ours: no stream of Node is in between.
 */

import { connect, isIP, type Socket as NodeSocket } from 'node:net'
import { connect as connectSecurely, createSecureContext, type SecureContext } from 'node:tls'
import type { Socket } from 'bun'
import { codeOf } from '../core/system-error.ts'
import type { Origin } from './origin.ts'

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
  failed(dial: Dial, code: string): void
}

export class Dial {
  private isOver = false
  private readonly socket: NodeSocket

  constructor(
    { isSecure, hostname, port }: Origin,
    address: string,
    authorities: Authorities,
    private readonly owner: DialOwner,
  ) {
    const place = { host: address, port }
    const name = isIP(hostname) === 0 ? { servername: hostname } : {}
    this.socket = isSecure ? connectSecurely({ ...place, ...name, secureContext: authorities.context }) : connect(place)
    this.socket.once(isSecure ? 'secureConnect' : 'connect', () => this.connected())
    this.socket.on('error', (error) => this.failed(codeOf(error)))
    this.socket.on('close', () => this.failed(''))
  }

  abandon(): void {
    this.isOver = true
    this.socket.destroy()
  }

  private connected(): void {
    if (this.isOver) return
    this.isOver = true
    const { _handle: socket } = this.socket as unknown as { readonly _handle: RawSocket }
    socket.reload({ socket: HANDLERS })
    socket.setNoDelay(true)
    this.owner.connected(this, socket)
  }

  private failed(code: string): void {
    if (this.isOver) return
    this.isOver = true
    this.socket.destroy()
    this.owner.failed(this, code)
  }
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
