/**
 * The listening socket that systemd passes to the supervisor (sd_listen_fds(3)). systemd keeps it open while weir is
 * restarted: connections wait in it, and none is refused.
 */

import { hasLibc, isListening, localPort, preparePassedSocket } from '../system/libc.ts'
import { StartProblem } from '../system/start-problem.ts'

/** The number that the first descriptor of systemd always has. */
const FIRST_DESCRIPTOR = 3

export interface PassedSocket {
  readonly descriptor: number
  readonly port: number
}

/** Undefined if systemd has passed none. Throws `StartProblem` if weir cannot accept from what it has passed. */
export function passedSocket(
  env: Readonly<Record<string, string | undefined>>,
  pid = process.pid,
): PassedSocket | undefined {
  const { LISTEN_PID, LISTEN_FDS } = env
  // Variables of another process, which did not remove them.
  if (LISTEN_PID !== String(pid)) return undefined
  const count = Number(LISTEN_FDS)
  if (count !== 1)
    throw new StartProblem([
      `systemd passed ${count} sockets, and weir takes one: write one ListenStream= in weir.socket`,
    ])
  if (!hasLibc()) throw new StartProblem(['weir can accept from a socket of systemd only on 64-bit Linux with glibc'])
  const port = localPort(FIRST_DESCRIPTOR)
  if (port === undefined || !isListening(FIRST_DESCRIPTOR))
    throw new StartProblem(['the socket of systemd does not listen on a TCP port: write ListenStream=HOST:PORT'])
  preparePassedSocket(FIRST_DESCRIPTOR)
  return { descriptor: FIRST_DESCRIPTOR, port }
}

/** Why the socket does not fit `listen.port`, for the operator. */
export function portProblem(socket: PassedSocket, configured: number): string | undefined {
  if (configured === 0 || configured === socket.port) return undefined
  return (
    `listen.port: is ${configured}, and the socket of systemd listens on ${socket.port}; ` +
    'write the same port in weir.yaml and in ListenStream= of weir.socket'
  )
}
