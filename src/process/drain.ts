/** The end of a worker: the listener closes, what runs may finish, what is left is cut, and everything is settled before the process ends. */

import type { Server } from 'bun'
import type { InFlight } from '../gateway/in-flight.ts'

/** After a cut, this long for settling and for the last bytes. */
const SETTLE_MS = 2000
/** A longer timer fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1

interface Draining {
  readonly server: Server<undefined>
  readonly inFlight: InFlight
  readonly drainSeconds: number
  /** Resolves when the operator will not wait any longer. */
  readonly cut: Promise<void>
}

/**
 * Bun's `stop()` closes the listener and idle connections at once, and resolves when the last answer has reached its socket. That
 * alone is not enough: a request whose caller has left may still have to be settled.
 */
export async function drain({ server, inFlight, drainSeconds, cut }: Draining): Promise<'finished' | 'cut'> {
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

/** Idle for good: a request may have entered between the last end and the closing of the listener. */
async function whenIdle(inFlight: InFlight): Promise<void> {
  while (inFlight.size > 0) await inFlight.idle()
}

function timer(ms: number): { readonly promise: Promise<void>; clear(): void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const handle = setTimeout(resolve, ms)
  return { promise, clear: () => clearTimeout(handle) }
}
