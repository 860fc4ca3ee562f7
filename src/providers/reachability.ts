/** Tests whether a provider accepts connections, without sending it anything. */

import { connect } from 'node:net'
import { connect as connectSecurely } from 'node:tls'

/**
 * False if no connection could be made in time. True if one could, or was rejected: the request itself reports that at
 * once. `node:net`, because a `Bun.connect` socket cannot be closed before it is connected, and the kernel would go on
 * trying for two minutes.
 */
export async function canConnect(url: string, ms: number): Promise<boolean> {
  const { hostname, port, protocol } = new URL(url)
  const isSecure = protocol === 'https:'
  const place = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (isSecure ? 443 : 80)) }
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), ms)
  const socket = isSecure ? connectSecurely(place) : connect(place)
  socket.once(isSecure ? 'secureConnect' : 'connect', () => resolve(true))
  socket.on('error', () => resolve(true))
  socket.on('close', () => resolve(true))
  const can = await promise
  clearTimeout(timer)
  socket.destroy()
  return can
}
