/**
 * Request ids. They are unique and hold the time at which they were made, so that a search for one reads one day of a
 * log, not all.
 */

const PATTERN = /^req_([0-9a-f]{12})7[0-9a-f]{19}$/

/**
 * The id in the log, the audit log and the reservation of a request. A version 7 UUID: 48 bits of Unix milliseconds,
 * the rest random.
 */
export function newRequestId(): string {
  return `req_${Bun.randomUUIDv7().replaceAll('-', '')}`
}

/** Unix milliseconds by the clock of the gateway that made the id; undefined for an id in another form. */
export function requestTimeMs(id: string): number | undefined {
  const hex = PATTERN.exec(id)?.[1]
  return hex === undefined ? undefined : Number.parseInt(hex, 16)
}
