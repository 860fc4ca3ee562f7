/** What it costs to find out what a Redis lacks that was emptied: as much for a large outbox as for a small one. */

import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FoundOfNode } from '../../src/ledger/life-rows.ts'
import { Outbox } from '../../src/ledger/outbox.ts'
import { accountOf, settlementOf } from './conformance.ts'

const NOTHING: FoundOfNode = { figures: new Map(), reservations: new Map(), isLegacy: false, sinceMs: 0 }
const directories: string[] = []

afterEach(() => {
  for (const one of directories.splice(0)) rmSync(one, { recursive: true, force: true })
})

const [busy, quiet] = [accountOf({}, {}, 'busy'), accountOf({}, {}, 'quiet')]

/** An outbox in which all is taken: so many settlements of a busy organisation, ten of a quiet one. */
function outboxOf(count: number): Outbox {
  const directory = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  directories.push(directory)
  const outbox = new Outbox(directory)
  for (const { organization } of [busy, quiet]) {
    outbox.enter(organization, 7, NOTHING, [])
    outbox.entered(organization, 7)
  }
  for (let i = 0; i < count + 10; i++) {
    const account = i < count ? busy : quiet
    const closing = { id: `r-${i}`, settlement: settlementOf(5), admittedMs: Date.now(), direct: false }
    outbox.add({ account, closing, heldMicroUsd: 5 }, true)
    if (i % 5000 === 0) outbox.commit()
  }
  outbox.commit()
  for (let i = 0; i < count + 10; i++) outbox.taken(`r-${i}`, (i < count ? busy : quiet).organization, 7)
  outbox.commit()
  return outbox
}

/** CPU of the cheapest of five lives that are entered one after the other, in microseconds. */
function costOf(outbox: Outbox, organization: string): number {
  const costs = Array.from({ length: 5 }, (_, i) => {
    const before = process.cpuUsage()
    outbox.enter(organization, 10 + i, NOTHING, [])
    const { user, system } = process.cpuUsage(before)
    return user + system
  })
  return Math.min(...costs)
}

test.each([busy, quiet])(
  'of the organisation $organization',
  ({ organization }) => {
    const [small, large] = [outboxOf(2000), outboxOf(30_000)]
    expect(costOf(large, organization)).toBeLessThan(5 * costOf(small, organization) + 10_000)
    // All of it is given back, or sent again, whichever way.
    const rows = large.enter(organization, 99, NOTHING, [])
    const pending = large.expected(organization)
    const given = rows.reduce((sum, { requests }) => sum + requests, 0)
    expect(given + pending.pending).toBe(organization === 'busy' ? 30_000 : 10)
    small.close()
    large.close()
  },
  60_000,
)
