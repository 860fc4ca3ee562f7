/** Whether the ids of a request's calls may be sent as they are, found without decoding them. */

const LENGTH_MAX = 64
/** A power of 2, for half as many ids; doubled for a request that has more. */
const SLOTS = 1024
/** Ids that meet this many others on their way are not looked for any further: a caller may choose them so. */
const STEPS_MAX = 32
const LEGAL = Uint8Array.from({ length: 256 }, (_, code) => (/[\w-]/.test(String.fromCharCode(code)) ? 1 : 0))
const SECRET = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0

/** The ids of the calls of one request after the other. */
export class CallIdSet {
  /** By slot: where an id begins and ends, or 0. */
  private slots = new Int32Array(2 * SLOTS)
  private mask = SLOTS - 1
  private count = 0

  begin(): void {
    if (this.mask >= SLOTS) this.resize(SLOTS)
    else if (this.count > 0) this.slots.fill(0)
    this.count = 0
  }

  /** Adds the id of a call. False if it may not be sent as it is: it is not legal, or not certainly a new one. */
  add(bytes: Uint8Array, from: number, to: number): boolean {
    if (!isLegalId(bytes, from, to)) return false
    if (2 * this.count > this.mask) this.grow(bytes)
    return this.put(bytes, from, to)
  }

  private put(bytes: Uint8Array, from: number, to: number): boolean {
    const { slots, mask } = this
    let slot = hashOf(bytes, from, to) & mask
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      const [otherFrom, otherTo] = [slots[2 * slot] ?? 0, slots[2 * slot + 1] ?? 0]
      if (otherTo === 0) {
        slots[2 * slot] = from
        slots[2 * slot + 1] = to
        this.count++
        return true
      }
      if (areEqual(bytes, from, to, otherFrom, otherTo)) return false
      slot = (slot + 1) & mask
    }
    return false
  }

  private grow(bytes: Uint8Array): void {
    const { slots } = this
    this.resize(2 * (this.mask + 1))
    this.count = 0
    for (let at = 0; at < slots.length; at += 2) {
      const to = slots[at + 1] ?? 0
      if (to !== 0) this.put(bytes, slots[at] ?? 0, to)
    }
  }

  private resize(slots: number): void {
    this.slots = new Int32Array(2 * slots)
    this.mask = slots - 1
  }
}

/** Whether every provider takes the id: letters, digits, `_` and `-`, at most 64. */
export function isLegalId(bytes: Uint8Array, from: number, to: number): boolean {
  if (from === to || to - from > LENGTH_MAX) return false
  for (let at = from; at < to; at++) if (LEGAL[bytes[at] ?? 0] === 0) return false
  return true
}

function hashOf(bytes: Uint8Array, from: number, to: number): number {
  let hash = SECRET
  for (let at = from; at < to; at++) hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01000193)
  return hash ^ (hash >>> 15)
}

function areEqual(bytes: Uint8Array, from: number, to: number, otherFrom: number, otherTo: number): boolean {
  if (to - from !== otherTo - otherFrom) return false
  for (let at = from, other = otherFrom; at < to; at++, other++) if (bytes[at] !== bytes[other]) return false
  return true
}
