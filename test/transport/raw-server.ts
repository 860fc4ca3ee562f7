/** A server over bare TCP or TLS that sends exactly the bytes of a test. */

import net, { type AddressInfo, type Server, type Socket } from 'node:net'
import tls, { type TlsOptions } from 'node:tls'

/** One request: its head and its body, as they came. */
export interface RawRequest {
  readonly text: string
  /** Its connection, numbered from 0 in the order of arrival. */
  readonly connection: number
  /** How many requests came on this connection before. */
  readonly turn: number
}

export class RawServer implements AsyncDisposable {
  connections = 0
  /** Whole requests so far, over all connections. */
  requests = 0
  private readonly sockets = new Set<Socket>()
  private readonly closing = Promise.withResolvers<void>()

  private constructor(
    private readonly server: Server,
    private readonly scheme: string,
  ) {}

  /** Every connection goes to `serve`. */
  static async start(
    serve: (socket: Socket, connection: number) => void,
    secure?: TlsOptions,
    host = '127.0.0.1',
  ): Promise<RawServer> {
    const take = (socket: Socket) => raw.take(socket, serve)
    const server = secure === undefined ? net.createServer(take) : tls.createServer(secure, take)
    const raw = new RawServer(server, secure === undefined ? 'http' : 'https')
    await new Promise<void>((resolve) => server.listen(0, host, resolve))
    return raw
  }

  /** Every whole request (head, and the body of the declared length) goes to `answer`. */
  static async answering(
    answer: (socket: Socket, request: RawRequest) => void,
    secure?: TlsOptions,
    host?: string,
  ): Promise<RawServer> {
    const raw = await RawServer.start(
      (socket, connection) => {
        let turn = 0
        eachRequest(socket, (text) => {
          raw.requests += 1
          answer(socket, { text, connection, turn: turn++ })
        })
      },
      secure,
      host,
    )
    return raw
  }

  get port(): number {
    const { port } = this.server.address() as AddressInfo
    return port
  }

  url(host = '127.0.0.1'): string {
    return `${this.scheme}://${host}:${this.port}/v1/x?y=z`
  }

  /** The connections that are open now. */
  all(): readonly Socket[] {
    return [...this.sockets]
  }

  /** Resolves when no connection is open; the clients have to close them. */
  async allClosed(): Promise<void> {
    while (this.sockets.size > 0) await Promise.all([...this.sockets].map(closed))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy()
    this.server.close(() => this.closing.resolve())
    await this.closing.promise
  }

  private take(socket: Socket, serve: (socket: Socket, connection: number) => void): void {
    this.sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => this.sockets.delete(socket))
    serve(socket, this.connections++)
  }
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()))
}

function eachRequest(socket: Socket, take: (text: string) => void): void {
  let text = ''
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
    for (;;) {
      const head = text.indexOf('\r\n\r\n')
      if (head === -1) return
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, head + 2))?.[1] ?? 0)
      if (text.length < head + 4 + length) return
      const whole = text.slice(0, head + 4 + length)
      text = text.slice(whole.length)
      take(whole)
    }
  })
}
