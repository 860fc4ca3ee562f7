/**
 * The load generator: a process on raw sockets that sends requests, checks every answer, and reports counts on request.
 */

import type { Socket } from 'bun'
import { type Dialect, isLast, requestOf, textOf } from './dialects.ts'
import { AnswerReader, type AnswerSink, postBytes } from './http.ts'
import { BURST_EVENTS, BURST_TEXTS, BURSTS, JSON_TEXT, type Kind, nowMicroseconds, PACED_TEXT } from './sample-text.ts'

/**
 * Messages to the load generator. `open` starts connections, which send requests until `stop` if `repeats`; `read`
 * requests the counts.
 */
export type ToLoad =
  | {
      readonly type: 'open'
      readonly port: number
      readonly key: string
      readonly kind: Kind
      /** The dialect of the requests. */
      readonly dialect: Dialect
      readonly connections: number
      readonly repeats: boolean
    }
  | { readonly type: 'read' }
  | { readonly type: 'stop' }

export interface Counts {
  /** Complete and correct answers. */
  readonly answers: number
  readonly events: number
  readonly bytes: number
  /** Streams that have sent an event and not ended. */
  readonly started: number
  readonly failures: number
  /** The first few failures, in words. */
  readonly reasons: readonly string[]
  /**
   * Microseconds, since the last `read`: from the request to the last byte of the answer, or of each event from the
   * provider to the caller.
   */
  readonly latencies: readonly number[]
}

export type FromLoad = { readonly type: 'counts'; readonly counts: Counts } | { readonly type: 'stopped' }

const LATENCIES_MAX = 20_000

/** The counts of all connections of one load. */
class Counter {
  answers = 0
  events = 0
  bytes = 0
  started = 0
  failures = 0
  readonly reasons: string[] = []
  private latencies: number[] = []
  private seen = 0

  fail(reason: string): void {
    this.failures++
    if (this.reasons.length < 5) this.reasons.push(reason)
  }

  /** Keeps a uniform sample of what may be millions of latencies. */
  latency(microseconds: number): void {
    this.seen++
    if (this.latencies.length < LATENCIES_MAX) this.latencies.push(microseconds)
    else this.latencies[Math.floor(Math.random() * this.seen)] = microseconds
  }

  read(): Counts {
    const { answers, events, bytes, started, failures, reasons } = this
    const latencies = this.latencies.slice(0, LATENCIES_MAX)
    this.latencies = []
    this.seen = 0
    return { answers, events, bytes, started, failures, reasons, latencies }
  }
}

/** Checks one kind of answer. `end` returns what is wrong with it, or undefined. */
interface Check {
  body(piece: Buffer): void
  end(): string | undefined
}

/** Collects the body and checks it at its end. */
class WholeCheck implements Check {
  private text = ''

  constructor(private readonly problemOf: (body: string) => string | undefined) {}

  body(piece: Buffer): void {
    this.text += piece.toString('latin1')
  }

  end(): string | undefined {
    const { text } = this
    this.text = ''
    return this.problemOf(text)
  }
}

/** The size of the last correct answer: of the answers of the same size only every 16th is parsed. */
let correctBytes = -1
let sinceParsed = 0

function problemOfBurst(
  { kind, dialect }: RequestKind & { readonly kind: 'burst' | 'bulk' },
  body: string,
): string | undefined {
  if (body.length === correctBytes && sinceParsed++ < 16) return undefined
  sinceParsed = 0
  const events = body.split('\n\n')
  const text = events.map((event) => textOf(dialect, event)).join('')
  const wanted = BURST_TEXTS[kind]
  if (text !== wanted) return `the text of a stream is wrong (${text.length} of ${wanted.length} characters)`
  if (events.at(-1) !== '' || !isLast(dialect, events.at(-2) ?? '')) return 'a stream without its last event'
  correctBytes = body.length
  return undefined
}

function problemOfJson(body: string): string | undefined {
  const text = JSON.parse(body).choices?.[0]?.message?.content
  return text === JSON_TEXT ? undefined : `the text of an answer is wrong: ${body.slice(0, 200)}`
}

/**
 * Checks a paced stream as it arrives: its events are numbered, and each has the time at which the provider sent it.
 */
class PacedCheck implements Check {
  private rest = ''
  private next = 0
  private problem: string | undefined
  private done = false
  private started = false

  constructor(
    private readonly dialect: Dialect,
    private readonly counter: Counter,
  ) {}

  body(piece: Buffer): void {
    const text = this.rest + piece.toString('latin1')
    const end = text.lastIndexOf('\n\n')
    this.rest = text.slice(end + 2)
    if (end === -1) return
    for (let at = 0; at <= end; ) {
      const stop = text.indexOf('\n\n', at)
      this.event(text.slice(at, stop))
      at = stop + 2
    }
  }

  end(): string | undefined {
    if (this.started) this.counter.started--
    if (!this.done) return 'a paced stream without its last event'
    return this.problem
  }

  private event(event: string): void {
    const content = textOf(this.dialect, event)
    if (content === '') {
      this.done = isLast(this.dialect, event)
      return
    }
    const match = PACED_TEXT.exec(content)
    if (Number(match?.[1]) !== this.next++) this.problem ??= `event ${this.next - 1} of a paced stream is ${content}`
    this.counter.latency(nowMicroseconds() - Number(match?.[2]))
    this.counter.events++
    if (!this.started) this.counter.started++
    this.started = true
  }
}

/** The request that one connection sends. */
interface RequestKind {
  readonly kind: Kind
  readonly dialect: Dialect
}

function isBurst(request: RequestKind): request is RequestKind & { readonly kind: 'burst' | 'bulk' } {
  return request.kind === 'burst' || request.kind === 'bulk'
}

function checkOf(request: RequestKind, counter: Counter): Check {
  if (request.kind === 'json') return new WholeCheck(problemOfJson)
  if (isBurst(request)) return new WholeCheck((body) => problemOfBurst(request, body))
  return new PacedCheck(request.dialect, counter)
}

/** One connection that sends a request, checks the answer, and repeats. */
class Connection implements AnswerSink {
  private readonly reader = new AnswerReader(this)
  private check: Check
  private status = 0
  private sentAt = 0

  constructor(
    private readonly load: Load,
    private readonly socket: Socket<Connection | undefined>,
  ) {
    this.check = checkOf(load.request, load.counter)
  }

  send(): void {
    this.sentAt = performance.now()
    this.socket.write(this.load.bytes)
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
    this.check.body(piece)
  }

  end(): void {
    const { counter, request } = this.load
    if (request.kind === 'json' || isBurst(request)) counter.latency((performance.now() - this.sentAt) * 1000)
    const problem = this.status === 200 ? this.check.end() : `status ${this.status}`
    if (problem !== undefined) counter.fail(problem)
    else {
      counter.answers++
      if (isBurst(request)) counter.events += BURSTS[request.kind] * BURST_EVENTS
    }
    this.sentAt = 0
    if (this.load.repeats) {
      this.check = checkOf(request, counter)
      this.send()
    } else this.socket.end()
  }
}

class Load {
  readonly counter = new Counter()
  readonly bytes: Buffer
  repeats: boolean
  private readonly connected = new Set<Connection>()
  private readonly idle = Promise.withResolvers<void>()

  constructor(
    readonly request: RequestKind,
    key: string,
    repeats: boolean,
  ) {
    this.repeats = repeats
    const { path, body } = requestOf(request.dialect, request.kind)
    this.bytes = Buffer.from(postBytes(path, body, key))
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
    if (this.connected.size > 0) await this.idle.promise
  }

  closed(connection: Connection): void {
    this.connected.delete(connection)
    if (this.connected.size === 0) this.idle.resolve()
  }

  private async connect(port: number): Promise<void> {
    try {
      const socket = await Bun.connect<Connection | undefined>({
        hostname: '127.0.0.1',
        port,
        socket: {
          data: (from, data) => from.data?.data(data),
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
    load = new Load(message, message.key, message.repeats)
    await load.open(message.port, message.connections)
  } else if (message.type === 'stop') {
    await load?.stop()
    report({ type: 'stopped' })
  } else if (load !== undefined) report({ type: 'counts', counts: load.counter.read() })
}

process.on('message', (message: ToLoad) => void receive(message))
process.send?.({ port: 0 })
