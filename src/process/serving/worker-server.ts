/**
 * The HTTP server of one worker and the listening socket that it accepts from: one of its own, or one that another
 * process accepted from before and that the supervisor has sent.
 */

import type { Server } from 'bun'
import type { InferenceService } from '../../assembly/inference-service.ts'
import { quietTurn } from '../../core/event-loop.ts'
import type { App } from '../../http/app.ts'
import type { SocketConnection } from '../../http/socket-connection.ts'
import type { Logger } from '../../logging/log.ts'
import { onDescriptorShortage } from '../../transport/descriptor-shortage.ts'
import { descriptorLimit, watchDescriptors } from '../system/file-descriptors.ts'
import type { ListenAddress } from '../system/listen-address.ts'
import { DescriptorLog } from './descriptor-log.ts'
import { drain } from './drain.ts'
import { adoptListener, connectionsOn, leaveListener, lendListener } from './listener.ts'
import { ProxyListener } from './proxy-listener.ts'

/** No limit: the edge counts bytes while it reads, and Bun's own 413 has no body and none of our headers. */
const BUN_BODY_BYTES_MAX = Number.MAX_SAFE_INTEGER

export class WorkerServer {
  private constructor(
    private readonly server: Server<SocketConnection>,
    /** The port of the socket that it accepts from. */
    readonly port: number,
    private readonly service: InferenceService,
    /** Accepts in place of the server if connections begin with a header of the PROXY protocol. */
    private readonly proxied: ProxyListener | undefined,
  ) {}

  /**
   * Accepts requests from now on. `isPassed`: from the socket that the supervisor has sent. `isProxied`: connections
   * begin with a header of the PROXY protocol. Throws if it cannot.
   */
  static open(
    { host, port }: ListenAddress,
    isPassed: boolean,
    isProxied: boolean,
    service: InferenceService,
  ): WorkerServer {
    const server = Bun.serve({
      hostname: isProxied ? '127.0.0.1' : host,
      port: isPassed || isProxied ? 0 : port,
      reusePort: true,
      // Otherwise Bun prints each stream that is cut to standard error, with the source code around it.
      development: false,
      maxRequestBodySize: BUN_BODY_BYTES_MAX,
      ...service.app,
    })
    const ownPort = server.port ?? port
    const proxied = isProxied ? new ProxyListener(host, isPassed ? 0 : port, ownPort) : undefined
    if (proxied !== undefined) service.state.peerOf = (request) => proxied.callerAt(server.requestIP(request)?.port)
    const listening = proxied?.port ?? ownPort
    if (isPassed) adoptListener(listening)
    return new WorkerServer(server, isPassed ? port : listening, service, proxied)
  }

  /** Rejects new requests while the process is nearly out of file descriptors, and logs that. */
  watchDescriptors(logger: Logger, worker: number): void {
    const limit = descriptorLimit()
    const log = new DescriptorLog(logger, worker, limit)
    onDescriptorShortage((code) => log.exhausted(code))
    watchDescriptors(limit, (crowded, open) => {
      this.service.state.crowded = crowded
      if (!crowded) return log.enough(open)
      log.low(open)
      // Connections that wait for a caller's next request are closed first.
      this.server.closeIdleConnections()
    })
  }

  /** Sends the listening socket to the supervisor. Throws if it cannot. */
  lend(): void {
    lendListener(this.port)
  }

  /** Stops accepting connections; those that are open are closed after their next answer. */
  leave(): void {
    leaveListener(this.port)
    this.service.app.sockets.leave()
    this.server.reload(closingEach(this.service.app))
  }

  /** Closes the connections without a request. */
  async closeIdle(): Promise<void> {
    // After a busy turn, requests have arrived that are not read yet.
    await quietTurn()
    this.server.closeIdleConnections()
  }

  /** No request runs, and no connection is open. */
  get isQuiet(): boolean {
    return this.service.state.inFlight.size === 0 && connectionsOn(this.port) === 0
  }

  /**
   * Closes the listener and lets running requests finish for at most `drainSeconds`, or until `cut` resolves. Resolves
   * to whether all finished or some were cut.
   */
  drain(drainSeconds: number, cut: Promise<void>): Promise<'finished' | 'cut'> {
    const { state } = this.service
    state.draining = true
    this.service.app.sockets.leave()
    this.proxied?.stop()
    return drain({ server: this.server, inFlight: state.inFlight, drainSeconds, cut })
  }
}

/**
 * The handlers of an app, with `connection: close` in every response: Bun then closes the connection after it. A kept
 * connection that is closed at any other time may have a request under way, which its caller would see fail.
 */
function closingEach({ fetch, routes, ...app }: App): App {
  const closing =
    (handler: App['fetch']): App['fetch'] =>
    (request, server) => {
      const response = handler(request, server)
      return response instanceof Promise ? response.then(closed) : response && closed(response)
    }
  const paths = Object.entries(routes).map(([path, methods]) => {
    const handlers = Object.entries(methods).map(([method, handler]) => [method, closing(handler)] as const)
    return [path, Object.fromEntries(handlers)] as const
  })
  return { ...app, fetch: closing(fetch), routes: Object.fromEntries(paths) }
}

function closed(response: Response): Response {
  response.headers.set('connection', 'close')
  return response
}
