/** Watches the file descriptors of the process, so that weir rejects requests properly before there are none left. */

import fs from 'node:fs'
import { slowTicker, type Ticking } from '../../core/ticker.ts'

/**
 * Above this share of the limit, new requests are rejected: each needs another descriptor for its provider, and the
 * ledger a few.
 */
const CROWDED_SHARE = 0.8
/** From less than this, the limit is no nearer after 0.8 s than from 80 % after 250 ms. */
const CALM_SHARE = 0.25
const CHECK_MS = 250
/** Every second time that the slow ticker calls. */
const CALM_CHECK_MS = 700

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
 * Calls `found` now and repeatedly, with whether the process is crowded and how many are open: every 250 ms, and every
 * 0.8 s while under a quarter of the descriptors is in use. Four checks a second cost an idle worker 0.1 % of a core.
 */
export function watchDescriptors(limit: number | undefined, found: (crowded: boolean, open: number) => void): void {
  if (limit !== undefined) new DescriptorWatch(limit, found).check(performance.now())
}

class DescriptorWatch implements Ticking {
  place = -1
  private checkedMs = 0

  constructor(
    private readonly limit: number,
    private readonly found: (crowded: boolean, open: number) => void,
  ) {}

  tick(nowMs: number): void {
    if (nowMs - this.checkedMs >= CALM_CHECK_MS) this.check(nowMs)
  }

  check(nowMs: number): void {
    const open = used()
    this.checkedMs = nowMs
    this.found(isCrowded(this.limit, open), open)
    if (open < this.limit * CALM_SHARE) return slowTicker.add(this)
    slowTicker.remove(this)
    setTimeout(() => this.check(performance.now()), CHECK_MS).unref()
  }
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
