/** The WebSockets of one worker: their handshakes, their events, and their end. */

import type { ServerWebSocket, WebSocketHandler } from 'bun'
import { CallerError } from '../core/caller-error.ts'
import type { SocketConnection } from './socket-connection.ts'

/** As the body of a `POST`, and the members that a frame has besides. Longer frames close the connection (1009). */
const FRAME_BYTES_MAX = 10 * 1024 * 1024 + 4096
/** Bun sends a ping before it, and closes a connection without an answer. Its own maximum is 960. */
const IDLE_SECONDS = 600
/** Never reached, because nothing is written to a socket that is full: beyond it Bun would drop frames. */
const BUFFER_BYTES_MAX = 1024 * 1024 * 1024
const SOCKETS_MAX = 20_000

export class Sockets {
  private readonly open = new Set<SocketConnection>()
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
    this.open.add(connection)
  }

  /** For a handshake that failed. */
  remove(connection: SocketConnection): void {
    this.open.delete(connection)
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
    close: (socket: ServerWebSocket<SocketConnection>) => {
      this.open.delete(socket.data)
      socket.data.closed()
    },
  }
}
