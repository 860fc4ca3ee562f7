/** Preloaded into a weir that counts nothing, for the comparison with one that does. A product has no such switch. */

import type { Ledger } from '../../src/ledger/ledger.ts'
import { TimedLedger } from '../../src/metrics/timed-ledger.ts'
import { WorkerFigures } from '../../src/metrics/worker-figures.ts'

WorkerFigures.prototype.record = () => {}

/** The calls go on without a look at the clock. */
const untimed: Pick<Ledger, 'reserve' | 'extend' | 'settle'> & ThisType<{ readonly ledger: Ledger }> = {
  reserve(account, hold) {
    return this.ledger.reserve(account, hold)
  },
  extend(reservation, soFar, wanted) {
    return this.ledger.extend(reservation, soFar, wanted)
  },
  settle(reservation, charge) {
    return this.ledger.settle(reservation, charge)
  },
}
Object.assign(TimedLedger.prototype, untimed)
