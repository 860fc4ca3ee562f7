/**
 * A hash table of slot numbers, with open addressing and linear probing, at most half full. What is in a slot, and its
 * hash, is kept by its owner.
 */

/** No slot. */
export const NONE = -1

export class SlotIndex {
  /** The slot of each entry plus 1; 0 is an empty entry. */
  private places = new Uint32Array(64)
  private count = 0

  /** `hashOf`: the hash of a slot that was added, the same until it is removed. */
  constructor(private readonly hashOf: (slot: number) => number) {}

  add(slot: number): void {
    this.expect(this.count + 1)
    this.place(slot)
    this.count++
  }

  /** Makes room for `count` slots at once. */
  expect(count: number): void {
    if (count * 2 <= this.places.length) return
    const old = this.places
    this.places = new Uint32Array(powerOfTwo(count * 2))
    for (const place of old) if (place !== 0) this.place(place - 1)
  }

  /** The first slot of the hash for which `fits` is true, or NONE. */
  find(hash: number, fits: (slot: number) => boolean): number {
    const mask = this.places.length - 1
    for (let i = hash & mask; ; i = (i + 1) & mask) {
      const place = this.places[i] ?? 0
      if (place === 0) return NONE
      if (fits(place - 1)) return place - 1
    }
  }

  /** Moves the following entries up, so that no gap ends a search too early. */
  remove(slot: number): void {
    const { places } = this
    const mask = places.length - 1
    let gap = this.hashOf(slot) & mask
    while (places[gap] !== slot + 1) gap = (gap + 1) & mask
    for (let i = (gap + 1) & mask; ; i = (i + 1) & mask) {
      const place = places[i] ?? 0
      if (place === 0) break
      const home = this.hashOf(place - 1) & mask
      if (((i - home) & mask) < ((i - gap) & mask)) continue
      places[gap] = place
      gap = i
    }
    places[gap] = 0
    this.count--
  }

  private place(slot: number): void {
    const mask = this.places.length - 1
    let i = this.hashOf(slot) & mask
    while (this.places[i] !== 0) i = (i + 1) & mask
    this.places[i] = slot + 1
  }
}

/** The smallest power of two that is not less. */
export function powerOfTwo(least: number): number {
  return 2 ** Math.ceil(Math.log2(least))
}
