/**
 * The law of alerts on spend: a ledger records that spend reached a share of a limit in the step that does so, for
 * every step that charges, every scope and every window, also if the window ends in the next millisecond. After each
 * step what is spent is read, and every share that is reached is noted in whole numbers of percent; somebody who takes
 * the records at random times, and may be killed before he deletes them, must know of exactly these shares. The same
 * holds for the first request of a window that a limit refuses because of what is spent.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { reachedThresholds } from '../../src/alerts/spend-thresholds.ts'
import { amountOf, budgetLimits, type Limits } from '../../src/core/limits.ts'
import { type Account, noCharge } from '../../src/ledger/ledger.ts'
import type { SpendCrossing } from '../../src/ledger/spend-crossing.ts'
import { windowEndMs } from '../../src/ledger/window.ts'
import { Random, randomSeed } from '../ledger/random.ts'
import { type Subject, subjects } from '../ledger/subject.ts'

const HISTORIES = Number(process.env['WEIR_CROSSING_HISTORIES'] ?? 40)
const STEPS = 60
const DAY_MS = 86_400_000
const PERCENTS = [1, 7, 10, 25, 50, 80, 100]
const NOTHING = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

interface Running {
  readonly account: Account
  readonly id: string
  readonly admittedMs: number
  posted: number
}

class History {
  private readonly percents: readonly number[]
  private readonly accounts: readonly Account[]
  private readonly scale: number
  /** Shares that were ever reached, and shares that somebody knows of. */
  private readonly reached = new Set<string>()
  private readonly known = new Set<string>()
  private running: Running[] = []
  private made = 0

  constructor(
    private readonly subject: Subject,
    private readonly random: Random,
  ) {
    subject.clock.now = Date.UTC(2026, 0, 1) + random.below(600) * DAY_MS - random.pick([1, 1000, 40_000])
    subject.clock.witness = subject.clock.now
    this.percents = PERCENTS.filter(() => random.oneIn(2))
    // With small amounts, the spend is often exactly a threshold.
    this.scale = random.pick([1, 100, 100_000, 1e12])
    const shares = this.percents.map((percent) => percent / 100)
    this.accounts = ['a', 'b'].flatMap((organization) => {
      const organizationLimits = this.limits()
      // Its alerts are off.
      const alertShares = organization === 'b' && random.oneIn(2) ? undefined : shares
      return ['x', 'y'].map((key) => ({
        ...{ organization, organizationLimits, key, keyLimits: this.limits() },
        alertShares,
      }))
    })
  }

  async run(): Promise<ReadonlySet<string>> {
    await this.subject.reset()
    for (let i = 0; i < STEPS; i++) {
      await this.step()
      await this.look()
      if (this.random.oneIn(4)) await this.take()
    }
    for (const crossing of await this.subject.crossings()) this.learn(crossing)
    expect([...this.known].sort()).toEqual([...this.reached].sort())
    return this.reached
  }

  /** A hundred times a whole number, so that each percent is whole. */
  private limits(): Limits {
    const amount = () => (this.random.oneIn(3) ? undefined : 100 * this.random.below(8 * this.scale))
    return { spend: { day: amount(), month: amount(), total: amount(), strict: false, onExhausted: 'finish' } }
  }

  private cost(): number {
    return this.random.below(this.random.pick([1, 20, 90]) * this.scale)
  }

  private async step(): Promise<void> {
    const { random, subject } = this
    const one = this.running.length > 0 ? random.pick(this.running) : undefined
    switch (
      random.pick(['reserve', 'reserve', 'reserve', 'extend', 'settle', 'settle', 'many', 'direct', 'cancel', 'clock'])
    ) {
      case 'reserve':
        return await this.reserve(random.pick(this.accounts))
      case 'extend': {
        if (one === undefined) return
        one.posted = Math.max(one.posted, this.cost())
        const wanted = { ...NOTHING, costMicroUsd: this.cost() }
        await subject.store.extend(one.account, one.id, { ...NOTHING, costMicroUsd: one.posted }, wanted)
        return
      }
      case 'settle':
        if (one !== undefined) await this.settle(one)
        return
      case 'many': {
        // Between them nothing is read, so none may lower what is spent: they are not lost, and posted nothing.
        const { now } = subject.clock
        const some = this.running.filter(({ posted, admittedMs }) => posted === 0 && admittedMs === now)
        await Promise.all(some.map((each) => this.settle(each)))
        return
      }
      case 'direct':
        return await this.settleDirectly(random.pick(this.accounts))
      case 'cancel':
        if (one === undefined) return
        this.running = this.running.filter((each) => each !== one)
        await subject.store.cancel(one.account, one.id)
        return
      case 'clock':
        return this.moveClock()
    }
  }

  private async reserve(account: Account): Promise<void> {
    const id = `r${this.made++}`
    const cost = this.cost()
    const hold = { id, estimate: { ...NOTHING, costMicroUsd: cost }, floorMicroUsd: this.random.below(cost + 1) }
    const reply = await this.subject.store.reserve(account, hold)
    if (reply.outcome === 'granted') this.running.push({ account, id, admittedMs: reply.admittedMs, posted: 0 })
  }

  private async settle(one: Running): Promise<void> {
    this.running = this.running.filter((each) => each !== one)
    const charge = { ...noCharge('completed'), costMicroUsd: this.cost(), model: 'm' }
    await this.subject.store.settle(one, charge)
  }

  /** Settles a request whose reservation the ledger does not know, perhaps of an earlier day. */
  private async settleDirectly(account: Account): Promise<void> {
    const admittedMs = this.subject.clock.now - this.random.pick([0, 5000, DAY_MS])
    const charge = { ...noCharge('completed'), costMicroUsd: this.cost(), model: 'm' }
    // A gateway that sends it after a restart may know no limits.
    const unlimited = { ...account, organizationLimits: {}, keyLimits: {}, alertShares: 'unknown' } as const
    const admission = { id: `d${this.made++}`, account: this.random.oneIn(2) ? account : unlimited, admittedMs }
    await this.subject.store.settle(admission, charge, { isDirect: true })
  }

  private moveClock(): void {
    const { clock } = this.subject
    const toMidnight = DAY_MS - (clock.now % DAY_MS)
    clock.now += this.random.pick([1, 29_000, 31_000, toMidnight - 1, toMidnight, DAY_MS, 40 * DAY_MS])
    clock.witness = this.random.oneIn(8) ? clock.now - 2 * DAY_MS : clock.now
  }

  /** Notes every share that is reached now, after what is overdue was charged, and before a window ends. */
  private async look(): Promise<void> {
    for (const organization of ['a', 'b']) await this.subject.store.reap(organization)
    for (const account of this.accounts) {
      await this.noteRefusals(account)
      await this.note(account, undefined, account.organizationLimits)
      await this.note(account, account.key, account.keyLimits)
    }
  }

  private async note({ organization, alertShares }: Account, key: string | undefined, limits: Limits): Promise<void> {
    if (alertShares === undefined) return
    const budgets = await this.subject.budgets(organization, key === undefined ? '' : `k${key}`)
    for (const limit of budgetLimits) {
      const amount = amountOf(limits, limit) ?? 0
      const { spent = 0, window = 0 } = budgets[limit.name] ?? {}
      for (const percent of this.percents) {
        if (amount === 0 || BigInt(spent) * 100n < BigInt(amount) * BigInt(percent)) continue
        this.reached.add(`${organization} ${key} ${limit.name} ${window} ${percent}`)
      }
    }
  }

  /** Notes every budget that has refused a request in its current window. */
  private async noteRefusals(account: Account): Promise<void> {
    const figures = await this.subject.store.figures(account)
    for (const [key, scope] of [[undefined, figures.organization] as const, [account.key, figures.key] as const]) {
      for (const { name } of budgetLimits) {
        const { window, refused } = scope[name]
        if (refused > 0) this.reached.add(`${account.organization} ${key} ${name} ${window} refused`)
      }
    }
  }

  /** Sometimes steps come between reading and deleting, and sometimes nothing is deleted. */
  private async take(): Promise<void> {
    const found = await this.subject.crossings()
    for (const crossing of found) this.learn(crossing)
    if (this.random.oneIn(4)) return
    if (this.random.oneIn(2)) await this.step()
    await this.look()
    await this.subject.take(found)
  }

  private learn(crossing: SpendCrossing): void {
    const { organization, key, budget, window, spentMicroUsd, limitMicroUsd } = crossing
    if (crossing.isRefusal) {
      this.known.add(`${organization} ${key} ${budget} ${window} refused`)
      return
    }
    const account = this.accounts.find((one) => one.organization === organization && one.key === (key ?? one.key))
    const limits = key === undefined ? account?.organizationLimits : account?.keyLimits
    if (account?.alertShares === undefined) return expect(limitMicroUsd).toBeUndefined()
    const amount = limitMicroUsd ?? limits?.spend?.[budget] ?? 0
    const spend = { organization, key: key ?? null, window: budget, endMs: windowEndMs(budget, window) }
    const amounts = { limitMicroUsd: amount, spentMicroUsd }
    const found = reachedThresholds(
      { ...spend, ...amounts },
      this.percents.map((percent) => percent / 100),
      0,
    )
    // Nothing is recorded that has reached no share, if the limit is known.
    if (limitMicroUsd !== undefined) expect(found).not.toEqual([])
    for (const { parts } of found) {
      this.known.add(`${organization} ${key} ${budget} ${window} ${Math.round(Number(parts.at(-1)) * 100)}`)
    }
  }
}

for (const subject of subjects()) {
  describe(`the store in ${subject.name}`, () => {
    beforeAll(() => subject.open())
    afterAll(() => subject.close())

    test(`${HISTORIES} histories: the shares that are recorded are those that were reached`, async () => {
      const seed = randomSeed(`spend crossings, ${subject.name}`)
      let count = 0
      for (let i = 0; i < HISTORIES; i++) {
        try {
          count += (await new History(subject, new Random(seed + i)).run()).size
        } catch (error) {
          throw new Error(`History ${i} of seed ${seed}: ${String(error)}`, { cause: error })
        }
      }
      console.log(`${count} shares`)
      expect(count).toBeGreaterThan(HISTORIES)
    })
  })
}
