/** The count of request bodies in memory: what it admits, and that it always returns to zero. */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import { BodyMemory, type BodyShare } from '../../src/gateway/body-memory.ts'
import { property } from '../support/random.ts'

const KIB = 1024
const MIB = KIB * KIB
const limits = { organizationBytes: 64 * MIB, workerBytes: 512 * MIB }

/** The status and `retry-after` of a rejection; undefined if the bytes were admitted. */
function refusal(share: BodyShare, bytes: number): unknown {
  try {
    share.take(bytes)
    return undefined
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    return [error.row.status, error.code, error.detail.retryAfterSeconds]
  }
}

describe('what is admitted', () => {
  test('six bodies of 10 MiB of one organization, not seven; another organization has its own', () => {
    const memory = new BodyMemory(limits)
    const shares = Array.from({ length: 7 }, () => memory.share('acme'))
    expect(shares.map((share) => refusal(share, 10 * MIB))).toEqual([
      ...new Array(6).fill(undefined),
      [429, 'rate_limit_exceeded', 1],
    ])
    expect(refusal(memory.share('other'), 10 * MIB)).toBeUndefined()
    shares[0]?.release()
    expect(refusal(shares[6] ?? memory.share('acme'), 10 * MIB)).toBeUndefined()
  })

  test('large bodies of many organizations leave room for small ones', () => {
    const memory = new BodyMemory(limits)
    let refused: unknown
    for (let n = 0; refused === undefined; n++) refused = refusal(memory.share(`org${n}`), 10 * MIB)
    expect(refused).toEqual([503, 'overloaded', 1])
    expect(memory.heldBytes).toBeLessThanOrEqual(limits.workerBytes)
    const small = Array.from({ length: 100 }, () => refusal(memory.share('late'), 64 * KIB))
    expect(small).toEqual(new Array(100).fill(undefined))
  })

  test('an undeclared body is counted as it grows, and refused when it passes the limit', () => {
    const memory = new BodyMemory({ ...limits, organizationBytes: 10 * MIB })
    const share = memory.share('acme')
    for (let n = 0; n < 160; n++) expect(refusal(share, 64 * KIB)).toBeUndefined()
    expect(refusal(share, 1)).toEqual([429, 'rate_limit_exceeded', 1])
    share.release()
    expect(memory.heldBytes).toBe(0)
  })

  test('a body that still arrives after its request has ended is not counted, and not read', () => {
    const memory = new BodyMemory(limits)
    const share = memory.share('acme')
    share.take(1)
    share.release()
    expect(() => share.take(1)).toThrow(CallerError)
    expect(memory.heldBytes).toBe(0)
  })
})

property('the count stays within its limits, and nothing is left once all requests have ended', 100, (random) => {
  const memory = new BodyMemory({ organizationBytes: 16 * MIB, workerBytes: 60 * MIB })
  const running: { readonly share: BodyShare; readonly organization: string; bytes: number }[] = []
  for (let step = 0; step < 200; step++) {
    const organization = `org${random.below(6)}`
    const one = running[random.below(running.length)]
    if (one === undefined || random.chance(0.4))
      running.push({ share: memory.share(organization), organization, bytes: 0 })
    else if (random.chance(0.5)) {
      const bytes = random.below(random.pick([KIB, 100 * KIB, 5 * MIB]))
      if (refusal(one.share, bytes) === undefined) one.bytes += bytes
    } else if (random.chance(0.3)) one.share.sent()
    else {
      one.share.release()
      if (random.chance(0.2)) one.share.release()
      running.splice(running.indexOf(one), 1)
    }
    // What the requests were granted and have not returned.
    const sums = new Map<string, number>()
    for (const each of running) sums.set(each.organization, (sums.get(each.organization) ?? 0) + each.bytes)
    for (const sum of sums.values()) expect(sum).toBeLessThanOrEqual(16 * MIB)
    expect(memory.heldBytes).toBeGreaterThanOrEqual([...sums.values()].reduce((sum, each) => sum + each, 0))
    expect(memory.heldBytes).toBeLessThanOrEqual(60 * MIB)
  }
  for (const { share } of running) share.release()
  expect(memory.heldBytes).toBe(0)
  expect(refusal(memory.share('org0'), 10 * MIB)).toBeUndefined()
})
