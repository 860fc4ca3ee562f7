/** Measures the calls of a ledger. */

import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../ledger/ledger.ts'

interface Times {
  observe(seconds: number): void
}

type Operation = 'reserve' | 'extend' | 'settle'

export class TimedLedger implements Ledger {
  private readonly reserves: Times
  private readonly extensions: Times
  private readonly settlements: Times

  constructor(
    private readonly ledger: Ledger,
    timesOf: (operation: Operation) => Times,
  ) {
    this.reserves = timesOf('reserve')
    this.extensions = timesOf('extend')
    this.settlements = timesOf('settle')
  }

  reserve(account: Account, hold: Hold): Reservation | Promise<Reservation> {
    const startMs = performance.now()
    let result: Reservation | Promise<Reservation> | undefined
    try {
      result = this.ledger.reserve(account, hold)
      return result
    } finally {
      observe(this.reserves, startMs, result)
    }
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): boolean | Promise<boolean> {
    const startMs = performance.now()
    let result: boolean | Promise<boolean> | undefined
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

/** A ledger that answers at once costs no promise. A call that throws, or whose promise rejects, counts as well. */
function observe(times: Times, startMs: number, result: unknown): void {
  if (result instanceof Promise) observeLater(times, startMs, result)
  else times.observe((performance.now() - startMs) / 1000)
}

function observeLater(times: Times, startMs: number, result: Promise<unknown>): void {
  const end = () => times.observe((performance.now() - startMs) / 1000)
  result.then(end, end)
}
