/**
 * One WebSocket of a caller: its lanes, the turns that run and wait, and the conversations that its next turns may
 * continue, which no other connection finds.
 */

import type { ServerWebSocket } from 'bun'
import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import { beginningOf } from '../core/error-message.ts'
import { newRequestId } from '../core/request-id.ts'
import { ticker } from '../core/ticker.ts'
import type { BodyShare } from '../gateway/body-memory.ts'
import type { RequestHead } from '../gateway/request-trace.ts'
import { tooLarge } from '../wire/body.ts'
import { type Continuable, type ContinuationMemory, continuableBytes } from './continuation-memory.ts'
import { continuedBody, ID_CHARS_MAX, keptInput, NO_INPUT, type TurnBody } from './continued-body.ts'
import { refuseTurn } from './refused-turn.ts'
import type { EdgeState, SocketEndReason } from './request-life.ts'
import { errorFrame, readFrame, type TurnFrame } from './socket-frames.ts'
import { SocketTurn, type TurnConnection } from './socket-turn.ts'

const RUNNING_MAX = 16
const WAITING_MAX = 64
const LANES_MAX = 32
/** So many bytes in the caller's socket are no reason to read a provider again. */
const FULL_BYTES = 64 * 1024
/** What may be written beside turns, such as errors, to a caller that does not read. */
const UNREAD_BYTES_MAX = 1024 * 1024
/** A caller that reads nothing for this long is cut. */
const STALL_MS = 120_000
/** How often something is sent while turns run and their providers are silent. */
const PING_MS = 15_000
/** RFC 6455, section 7.4.1; 1012 has its meaning from IANA's registry: clients connect again. */
const CLOSE = { normal: 1000, policy: 1008, lost: 1006, restart: 1012 } as const
/** What Bun reports, with 1006, of connections that it closed itself. */
const TOO_LARGE = 'Received too big message'
const TIMED_OUT = 'WebSocket timed out from inactivity'
/** The reason in the log for a socket that weir closes with this code. */
const REASONS: Readonly<Record<number, SocketEndReason>> = {
  [CLOSE.normal]: 'expired',
  [CLOSE.policy]: 'key_refused',
  [CLOSE.restart]: 'restart',
}

/** The sockets of the worker. */
export interface Home {
  readonly memory: ContinuationMemory
  /** How long a connection lives. */
  readonly lifeMs: number
}

/** A turn that is not begun, and its part in the memory for bodies. */
interface Waiting {
  readonly frame: TurnFrame
  readonly share: BodyShare
}

export class SocketConnection implements TurnConnection {
  isClosed = false
  /** The value of the header that its key came in. Kept, because reading a header takes 0.1 µs of each look. */
  readonly credential: string
  full: Promise<void> | undefined
  private turns = 0
  private readonly openedMs = performance.now()
  private socket: ServerWebSocket<SocketConnection> | undefined
  private drained: (() => void) | undefined
  private waiting: Waiting[] = []
  private readonly running = new Set<SocketTurn>()
  private readonly lanes = new Set<string>()
  /** The most recent response of each lane, by its lane; the default one has none. */
  private readonly conversations = new Map<string | undefined, Continuable>()
  /** No new turn: why, and the code that the connection is closed with. */
  private ending: { readonly error: CallerError; readonly code: number } | undefined
  /** Why weir closed it, if it did. */
  private reason: SocketEndReason | undefined
  /** When the caller last took something, while its socket is full. */
  private progressMs = 0
  private sentMs = 0
  /** What was written beside turns since the socket is full. */
  private unreadBytes = 0

  constructor(
    private readonly state: EdgeState,
    /** What it was opened with, which each of its turns comes with. */
    readonly head: RequestHead,
    readonly remote: string,
    readonly key: Key,
    private readonly home: Home,
    /** The request id of its handshake. */
    readonly id: string,
  ) {
    const { headers } = head
    this.credential = headers.get('authorization') ?? headers.get('x-api-key') ?? ''
  }

  private get organization(): string {
    return this.key.organization.id
  }

  /** Looks after its key, its age and its caller, a few times a second. `keyError`: its key is no longer accepted. */
  look(nowMs: number, keyError: CallerError | undefined): void {
    if (this.full !== undefined && nowMs - this.progressMs >= STALL_MS) return this.abandon()
    if (this.ending?.code !== CLOSE.policy) {
      if (keyError !== undefined) this.revoke(keyError)
      else if (nowMs - this.openedMs >= this.home.lifeMs) this.expire()
    }
    if (this.running.size > 0 && nowMs - this.sentMs >= PING_MS) this.ping(nowMs)
  }

  /** Its key is no longer accepted: running turns end now. */
  private revoke(error: CallerError): void {
    this.ending = undefined
    this.end(error, CLOSE.policy)
    for (const turn of [...this.running]) turn.cut(error)
  }

  private expire(): void {
    const message =
      `Responses websocket connection limit reached (${Math.round(this.home.lifeMs / 60_000)} minutes). ` +
      'Create a new websocket connection to continue.'
    const error = new CallerError('invalid_field', message, { code: 'websocket_connection_limit_reached' })
    this.end(error, CLOSE.normal)
  }

  opened(socket: ServerWebSocket<SocketConnection>): void {
    this.socket = socket
    if (this.ending !== undefined) this.closeIfIdle()
  }

  message(message: string | Uint8Array): void {
    let frame: TurnFrame | undefined
    try {
      const read = readFrame(message)
      if ('reply' in read) return this.reply(read.reply)
      frame = read
      if (frame.error !== undefined) throw frame.error
      this.accept(frame)
    } catch (error) {
      if (!(error instanceof CallerError)) throw error
      if (frame !== undefined) this.forget(frame)
      this.refuse(error, frame?.lane)
    }
  }

  /** `hasLeft`: whether the caller is gone by then. */
  private refuse(error: CallerError, lane: string | undefined, hasLeft = false): void {
    this.turns++
    refuseTurn(this.state, this, error, hasLeft, (answer, { log, running }) =>
      this.reply(errorFrame(answer, log.requestId, running.limitHeaders, lane)),
    )
  }

  /** Answers a frame that is no turn, or none that is begun. A caller that sends such frames must read the answers. */
  private reply(text: string | undefined): void {
    if (text === undefined) return
    this.send(text)
    if (this.full === undefined) return
    this.unreadBytes += text.length
    if (this.unreadBytes > UNREAD_BYTES_MAX) this.abandon()
  }

  /** The caller's socket takes bytes again. */
  drain(): void {
    this.progressMs = performance.now()
    for (const turn of this.running) turn.progressMs = this.progressMs
    if ((this.socket?.getBufferedAmount() ?? 0) > FULL_BYTES) return
    const { drained } = this
    this.full = undefined
    this.drained = undefined
    this.unreadBytes = 0
    drained?.()
    this.beginWaiting()
  }

  /** The connection is gone: its turns are aborted. */
  closed(code: number, words: string): void {
    this.isClosed = true
    const { id: socket, organization, key, remote, openedMs } = this
    const reason = this.reason ?? (code === CLOSE.lost ? lossOf(words) : 'caller')
    for (const { lane } of this.takeWaiting()) this.refuse(GONE, lane, true)
    if (reason === 'too_large') this.refuse(tooLarge(), undefined)
    const { turns } = this
    this.state.socketClosed({
      ...{ socket, organization, key: key.id, remote, turns, reason, code },
      duration_ms: Math.round(performance.now() - openedMs),
    })
    for (const lane of [...this.conversations.keys()]) this.drop(lane)
    this.drained?.()
    for (const turn of [...this.running]) turn.life.left()
  }

  /** The worker ends: no turn is begun, and the connection is closed after those that run. */
  restart(): void {
    const message = 'The gateway is restarting: connect again and send the whole conversation.'
    this.end(new CallerError('shutting_down', message, { retryAfterSeconds: 1 }), CLOSE.restart)
  }

  /** No turn is begun any more. */
  private end(error: CallerError, code: number): void {
    if (this.ending !== undefined) return
    this.ending = { error, code }
    for (const { lane } of this.takeWaiting()) this.refuse(error, lane)
    this.closeIfIdle()
  }

  /** The turns that wait, which will not be begun. */
  private takeWaiting(): readonly TurnFrame[] {
    const { waiting } = this
    this.waiting = []
    for (const { share } of waiting) share.release()
    return waiting.map(({ frame }) => frame)
  }

  private closeIfIdle(): void {
    const { ending, socket } = this
    if (ending === undefined || this.running.size > 0 || this.isClosed || socket === undefined) return
    if (ending.code !== CLOSE.restart) this.send(errorFrame(ending.error, newRequestId(), NO_HEADERS, undefined))
    this.reason = REASONS[ending.code]
    socket.close(ending.code)
  }

  private accept(frame: TurnFrame): void {
    const { lane } = frame
    if (this.ending !== undefined) throw this.ending.error
    if (lane !== undefined && !this.lanes.has(lane) && this.lanes.size >= LANES_MAX) {
      const message =
        `This WebSocket connection has reached its maximum number of distinct stream IDs (${LANES_MAX}). ` +
        'Reuse an existing stream_id or open a new WebSocket connection.'
      throw new CallerError('invalid_field', message, { code: 'websocket_stream_limit_reached', param: 'stream_id' })
    }
    const isNext = this.mayBegin(frame)
    if (!isNext) this.wait(frame)
    if (lane !== undefined) this.lanes.add(lane)
    if (isNext) this.begin(frame)
  }

  private wait(frame: TurnFrame): void {
    if (this.waiting.length >= WAITING_MAX) {
      const message = `${WAITING_MAX} turns wait on this connection; send this one again after another has ended.`
      throw new CallerError('rate_limited', message, { code: 'websocket_queue_full', retryAfterSeconds: 1 })
    }
    const share = this.state.bodies.share(this.organization)
    share.take(frame.bytes.length)
    this.waiting.push({ frame, share })
  }

  /** Not for a caller that does not read, whose turns would fill its socket with whole answers. */
  private mayBegin({ lane }: TurnFrame): boolean {
    if (this.running.size >= RUNNING_MAX || this.full !== undefined) return false
    for (const turn of this.running) if (turn.frame.lane === lane) return false
    return true
  }

  private begin(frame: TurnFrame): void {
    const turn = new SocketTurn(this.state, this, this.head, this.remote, frame)
    this.turns++
    this.sentMs = performance.now()
    this.running.add(turn)
    turn.begin()
  }

  next(turn: SocketTurn): void {
    this.running.delete(turn)
    this.beginWaiting()
    this.closeIfIdle()
  }

  private beginWaiting(): void {
    for (let index = 0; index < this.waiting.length && this.running.size < RUNNING_MAX; ) {
      const one = this.waiting[index]
      if (one === undefined || !this.mayBegin(one.frame)) index++
      else {
        this.waiting.splice(index, 1)
        one.share.release()
        this.begin(one.frame)
        // Turns may have ended, and others begun, within the call.
        index = 0
      }
    }
  }

  together(frames: () => void): void {
    if (!this.isClosed) this.socket?.cork(frames)
  }

  /** Never dropped: Bun keeps what the caller's socket does not take. */
  send(frame: string): void {
    if (this.isClosed || this.socket === undefined) return
    this.sentMs = ticker.nowMs
    if (this.socket.sendText(frame) !== SENT_LATER || this.full !== undefined) return
    this.progressMs = performance.now()
    this.full = new Promise((resolve) => {
      this.drained = resolve
    })
  }

  private ping(nowMs: number): void {
    this.sentMs = nowMs
    if (!this.isClosed) this.socket?.ping()
  }

  abandon(): void {
    this.reason = 'stalled'
    this.socket?.terminate()
  }

  bodyOf(frame: TurnFrame, rights: string): TurnBody {
    const { bytes, input, read, previousResponseId: previous } = frame
    if (previous === undefined) return { bytes, input, read }
    const parent = this.kept(previous)
    this.state.figures.continued(parent === undefined ? 'not_found' : 'found')
    if (parent === undefined) {
      const message = `Previous response with id '${beginningOf(previous, ID_CHARS_MAX)}' not found.`
      throw new CallerError('invalid_field', message, {
        code: 'previous_response_not_found',
        param: 'previous_response_id',
      })
    }
    this.home.memory.used(this.organization, parent)
    return continuedBody({ bytes, input, read }, parent, rights)
  }

  private kept(id: string | undefined): Continuable | undefined {
    for (const conversation of this.conversations.values()) if (conversation.id === id) return conversation
    return undefined
  }

  keep(turn: SocketTurn): void {
    const { body, frame, output, isCompaction, responseId: id } = turn
    if (body?.input === undefined || id === undefined) return
    const input = isCompaction ? NO_INPUT : keptInput(body, turn.readInput)
    const { lane } = frame
    this.drop(lane)
    const parent = this.kept(frame.previousResponseId)
    if (parent !== undefined) this.home.memory.measure(this.organization, parent)
    const text = output.map(({ json }) => json).join()
    const bytes = continuableBytes(input, text)
    const conversation: Continuable = { id, input, output: text, bytes, forget: () => this.conversations.delete(lane) }
    this.conversations.set(lane, conversation)
    this.home.memory.keep(this.organization, conversation)
  }

  private drop(lane: string | undefined): void {
    const conversation = this.conversations.get(lane)
    if (conversation === undefined) return
    this.conversations.delete(lane)
    this.home.memory.drop(this.organization, conversation)
  }

  forget({ lane, previousResponseId: previous }: TurnFrame): void {
    if (previous !== undefined && this.conversations.get(lane)?.id === previous) this.drop(lane)
  }
}

/** `words`: Bun's, of a connection that was not closed by a frame. */
function lossOf(words: string): SocketEndReason {
  return words === TOO_LARGE ? 'too_large' : words === TIMED_OUT ? 'silent' : 'lost'
}

/** What `sendText` returns for a frame that Bun keeps until the socket takes more. */
const SENT_LATER = -1
const NO_HEADERS = {}
const GONE = new CallerError('overloaded', 'The connection was closed before the turn began.')
