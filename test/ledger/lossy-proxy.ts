/** A proxy between a ledger and its Redis: forwards commands, drops them, or makes scripts fail. */

import net from 'node:net'
import { programs, type ScriptName } from '../../src/ledger/redis/store/scripts.ts'

const LIST = '*'.charCodeAt(0)
/** Runs on the server in place of a script that must fail, so that replies keep the order of the commands. */
const REFUSAL = 'return redis.error_reply(ARGV[1])'

export class LossyProxy {
  /** Connections whose commands and replies are dropped. */
  private readonly swallowed = new Set<net.Socket>()
  private readonly pairs = new Map<net.Socket, net.Socket>()
  private errors: string[] = []
  private failing = ''
  private isLate = false
  private breaking: RegExp | undefined
  /** Connections that end at the next reply: the server has their last command. */
  private readonly broken = new Set<net.Socket>()
  private connected = 0

  private constructor(
    private readonly server: net.Server,
    readonly port: number,
  ) {}

  /** Forwards to a Unix socket. */
  static async before(path: string): Promise<LossyProxy> {
    const server = net.createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('The proxy does not listen on a port.')
    const proxy = new LossyProxy(server, address.port)
    server.on('connection', (socket) => proxy.accept(socket, path))
    return proxy
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** How many connections were ever accepted. */
  get accepted(): number {
    return this.connected
  }

  /** Drops all traffic of the connections that are open now; new connections work. */
  swallow(): void {
    for (const socket of this.pairs.keys()) this.swallowed.add(socket)
  }

  /**
   * Answers the next calls of a script with these errors, one each; other scripts, such as those of timers, succeed.
   */
  fail(script: ScriptName, ...errors: readonly string[]): void {
    this.failing = programs().of(script).sha1
    this.errors = [...errors]
  }

  /** Delays the next reply of a script until the next command has been sent. */
  delay(): void {
    this.isLate = true
  }

  /** Cuts the connection after the server has executed the next matching command, before its reply gets through. */
  breakAfter(command: RegExp): void {
    this.breaking = command
  }

  get failuresLeft(): number {
    return this.errors.length
  }

  async close(): Promise<void> {
    for (const [socket, upstream] of this.pairs) {
      socket.destroy()
      upstream.destroy()
    }
    await new Promise<void>((resolve) => this.server.close(() => resolve()))
  }

  private accept(socket: net.Socket, path: string): void {
    this.connected++
    const upstream = net.connect(path)
    this.pairs.set(socket, upstream)
    for (const one of [socket, upstream]) one.on('error', () => undefined)
    socket.on('close', () => {
      this.pairs.delete(socket)
      upstream.destroy()
    })
    upstream.on('close', () => socket.destroy())
    let received: Buffer = Buffer.alloc(0)
    socket.on('data', (data: Buffer) => {
      if (this.swallowed.has(socket)) return
      received = Buffer.concat([received, data])
      for (let length = commandLength(received); length > 0; length = commandLength(received)) {
        this.forward(received.subarray(0, length), socket, upstream)
        received = received.subarray(length)
      }
    })
    upstream.on('data', (data: Buffer) => {
      if (this.broken.delete(socket)) {
        socket.destroy()
        return
      }
      // Only the reply of a script is a list.
      if (this.isLate && data[0] === LIST) {
        this.isLate = false
        socket.once('data', () => socket.write(data))
      } else if (!this.swallowed.has(socket)) socket.write(data)
    })
  }

  private forward(command: Buffer, socket: net.Socket, upstream: net.Socket): void {
    const text = command.toString('latin1')
    if (this.breaking?.test(text) === true) {
      this.breaking = undefined
      this.broken.add(socket)
    }
    const error = this.failing !== '' && text.includes(this.failing) ? this.errors.shift() : undefined
    upstream.write(error === undefined ? command : commandOf('EVAL', REFUSAL, '0', error))
  }
}

function commandOf(...words: readonly string[]): string {
  return [`*${words.length}`, ...words.flatMap((word) => [`$${Buffer.byteLength(word)}`, word]), ''].join('\r\n')
}

/** The length of the first command in a piece of a stream; 0 if it is incomplete. */
function commandLength(bytes: Buffer): number {
  let at = 0
  const number = () => {
    const end = bytes.indexOf('\r\n', at)
    if (end === -1) return undefined
    const value = Number(bytes.toString('latin1', at + 1, end))
    at = end + 2
    return value
  }
  const words = number()
  if (words === undefined) return 0
  for (let word = 0; word < words; word++) {
    const length = number()
    if (length === undefined) return 0
    at += length + 2
  }
  return at <= bytes.length ? at : 0
}
