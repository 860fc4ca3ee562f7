/** Stands between a ledger and its Redis: forwards bytes, or swallows them, or answers scripts itself with an error. */

import net from 'node:net'

const LIST = '*'.charCodeAt(0)

export class Meddler {
  /** True: what is sent on connections that are open now goes nowhere, and nothing comes back. */
  private readonly swallowed = new Set<net.Socket>()
  private readonly pairs = new Map<net.Socket, net.Socket>()
  private errors: string[] = []
  private isLate = false
  private breaking: RegExp | undefined
  /** The server has their last command; its reply ends them. */
  private readonly broken = new Set<net.Socket>()
  private connected = 0

  private constructor(
    private readonly server: net.Server,
    readonly port: number,
  ) {}

  /** Forwards to a Unix socket. */
  static async before(path: string): Promise<Meddler> {
    const server = net.createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('It does not listen on a port.')
    const meddler = new Meddler(server, address.port)
    server.on('connection', (socket) => meddler.accept(socket, path))
    return meddler
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** How many connections were ever accepted. */
  get accepted(): number {
    return this.connected
  }

  /** A black hole for all connections that are open; new ones are well. */
  swallow(): void {
    for (const socket of this.pairs.keys()) this.swallowed.add(socket)
  }

  /** The next scripts are answered with these errors, one each. */
  fail(...errors: readonly string[]): void {
    this.errors = [...errors]
  }

  /** The next reply of a script comes after the call that follows it. */
  delay(): void {
    this.isLate = true
  }

  /** The connection breaks when the server has executed the next command like this, before its reply gets through. */
  breakAfter(command: RegExp): void {
    this.breaking = command
  }

  get failuresLeft(): number {
    return this.errors.length
  }

  async close(): Promise<void> {
    for (const [socket, behind] of this.pairs) {
      socket.destroy()
      behind.destroy()
    }
    await new Promise<void>((resolve) => this.server.close(() => resolve()))
  }

  private accept(socket: net.Socket, path: string): void {
    this.connected++
    const behind = net.connect(path)
    this.pairs.set(socket, behind)
    for (const one of [socket, behind]) one.on('error', () => undefined)
    socket.on('close', () => {
      this.pairs.delete(socket)
      behind.destroy()
    })
    behind.on('close', () => socket.destroy())
    socket.on('data', (data: Buffer) => {
      if (this.swallowed.has(socket)) return
      if (this.breaking?.test(data.toString('latin1')) === true) {
        this.breaking = undefined
        this.broken.add(socket)
      }
      // A test sends one command after the other: a piece of the stream is one command.
      const error = /\bevalsha\b/i.test(data.toString('latin1')) ? this.errors.shift() : undefined
      if (error === undefined) behind.write(data)
      else socket.write(`-${error}\r\n`)
    })
    behind.on('data', (data: Buffer) => {
      if (this.broken.delete(socket)) {
        socket.destroy()
        return
      }
      // The answer of a script is a list.
      if (this.isLate && data[0] === LIST) {
        this.isLate = false
        socket.once('data', () => socket.write(data))
      } else if (!this.swallowed.has(socket)) socket.write(data)
    })
  }
}
