/**
 * Random cases that can be repeated: a failing property test reports the seed of its case, and `WEIR_SEED` runs that
 * case first.
 */

import { test } from 'bun:test'
import { SEED } from './seed.ts'

/** A small random generator (sfc32), the same on every machine. */
export class Random {
  private a: number
  private b = 0x9e3779b9
  private c = 0x243f6a88
  private counter = 1

  constructor(readonly seed: number) {
    this.a = seed | 0
    for (let i = 0; i < 12; i++) this.word()
  }

  /** From 0 up to, but not including, `end`. */
  below(end: number): number {
    return Math.floor((this.word() / 2 ** 32) * end)
  }

  /** From `first` to `last`, both included. */
  between(first: number, last: number): number {
    return first + this.below(last - first + 1)
  }

  chance(probability: number): boolean {
    return this.word() / 2 ** 32 < probability
  }

  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[this.below(choices.length)] ?? choices[0]
  }

  /** A list of at most `max` items, possibly empty. */
  list<T>(max: number, make: () => T): T[] {
    return Array.from({ length: this.below(max + 1) }, make)
  }

  /** The list in random pieces; joined, they are the list again. */
  pieces(text: string, most: number): string[] {
    const ends = new Set([text.length, ...Array.from({ length: this.below(most) }, () => this.between(0, text.length))])
    const sorted = [...ends].sort((one, other) => one - other)
    return sorted.map((end, at) => text.slice(sorted[at - 1] ?? 0, end)).filter((piece) => piece !== '')
  }

  private word(): number {
    const sum = (this.a + this.b + this.counter++) | 0
    this.a = this.b ^ (this.b >>> 9)
    this.b = (this.c + (this.c << 3)) | 0
    this.c = ((this.c << 21) | (this.c >>> 11)) + sum
    this.c |= 0
    return sum >>> 0
  }
}

/** A test of `cases` random cases. A failure reports the seed that repeats it. */
export function property(name: string, cases: number, body: (random: Random) => void | Promise<void>): void {
  test(name, async () => {
    for (let seed = SEED; seed < SEED + cases; seed++) {
      try {
        await body(new Random(seed))
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error)
        throw new Error(`case ${seed - SEED} failed; WEIR_SEED=${seed} repeats it\n${message}`, { cause: error })
      }
    }
  })
}
