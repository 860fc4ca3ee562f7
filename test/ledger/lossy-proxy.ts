/** Stands between a ledger and its Redis: forwards commands, or swallows them, or makes scripts fail. */

import net from 'node:net'
import { programs, type ScriptName } from '../../src/ledger/redis/store/scripts.ts'

const LIST = '*'.charCodeAt(0)
/** What the server runs instead of a script that is to fail: its answers stay in the order of the commands. */
const REFUSAL = 'return redis.error_reply(ARGV[1])'

export class Meddler {
  /** True: what is sent on connections that are open now goes nowhere, and nothing comes back. */
  private readonly swallowed = new Set<net.Socket>()
  private readonly pairs = new Map<net.Socket, net.Socket>()
  private errors: string[] = []
  private failing = ''
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

  /** The next calls of a script are answered with these errors, one each; what else is sent meanwhile, on a beat, is not. */
  fail(script: ScriptName, ...errors: readonly string[]): void {
    this.failing = programs()[script].sha1
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
    let received: Buffer = Buffer.alloc(0)
    socket.on('data', (data: Buffer) => {
      if (this.swallowed.has(socket)) return
      received = Buffer.concat([received, data])
      for (let length = commandLength(received); length > 0; length = commandLength(received)) {
        this.forward(received.subarray(0, length), socket, behind)
        received = received.subarray(length)
      }
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

  private forward(command: Buffer, socket: net.Socket, behind: net.Socket): void {
    const text = command.toString('latin1')
    if (this.breaking?.test(text) === true) {
      this.breaking = undefined
      this.broken.add(socket)
    }
    const error = this.failing !== '' && text.includes(this.failing) ? this.errors.shift() : undefined
    behind.write(error === undefined ? command : commandOf('EVAL', REFUSAL, '0', error))
  }
}

function commandOf(...words: readonly string[]): string {
  return [`*${words.length}`, ...words.flatMap((word) => [`$${Buffer.byteLength(word)}`, word]), ''].join('\r\n')
}

/** The bytes of the first command in a piece of a stream; 0 while the end of it is missing. */
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
