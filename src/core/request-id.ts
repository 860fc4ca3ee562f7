/**
 * Request ids. They are unique and hold the time at which they were made, so that a search for one reads one day of a
 * log, not all.
 */

const PATTERN = /^req_([0-9a-f]{12})7[0-9a-f]{19}$/

/** Bytes of an id after its time; 20 hexadecimal digits. */
const TAIL_BYTES = 10
/** Ids whose tails are made together, because a UUID of the runtime without its dashes cost 1 µs more. */
const TAILS = 64

const random = new Uint8Array(TAILS * TAIL_BYTES)
/** The tails that are still to be used, from `nextTail` on. */
let tails = ''
let nextTail = 0
/** `req_` and the time, for ids of the same millisecond. */
let head = ''
let headMs = Number.NaN

/**
 * The id in the log, the audit log and the reservation of a request. A version 7 UUID: 48 bits of Unix milliseconds,
 * the rest random.
 */
export function newRequestId(): string {
  const nowMs = Date.now()
  if (nowMs !== headMs) {
    headMs = nowMs
    head = `req_${nowMs.toString(16).padStart(12, '0')}`
  }
  if (nextTail === tails.length) makeTails()
  const tail = tails.slice(nextTail, nextTail + 2 * TAIL_BYTES)
  nextTail += 2 * TAIL_BYTES
  return head + tail
}

/** Random bytes, with the version and the variant of RFC 9562 in the bits where a UUID has them. */
function makeTails(): void {
  crypto.getRandomValues(random)
  for (let at = 0; at < random.length; at += TAIL_BYTES) {
    random[at] = 0x70 | ((random[at] ?? 0) & 0x0f)
    random[at + 2] = 0x80 | ((random[at + 2] ?? 0) & 0x3f)
  }
  tails = random.toHex()
  nextTail = 0
}

/** Unix milliseconds by the clock of the gateway that made the id; undefined for an id in another form. */
export function requestTimeMs(id: string): number | undefined {
  const hex = PATTERN.exec(id)?.[1]
  return hex === undefined ? undefined : Number.parseInt(hex, 16)
}
