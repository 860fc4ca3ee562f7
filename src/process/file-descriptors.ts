/** Watches the file descriptors of the process, so that weir rejects requests properly before there are none left. */

import fs from 'node:fs'

/**
 * Above this share of the limit, new requests are rejected: each needs another descriptor for its provider, and the
 * ledger a few.
 */
const CROWDED_SHARE = 0.8
/** From less than this, the limit is no nearer after a second than from 80 % after 250 ms. */
const CALM_SHARE = 0.25
const CHECK_MS = 250
const CALM_CHECK_MS = 1000

/** The limit of open files of this process; undefined on systems other than Linux. */
export function descriptorLimit(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(fs.readFileSync('/proc/self/limits', 'utf8'))
    return found?.[1] === undefined ? undefined : Number(found[1])
  } catch {
    // There is no such file outside Linux. Without a known limit, nothing is rejected.
    return undefined
  }
}

/** True if at least 80 % of the descriptors are in use. */
export function isCrowded(limit: number | undefined, open = used()): boolean {
  return limit !== undefined && open >= limit * CROWDED_SHARE
}

/**
 * Calls `found` now and repeatedly, with whether the process is crowded: every 250 ms, and every second while under a
 * quarter of the descriptors is in use. Four checks a second cost an idle worker 0.1 % of a core.
 */
export function watchDescriptors(limit: number | undefined, found: (crowded: boolean) => void): void {
  if (limit === undefined) return
  const check = () => {
    const open = used()
    found(isCrowded(limit, open))
    setTimeout(check, open < limit * CALM_SHARE ? CALM_CHECK_MS : CHECK_MS).unref()
  }
  check()
}

function used(): number {
  return taken() ?? lowestFree()
}

/**
 * The number of open descriptors, counted by the kernel (Linux 6.2 and newer) in one system call; listing 10,000
 * takes milliseconds.
 */
function taken(): number | undefined {
  const { size } = fs.statSync('/proc/self/fd')
  return size === 0 ? undefined : size
}

/**
 * A new descriptor gets the lowest free number, which is a lower bound of the number of open ones, and close to it
 * while load grows.
 */
function lowestFree(): number {
  try {
    const descriptor = fs.openSync('/dev/null', 'r')
    fs.closeSync(descriptor)
    return descriptor
  } catch {
    // EMFILE: none is left.
    return Number.POSITIVE_INFINITY
  }
}
