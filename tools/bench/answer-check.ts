/** Checks of the answers that a load generator gets, by the kind of the traffic. */

import { BURST_TEXTS, JSON_TEXT, PACED_TEXT_LENGTH } from './answers.ts'
import { isWhole, markerOf, textOfAnswer, textOfStream } from './dialects.ts'
import type { Counter } from './load-counter.ts'
import { type BurstKind, type Dialect, nowMicroseconds, type Traffic } from './traffic.ts'

/** Checks the answers of one connection, one after the other. */
export interface Check {
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

function problemOfBurst(dialect: Dialect, kind: BurstKind, body: string): string | undefined {
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

export function checkOf({ kind }: Traffic, dialect: Dialect, counter: Counter): Check {
  if (kind === 'json') return new WholeCheck((body) => problemOfJson(dialect, body))
  if (kind === 'paced' || kind === 'slow') return new PacedCheck(dialect, counter)
  return new WholeCheck((body) => problemOfBurst(dialect, kind, body))
}
