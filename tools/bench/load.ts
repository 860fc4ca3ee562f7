/**
 * The load generator: a process on raw sockets that sends requests, checks every answer, and reports counts on request.
 */

import type { Socket } from 'bun'
import { type Check, checkOf } from './answer-check.ts'
import { requestOf } from './dialects.ts'
import { AnswerReader, type AnswerSink, postBytes } from './http.ts'
import { Counter, type Counts } from './load-counter.ts'
import { SocketCaller, type SocketUse } from './socket-load.ts'
import { BURST_EVENTS, BURSTS, type Dialect, type Traffic } from './traffic.ts'

/**
 * Messages to the load generator. `open` starts connections, which send requests until `stop` if `repeats`; `read`
 * requests the counts.
 */
export type ToLoad = OpenLoad | { readonly type: 'read' } | { readonly type: 'stop' }

interface OpenLoad {
  readonly type: 'open'
  readonly port: number
  readonly key: string
  readonly traffic: Traffic
  /** The dialect of the requests. */
  readonly dialect: Dialect
  readonly connections: number
  /** Lines of further headers. */
  readonly headers: string
  readonly repeats: boolean
  /** Over WebSockets; absent: by `POST`. */
  readonly sockets?: SocketUse | undefined
}

export type FromLoad = { readonly type: 'counts'; readonly counts: Counts } | { readonly type: 'stopped' }

/** One connection that sends a request, checks the answer, and repeats. */
class Connection implements AnswerSink {
  private readonly reader = new AnswerReader(this)
  private readonly check: Check
  private status = 0
  private sentAt = 0
  /** The body of an answer whose status is not 200. */
  private error = ''
  /** Bytes of the request that the socket has not accepted yet. */
  private unsent: Buffer | undefined

  constructor(
    private readonly load: Load,
    private readonly socket: Socket<Connection | undefined>,
  ) {
    this.check = checkOf(load.traffic, load.dialect, load.counter)
  }

  send(): void {
    this.sentAt = performance.now()
    this.unsent = this.load.bytes
    this.drain()
  }

  drain(): void {
    if (this.unsent === undefined) return
    const written = Math.max(0, this.socket.write(this.unsent))
    this.unsent = written === this.unsent.length ? undefined : this.unsent.subarray(written)
  }

  data(data: Buffer): void {
    this.load.counter.bytes += data.length
    try {
      this.reader.push(data)
    } catch (error) {
      this.load.counter.fail(String(error))
      this.socket.terminate()
    }
  }

  closed(): void {
    if (this.reader.inside || this.sentAt > 0) this.load.counter.fail('the connection ended in the middle of an answer')
    this.load.closed(this)
  }

  head(status: number): void {
    this.status = status
  }

  body(piece: Buffer): void {
    if (this.status === 200) this.check.body(piece)
    else this.error += piece.toString('utf8', 0, 200)
  }

  end(): void {
    const { counter, traffic } = this.load
    const bursts = burstsOf(traffic)
    if (!this.load.paced) counter.latency((performance.now() - this.sentAt) * 1000)
    const problem = this.status === 200 ? this.check.end() : `status ${this.status} ${this.error}`
    if (problem !== undefined) counter.fail(problem)
    else {
      counter.answers++
      counter.events += bursts * BURST_EVENTS
    }
    this.sentAt = 0
    this.error = ''
    if (this.load.repeats) this.send()
    else this.socket.end()
  }
}

function burstsOf({ kind }: Traffic): number {
  return kind === 'burst' || kind === 'bulk' || kind === 'thoughts' ? BURSTS[kind] : 0
}

class Load {
  readonly counter = new Counter()
  readonly bytes: Buffer
  repeats: boolean
  private readonly connected = new Set<Connection | SocketCaller>()
  private readonly idle = Promise.withResolvers<void>()
  readonly traffic: Traffic
  readonly dialect: Dialect
  readonly paced: boolean

  constructor(private readonly message: OpenLoad) {
    const { traffic, dialect, key, headers, repeats } = message
    this.traffic = traffic
    this.dialect = dialect
    this.repeats = repeats
    this.paced = traffic.kind === 'paced' || traffic.kind === 'slow'
    const { path, body } = requestOf(dialect, traffic)
    this.bytes = Buffer.from(postBytes(path, body, key, headers))
  }

  /** Opens connections a hundred at a time, because the queue of a listener is limited. */
  async open(port: number, connections: number): Promise<void> {
    for (let opened = 0; opened < connections; opened += 100) {
      const batch = Array.from({ length: Math.min(100, connections - opened) }, () => this.connect(port))
      await Promise.all(batch)
    }
  }

  /** Sends no new requests; resolves when all connections have ended. */
  async stop(): Promise<void> {
    this.repeats = false
    for (const one of this.connected) if (one instanceof SocketCaller) one.stop()
    if (this.connected.size > 0) await this.idle.promise
  }

  closed(connection: Connection | SocketCaller): void {
    this.connected.delete(connection)
    if (this.connected.size === 0) this.idle.resolve()
  }

  private async connect(port: number): Promise<void> {
    const { sockets, key, traffic } = this.message
    try {
      if (sockets !== undefined) {
        this.connected.add(await SocketCaller.open(port, key, traffic, sockets, this))
        return
      }
      const socket = await Bun.connect<Connection | undefined>({
        hostname: '127.0.0.1',
        port,
        socket: {
          data: (from, data) => from.data?.data(data),
          drain: (from) => from.data?.drain(),
          close: (from) => from.data?.closed(),
          error: () => {},
        },
      })
      const connection = new Connection(this, socket)
      socket.data = connection
      this.connected.add(connection)
      connection.send()
    } catch (error) {
      this.counter.fail(`no connection: ${error}`)
    }
  }
}

let load: Load | undefined

function report(message: FromLoad): void {
  process.send?.(message)
}

async function receive(message: ToLoad): Promise<void> {
  if (message.type === 'open') {
    load = new Load(message)
    await load.open(message.port, message.connections)
  } else if (message.type === 'stop') {
    await load?.stop()
    report({ type: 'stopped' })
  } else if (load !== undefined) report({ type: 'counts', counts: load.counter.read() })
}

process.on('message', (message: ToLoad) => void receive(message))
process.send?.({ port: 0 })
