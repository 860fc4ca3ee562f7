/** Measures the calls of a ledger. */

import { Later, type LaterListener } from '../core/later.ts'
import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../ledger/ledger.ts'

interface Times {
  observe(seconds: number): void
}

type LedgerOperation = 'reserve' | 'extend' | 'settle'

export class TimedLedger implements Ledger {
  private readonly reserves: Times
  private readonly extensions: Times
  private readonly settlements: Times

  constructor(
    private readonly ledger: Ledger,
    timesOf: (operation: LedgerOperation) => Times,
  ) {
    this.reserves = timesOf('reserve')
    this.extensions = timesOf('extend')
    this.settlements = timesOf('settle')
  }

  reserve(account: Account, hold: Hold, before?: Reservation): ReturnType<Ledger['reserve']> {
    const startMs = performance.now()
    let result: ReturnType<Ledger['reserve']> | undefined
    try {
      result = this.ledger.reserve(account, hold, before)
      return result
    } finally {
      observe(this.reserves, startMs, result)
    }
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): ReturnType<Ledger['extend']> {
    const startMs = performance.now()
    let result: ReturnType<Ledger['extend']> | undefined
    try {
      result = this.ledger.extend(reservation, soFar, wanted)
      return result
    } finally {
      observe(this.extensions, startMs, result)
    }
  }

  settle(reservation: Reservation, charge: Charge): ReturnType<Ledger['settle']> {
    const startMs = performance.now()
    let result: ReturnType<Ledger['settle']> | undefined
    try {
      result = this.ledger.settle(reservation, charge)
      return result
    } finally {
      observe(this.settlements, startMs, result)
    }
  }

  health(): LedgerHealth {
    return this.ledger.health()
  }

  askHealth(): Promise<LedgerHealth> {
    return this.ledger.askHealth()
  }

  close(): Promise<void> {
    return this.ledger.close()
  }
}

/** A call that throws, or is rejected later, counts as well. */
function observe(times: Times, startMs: number, result: unknown): void {
  if (result instanceof Later) result.listen(new Timing(times, startMs))
  else times.observe((performance.now() - startMs) / 1000)
}

class Timing implements LaterListener<unknown> {
  constructor(
    private readonly times: Times,
    private readonly startMs: number,
  ) {}

  resolved(): void {
    this.times.observe((performance.now() - this.startMs) / 1000)
  }

  rejected(): void {
    this.resolved()
  }
}
