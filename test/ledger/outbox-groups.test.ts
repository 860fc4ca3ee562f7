/**
 * What is committed together is one entry of the outbox until it is acknowledged or split. Whatever two processes that
 * share the file do, it then has each settlement that was committed and whose acknowledgement was not.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import type { Settlement } from '../../src/ledger/redis/protocol/settlement.ts'
import { accountOf, chargeOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { Random, randomSeed } from './random.ts'
import { logged, NOTHING } from './seen.ts'

const EPOCH = 7
const accounts = [accountOf({ requestsPerMinute: 5 }, spend({ day: 9 }), 'one'), accountOf({}, {}, 'two')]

const { open, directory } = opened()

/** Another process with the file of one that has entered the epochs. */
function reentered(at: string, now: () => number): Outbox {
  const outbox = new Outbox(at, now)
  open.push(outbox)
  return outbox
}

async function entered(at: string, now: () => number = Date.now): Promise<Outbox> {
  const outbox = reentered(at, now)
  for (const { organization } of accounts) {
    await outbox.enter(organization, EPOCH, NOTHING, [])
    outbox.entered(organization, EPOCH)
  }
  return outbox
}

let made = 0

function settlement(account = accounts[0] ?? accountOf()): Settlement {
  made += 1
  return { id: `r-${made}`, account, admittedMs: 1_000_000 + made, charge: chargeOf(made), heldMicroUsd: made }
}

function rowsIn(at: string, table: 'outbox' | 'outbox_group' | 'request'): number {
  const file = new Database(join(at, 'outbox.sqlite'))
  const { n = -1 } = file.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get() ?? {}
  file.close()
  return n
}

function add(outbox: Outbox, count: number): readonly Settlement[] {
  const settlements = Array.from({ length: count }, (_, i) => settlement(accounts[i % accounts.length]))
  for (const one of settlements) void logged(outbox, one, true)
  outbox.commit()
  return settlements
}

function take(outbox: Outbox, settlements: readonly Settlement[], epoch = EPOCH): void {
  for (const { id, account } of settlements) outbox.taken(id, account.organization, epoch)
}

test('settlements that are acknowledged in time never get entries of their own', async () => {
  const at = directory()
  const outbox = await entered(at)
  const settlements = add(outbox, 40)
  expect([outbox.pendingCount(), rowsIn(at, 'outbox'), rowsIn(at, 'outbox_group')]).toEqual([40, 0, 1])
  take(outbox, settlements.slice(0, 39))
  outbox.commit()
  expect([outbox.pendingCount(), rowsIn(at, 'outbox'), rowsIn(at, 'outbox_group')]).toEqual([1, 0, 1])
  take(outbox, settlements.slice(39))
  outbox.commit()
  expect([outbox.pendingCount(), rowsIn(at, 'outbox'), rowsIn(at, 'outbox_group')]).toEqual([0, 0, 0])
  expect(rowsIn(at, 'request')).toBe(40)
})

test('after a kill the next process finds each settlement as it was, and that it may have been sent', async () => {
  const at = directory()
  const settlements = add(await entered(at, () => 1_000_000), 10)
  const next = await entered(at)
  const found = next.pending(100)
  expect(found.map((one) => one.settlement)).toEqual([...settlements])
  expect(found.every(({ wasSent, epoch }) => wasSent && epoch === EPOCH)).toBe(true)
  take(next, settlements)
  next.commit()
  expect(next.pending(100, true)).toEqual([])
})

test('what is not acknowledged after 2 s gets an entry; what is, does not', async () => {
  const at = directory()
  let now = 1_000_000
  const outbox = await entered(at, () => now)
  const settlements = add(outbox, 10)
  take(outbox, settlements.slice(0, 7))
  expect(outbox.pending(100)).toEqual([])
  now += 2000
  outbox.commit()
  expect([rowsIn(at, 'outbox'), rowsIn(at, 'outbox_group')]).toEqual([3, 0])
  expect(outbox.pending(100).map((one) => one.settlement)).toEqual(settlements.slice(7))
  take(outbox, settlements.slice(7))
  outbox.commit()
  expect(outbox.pending(100, true)).toEqual([])
})

test('an acknowledgement from an epoch that has ended leaves the settlement to be sent again', async () => {
  const outbox = await entered(directory())
  const settlements = add(outbox, 4)
  take(outbox, settlements.slice(0, 2), EPOCH - 1)
  take(outbox, settlements.slice(2))
  outbox.commit()
  expect(outbox.pending(100, true).map((one) => one.settlement)).toEqual(settlements.slice(0, 2))
})

test('a new epoch begins with each settlement of a group in the file as an entry', async () => {
  const outbox = await entered(directory())
  const settlements = add(outbox, 4)
  await outbox.enter('one', EPOCH + 1, NOTHING, [])
  // Redis has nothing, and nothing of what the node served: all are sent one by one.
  const own = settlements.filter(({ account }) => account.organization === 'one')
  expect(outbox.resent('one').map((one) => one.settlement)).toEqual(own)
  // They were sent in the epoch before.
  take(outbox, own)
  outbox.commit()
  expect(outbox.resent('one').map((one) => one.settlement)).toEqual(own)
})

test('one that is postponed is sent a minute later, and does not hold up the others', async () => {
  let now = 1_000_000
  const outbox = await entered(directory(), () => now)
  const settlements = add(outbox, 4)
  outbox.postponed(settlements[0]?.id ?? '')
  outbox.commit()
  now += 2000
  expect(outbox.pending(100).map((one) => one.settlement)).toEqual(settlements.slice(1))
  now += 60_000
  expect(outbox.pending(100)).toHaveLength(4)
})

test('acknowledgements reach the entries of a group that another process has split', async () => {
  const at = directory()
  const [one, other] = [await entered(at), await entered(at)]
  const settlements = add(one, 6)
  take(one, settlements.slice(0, 3))
  one.commit()
  // It does not know what the first process knows.
  expect(other.pending(100, true)).toHaveLength(6)
  take(one, settlements.slice(3))
  one.commit()
  expect(other.pending(100, true).map((left) => left.settlement)).toEqual(settlements.slice(0, 3))
})

test('a settlement of a group stands until it is acknowledged, also if another process has split it', async () => {
  const at = directory()
  const [one, other] = [await entered(at), await entered(at)]
  const [first = settlement(), second = settlement()] = add(one, 2)
  const standing = { settlement: first, epoch: EPOCH, wasSent: true }
  expect(one.standing(first)).toEqual(standing)
  other.pending(100, true)
  expect(one.standing(first)).toEqual(standing)
  take(one, [first, second])
  one.commit()
  expect([one.standing(first), other.pending(100, true)]).toEqual([undefined, []])
})

const SEED = randomSeed('settlement groups')

test('two processes add, acknowledge, split and die in any order', async () => {
  for (let round = 0; round < 60; round++) {
    const random = new Random(SEED + round)
    const at = directory()
    let now = 1_000_000
    // Nothing below waits: the timers of a process that has died would still run.
    const processes = [await entered(at, () => now), reentered(at, () => now)]
    // Without another process the file is exact.
    const isAlone = round % 3 === 0
    /** Whether each settlement that is in the file is acknowledged there. */
    const isTaken = new Map<string, boolean>()
    // What each process has not committed yet, and the settlements that it sends.
    const waiting: Settlement[][] = [[], []]
    const marks: string[][] = [[], []]
    const sends: Settlement[][] = [[], []]
    const commit = (p: number) => {
      expect(processes[p]?.commit()).toBe(true)
      for (const one of waiting[p]?.splice(0) ?? []) {
        isTaken.set(one.id, false)
        sends[p]?.push(one)
      }
      for (const id of marks[p]?.splice(0) ?? []) isTaken.set(id, true)
    }
    for (let step = 0; step < 80; step++) {
      const p = isAlone ? 0 : random.below(2)
      const outbox = processes[p]
      if (outbox === undefined) throw new Error('There are two.')
      const sent = sends[p] ?? []
      switch (
        random.pick(['add', 'add', 'take', 'take', 'take', 'commit', 'commit', 'split', 'clock', 'die', 'postpone'])
      ) {
        case 'add':
          for (let i = random.below(6); i >= 0; i--) {
            const one = settlement(random.pick(accounts))
            waiting[p]?.push(one)
            void logged(outbox, one, !random.oneIn(5))
          }
          break
        case 'take':
          for (let i = random.below(8); i >= 0 && sent.length > 0; i--) {
            const [one] = sent.splice(random.below(sent.length), 1)
            if (one === undefined) continue
            take(outbox, [one])
            marks[p]?.push(one.id)
          }
          break
        case 'commit':
          commit(p)
          break
        case 'split':
          outbox.pending(1000, random.oneIn(2))
          break
        case 'clock':
          now += random.below(1500)
          break
        case 'postpone':
          for (const { id } of sent.splice(0, 1)) outbox.postponed(id)
          break
        case 'die':
          if (isAlone || !random.oneIn(4)) break
          // Its changes since the last commit are gone, and nobody marks what it had sent.
          processes[p] = reentered(at, () => now)
          for (const list of [waiting, marks, sends]) list[p] = []
      }
    }
    commit(0)
    commit(1)
    const pending = processes[0]?.pending(10_000, true).map((one) => one.settlement.id) ?? []
    const expected = [...isTaken].flatMap(([id, taken]) => (taken ? [] : [id]))
    expect(new Set(pending).size).toBe(pending.length)
    // If another process splits a group, or its own process dies, what is acknowledged of it is sent once more.
    if (isAlone) expect(pending.toSorted()).toEqual(expected.toSorted())
    else expect(expected.filter((id) => !pending.includes(id))).toEqual([])
    const counts = accounts.map(({ organization }) => processes[0]?.epochs.expected(organization).pending ?? 0)
    expect(counts.reduce((sum, count) => sum + count)).toBe(pending.length)
  }
})
