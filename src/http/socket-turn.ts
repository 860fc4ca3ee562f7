/** One turn on a WebSocket: a request whose answer goes out as text frames, one for each event of a stream. */

import type { CallerError } from '../core/caller-error.ts'
import { ticker } from '../core/ticker.ts'
import type { TurnEncoder } from '../dialects/dialect.ts'
import { type EarlierInput, type ReadInput, readRights } from '../dialects/responses/earlier-input.ts'
import type { Turn } from '../dialects/responses/responses.ts'
import type { RequestEnd } from '../gateway/access-log.ts'
import type { Answer } from '../gateway/answer.ts'
import type { CallerStream } from '../gateway/caller-stream.ts'
import { Pump } from '../gateway/pump.ts'
import type { RequestHead } from '../gateway/request-trace.ts'
import { KEEP_ALIVE_COMMENT } from '../wire/sse.ts'
import { itemBytesOf, type TurnBody } from './continued-body.ts'
import { runTurn, runWarmUp } from './inference-endpoints.ts'
import { TURN_ENDPOINT } from './refused-turn.ts'
import { type EdgeState, RequestLife, type Responder } from './request-life.ts'
import { eachEvent, errorFrame, type TurnFrame } from './socket-frames.ts'

/** The connection of a turn, and the conversations that it keeps. */
export interface TurnConnection {
  readonly id: string
  readonly isClosed: boolean
  /** Sends frames in few packets: all that `frames` sends. */
  together(frames: () => void): void
  send(frame: string): void
  /** While the caller's socket is full: resolves when it is not. */
  readonly full: Promise<void> | undefined
  /** The caller reads nothing. */
  abandon(): void
  /**
   * The body of a turn, whose input has all that it continues. `rights`: what of those of its key decides how that is
   * read. Throws `CallerError`.
   */
  bodyOf(frame: TurnFrame, rights: string): TurnBody
  /** The turn is complete: another one may continue it. */
  keep(turn: SocketTurn): void
  /** The turn failed: what it continued in its own lane is forgotten. */
  forget(frame: TurnFrame): void
  /** The turn has ended. */
  next(turn: SocketTurn): void
}

/**
 * A comment of the stream, of which a silent provider's has one each 15 s, is nothing here, because the connection
 * sends pings. Callers that count messages hear of the turn once a minute.
 */
const COMMENTS_A_MESSAGE = 4

type Items = Parameters<Turn['made']>[0]

export class SocketTurn implements Responder, CallerStream, Turn {
  progressMs = performance.now()
  readonly life: RequestLife
  /** All input with what it continues, once it has begun. */
  body: TurnBody | undefined
  /** The items of its answer. */
  output: Items = []
  isCompaction = false
  /** What was read of its input. */
  readInput: ReadInput | undefined
  private encoder: TurnEncoder | undefined
  /** Who answers, for the first and the last event. */
  private gateway = ''
  /** Frames of its answer. */
  private sent = 0
  /** Since its last frame. */
  private comments = 0
  /** Why it was cut. */
  private reason: CallerError | undefined

  constructor(
    state: EdgeState,
    private readonly connection: TurnConnection,
    head: RequestHead,
    remote: string,
    readonly frame: TurnFrame,
  ) {
    this.life = new RequestLife(state, this, head, remote, TURN_ENDPOINT)
    this.life.log.socket = connection.id
  }

  /** Runs it. */
  begin(): void {
    const { life, frame, connection } = this
    const run = frame.isWarmUp ? runWarmUp : runTurn
    try {
      life.admit()
      life.begin((_, key, bytes) => run(life, key, bytes, this))
      this.body = connection.bodyOf(frame, readRights(life.compatibility, life.parts.imageUrls))
      const { bytes, earlier } = this.body
      life.take(bytes.length + (earlier === undefined ? 0 : itemBytesOf(earlier)))
      life.body(bytes)
    } catch (error) {
      life.failed(error)
    }
  }

  /** Ends it now: the key of its connection is no longer accepted. */
  cut(error: CallerError): void {
    const { running } = this.life
    this.reason = error
    running.reservation?.cut('unauthenticated')
    running.interrupt('drained')
  }

  get responseId(): string | undefined {
    return this.encoder?.responseId
  }

  get previousResponseId(): string | null {
    return this.frame.previousResponseId ?? null
  }

  get earlier(): EarlierInput | undefined {
    return this.body?.earlier?.read
  }

  read(input: ReadInput): void {
    this.readInput = input
  }

  get hasLeft(): boolean {
    return this.connection.isClosed
  }

  encodes(encoder: TurnEncoder): void {
    this.encoder = encoder
    this.output = []
  }

  made(items: Items, isCompaction: boolean): void {
    this.output = items
    this.isCompaction = isCompaction
  }

  answered(answer: Answer | string): void {
    const { log } = this.life
    if (typeof answer === 'string') {
      const model = log.requestedModel
      this.gateway = gatewayJson(model, model, 0, this.headers)
      return this.finish(answer)
    }
    const { requestedModel, servedModel, fallbacks, content } = answer
    if (!(content instanceof Pump)) throw new Error('a turn was not answered by a stream')
    this.gateway = gatewayJson(requestedModel, servedModel, fallbacks, this.headers)
    content.attach(this)
  }

  /** What an answer to a `POST` would have as headers, too. */
  private get headers(): Readonly<Record<string, string>> {
    const { log, running } = this.life
    return { 'x-request-id': log.requestId, ...running.limitHeaders }
  }

  failed(failure: CallerError): void {
    const { connection, frame, life } = this
    const error = this.reason ?? failure
    connection.forget(frame)
    connection.send(errorFrame(error, life.log.requestId, life.running.limitHeaders, frame.lane))
  }

  ended(): void {
    this.connection.next(this)
  }

  write(bytes: string | Uint8Array): Promise<unknown> | undefined {
    const text =
      typeof bytes === 'string' ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()
    const { connection } = this
    this.comments = 0
    connection.together(() => eachEvent(text, this.send))
    this.progressMs = ticker.nowMs
    return connection.full
  }

  writeIdle(bytes: string | Uint8Array): void {
    if (bytes !== KEEP_ALIVE_COMMENT) {
      this.write(bytes)
      return
    }
    this.progressMs = ticker.nowMs
    this.comments++
    if (this.comments >= COMMENTS_A_MESSAGE && this.encoder !== undefined) this.write(this.encoder.inProgress())
  }

  finish(bytes: string | Uint8Array): void {
    this.connection.keep(this)
    this.write(bytes)
  }

  close(outcome: RequestEnd['outcome']): void {
    const { connection, encoder, frame } = this
    if (outcome === 'completed' || connection.isClosed) return
    connection.forget(frame)
    if (outcome === 'timed_out' && connection.full !== undefined) return connection.abandon()
    const [code, message] = outcome === 'refused' && this.reason === undefined ? LIMITED : FAILED
    if (encoder !== undefined) this.write(encoder.failed(this.sent, code, message))
  }

  private readonly send = (json: string, isEdge: boolean): void => {
    const { lane } = this.frame
    this.sent++
    const named = lane === undefined ? json : `{"stream_id":"${lane}",${json.slice(1)}`
    this.connection.send(isEdge ? named.slice(0, -1) + this.gateway : named)
  }
}

const LIMITED = ['rate_limit_exceeded', 'A limit of this API key or its organization was reached.'] as const
const FAILED = ['server_error', 'The answer broke off before its end; send the turn again.'] as const

/** The end of an event with what the headers of an answer to a `POST` report. */
function gatewayJson(
  requested: string,
  served: string,
  fallbacks: number,
  headers: Readonly<Record<string, string>>,
): string {
  const gateway = { requested_model: requested, served_model: served, fallback_count: fallbacks, headers }
  return `,"gateway":${JSON.stringify(gateway)}}`
}
