/**
 * The end of a worker: the listener closes, running requests may finish, the rest is cut, and all are settled before
 * the process ends.
 */

import { TIMER_MS_MAX } from '../../core/durations.ts'
import { quietTurn } from '../../core/event-loop.ts'
import type { InFlight } from '../../gateway/in-flight.ts'

/** How long requests that were cut may take to settle and to send their last bytes. */
const SETTLE_MS = 2000

interface Draining {
  readonly server: { stop(now?: boolean): Promise<void> }
  readonly inFlight: InFlight
  readonly drainSeconds: number
  /** Resolves when running requests must be cut at once. */
  readonly cut: Promise<void>
}

/**
 * Resolves to whether all requests finished or some were cut. Bun's `stop()` closes the listener and idle connections
 * at once, and resolves when the last answer has reached its socket. That alone is not enough: a request whose caller
 * disconnected may still have to settle.
 */
export async function drain({ server, inFlight, drainSeconds, cut }: Draining): Promise<'finished' | 'cut'> {
  // After a busy turn, requests have arrived that are not read yet: they get an answer.
  await quietTurn()
  const finished = server
    .stop()
    .then(() => whenIdle(inFlight))
    .then(() => 'finished' as const)
  const limit = timer(Math.min(drainSeconds * 1000, TIMER_MS_MAX))
  const end = await Promise.race([finished, limit.promise.then(() => 'cut' as const), cut.then(() => 'cut' as const)])
  limit.clear()
  if (end === 'cut') {
    inFlight.cut('drained')
    const settled = timer(SETTLE_MS)
    await Promise.race([whenIdle(inFlight), settled.promise])
    settled.clear()
  }
  await server.stop(true)
  return end
}

/** A request may arrive between the end of the last one and the closing of the listener, hence the loop. */
async function whenIdle(inFlight: InFlight): Promise<void> {
  while (inFlight.size > 0) await inFlight.idle()
}

function timer(ms: number): { readonly promise: Promise<void>; clear(): void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const handle = setTimeout(resolve, ms)
  return { promise, clear: () => clearTimeout(handle) }
}
