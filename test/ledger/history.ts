/**
 * Random histories of a store: each step is a verb or a step of the clock, weighted so that rare states come up often.
 */

import { expect } from 'bun:test'
import type { Limits } from '../../src/core/limits.ts'
import { AMOUNT_MAX } from '../../src/ledger/embedded/store-state.ts'
import { type Account, type Charge, type CounterAccount, type Estimate, noCharge } from '../../src/ledger/ledger.ts'
import type { UsageFigures } from '../../src/ledger/usage-figures.ts'
import { Model } from './model.ts'
import type { Random } from './random.ts'
import type { Subject } from './subject.ts'

const STEPS = 100
const HOUR_MS = 3_600_000
const STEPS_OF_CLOCK = [
  1,
  40,
  900,
  5000,
  29_999,
  30_001,
  61_000,
  11 * 60_000,
  HOUR_MS + 1,
  25 * HOUR_MS,
  32 * 24 * HOUR_MS,
]
const STEPS_BACK = [-1, -500, -40_000, -HOUR_MS, -49 * HOUR_MS]

export interface UsageMeter {
  operations: number
  readonly outcomes: Map<string, number>
}

/** Runs one history against a store and the model, comparing every reply, and all figures after most steps. */
export async function runHistory(subject: Subject, random: Random, meter: UsageMeter): Promise<void> {
  await subject.reset()
  const history = new History(subject, random, meter)
  for (let i = 0; i < STEPS; i++) await history.step()
  await history.epilogue()
}

class History {
  private readonly model: Model
  private readonly ids = new Map<string, string[]>()
  private made = 0
  /** The latest time that the clock ever showed. */
  private latest = 0
  /** Amounts are drawn around this: micro-dollars of small change, of real budgets, or near 2^53. */
  private readonly scale: number
  private accounts: Account[]

  constructor(
    private readonly subject: Subject,
    private readonly random: Random,
    private readonly meter: UsageMeter,
  ) {
    subject.clock.now = Date.UTC(2026, 0, 1) + random.below(5 * 365 * 24) * HOUR_MS - random.below(3) * 1000
    subject.clock.witness = subject.clock.now
    this.model = new Model(subject.clock)
    this.scale = random.pick([10, 10, 1e6, 1e12, Number.MAX_SAFE_INTEGER])
    this.accounts = this.drawAccounts()
    this.latest = subject.clock.now
  }

  async step(): Promise<void> {
    this.meter.operations += 1
    const account = this.random.pick(this.accounts)
    switch (
      this.random.pick([
        'reserve',
        'reserve',
        'reserve',
        'extend',
        'extend',
        'settle',
        'settle',
        'cancel',
        'reap',
        'clock',
        'clock',
        'limits',
      ])
    ) {
      case 'reserve':
        await this.reserve(account)
        break
      case 'extend':
        await this.extend(account)
        break
      case 'settle':
        await this.settle(account)
        break
      case 'cancel': {
        const id = this.someId(account)
        if (this.random.oneIn(2))
          this.same('cancel', await this.subject.store.cancel(account, id), this.model.cancel(account, id))
        break
      }
      case 'reap':
        this.same('reap', await this.subject.store.reap(account.organization), this.model.reap(account.organization))
        break
      case 'clock':
        this.moveClock()
        break
      case 'limits':
        if (this.random.oneIn(4)) this.accounts = this.drawAccounts()
        break
    }
    if (!this.random.oneIn(3)) await this.compare(account)
  }

  /** After all leases and records have expired, nothing is held, and spending equals the audit trail and the usage. */
  async epilogue(): Promise<void> {
    const { clock, store } = this.subject
    for (const hours of [2, 4, 33 * 24]) {
      clock.now = Math.max(this.latest, clock.now) + hours * HOUR_MS
      clock.witness = clock.now
      for (const account of this.accounts) await this.compare(account)
    }
    for (const organization of new Set(this.accounts.map((account) => account.organization))) {
      expect(await this.subject.reservationCount(organization)).toBe(0)
      const usage = await this.subject.usage(organization)
      const expected = this.model.usage(organization)
      const settled = [...usage].filter(isAny)
      const counted = settled.map(([place, figures]) => [place, stopped(figures, expected.get(place))] as const)
      expect(counted.sort()).toEqual(
        [...expected]
          .filter(isAny)
          .map(([place, figures]) => [place, stopped(figures, figures)] as const)
          .sort(),
      )
      await this.audit(organization)
    }
    for (const account of this.accounts) {
      const { organization, key, budgets = [] } = await store.figures(account)
      for (const usage of [organization, key, ...budgets.map((one) => one.usage)]) {
        expect([usage.live, usage.total.held]).toEqual([0, 0])
      }
    }
  }

  private async audit(organization: string): Promise<void> {
    const entries = await this.subject.audit(organization)
    // A reservation ends once, or is lost and then corrected once. (An id can be reserved again after its record
    // expired; a gateway never reuses one.)
    const lost = new Set<string>()
    for (const { id, kind } of entries) {
      if (kind === 'late' || kind === 'withdrawn') expect(lost.has(id)).toBe(true)
      if (kind === 'lost') lost.add(id)
      else lost.delete(id)
    }
    for (const { kind } of entries) this.count(`audit ${kind}`)
    const last = new Map(
      entries.map((entry, i) => [
        entry.kind === 'late' || entry.kind === 'withdrawn' ? lostBefore(entries, i) : i,
        entry.costMicroUsd,
      ]),
    )
    const sum = [...last.values()].reduce((total, cost) => total + cost, 0)
    const account = this.accounts.find((one) => one.organization === organization)
    if (account === undefined) return
    const { spent } = (await this.subject.store.figures(account)).organization.total
    expect(spent + this.model.claimedOf(organization)).toBe(sum)
  }

  /** Reserves for one request, or several in one turn of the event loop, which the store in Redis sends together. */
  private async reserve(first: Account): Promise<void> {
    const count = this.random.oneIn(3) ? 2 + this.random.below(5) : 1
    const calls = Array.from({ length: count }, (_, i) => {
      const drawn = i === 0 ? first : this.random.pick(this.accounts)
      const isKnown = this.random.oneIn(4)
      const account = isKnown ? this.withOtherCounters(drawn) : drawn
      const id = isKnown ? this.someId(account) : this.newId(account)
      const estimate = this.amounts(Math.floor(this.room(account) / count))
      const hold = {
        id,
        estimate,
        floorMicroUsd: Math.floor(estimate.costMicroUsd / 3),
        model: this.random.pick(['a', 'b', undefined]),
        tags: this.random.pick([undefined, '', 'project=x', 'project=y,team=z']),
        turn: isKnown ? this.random.pick([undefined, 1, 2]) : undefined,
      }
      return { account, hold }
    })
    const { store } = this.subject
    const replies = await Promise.all(calls.map(({ account, hold }) => store.reserve(account, hold)))
    for (const [i, { account, hold }] of calls.entries()) {
      const before = this.model.entries.length
      const expected = this.model.reserve(account, hold)
      if (expected.outcome === 'refused' && !this.random.oneIn(6)) this.drop(account, hold.id)
      this.count(`reserve ${expected.outcome}`)
      const { rates: _, ...answer } = { rates: undefined, ...replies[i] }
      expect<unknown>(answer).toEqual(expected)
      // A repeated call is granted again, whatever the limits are by then.
      if (count === 1 && this.model.entries.length > before && this.random.oneIn(3))
        await this.withinLimits(account, hold.estimate.costMicroUsd > 0)
    }
  }

  /**
   * The store itself: no grant leaves a limit exceeded, unless actual usage had exceeded it before. A request that
   * costs nothing is granted on an exceeded budget.
   */
  private async withinLimits(account: Account, costs: boolean): Promise<void> {
    const figures = await this.subject.store.figures(account)
    const counters = (account.budgets ?? []).flatMap(({ limits }, i) => {
      const usage = figures.budgets?.[i]?.usage
      return usage === undefined ? [] : [[limits, usage] as const]
    })
    for (const [limits, { requests, tokens, live, day, month, total, hour, week }] of [
      [account.organizationLimits, figures.organization] as const,
      [account.keyLimits, figures.key] as const,
      ...counters,
    ]) {
      const within = (used: number, limit: number | undefined) =>
        expect(used).toBeLessThanOrEqual(limit ?? Number.POSITIVE_INFINITY)
      within(requests, limits.requestsPerMinute)
      within(tokens, limits.tokensPerMinute)
      within(live, limits.concurrentRequests)
      if (!costs) continue
      within(day.spent + day.held, limits.spend?.day)
      within(month.spent + month.held, limits.spend?.month)
      within(total.spent + total.held, limits.spend?.total)
      within(hour.spent + hour.held, limits.spend?.hour)
      within(week.spent + week.held, limits.spend?.week)
    }
  }

  private async extend(account: Account): Promise<void> {
    const id = this.someId(account)
    const soFar = this.amounts(this.room(account) * this.random.pick([0.1, 1]))
    const wanted = this.random.oneIn(3) ? soFar : this.amounts(this.room(account) * this.random.pick([0.5, 1, 1]))
    this.same(
      'extend',
      await this.subject.store.extend(account, id, soFar, wanted),
      this.model.extend(account, id, soFar, wanted),
    )
  }

  /** Settles one request, or several in one turn of the event loop, which the store in Redis sends together. */
  private async settle(first: Account): Promise<void> {
    const options = { isDirect: this.random.oneIn(8) }
    const count = this.random.oneIn(3) ? 2 + this.random.below(5) : 1
    const settlements = Array.from({ length: count }, (_, i) => {
      const account = i === 0 ? first : this.random.pick(this.accounts)
      const charge: Charge = {
        ...noCharge('completed'),
        ...this.amounts(Math.floor(this.room(account) / count)),
        cachedInputTokens: this.random.below(5),
        images: this.random.below(2),
        estimated: this.random.oneIn(2),
        model: this.random.pick(['a', 'b', '']),
        provider: this.random.pick(['p', 'q', '']),
        tags: this.random.pick(['', 'project=x', 'project=y,team=z']),
      }
      const back = this.random.pick([0, 10_000, 26 * HOUR_MS, 33 * 24 * HOUR_MS])
      return { admission: { id: this.someId(account), account, admittedMs: this.subject.clock.now - back }, charge }
    })
    const { store } = this.subject
    const replies = await Promise.all(
      settlements.map(({ admission, charge }) => store.settle(admission, charge, options)),
    )
    for (const [i, { admission, charge }] of settlements.entries())
      this.same('settle', replies[i], this.model.settle(admission, charge, options.isDirect))
  }

  private moveClock(): void {
    const { clock } = this.subject
    clock.now += this.random.oneIn(6) ? this.random.pick(STEPS_BACK) : this.random.pick(STEPS_OF_CLOCK)
    this.latest = Math.max(this.latest, clock.now)
    const agrees = !this.random.oneIn(5)
    clock.witness =
      clock.now + (agrees ? this.random.pick([0, 60_000, -60_000]) : this.random.pick([60_001, -60_001, -25 * HOUR_MS]))
  }

  private async compare(account: Account): Promise<void> {
    // Compares the limits that the model knows; histories do not use any other.
    expect<object>(await this.subject.store.figures(account)).toMatchObject(this.model.figures(account))
  }

  private same(verb: string, reply: unknown, expected: unknown): void {
    this.count(`${verb} ${typeof expected === 'string' ? expected : ''}`)
    expect(reply).toEqual(expected)
  }

  private count(outcome: string): void {
    this.meter.outcomes.set(outcome, (this.meter.outcomes.get(outcome) ?? 0) + 1)
  }

  private newId(account: Account): string {
    const id = `r${this.made++}`
    this.idsOf(account).push(id)
    return id
  }

  /** An id that this account used before, usually one of the latest; sometimes a new one. */
  private someId(account: Account): string {
    const ids = this.idsOf(account)
    if (ids.length === 0 || this.random.oneIn(30)) return this.newId(account)
    return this.random.pick(ids.slice(this.random.oneIn(3) ? 0 : -3))
  }

  private drop(account: Account, id: string): void {
    const ids = this.idsOf(account)
    if (ids.at(-1) === id) ids.pop()
  }

  private idsOf({ organization, key }: Account): string[] {
    const known = this.ids.get(`${organization} ${key}`)
    if (known !== undefined) return known
    const ids: string[] = []
    this.ids.set(`${organization} ${key}`, ids)
    return ids
  }

  /** How much more an organisation can be charged before its sums exceed 2^53. */
  private room(account: Account): number {
    return Math.max(
      0,
      Math.min(this.scale, Math.floor((Number.MAX_SAFE_INTEGER - this.model.weight(account.organization)) / 4)),
    )
  }

  private amounts(costMost: number): Estimate {
    const tokens = () => this.random.below(Math.min(this.scale, 1e15) * 2)
    const exact = [0, 1, costMost - 1, costMost]
    const cost = this.random.oneIn(4) ? this.random.pick(exact) : this.random.below(costMost + 1)
    return { inputTokens: tokens(), outputTokens: tokens(), costMicroUsd: Math.max(0, Math.floor(cost)) }
  }

  private drawAccounts(): Account[] {
    const [one, two] = [this.drawLimits(), this.drawLimits()]
    const counters = ['team', 'person\tann', 'person\tbob'].map((name) => this.drawCounter(name))
    return [
      { organization: 'acme', organizationLimits: one, key: 'ci', keyLimits: this.drawLimits() },
      { organization: 'acme', organizationLimits: one, key: 'dev', keyLimits: this.drawLimits() },
      { organization: 'b{r}ace', organizationLimits: two, key: 'ci', keyLimits: this.drawLimits() },
    ].map((account) => {
      const budgets = counters.filter(() => this.random.oneIn(3))
      return budgets.length === 0 ? account : { ...account, budgets, timeZone: 'UTC' }
    })
  }

  /** Those of another account: a later turn of a request may count under them. */
  private withOtherCounters(account: Account): Account {
    const { budgets: _, ...plain } = account
    const { budgets } = this.random.pick([account, ...this.accounts])
    return budgets === undefined ? plain : { ...plain, budgets, timeZone: 'UTC' }
  }

  /** It has a limit of a window that never ends, so that it does not end itself. */
  private drawCounter(name: string): CounterAccount {
    const [budget = '', value = ''] = name.split('\t')
    const limits = this.drawLimits()
    const spend = { strict: false, onExhausted: 'finish' as const, total: this.scale, ...limits.spend }
    const amount = () => this.random.maybe(Math.floor(this.scale * this.random.unit()))
    const all = { ...spend, hour: amount(), week: amount(), total: spend.total ?? this.scale }
    return { name: budget, value, limits: { ...limits, spend: all } }
  }

  private drawLimits(): Limits {
    const amount = (factor: number) =>
      this.random.maybe(Math.min(Number.MAX_SAFE_INTEGER, Math.floor(this.scale * factor * this.random.unit())))
    return {
      requestsPerMinute: this.random.oneIn(3) ? this.random.below(12) : undefined,
      tokensPerMinute: this.random.oneIn(3) ? amount(20) : undefined,
      concurrentRequests: this.random.oneIn(3) ? this.random.below(6) : undefined,
      spend: this.random.maybe({
        day: amount(6),
        month: amount(12),
        total: amount(40),
        strict: false,
        onExhausted: 'finish',
      }),
    }
  }
}

function isAny([, figures]: readonly [string, UsageFigures]): boolean {
  return Object.values(figures).some((value) => value !== 0)
}

/** The index of the entry that a late settlement or cancellation corrects: the loss. */
function lostBefore(entries: readonly { readonly id: string; readonly kind: string }[], index: number): number {
  for (let i = index - 1; i >= 0; i--)
    if (entries[i]?.id === entries[index]?.id && entries[i]?.kind === 'lost') return i
  return index
}

/**
 * Figures as far as they must be exact. A sum that passes 2^53 - 1 stops there, and later corrections start from that
 * value: then only its range is checked.
 */
function stopped(figures: UsageFigures, expected: UsageFigures | undefined): object {
  const names = [
    'requests',
    'estimatedRequests',
    'inputTokens',
    'cachedInputTokens',
    'outputTokens',
    'images',
    'costMicroUsd',
  ] as const
  const show = (name: (typeof names)[number]) => {
    if (expected === undefined || expected[name] < AMOUNT_MAX) return figures[name]
    return figures === expected || figures[name] <= AMOUNT_MAX ? 'stopped' : figures[name]
  }
  return Object.fromEntries(names.map((name) => [name, show(name)]))
}
