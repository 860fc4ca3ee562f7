/** The WebSockets of one worker: their handshakes, their events, and their end. */

import type { ServerWebSocket, WebSocketHandler } from 'bun'
import { CallerError } from '../core/caller-error.ts'
import { slowTicker, type Ticking } from '../core/ticker.ts'
import { ConversationMemory } from './conversation-memory.ts'
import type { SocketConnection } from './socket-connection.ts'

/** As the body of a `POST`, and the members that a frame has besides. Longer frames close the connection (1009). */
const FRAME_BYTES_MAX = 10 * 1024 * 1024 + 4096
/** Bun sends a ping before it, and closes a connection without an answer. Its own maximum is 960. */
const IDLE_SECONDS = 600
/** Never reached, because nothing is written to a socket that is full: beyond it Bun would drop frames. */
const BUFFER_BYTES_MAX = 1024 * 1024 * 1024
const SOCKETS_MAX = 20_000
const ORGANIZATION_SOCKETS_MAX = 1000
const ORGANIZATION_BYTES_MAX = 64 * 1024 * 1024
const LIFE_MS = 3_600_000

export class Sockets implements Ticking {
  place = -1
  /** What is kept of their conversations. */
  readonly memory = new ConversationMemory(ORGANIZATION_BYTES_MAX)
  readonly lifeMs = LIFE_MS
  private readonly open = new Set<SocketConnection>()
  private readonly counts = new Map<string, number>()
  private isLeaving = false

  /** Throws `CallerError` if there is no room for one more. */
  add(connection: SocketConnection): void {
    if (this.isLeaving) {
      const message = 'The gateway is restarting; connect again.'
      throw new CallerError('shutting_down', message, { retryAfterSeconds: 1, headers: { connection: 'close' } })
    }
    if (this.open.size >= SOCKETS_MAX) {
      throw new CallerError('overloaded', 'The gateway has too many sockets; try again.', { retryAfterSeconds: 1 })
    }
    const { organization } = connection
    const count = this.counts.get(organization) ?? 0
    if (count >= ORGANIZATION_SOCKETS_MAX) {
      const message = `Organization '${organization}' has ${count} sockets open; close one, or use POST.`
      throw new CallerError('rate_limited', message, { type: 'concurrent_requests', retryAfterSeconds: 1 })
    }
    this.counts.set(organization, count + 1)
    this.open.add(connection)
    if (this.open.size === 1) slowTicker.add(this)
  }

  /** The connection is closed, or its handshake failed. */
  remove(connection: SocketConnection): void {
    if (!this.open.delete(connection)) return
    const { organization } = connection
    const count = (this.counts.get(organization) ?? 1) - 1
    if (count > 0) this.counts.set(organization, count)
    else this.counts.delete(organization)
    if (this.open.size === 0) slowTicker.remove(this)
  }

  tick(): void {
    const nowMs = performance.now()
    for (const connection of this.open) connection.look(nowMs)
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
    close: (socket: ServerWebSocket<SocketConnection>, code) => {
      this.remove(socket.data)
      socket.data.closed(code)
    },
  }
}
