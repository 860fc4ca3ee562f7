/** Finding out what an emptied Redis lacks costs as much with a large outbox as with a small one. */

import { expect, test } from 'bun:test'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { NO_COUNTERS_FOUND } from '../../src/ledger/redis/protocol/counter-spend.ts'
import {
  type Entered,
  Epochs,
  type NumberedRow,
  type RecoverableStore,
} from '../../src/ledger/redis/protocol/epochs.ts'
import { Restoration } from '../../src/ledger/redis/recovery/restoration.ts'
import { accountOf, chargeOf } from './conformance.ts'
import { opened } from './opened.ts'
import { Random, randomSeed } from './random.ts'
import { logged, NOTHING } from './seen.ts'

const { directory } = opened()

const [busy, quiet] = [accountOf({}, {}, 'busy'), accountOf({}, {}, 'quiet')]

/** An outbox with only acknowledged settlements: `count` of a busy organisation, ten of a quiet one. */
async function outboxOf(count: number): Promise<Outbox> {
  const outbox = new Outbox(directory())
  for (const { organization } of [busy, quiet]) {
    await outbox.enter(organization, 7, NOTHING, [])
    outbox.entered(organization, 7)
  }
  for (let i = 0; i < count + 10; i++) {
    const account = i < count ? busy : quiet
    void logged(outbox, { id: `r-${i}`, account, admittedMs: Date.now(), charge: chargeOf(5), heldMicroUsd: 5 }, true)
    if (i % 5000 === 0) outbox.commit()
  }
  outbox.commit()
  for (let i = 0; i < count + 10; i++) outbox.taken(`r-${i}`, (i < count ? busy : quiet).organization, 7)
  outbox.commit()
  return outbox
}

/** CPU of the cheapest of five epochs entered one after the other, in microseconds. */
async function costOf(outbox: Outbox, organization: string): Promise<number> {
  const costs: number[] = []
  for (let i = 0; i < 5; i++) {
    const before = process.cpuUsage()
    await outbox.enter(organization, 10 + i, NOTHING, [])
    const { user, system } = process.cpuUsage(before)
    costs.push(user + system)
  }
  return Math.min(...costs)
}

test.each([busy, quiet])('of the organisation $organization', async ({ organization }) => {
  const [small, large] = [await outboxOf(2000), await outboxOf(30_000)]
  expect(await costOf(large, organization)).toBeLessThan(5 * (await costOf(small, organization)) + 10_000)
  // All of it is restored or sent again, depending on the organisation.
  const rows = await large.enter(organization, 99, NOTHING, [])
  const pending = large.epochs.expected(organization)
  const given = rows.reduce((sum, row) => sum + ('counter' in row ? 0 : row.requests), 0)
  expect(given + pending.pending).toBe(organization === 'busy' ? 30_000 : 10)
  small.close()
  large.close()
})

/** An outbox with this many unsent settlements of one organisation, as after an outage under `allow`. */
function backlogOf(count: number): Outbox {
  const outbox = new Outbox(directory())
  for (let i = 0; i < count; i++) {
    addPending(outbox, `r-${i}`)
    if (i % 5000 === 0) outbox.commit()
  }
  outbox.commit()
  return outbox
}

function addPending(outbox: Outbox, id: string): void {
  void logged(outbox, { id, account: busy, admittedMs: Date.now(), charge: chargeOf(5), heldMicroUsd: 5 }, false)
}

/** A Redis that was emptied, except for open reservations with these ids. Collects what is restored to it. */
class EmptyRedis
  implements Pick<RecoverableStore, 'enter' | 'figuresOfNode' | 'reservations' | 'countersOfNode' | 'restore'>
{
  readonly given: NumberedRow[] = []
  isAway = false
  private reached: number | 'all' = 0

  constructor(private readonly open: readonly string[] = []) {}

  enter = async (): Promise<Entered> => ({
    epoch: 7,
    given: this.reached,
    requests: 0,
    isLegacy: false,
    wasEmpty: false,
  })

  figuresOfNode = async () => ({ figures: new Map(), foldedBefore: 0 })

  reservations = async () => new Map(this.open.map((id) => [id, { isOpen: true, admittedMs: Date.now() }]))

  countersOfNode = async () => NO_COUNTERS_FOUND

  restore = async (_life: number, _node: string, row: NumberedRow) => {
    if (this.isAway) throw new Error('Redis is away.')
    if (this.reached === 'all' || (row.last > 0 && row.number !== this.reached + 1)) return this.reached
    if (row.last > 0) this.given.push(row)
    this.reached = row.number === row.last ? 'all' : row.number
    return this.reached
  }

  get requests(): number {
    return this.given.reduce((sum, row) => sum + ('counter' in row ? 0 : row.requests), 0)
  }
}

function restorationOf(outbox: Outbox, redis: EmptyRedis): Restoration {
  return new Restoration(
    redis,
    outbox,
    new Epochs(),
    async () => undefined,
    () => undefined,
    Date.now(),
  )
}

/** The longest use of the CPU between two turns of the event loop while `work` runs, in microseconds. */
async function longestTurn(work: () => Promise<void>): Promise<number> {
  let [longest, before] = [0, process.cpuUsage()]
  const look = () => {
    const { user, system } = process.cpuUsage(before)
    longest = Math.max(longest, user + system)
    before = process.cpuUsage()
  }
  const state = { isOver: false }
  const watch = () => {
    look()
    if (!state.isOver) setImmediate(watch)
  }
  setImmediate(watch)
  await work()
  look()
  state.isOver = true
  return longest
}

test.each([[[]], [['r-3']]])(
  'a large backlog blocks the event loop no longer than a small one; open: %p',
  async (open) => {
    const longest = async (count: number) => {
      const outbox = backlogOf(count)
      const redis = new EmptyRedis(open)
      const restoration = restorationOf(outbox, redis)
      const cost = await longestTurn(() => restoration.restore(busy.organization))
      expect(redis.requests + outbox.pendingCount()).toBe(count)
      outbox.close()
      return cost
    }
    // Of two runs each, because a collection of the heap that the tests before have left is no turn of this work.
    const small = Math.min(await longest(3000), await longest(3000))
    expect(Math.min(await longest(60_000), await longest(60_000))).toBeLessThan(5 * small + 10_000)
  },
)

test('law: requests that end during a large restore are charged once, also if the process dies', async () => {
  const random = new Random(randomSeed('a large backlog'))
  for (let round = 0; round < 4; round++) {
    const count = 3000 + random.below(5000)
    const outbox = backlogOf(count)
    const open = Array.from({ length: 20 }, () => `r-${random.below(count)}`)
    const redis = new EmptyRedis(open)
    const stopAfter = random.below(12)
    let [added, turns] = [0, 0]
    const state = { isOver: false }
    const meddle = () => {
      if (state.isOver) return
      if (turns++ === stopAfter && round % 2 === 1) redis.isAway = true
      for (let i = random.below(40); i > 0; i--) addPending(outbox, `late-${added++}`)
      if (random.oneIn(2)) outbox.commit()
      setImmediate(meddle)
    }
    setImmediate(meddle)
    await restorationOf(outbox, redis)
      .restore(busy.organization)
      .catch(() => undefined)
    state.isOver = true
    outbox.commit()
    redis.isAway = false
    await restorationOf(outbox, redis).restore(busy.organization)
    const resent = outbox.pending(1e6, true).map(({ settlement }) => settlement.id)
    expect(new Set(resent).size).toBe(resent.length)
    expect(redis.requests + resent.length).toBe(count + added)
    for (const id of open) expect(resent).toContain(id)
    outbox.close()
  }
})
