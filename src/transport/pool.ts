/**
 * The connections to one origin. A request takes an idle one, or waits for whichever comes first: a connection that
 * becomes free or a new one.
 */

import { slowTicker, type Ticking } from '../core/ticker.ts'
import type { Addresses } from './addresses.ts'
import { Connection } from './connection.ts'
import { Connector } from './connector.ts'
import type { Authorities, RawSocket } from './dial.ts'
import type { HttpExchange } from './exchange.ts'
import type { Origin } from './origin.ts'
import type { TransportError } from './transport-error.ts'

/** How long an idle connection is kept. Servers keep theirs for 5 s (Node, uvicorn) to minutes. */
const IDLE_MS = 60_000
/** Idle connections of one origin; more are closed as they become free. */
const IDLE_MAX = 1024
/** Connections of one origin that are being made at once: a TLS handshake each, and a socket. The rest waits. */
const CONNECTING_MAX = 256
/** A server closes connections that were idle for seconds: a request that cannot be repeated takes only a fresh one. */
const SURELY_OPEN_MS = 1000

/** While it has idle connections, they are checked for their age. */
export class Pool implements Ticking {
  place = -1
  /** Open connections, idle ones included. */
  private open = 0
  /** The one that became free last is used first, so that the others grow old. */
  private readonly free: Connection[] = []
  private readonly waiting = new Set<HttpExchange>()
  /** The oldest first. */
  private readonly connectors = new Set<Connector>()

  constructor(
    private readonly origin: Origin,
    private readonly addresses: Addresses,
    private readonly authorities: Authorities,
  ) {}

  get isEmpty(): boolean {
    return this.open === 0 && this.waiting.size === 0 && this.connectors.size === 0
  }

  connect(exchange: HttpExchange): void {
    const kept = this.takeFree(exchange)
    if (kept !== undefined) return kept.start(exchange)
    this.waiting.add(exchange)
    this.makeConnections()
  }

  /** Closes connection attempts that no request waits for, the oldest first: it is the likeliest to fail. */
  withdraw(exchange: HttpExchange): void {
    this.waiting.delete(exchange)
    for (const connector of this.connectors) {
      if (this.connectors.size <= this.waiting.size) return
      this.connectors.delete(connector)
      connector.abandon()
    }
    this.makeConnections()
  }

  idle(connection: Connection): void {
    const next = this.firstWaiting(connection.served > 0)
    if (next !== undefined) {
      this.waiting.delete(next)
      connection.start(next)
      return
    }
    if (this.free.length >= IDLE_MAX) return connection.close()
    connection.idleSinceMs = performance.now()
    connection.unref()
    this.free.push(connection)
    slowTicker.add(this)
  }

  closed(connection: Connection): void {
    this.open--
    const at = this.free.lastIndexOf(connection)
    if (at !== -1) this.free.splice(at, 1)
  }

  /** False if no connection can be made within `ms`: then the idle ones lead nowhere either, and are closed. */
  async canConnect(ms: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const connector = new Connector(this.origin, this.authorities, {
      connected: (_, socket) => {
        this.takeOver(socket).close()
        resolve(true)
      },
      // The request itself reports that at once.
      failed: () => resolve(true),
    })
    const timer = setTimeout(() => {
      connector.abandon()
      for (const connection of [...this.free]) connection.close()
      resolve(false)
    }, ms)
    connector.start(this.addresses)
    return await promise.finally(() => clearTimeout(timer))
  }

  connected(connector: Connector, socket: RawSocket): void {
    this.connectors.delete(connector)
    this.idle(this.takeOver(socket))
    this.makeConnections()
  }

  private takeOver(socket: RawSocket): Connection {
    const connection = new Connection(socket, this)
    socket.data = connection
    this.open++
    return connection
  }

  /** One request fails for each connection that could not be made; the others wait for theirs. */
  failed(connector: Connector, error: TransportError): void {
    this.connectors.delete(connector)
    this.addresses.forget((this.origin.proxy ?? this.origin).hostname)
    const first = this.firstWaiting(false)
    if (first !== undefined) {
      this.waiting.delete(first)
      first.fail(error)
    }
    this.makeConnections()
  }

  private takeFree(exchange: HttpExchange): Connection | undefined {
    const last = this.free.at(-1)
    if (last === undefined || exchange.isRepeat) return undefined
    if (!exchange.isRepeatable && performance.now() - last.idleSinceMs > SURELY_OPEN_MS) return undefined
    this.free.pop()
    last.ref()
    return last
  }

  /** As many connections are made as requests wait. */
  private makeConnections(): void {
    while (this.connectors.size < Math.min(this.waiting.size, CONNECTING_MAX)) {
      const connector = new Connector(this.origin, this.authorities, this)
      this.connectors.add(connector)
      connector.start(this.addresses)
    }
  }

  /** `isKept`: for a connection that has carried others. */
  private firstWaiting(isKept: boolean): HttpExchange | undefined {
    for (const exchange of this.waiting) if (!isKept || !exchange.isRepeat) return exchange
    return undefined
  }

  tick(nowMs: number): void {
    for (;;) {
      const oldest = this.free[0]
      if (oldest === undefined || nowMs - oldest.idleSinceMs < Math.min(IDLE_MS, oldest.keepAliveMs)) break
      oldest.close()
    }
    if (this.free.length === 0) slowTicker.remove(this)
  }
}
