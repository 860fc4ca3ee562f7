/** Whether a provider's port can be reached: connects, looks and leaves. It sends a provider nothing. */

import { connect } from 'node:net'
import { connect as connectSecurely } from 'node:tls'

/**
 * False where no connection could be made in time; true where one could, or was refused: the request itself learns that at once, and
 * says it better. Leaves no socket behind, as `Bun.connect` would: that has none to close before it is connected, and the system goes on
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
