/** The load generator: a process on raw sockets that sends requests, checks every answer, and tells what it saw when it is asked. */

import type { Socket } from 'bun'
import { type Dialect, isLast, requestOf, textOf } from './dialects.ts'
import { AnswerReader, type AnswerSink, postBytes } from './http.ts'
import { BURST_EVENTS, BURST_TEXTS, BURSTS, JSON_TEXT, type Kind, nowMicroseconds, PACED_TEXT } from './sample-text.ts'

/** What it is told. `open` starts connections that ask again and again until `stop`; `read` asks for the counts so far. */
export type ToLoad =
  | {
      readonly type: 'open'
      readonly port: number
      readonly key: string
      readonly kind: Kind
      /** In which the answer is asked for. */
      readonly dialect: Dialect
      readonly connections: number
      readonly again: boolean
    }
  | { readonly type: 'read' }
  | { readonly type: 'stop' }

export interface Counts {
  /** Answers that were whole and right. */
  readonly answers: number
  readonly events: number
  readonly bytes: number
  /** Streams that have begun to speak and not ended. */
  readonly speaking: number
  readonly failures: number
  /** The first few, in words. */
  readonly reasons: readonly string[]
  /** Microseconds since the last `read`: of requests from their last byte to the answer's, or of events from the provider's mouth to the caller's ear. */
  readonly latencies: readonly number[]
}

export type FromLoad = { readonly type: 'counts'; readonly counts: Counts } | { readonly type: 'stopped' }

const LATENCIES_MAX = 20_000

/** Everything that the connections of one load have seen. */
class UsageMeter {
  answers = 0
  events = 0
  bytes = 0
  speaking = 0
  failures = 0
  readonly reasons: string[] = []
  private latencies: number[] = []
  private seen = 0

  fail(reason: string): void {
    this.failures++
    if (this.reasons.length < 5) this.reasons.push(reason)
  }

  /** Keeps an even sample of what may be millions. */
  latency(microseconds: number): void {
    this.seen++
    if (this.latencies.length < LATENCIES_MAX) this.latencies.push(microseconds)
    else this.latencies[Math.floor(Math.random() * this.seen)] = microseconds
  }

  read(): Counts {
    const { answers, events, bytes, speaking, failures, reasons } = this
    const latencies = this.latencies.slice(0, LATENCIES_MAX)
    this.latencies = []
    this.seen = 0
    return { answers, events, bytes, speaking, failures, reasons, latencies }
  }
}

/** Checks one kind of answer. `end` says what is wrong with it, if anything is. */
interface Check {
  body(piece: Buffer): void
  end(): string | undefined
}

/** The whole body is kept and looked at when it has ended. */
class WholeCheck implements Check {
  private text = ''

  constructor(private readonly judge: (body: string) => string | undefined) {}

  body(piece: Buffer): void {
    this.text += piece.toString('latin1')
  }

  end(): string | undefined {
    const { text } = this
    this.text = ''
    return this.judge(text)
  }
}

/** The size of the last answer whose text was right: one as long needs to be read only now and then. */
let rightBytes = -1
let sinceRead = 0

function judgeBurst({ kind, dialect }: Ask & { readonly kind: 'burst' | 'bulk' }, body: string): string | undefined {
  if (body.length === rightBytes && sinceRead++ < 16) return undefined
  sinceRead = 0
  const events = body.split('\n\n')
  const text = events.map((event) => textOf(dialect, event)).join('')
  const wanted = BURST_TEXTS[kind]
  if (text !== wanted) return `the text of a stream is wrong (${text.length} of ${wanted.length} characters)`
  if (events.at(-1) !== '' || !isLast(dialect, events.at(-2) ?? '')) return 'a stream without its last event'
  rightBytes = body.length
  return undefined
}

function judgeJson(body: string): string | undefined {
  const text = JSON.parse(body).choices?.[0]?.message?.content
  return text === JSON_TEXT ? undefined : `the text of an answer is wrong: ${body.slice(0, 200)}`
}

/** A paced stream is read as it comes: its numbers must follow one another, its times tell how long each event was under way. */
class PacedCheck implements Check {
  private rest = ''
  private next = 0
  private problem: string | undefined
  private done = false
  private speaking = false

  constructor(
    private readonly dialect: Dialect,
    private readonly tally: UsageMeter,
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
    if (this.speaking) this.tally.speaking--
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
    this.tally.latency(nowMicroseconds() - Number(match?.[2]))
    this.tally.events++
    if (!this.speaking) this.tally.speaking++
    this.speaking = true
  }
}

/** What one connection asks for, again and again. */
interface Ask {
  readonly kind: Kind
  readonly dialect: Dialect
}

function isBurst(ask: Ask): ask is Ask & { readonly kind: 'burst' | 'bulk' } {
  return ask.kind === 'burst' || ask.kind === 'bulk'
}

function checkOf(ask: Ask, tally: UsageMeter): Check {
  if (ask.kind === 'json') return new WholeCheck(judgeJson)
  if (isBurst(ask)) return new WholeCheck((body) => judgeBurst(ask, body))
  return new PacedCheck(ask.dialect, tally)
}

/** One connection that asks, checks, and asks again. */
class Asker implements AnswerSink {
  private readonly reader = new AnswerReader(this)
  private check: Check
  private status = 0
  private askedAt = 0

  constructor(
    private readonly load: Load,
    private readonly socket: Socket<Asker | undefined>,
  ) {
    this.check = checkOf(load.asked, load.tally)
  }

  ask(): void {
    this.askedAt = performance.now()
    this.socket.write(this.load.bytes)
  }

  data(data: Buffer): void {
    this.load.tally.bytes += data.length
    try {
      this.reader.push(data)
    } catch (error) {
      this.load.tally.fail(String(error))
      this.socket.terminate()
    }
  }

  closed(): void {
    if (this.reader.inside || this.askedAt > 0) this.load.tally.fail('the connection ended in the middle of an answer')
    this.load.closed(this)
  }

  head(status: number): void {
    this.status = status
  }

  body(piece: Buffer): void {
    this.check.body(piece)
  }

  end(): void {
    const { tally, asked } = this.load
    if (asked.kind === 'json' || isBurst(asked)) tally.latency((performance.now() - this.askedAt) * 1000)
    const problem = this.status === 200 ? this.check.end() : `status ${this.status}`
    if (problem !== undefined) tally.fail(problem)
    else {
      tally.answers++
      if (isBurst(asked)) tally.events += BURSTS[asked.kind] * BURST_EVENTS
    }
    this.askedAt = 0
    if (this.load.again) {
      this.check = checkOf(asked, tally)
      this.ask()
    } else this.socket.end()
  }
}

class Load {
  readonly tally = new UsageMeter()
  readonly bytes: Buffer
  again: boolean
  private readonly askers = new Set<Asker>()
  private readonly idle = Promise.withResolvers<void>()

  constructor(
    readonly asked: Ask,
    key: string,
    again: boolean,
  ) {
    this.again = again
    const { path, body } = requestOf(asked.dialect, asked.kind)
    this.bytes = Buffer.from(postBytes(path, body, key))
  }

  /** Opens connections a hundred at a time: a listener's queue is not endless. */
  async open(port: number, connections: number): Promise<void> {
    for (let opened = 0; opened < connections; opened += 100) {
      const batch = Array.from({ length: Math.min(100, connections - opened) }, () => this.connect(port))
      await Promise.all(batch)
    }
  }

  /** No new requests; resolves when the running ones have ended. */
  async stop(): Promise<void> {
    this.again = false
    if (this.askers.size > 0) await this.idle.promise
  }

  closed(asker: Asker): void {
    this.askers.delete(asker)
    if (this.askers.size === 0) this.idle.resolve()
  }

  private async connect(port: number): Promise<void> {
    try {
      const socket = await Bun.connect<Asker | undefined>({
        hostname: '127.0.0.1',
        port,
        socket: {
          data: (from, data) => from.data?.data(data),
          close: (from) => from.data?.closed(),
          error: () => {},
        },
      })
      const asker = new Asker(this, socket)
      socket.data = asker
      this.askers.add(asker)
      asker.ask()
    } catch (error) {
      this.tally.fail(`no connection: ${error}`)
    }
  }
}

let load: Load | undefined

function tell(message: FromLoad): void {
  process.send?.(message)
}

async function obey(message: ToLoad): Promise<void> {
  if (message.type === 'open') {
    load = new Load(message, message.key, message.again)
    await load.open(message.port, message.connections)
  } else if (message.type === 'stop') {
    await load?.stop()
    tell({ type: 'stopped' })
  } else if (load !== undefined) tell({ type: 'counts', counts: load.tally.read() })
}

process.on('message', (message: ToLoad) => void obey(message))
process.send?.({ port: 0 })
