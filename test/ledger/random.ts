/** A seeded source of random values for property tests. Prints its seed; set `WEIR_SEED` to it to repeat a failure. */

import { SEED } from '../support/seed.ts'

/** The seed of this run, printed. */
export function randomSeed(law: string): number {
  console.log(`${law}: WEIR_SEED=${SEED}`)
  return SEED
}

/** SplitMix32: small, fast, and the same on every machine. */
export class Random {
  private state: number

  constructor(seed: number) {
    this.state = seed >>> 0
  }

  /** 32 random bits. */
  bits(): number {
    this.state = (this.state + 0x9e3779b9) >>> 0
    let z = this.state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) >>> 0
  }

  /** In [0, 1), with 53 bits. */
  unit(): number {
    return ((this.bits() >>> 5) * 0x4000000 + (this.bits() >>> 6)) / 0x20000000000000
  }

  /** A whole number from 0 up to, not including, `limit`. */
  below(limit: number): number {
    return Math.floor(this.unit() * limit)
  }

  /** True once in `n`. */
  oneIn(n: number): boolean {
    return this.below(n) === 0
  }

  maybe<T>(value: T): T | undefined {
    return this.oneIn(2) ? value : undefined
  }

  pick<T>(values: readonly T[]): T {
    const at = this.below(values.length)
    for (const value of values.slice(at, at + 1)) return value
    throw new RangeError('Nothing to pick from.')
  }
}
