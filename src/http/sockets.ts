/** The WebSockets of one worker: their handshakes, their events, and their end. */

import type { ServerWebSocket, WebSocketHandler } from 'bun'
import { CallerError } from '../core/caller-error.ts'
import { SOCKETS_DEFAULT } from '../core/limits.ts'
import { slowTicker, type Ticking } from '../core/ticker.ts'
import type { KeyFinder } from '../keys/key-ring.ts'
import { ContinuationMemory } from './continuation-memory.ts'
import { authenticate } from './credentials.ts'
import type { EdgeState, SocketSettings } from './request-life.ts'
import type { Home, SocketConnection } from './socket-connection.ts'

/** As the body of a `POST`. Bun closes the connection of a longer frame (1009), also of one in fragments. */
const FRAME_BYTES_MAX = 10 * 1024 * 1024
/** Bun sends a ping before it, and closes a connection without an answer. Its own maximum is 960. */
const IDLE_SECONDS = 600
/** Beyond it Bun would drop frames. Connections hold back before: what their turns and errors write is bounded. */
const BUFFER_BYTES_MAX = 1024 * 1024 * 1024

export class Sockets implements Ticking, Home {
  place = -1
  readonly memory: ContinuationMemory
  private readonly open = new Set<SocketConnection>()
  /** How many are open, by organization and by key. */
  private readonly counts = new Map<string, number>()
  private isLeaving = false

  constructor(private readonly state: EdgeState) {
    this.memory = new ContinuationMemory(() => this.settings.continuableBytes)
  }

  /** How many are open. */
  get count(): number {
    return this.open.size
  }

  get lifeMs(): number {
    return this.settings.lifeMs
  }

  private get settings(): SocketSettings {
    return this.state.current.sockets
  }

  /** Throws `CallerError` if there is no room for one more. */
  add(connection: SocketConnection): void {
    if (this.open.size >= this.settings.max) {
      throw new CallerError('overloaded', 'The gateway has too many sockets; try again.', { retryAfterSeconds: 1 })
    }
    const owners = ownersOf(connection)
    for (const { name, words, max = SOCKETS_DEFAULT } of owners)
      if (this.countOf(name) >= max) {
        const message = `${words} has ${max} sockets open, which is its limit; close one, or use POST.`
        throw new CallerError('rate_limited', message, { type: 'concurrent_requests', retryAfterSeconds: 1 })
      }
    for (const { name } of owners) this.counts.set(name, this.countOf(name) + 1)
    this.open.add(connection)
    if (this.open.size === 1) slowTicker.add(this)
    // On a connection from before another worker took over: the caller connects again, and reaches that one.
    if (this.isLeaving) connection.restart()
  }

  /** The connection is closed, or its handshake failed. */
  remove(connection: SocketConnection): void {
    if (!this.open.delete(connection)) return
    for (const { name } of ownersOf(connection)) {
      const count = this.countOf(name) - 1
      if (count > 0) this.counts.set(name, count)
      else this.counts.delete(name)
    }
    if (this.open.size === 0) slowTicker.remove(this)
  }

  private countOf(name: string): number {
    return this.counts.get(name) ?? 0
  }

  tick(nowMs: number): void {
    const { keys } = this.state.current
    // Each key is looked up once for all the sockets that were opened with it.
    const errors = new Map<string, CallerError | undefined>()
    for (const connection of this.open) {
      const { credential, head } = connection
      if (!errors.has(credential)) errors.set(credential, keyError(head.headers, keys))
      connection.look(nowMs, errors.get(credential))
    }
  }

  /** The worker ends: idle sockets are closed now, the others after the turns that run. */
  leave(): void {
    this.isLeaving = true
    for (const connection of [...this.open]) connection.restart()
  }

  /** For `Bun.serve`. */
  readonly handler: WebSocketHandler<SocketConnection> = {
    maxPayloadLength: FRAME_BYTES_MAX,
    idleTimeout: IDLE_SECONDS,
    sendPings: true,
    perMessageDeflate: false,
    backpressureLimit: BUFFER_BYTES_MAX,
    open: (socket) => socket.data.opened(socket),
    message: (socket, message) => socket.data.message(message),
    drain: (socket) => socket.data.drain(),
    close: (socket: ServerWebSocket<SocketConnection>, code, words) => {
      this.remove(socket.data)
      socket.data.closed(code, words)
    },
  }
}

/** Who has a limit of sockets that counts this one. */
function ownersOf({ key }: SocketConnection) {
  const { organization } = key
  return [
    { name: organization.id, words: `Organization '${organization.id}'`, max: organization.limits.sockets },
    { name: `${organization.id}\0${key.id}`, words: `Key '${key.id}'`, max: key.limits.sockets },
  ]
}

/** The error of a credential that is not accepted any more. */
function keyError(headers: Headers, keys: KeyFinder): CallerError | undefined {
  try {
    authenticate(headers, keys, Date.now())
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    // Keys that cannot be looked up at the moment are not revoked.
    if (error.kind === 'unauthenticated') return error
  }
  return undefined
}
