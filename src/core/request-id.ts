/** The ids of requests: unique for ever, and each tells when it was made, so that whoever looks for one need not look through all. */

const PATTERN = /^req_([0-9a-f]{12})7[0-9a-f]{19}$/

/** It names the request in both logs and is the key of its reservation. A version 7 UUID: 48 bits of Unix milliseconds, the rest random. */
export function newRequestId(): string {
  return `req_${Bun.randomUUIDv7().replaceAll('-', '')}`
}

/** Unix milliseconds by the clock of the gateway that made it; undefined for an id that tells no time. */
export function requestTimeMs(id: string): number | undefined {
  const hex = PATTERN.exec(id)?.[1]
  return hex === undefined ? undefined : Number.parseInt(hex, 16)
}
