/**
 * The listening socket of a worker, and how a new worker takes it over from an old one.
 *
 * The kernel keeps connections that no process has accepted yet with their listening socket, and resets them when the
 * last process closes it. So the new worker must accept from the same socket, not from another one on the same port.
 * `Bun.serve` can only open sockets of its own: the new worker lets it open one, and puts the one that it received in
 * its place, under the same descriptor, before any connection can arrive.
 */

import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import {
  closeDescriptor,
  isListening,
  localPort,
  receiveDescriptor,
  replaceDescriptor,
  sendDescriptor,
  unwatchDescriptor,
  type Watch,
  watchDescriptor,
} from '../system/libc.ts'

/** The descriptor under which a worker has its end of the socket pair that it shares with the supervisor. */
const CHANNEL = 3

/** Sends the socket that listens on `port` to the supervisor. Throws `SystemCallError`, or if there is none. */
export function lendListener(port: number): void {
  sendDescriptor(CHANNEL, listenerOn(port))
}

/**
 * Lets what listens on `port` in this process accept from the socket that the supervisor has sent, instead of its own.
 * Throws if that fails.
 */
export function adoptListener(port: number): void {
  const received = receiveDescriptor(CHANNEL)
  const own = listenerOn(port)
  const watch = watchOf(own)
  replaceDescriptor(received, own)
  // The event loop watched the socket that is closed now, not the descriptor.
  watchDescriptor(own, watch)
  closeDescriptor(received)
}

/**
 * Stops accepting from the socket on `port`, which another process accepts from by now. Its connections are not
 * affected. The descriptor stays in use, because the server closes it at its end.
 */
export function leaveListener(port: number): void {
  const own = listenerOn(port)
  unwatchDescriptor(own, watchOf(own))
  const nothing = openSync('/dev/null', 'r')
  replaceDescriptor(nothing, own)
  closeSync(nothing)
}

/** The number of connections to `port` that this process has open. */
export function connectionsOn(port: number): number {
  return descriptors().filter((descriptor) => localPort(descriptor) === port && !isListening(descriptor)).length
}

function listenerOn(port: number): number {
  const found = descriptors().find((descriptor) => isListening(descriptor) && localPort(descriptor) === port)
  if (found === undefined) throw new Error(`No descriptor of this process listens on port ${port}.`)
  return found
}

/** How the event loop watches a descriptor, from what the kernel reports of its `epoll` instance. */
function watchOf(descriptor: number): Watch {
  const entry = new RegExp(`^tfd: +${descriptor} events: +([0-9a-f]+) data: +([0-9a-f]+)`, 'm')
  for (const epoll of descriptors()) {
    if (!isEpoll(epoll)) continue
    const [, events, data] = entry.exec(readFileSync(`/proc/self/fdinfo/${epoll}`, 'utf8')) ?? []
    if (events !== undefined && data !== undefined)
      return { epoll, events: Number.parseInt(events, 16), data: BigInt(`0x${data}`) }
  }
  throw new Error(`The event loop does not watch descriptor ${descriptor}.`)
}

function isEpoll(descriptor: number): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`) === 'anon_inode:[eventpoll]'
  } catch {
    // The descriptor by which the list was read is closed again.
    return false
  }
}

function descriptors(): readonly number[] {
  return readdirSync('/proc/self/fd').map(Number)
}
