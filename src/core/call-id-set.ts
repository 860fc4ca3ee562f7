/** Whether the ids of a request's calls may be sent as they are, found without decoding them. */

const LENGTH_MAX = 64
/** A power of 2, for half as many ids; doubled for a request that has more. */
const SLOTS = 1024
/** Ids that meet this many others on their way are not looked for any further: a caller may choose them so. */
const STEPS_MAX = 32
const LEGAL = Uint8Array.from({ length: 256 }, (_, code) => (/[\w-]/.test(String.fromCharCode(code)) ? 1 : 0))
const SECRET = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0

/** Of each slot: where an id begins and ends, or 0, and the entry of its call. */
const SLOT_INTS = 3

/** The ids of the calls of one request after the other. */
export class CallIdSet {
  private slots = new Int32Array(SLOT_INTS * SLOTS)
  private mask = SLOTS - 1
  private count = 0

  begin(): void {
    if (this.mask >= SLOTS) this.resize(SLOTS)
    else if (this.count > 0) this.slots.fill(0)
    this.count = 0
  }

  /** Adds the id of a call. False if it may not be sent as it is: it is not legal, or not certainly a new one. */
  add(bytes: Uint8Array, from: number, to: number, entry = 0): boolean {
    if (from === to || to - from > LENGTH_MAX) return false
    if (2 * this.count > this.mask) this.grow(bytes)
    let hash = SECRET
    // What `isLegalId` and `hashOf` do, in one loop.
    for (let at = from; at < to; at++) {
      const byte = bytes[at] ?? 0
      if (LEGAL[byte] === 0) return false
      hash = Math.imul(hash ^ byte, FACTOR)
    }
    const place = this.placeOf(bytes, from, to, hash ^ (hash >>> 15))
    if (place === -1 || this.slots[place + 1] !== 0) return false
    this.put(place, from, to, entry)
    return true
  }

  /** The entry of the call with this id; -1 if none was added. */
  find(bytes: Uint8Array, from: number, to: number): number {
    const place = this.placeOf(bytes, from, to, hashOf(bytes, from, to))
    return place === -1 || this.slots[place + 1] === 0 ? -1 : (this.slots[place + 2] ?? -1)
  }

  /** Where the id is, or would be; -1 if that takes too long. */
  private placeOf(bytes: Uint8Array, from: number, to: number, hash: number): number {
    const { slots, mask } = this
    let slot = hash & mask
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      const place = SLOT_INTS * slot
      const otherTo = slots[place + 1] ?? 0
      if (otherTo === 0 || areEqual(bytes, from, to, slots[place] ?? 0, otherTo)) return place
      slot = (slot + 1) & mask
    }
    return -1
  }

  private put(place: number, from: number, to: number, entry: number): void {
    const { slots } = this
    slots[place] = from
    slots[place + 1] = to
    slots[place + 2] = entry
    this.count++
  }

  private grow(bytes: Uint8Array): void {
    const { slots } = this
    this.resize(2 * (this.mask + 1))
    this.count = 0
    for (let at = 0; at < slots.length; at += SLOT_INTS) {
      const from = slots[at] ?? 0
      const to = slots[at + 1] ?? 0
      const place = to === 0 ? -1 : this.placeOf(bytes, from, to, hashOf(bytes, from, to))
      if (place !== -1) this.put(place, from, to, slots[at + 2] ?? 0)
    }
  }

  private resize(slots: number): void {
    this.slots = new Int32Array(SLOT_INTS * slots)
    this.mask = slots - 1
  }
}

/** Of FNV-1a. */
const FACTOR = 0x01000193

/** Whether every provider takes the id: letters, digits, `_` and `-`, at most 64. */
export function isLegalId(bytes: Uint8Array, from: number, to: number): boolean {
  if (from === to || to - from > LENGTH_MAX) return false
  for (let at = from; at < to; at++) if (LEGAL[bytes[at] ?? 0] === 0) return false
  return true
}

function hashOf(bytes: Uint8Array, from: number, to: number): number {
  let hash = SECRET
  for (let at = from; at < to; at++) hash = Math.imul(hash ^ (bytes[at] ?? 0), FACTOR)
  return hash ^ (hash >>> 15)
}

function areEqual(bytes: Uint8Array, from: number, to: number, otherFrom: number, otherTo: number): boolean {
  if (to - from !== otherTo - otherFrom) return false
  for (let at = from, other = otherFrom; at < to; at++, other++) if (bytes[at] !== bytes[other]) return false
  return true
}
