/** The gauges of a worker that does nothing, for tests that post figures themselves. */

import type { WorkerGauges } from '../../src/metrics/figures-post.ts'

export const IDLE_GAUGES: WorkerGauges = {
  inFlight: 0,
  streams: 0,
  sockets: 0,
  socketStateBytes: 0,
  outboxPending: 0,
  loopLagSeconds: 0,
}
