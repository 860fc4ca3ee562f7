/**
 * The public listener if connections begin with a header of the PROXY protocol. It reads the header, and passes
 * everything after it to the server of this process and back. `Bun.serve` cannot read such headers, nor serve a
 * connection that it has not accepted itself, so its server listens on a port of the loopback interface.
 */

import type { Socket, TCPSocketListener } from 'bun'
import { ProxyHeaderError, readProxyHeader } from './proxy-header.ts'

/** How long a connection may take to send its header. */
const HEADER_SECONDS = 10
/** No address that could be logged. */
const UNKNOWN = 'unknown'

export class ProxyListener {
  /** The address of each caller, by the port from which its connection to the server comes. Later ones replace it. */
  private readonly callers: string[] = []
  private readonly listener: TCPSocketListener<Relay>

  /** Accepts connections from now on, and relays them to `serverPort`. Throws if it cannot listen. */
  constructor(hostname: string, port: number, serverPort: number) {
    const options: Bun.TCPSocketListenOptions<Relay> & { readonly reusePort: boolean } = {
      hostname,
      port,
      // As the server of `Bun.serve`: workers share the port. The types of Bun lack it here.
      reusePort: true,
      socket: {
        open: (socket) => {
          socket.data = new Relay(socket, serverPort, (from, address) => {
            this.callers[from] = address
          })
        },
        data: ({ data: relay }, bytes) => relay.fromCaller(bytes),
        drain: ({ data: relay }) => relay.callerDrained(),
        timeout: (socket) => void socket.terminate(),
        close: ({ data: relay }) => relay.callerClosed(),
        // `close` follows.
        error: () => {},
      },
    }
    this.listener = Bun.listen(options)
  }

  get port(): number {
    return this.listener.port
  }

  /** The address of the caller whose connection reaches the server from a port of the loopback interface. */
  callerAt(port: number | undefined): string {
    return this.callers[port ?? -1] ?? UNKNOWN
  }

  /** Accepts no more connections; those that are open go on. */
  stop(): void {
    this.listener.stop(false)
  }
}

/** One connection of a caller, and the one to the server. */
class Relay {
  /** The beginning of the connection, until the header is complete. */
  private head: Buffer | undefined = Buffer.alloc(0)
  private server: Direction | undefined
  private readonly caller: Direction
  private isClosed = false

  constructor(
    socket: Socket<Relay>,
    private readonly serverPort: number,
    private readonly opened: (port: number, address: string) => void,
  ) {
    this.caller = new Direction(socket)
    socket.timeout(HEADER_SECONDS)
  }

  fromCaller(bytes: Buffer): void {
    if (this.head === undefined) return this.server?.pass(bytes, this.caller.socket)
    this.head = Buffer.concat([this.head, bytes])
    try {
      const header = readProxyHeader(this.head)
      if (header === undefined) return
      const rest = this.head.subarray(header.bytes)
      this.head = undefined
      this.caller.socket.timeout(0)
      this.caller.socket.pause()
      void this.connect(header.address ?? this.caller.socket.remoteAddress, rest)
    } catch (error) {
      if (!(error instanceof ProxyHeaderError)) throw error
      this.caller.socket.terminate()
    }
  }

  callerDrained(): void {
    this.caller.drained()
  }

  callerClosed(): void {
    this.isClosed = true
    this.server?.socket.end()
  }

  private async connect(address: string, rest: Buffer): Promise<void> {
    try {
      await Bun.connect({
        hostname: '127.0.0.1',
        port: this.serverPort,
        socket: {
          open: (socket) => {
            this.opened(socket.localPort, address)
            this.server = new Direction(socket)
            if (this.isClosed) return void socket.end()
            this.caller.socket.resume()
            if (rest.length > 0) this.server.pass(rest, this.caller.socket)
          },
          data: (socket, bytes) => this.caller.pass(bytes, socket),
          drain: () => this.server?.drained(),
          close: () => this.caller.end(),
          error: () => {},
        },
      })
    } catch {
      // The server has stopped, or no descriptor is left: as if nothing listened on the port.
      this.caller.socket.terminate()
    }
  }
}

type AnySocket = Pick<Socket<unknown>, 'write' | 'pause' | 'resume' | 'end'>

/** One direction of a relay: what goes to a socket. While the socket takes no more, nothing is read for it. */
class Direction<Of extends AnySocket = Socket<Relay> | Socket<undefined>> {
  private pending: Buffer | undefined
  private from: AnySocket | undefined
  private isEnding = false

  constructor(readonly socket: Of) {}

  pass(bytes: Buffer, from: AnySocket): void {
    if (this.pending !== undefined) {
      // The socket was read before its pause took effect.
      this.pending = Buffer.concat([this.pending, bytes])
      return
    }
    const written = Math.max(0, this.socket.write(bytes))
    if (written === bytes.length) return
    // Bun reuses the buffer that it passes.
    this.pending = Buffer.from(bytes.subarray(written))
    this.from = from
    from.pause()
  }

  drained(): void {
    if (this.pending === undefined) return
    const written = Math.max(0, this.socket.write(this.pending))
    if (written < this.pending.length) {
      this.pending = this.pending.subarray(written)
      return
    }
    this.pending = undefined
    if (this.isEnding) this.socket.end()
    else this.from?.resume()
  }

  /** Closes the socket after the last byte. */
  end(): void {
    this.isEnding = true
    if (this.pending === undefined) this.socket.end()
  }
}
