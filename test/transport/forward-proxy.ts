/** A forward proxy over bare TCP or TLS, which makes tunnels and passes requests on, or answers as a test wants. */

import net, { type Socket } from 'node:net'
import type { TlsOptions } from 'node:tls'
import { ForwardProxies } from '../../src/core/forward-proxies.ts'
import { RawServer } from './raw-server.ts'

const HEAD_END = '\r\n\r\n'

export class ForwardProxy implements AsyncDisposable {
  /** The heads that it got, each of the first request of its connection. */
  readonly heads: string[] = []

  private constructor(private readonly server: RawServer) {}

  /**
   * Leads to this machine, whatever host is asked for. `answer` takes a connection whose first head has come instead;
   * false: the proxy does its work all the same.
   */
  static async start({
    secure,
    answer = () => false,
  }: {
    readonly secure?: TlsOptions
    readonly answer?: (socket: Socket, head: string) => unknown
  } = {}): Promise<ForwardProxy> {
    const serve = (socket: Socket) => {
      let heard = Buffer.alloc(0)
      const hear = (bytes: Buffer) => {
        heard = Buffer.concat([heard, bytes])
        const end = heard.indexOf(HEAD_END)
        if (end === -1) return
        socket.off('data', hear)
        const head = heard.toString('latin1', 0, end + HEAD_END.length)
        proxy.heads.push(head)
        if (answer(socket, head) === false) lead(socket, head, heard)
      }
      socket.on('data', hear)
    }
    const proxy = new ForwardProxy(await RawServer.start(serve, secure))
    return proxy
  }

  /** For addresses of both kinds. `user` stands before the host, if there is one. */
  proxies(user = '', more: Readonly<Record<string, string>> = {}): ForwardProxies {
    const address = new URL(this.server.url())
    const text = `${address.protocol}//${user === '' ? '' : `${user}@`}${address.host}`
    return new ForwardProxies({ HTTP_PROXY: text, HTTPS_PROXY: text, ...more })
  }

  get port(): number {
    return this.server.port
  }

  get connections(): number {
    return this.server.connections
  }

  allClosed(): Promise<void> {
    return this.server.allClosed()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]()
  }
}

function lead(socket: Socket, head: string, heard: Buffer): void {
  const port = Number(/^CONNECT .*:(\d+) /.exec(head)?.[1] ?? /^\w+ http:\/\/[^ ]*?:(\d+)\//.exec(head)?.[1])
  const isTunnel = head.startsWith('CONNECT ')
  const onward = net.connect({ host: '127.0.0.1', port }, () => {
    if (isTunnel) socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
    else onward.write(heard)
    socket.pipe(onward)
    onward.pipe(socket)
  })
  onward.on('error', () => socket.end('HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n'))
  onward.on('close', () => socket.destroy())
  socket.on('close', () => onward.destroy())
}
