/**
 * The listeners of `GET /api/events`. Each gets `status` every second and `request` for each request that ends. A
 * listener that reads too slowly misses events instead of taking memory, and is cut if it does not read at all.
 */

import { type ByteSink, HttpStream } from '../gateway/caller-stream.ts'
import { namedEvent } from '../wire/sse.ts'
import type { Status } from './api-shapes.ts'
import { AdminError, COMMON_HEADERS } from './json-answers.ts'

/** Of each token, so that none takes the places of the others. */
const LISTENERS_MAX = 20
const STATUS_MS = 1000
/** A listener whose socket stays full for this long is cut. */
const STALLED_MS = 15_000

interface EventHubOptions {
  readonly status: () => Promise<Status>
  /** Called with true when the first listener comes, with false when the last one has left. */
  readonly onWatched: (isWatched: boolean) => void
  /** Called when the status cannot be made. The streams end then: what they showed last would look like the present. */
  readonly onFailed: (error: unknown) => void
}

export class EventHub {
  /** With who listens. */
  private readonly listeners = new Map<Listener, string>()
  private timer: ReturnType<typeof setInterval> | undefined
  private isAsking = false

  constructor(private readonly options: EventHubOptions) {}

  /**
   * The response of a new listener. `who`: the token it has, after which places are counted; its address does not
   * matter. Throws `AdminError` 409 if there are too many.
   */
  open(request: Request, who: string): Response {
    const owner = who.replace(/ .*$/, '')
    if ([...this.listeners.values()].filter((each) => each === owner).length >= LISTENERS_MAX) {
      const message = `${LISTENERS_MAX} listeners are connected with this token, which is the most. Close one of them.`
      throw new AdminError(409, 'too_many_listeners', message)
    }
    const listener = new Listener(() => this.leave(listener))
    // Counted from now on: a burst of requests must not pass the limit before their streams are pulled.
    this.listeners.set(listener, owner)
    if (this.timer === undefined) this.begin()
    const leave = () => listener.leave()
    if (request.signal.aborted) leave()
    else request.signal.addEventListener('abort', leave, { once: true })
    const pull = (sink: ByteSink) => {
      const ended = listener.attach(sink)
      void this.sendStatus()
      return ended
    }
    return new Response(new ReadableStream({ type: 'direct', pull }), {
      headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no', ...COMMON_HEADERS },
    })
  }

  /** Sends request lines, each one line of JSON. `omitted`: how many others ended and have no line here. */
  requests(lines: readonly string[], omitted: number): void {
    if (this.listeners.size === 0) return
    const text = lines.map((line) => `event: request\ndata: ${line}\n\n`).join('')
    for (const listener of this.listeners.keys()) listener.send(text, lines.length, omitted)
  }

  /** Cuts every stream, for a weir that ends. */
  close(): void {
    for (const listener of this.listeners.keys()) listener.leave()
  }

  private begin(): void {
    this.timer = setInterval(() => void this.sendStatus(), STATUS_MS)
    this.options.onWatched(true)
  }

  private leave(listener: Listener): void {
    this.listeners.delete(listener)
    if (this.listeners.size > 0 || this.timer === undefined) return
    clearInterval(this.timer)
    this.timer = undefined
    this.options.onWatched(false)
  }

  private async sendStatus(): Promise<void> {
    if (this.isAsking) return
    this.isAsking = true
    try {
      const text = namedEvent('status', await this.options.status())
      for (const listener of this.listeners.keys()) listener.send(text, 0, 0)
    } catch (error) {
      this.options.onFailed(error)
      for (const listener of this.listeners.keys()) listener.leave('completed')
    } finally {
      this.isAsking = false
    }
  }
}

class Listener {
  private stream: HttpStream | undefined
  /** The socket is full since then (`performance.now()`). */
  private fullMs: number | undefined
  private omitted = 0
  private hasLeft = false

  constructor(private readonly left: () => void) {}

  /** For Bun: the stream lasts until this resolves. */
  attach(sink: ByteSink): Promise<void> {
    this.stream = new HttpStream(sink)
    if (this.hasLeft) this.stream.close('completed')
    return this.stream.ended
  }

  /** Sends events, or counts the requests in them as omitted if the socket is full. */
  send(text: string, requests: number, omitted: number): void {
    const { stream } = this
    this.omitted += omitted
    if (stream === undefined || this.hasLeft) return
    if (this.fullMs !== undefined) {
      this.omitted += requests
      if (performance.now() - this.fullMs > STALLED_MS) this.leave()
      return
    }
    const note = this.omitted === 0 ? '' : namedEvent('omitted', { requests: this.omitted })
    this.omitted = 0
    if (text === '' && note === '') return
    const full = stream.write(text + note)
    if (full === undefined) return
    this.fullMs = performance.now()
    full.then(
      () => {
        this.fullMs = undefined
      },
      () => this.leave(),
    )
  }

  /** `completed` ends the stream as if everything had been sent, `caller_left` cuts it. */
  leave(how: 'completed' | 'caller_left' = 'caller_left'): void {
    if (this.hasLeft) return
    this.hasLeft = true
    this.stream?.close(how)
    this.left()
  }
}
