/** Checks that weir can listen on an address, before any worker tries. */

import { isIPv6 } from 'node:net'
import type { Address } from './ipc.ts'

/** weir cannot listen on an address. The message is for the operator. */
export class AddressProblem extends Error {
  override readonly name = 'AddressProblem'
}

/**
 * Listens on the address exclusively for a moment. The workers share their port (`reusePort`), so they would silently
 * share it with another weir, too. Returns the address; throws `AddressProblem`.
 */
export function probe(address: Address): Address {
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
export function explain(address: Address, error: unknown): string {
  const at = `cannot listen on ${authority(address)}`
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'EADDRINUSE':
      return `${at}: another program listens there`
    case 'EACCES':
      return `${at}: no permission (ports below 1024 need CAP_NET_BIND_SERVICE)`
    case 'EADDRNOTAVAIL':
      return `${at}: this machine has no such address`
    case 'ENOENT':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${at}: the host name has no address`
    default:
      return `${at}: ${typeof code === 'string' ? code : 'no such host name, or no address to listen on'}`
  }
}

/** `host:port` as in a URL. */
export function authority(address: Address): string {
  return `${isIPv6(address.host) ? `[${address.host}]` : address.host}:${address.port}`
}
