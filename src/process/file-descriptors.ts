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

/** True where at least 80 % of the descriptors are taken. */
export function isCrowded(limit: number | undefined): boolean {
  if (limit === undefined) return false
  return (taken() ?? lowestFree()) >= limit * CROWDED_SHARE
}

/** How many are open, counted by the kernel (Linux 6.2 and newer): one system call, where listing 10,000 of them takes milliseconds. */
function taken(): number | undefined {
  const { size } = fs.statSync('/proc/self/fd')
  return size === 0 ? undefined : size
}

/** A new descriptor always gets the lowest free number: a lower bound of how many are open, and near to it under a growing load. */
function lowestFree(): number {
  try {
    const descriptor = fs.openSync('/dev/null', 'r')
    fs.closeSync(descriptor)
    return descriptor
  } catch {
    // EMFILE: there is none left at all.
    return Number.POSITIVE_INFINITY
  }
}
