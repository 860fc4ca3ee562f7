/** Watches how many file descriptors are left, so that connections are refused in good order before there are none. */

import fs from 'node:fs'

/** Above this share of the limit, new requests are refused: each needs one more descriptor for its provider, and the ledger a few. */
const CROWDED_SHARE = 0.8

/** The limit of open files of this process; undefined where the system does not say (no Linux). */
export function descriptorLimit(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(fs.readFileSync('/proc/self/limits', 'utf8'))
    return found?.[1] === undefined ? undefined : Number(found[1])
  } catch {
    // There is no such file outside Linux; without a limit to compare with, nothing is refused.
    return undefined
  }
}

/**
 * True where at least 80 % of the descriptors are taken. A new descriptor always gets the lowest free number, so that number is a lower
 * bound of how many are open: one system call, where listing 10,000 of them takes milliseconds.
 */
export function isCrowded(limit: number | undefined): boolean {
  if (limit === undefined) return false
  try {
    const lowestFree = fs.openSync('/dev/null', 'r')
    fs.closeSync(lowestFree)
    return lowestFree >= limit * CROWDED_SHARE
  } catch {
    // EMFILE: there is none left at all.
    return true
  }
}
