/**
 * Log lines of requests that came without a valid key. Anybody can send those: without a limit, a flood of them fills the operator's disk
 * and drowns the lines of customers. The first of each second are logged one by one, the others as one line a second with their number.
 */

import { type Ticking, ticker } from '../core/ticker.ts'
import type { RequestLine } from '../gateway/access-log.ts'

/** Lines a second from one address. */
const LINES_MAX = 20
const SECOND_MS = 1000
/** Addresses that are counted apart; those beyond share one count. */
const ADDRESSES_MAX = 1024
const OTHERS = 'others'

/** What stands for the requests that were not logged one by one. */
export interface Omitted {
  /** The address, or the /64 network of IPv6; `others` for those that are not counted apart. */
  readonly remote: string
  readonly requests: number
  /** How many of them were answered with which status. */
  readonly statuses: Readonly<Record<string, number>>
}

interface Count {
  lines: number
  readonly statuses: Map<number, number>
}

export class AnonymousLog implements Ticking {
  private readonly counts = new Map<string, Count>()
  private sinceMs = 0

  constructor(
    private readonly log: (line: RequestLine) => void,
    private readonly summarize: (omitted: Omitted) => void,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** `address` is the peer's. */
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

/** One host has a whole /64 of IPv6, and could count as any number of addresses. */
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
