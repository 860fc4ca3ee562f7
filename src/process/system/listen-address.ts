/** Where weir listens, and a check that it can, before any worker tries. */

import { isIPv6 } from 'node:net'
import { codeOf } from '../../core/system-error.ts'

/**
 * Where the workers listen. The supervisor decides, because all of them share one port. Port 0: the first worker
 * takes a free one.
 */
export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** weir cannot listen on an address. The message is for the operator. */
export class AddressProblem extends Error {
  override readonly name = 'AddressProblem'
}

/**
 * Listens on the address exclusively for a moment. The workers share their port (`reusePort`), so they would silently
 * share it with another weir, too. Returns the address; throws `AddressProblem`.
 */
export function probe(address: ListenAddress): ListenAddress {
  try {
    const listener = Bun.listen({
      hostname: address.host,
      port: address.port,
      socket: {
        data: () => {},
        open: (socket) => void socket.terminate(),
      },
    })
    const port = listener.port
    listener.stop(true)
    return { host: address.host, port }
  } catch (error) {
    throw new AddressProblem(explain(address, error), { cause: error })
  }
}

/** Why weir cannot listen on an address, in one line. */
export function explain(address: ListenAddress, error: unknown): string {
  const at = `cannot listen on ${authority(address)}`
  const code = codeOf(error)
  return `${at}: ${CAUSES[code] ?? (code || 'no such host name, or no address to listen on')}`
}

const NO_ADDRESS = 'the host name has no address'
const CAUSES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there',
  EACCES: 'no permission (ports below 1024 need CAP_NET_BIND_SERVICE)',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOENT: NO_ADDRESS,
  ENOTFOUND: NO_ADDRESS,
  EAI_AGAIN: NO_ADDRESS,
}

/** `host:port` as in a URL. */
export function authority(address: ListenAddress): string {
  return `${isIPv6(address.host) ? `[${address.host}]` : address.host}:${address.port}`
}
