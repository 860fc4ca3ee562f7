/**
 * The load generator: a process on raw sockets that sends requests, checks every answer, and reports counts on request.
 */

import type { Socket } from 'bun'
import { BURST_TEXTS, JSON_TEXT, PACED_TEXT_LENGTH } from './answers.ts'
import { isWhole, markerOf, requestOf, textOfAnswer, textOfStream } from './dialects.ts'
import { AnswerReader, type AnswerSink, postBytes } from './http.ts'
import { percentile } from './statistics.ts'
import { BURST_EVENTS, BURSTS, type Dialect, nowMicroseconds, type Traffic } from './traffic.ts'

/**
 * Messages to the load generator. `open` starts connections, which send requests until `stop` if `repeats`; `read`
 * requests the counts.
 */
export type ToLoad =
  | {
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
   * Percentiles since the last `read`, in microseconds: from the request to the last byte of the answer, or of each
   * event from the provider to the caller. All values would be a message of 100 KB.
   */
  readonly latency: Readonly<Record<'p50' | 'p99', number>>
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
    else {
      const at = Math.floor(Math.random() * this.seen)
      if (at < LATENCIES_MAX) this.latencies[at] = microseconds
    }
  }

  read(): Counts {
    const { answers, events, bytes, started, failures, reasons } = this
    const latency = { p50: percentile(this.latencies, 50), p99: percentile(this.latencies, 99) }
    this.latencies = []
    this.seen = 0
    return { answers, events, bytes, started, failures, reasons, latency }
  }
}

/** Checks the answers of one connection, one after the other. */
interface Check {
  /** `piece` is valid only during the call. */
  body(piece: Buffer): void
  /** What is wrong with the answer that has ended; undefined if it is correct. */
  end(): string | undefined
}

/**
 * Reads one answer in 16, and of the others the size alone: reading all of them took more CPU time than the gateways
 * that were measured.
 */
const READ_EVERY = 16

/** Checks answers that arrive at once. */
class WholeCheck implements Check {
  private size = 0
  /** The size of the latest answer that was read. */
  private correctSize = -1
  private sinceRead = 0
  private pieces: Buffer[] = []

  constructor(private readonly problemOf: (body: string) => string | undefined) {}

  body(piece: Buffer): void {
    this.size += piece.length
    if (this.reads) this.pieces.push(Buffer.from(piece))
  }

  end(): string | undefined {
    const { size, reads } = this
    this.size = 0
    if (!reads) {
      this.sinceRead++
      // Answers of one kind may differ in size; the next one is read to see if that is so.
      if (size !== this.correctSize) this.correctSize = -1
      return undefined
    }
    const problem = this.problemOf(Buffer.concat(this.pieces).toString())
    this.pieces = []
    this.sinceRead = 0
    this.correctSize = size
    return problem
  }

  private get reads(): boolean {
    return this.correctSize === -1 || this.sinceRead >= READ_EVERY
  }
}

function problemOfBurst(dialect: Dialect, kind: 'burst' | 'bulk', body: string): string | undefined {
  const text = textOfStream(dialect, body)
  const wanted = BURST_TEXTS[kind]
  if (text !== wanted) return `the text of a stream is wrong (${text.length} of ${wanted.length} characters)`
  return isWhole(dialect, body) ? undefined : 'a stream without its last event'
}

function problemOfJson(dialect: Dialect, body: string): string | undefined {
  return textOfAnswer(dialect, body) === JSON_TEXT ? undefined : `an answer is wrong: ${body.slice(0, 200)}`
}

/** Checks a paced stream as it arrives: its events are numbered, and each has the time at which it was sent. */
class PacedCheck implements Check {
  private readonly marker: string
  private rest = ''
  private next = 0
  private problem: string | undefined
  private done = false

  constructor(
    private readonly dialect: Dialect,
    private readonly counter: Counter,
  ) {
    this.marker = markerOf(dialect)
  }

  body(piece: Buffer): void {
    const text = this.rest + piece.toString('latin1')
    const whole = text.lastIndexOf('\n\n') + 2
    if (whole === 1) {
      this.rest = text
      return
    }
    this.rest = text.slice(whole)
    const now = nowMicroseconds()
    const { marker } = this
    for (let at = text.indexOf(marker); at !== -1 && at < whole; at = text.indexOf(marker, at + 1))
      this.event(text, at + marker.length, now)
    this.done = isWhole(this.dialect, text)
  }

  end(): string | undefined {
    if (this.next > 0) this.counter.started--
    return this.done ? this.problem : 'a paced stream without its last event'
  }

  /** `at`: the first character of an event's text, which is empty in the first and last events of some dialects. */
  private event(text: string, at: number, now: number): void {
    if (text.charCodeAt(at) === 34) return
    if (Number(text.slice(at, at + 6)) !== this.next)
      this.problem ??= `event ${this.next} of a paced stream is ${text.slice(at, at + PACED_TEXT_LENGTH)}`
    if (this.next++ === 0) this.counter.started++
    this.counter.latency(now - Number(text.slice(at + 7, at + 23)))
    this.counter.events++
  }
}

function checkOf({ kind }: Traffic, dialect: Dialect, counter: Counter): Check {
  if (kind === 'json') return new WholeCheck((body) => problemOfJson(dialect, body))
  if (kind === 'paced' || kind === 'slow') return new PacedCheck(dialect, counter)
  return new WholeCheck((body) => problemOfBurst(dialect, kind, body))
}

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
  return kind === 'burst' || kind === 'bulk' ? BURSTS[kind] : 0
}

class Load {
  readonly counter = new Counter()
  readonly bytes: Buffer
  repeats: boolean
  private readonly connected = new Set<Connection>()
  private readonly idle = Promise.withResolvers<void>()

  readonly paced: boolean

  constructor(
    readonly traffic: Traffic,
    readonly dialect: Dialect,
    key: string,
    headers: string,
    repeats: boolean,
  ) {
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
    load = new Load(message.traffic, message.dialect, message.key, message.headers, message.repeats)
    await load.open(message.port, message.connections)
  } else if (message.type === 'stop') {
    await load?.stop()
    report({ type: 'stopped' })
  } else if (load !== undefined) report({ type: 'counts', counts: load.counter.read() })
}

process.on('message', (message: ToLoad) => void receive(message))
process.send?.({ port: 0 })
