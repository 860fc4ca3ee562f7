/**
 * Log lines of requests without a valid key. Anyone can send those: without a limit, a flood of them fills the
 * operator's disk and hides the lines of customers. The first lines of each second are logged one by one, the others as
 * one line a second with their number.
 */

import { type Ticking, ticker } from '../core/ticker.ts'
import type { RequestLine } from '../gateway/request-line.ts'

/** Lines a second for one address. */
const LINES_MAX = 20
const SECOND_MS = 1000
/** Addresses with a count of their own; the others share one count. */
const ADDRESSES_MAX = 1024
const OTHERS = 'others'

/** The requests of one second that were not logged one by one. */
export interface Omitted {
  /** The address, or the /64 network of IPv6; `others` for addresses without a count of their own. */
  readonly remote: string
  readonly requests: number
  /** How many of them got which status. */
  readonly statuses: Readonly<Record<string, number>>
}

interface Count {
  lines: number
  readonly statuses: Map<number, number>
}

export class AnonymousLog implements Ticking {
  place = -1
  private readonly counts = new Map<string, Count>()
  private sinceMs = 0

  constructor(
    private readonly log: (line: RequestLine) => void,
    private readonly summarize: (omitted: Omitted) => void,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Logs a line, or counts it. `address` is the peer's. */
  write(address: string, line: RequestLine): void {
    if (this.counts.size === 0) {
      this.sinceMs = this.nowMs()
      ticker.add(this)
    }
    const count = this.countOf(networkOf(address))
    if (count.lines < LINES_MAX) {
      count.lines++
      this.log(line)
    } else count.statuses.set(line.status, (count.statuses.get(line.status) ?? 0) + 1)
  }

  tick(nowMs: number): void {
    if (nowMs - this.sinceMs < SECOND_MS) return
    for (const [remote, { statuses }] of this.counts) {
      if (statuses.size === 0) continue
      const requests = [...statuses.values()].reduce((sum, each) => sum + each, 0)
      this.summarize({ remote, requests, statuses: Object.fromEntries(statuses) })
    }
    this.counts.clear()
    ticker.remove(this)
  }

  private countOf(remote: string): Count {
    const known = this.counts.get(remote)
    if (known !== undefined) return known
    if (this.counts.size >= ADDRESSES_MAX && remote !== OTHERS) return this.countOf(OTHERS)
    const count = { lines: 0, statuses: new Map<number, number>() }
    this.counts.set(remote, count)
    return count
  }
}

/** One IPv6 host has a whole /64 network, and could otherwise have any number of counts. */
function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = address.replace(/%.*$/, '').split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - first.length - last.length)
  const groups = [...first, ...new Array<string>(zeros).fill('0'), ...last]
  return `${groups.slice(0, 4).join(':')}::/64`
}
