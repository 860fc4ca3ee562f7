/**
 * The naive model of a store: it keeps every reservation ever made, and adds them up to find what is spent, held and
 * live; it finds what is left of a rate by replaying all events. Slow and obvious, unlike the stores' running totals.
 * Shares no code with them but the calendar.
 */

import { byUnit, type LimitName, type Limits, type UnitAmounts } from '../../src/core/limits.ts'
import {
  type Account,
  type Admission,
  type Charge,
  counterName,
  type Estimate,
  type Hold,
} from '../../src/ledger/ledger.ts'
import type {
  CancelReply,
  ExtendReply,
  ScopeName,
  ScopeUsage,
  SettleReply,
} from '../../src/ledger/reservation-store.ts'
import { addUsage, noUsage, type UsageFigures } from '../../src/ledger/usage-figures.ts'
import { dayEndMs, dayOf, monthEndMs, monthOf } from '../../src/ledger/window.ts'
import {
  type Bucket,
  emptyBucket,
  levelOf,
  type Moment,
  momentOf,
  pour,
  stoodEmptySince,
  timePasses,
} from './bucket.ts'
import type { TestClock } from './subject.ts'

const LEASE_MS = 30_000
const ENDED_MS = 600_000
const LOST_MS = 31 * 24 * 3_600_000
const FIELDS = [
  ...(['requests', 'estimatedRequests', 'inputTokens', 'cachedInputTokens', 'outputTokens', 'images'] as const),
  'costMicroUsd',
] as const
const SUM_MAX = Number.MAX_SAFE_INTEGER

/** An organisation, a key or a counter: the name of its scope here, and whose limits they are in a refusal. */
interface Owner {
  readonly name: string
  readonly limits: Limits
  readonly of: { readonly scope: ScopeName; readonly counter?: number }
}

/** The windows of budgets; hours and weeks of counters alone. */
type Windows = Readonly<Record<(typeof BUDGETS)[number], number>>

const BUDGETS = ['day', 'month', 'total', 'hour', 'week'] as const
const OWN_BUDGETS = ['day', 'month', 'total'] as const

function isCounter({ of }: Owner): boolean {
  return of.scope === 'budget'
}

function budgetsOf(owner: Owner): readonly (typeof BUDGETS)[number][] {
  return isCounter(owner) ? BUDGETS : OWN_BUDGETS
}

function windowsAt(ms: number): Windows {
  const day = dayOf(ms)
  // 1970-01-05 was a Monday.
  return { day, month: monthOf(ms), total: 0, hour: Math.floor(ms / 3_600_000), week: Math.floor((day - 4) / 7) + 1 }
}

function endOf(budget: (typeof BUDGETS)[number], { day, month, hour, week }: Windows): number {
  if (budget === 'day') return dayEndMs(day)
  if (budget === 'month') return monthEndMs(month)
  if (budget === 'hour') return (hour + 1) * 3_600_000
  return budget === 'week' ? dayEndMs(4 + 7 * week - 1) : Number.POSITIVE_INFINITY
}

interface Entry {
  readonly id: string
  readonly account: Account
  state: 'live' | 'settled' | 'lost' | 'cancelled'
  due: number
  readonly admitted: number
  readonly turn: number
  readonly model: string
  readonly tags: string
  readonly input: number
  readonly floor: number
  /** By the names of its owners. */
  windows: ReadonlyMap<string, Windows>
  /** When it was added to the buckets of requests and tokens of each owner. */
  moments: ReadonlyMap<string, { readonly requests: Moment; readonly tokens: Moment }>
  tokens: number
  held: number
  posted: Estimate
  /** Its final cost, once it has ended. */
  charged: number
  usage: (Counted & { readonly figures: UsageFigures }) | undefined
  /** What of its charge later settlements may take over; only of one that was lost and then deleted. */
  unclaimed: Record<keyof UsageFigures, number> | undefined
}

/** What a request counts for, besides its day, hour, organisation and key. */
type Counted = Pick<Charge, 'model' | 'provider' | 'tags'>

interface ScopeClock {
  requests: Bucket
  tokens: Bucket
  windows: Windows
}

/** The figures of a scope that the model computes. */
type ModelFigures = Pick<ScopeUsage, 'live' | 'requests' | 'tokens' | 'day' | 'month' | 'total' | 'hour' | 'week'>

/** What a budget refused in a window because of what is spent, since room was made last. */
interface Mark {
  readonly window: number
  readonly costs: readonly number[]
}

export interface ModelRefusal {
  readonly scope: ScopeName
  readonly counter?: number
  readonly limit: LimitName
  readonly waitMs: number | undefined
  readonly held: boolean
  /** Of a budget. */
  readonly spent: number | undefined
}

export type ModelReserve =
  | { readonly outcome: 'granted'; readonly admittedMs: number }
  | {
      readonly outcome: 'refused'
      readonly refusal: ModelRefusal
      readonly held: boolean
      readonly room: UnitAmounts
    }
  | { readonly outcome: 'ended' }

type Refused = Extract<ModelReserve, { outcome: 'refused' }>

export class Model {
  readonly entries: Entry[] = []
  private readonly known = new Map<string, Entry>()
  private readonly scopes = new Map<string, ScopeClock>()
  private readonly marks = new Map<string, Mark>()
  private readonly claimed = new Map<string, number>()

  constructor(private readonly clock: TestClock) {}

  reserve(account: Account, hold: Hold): ModelReserve {
    this.reap(account.organization)
    const known = this.get(account, hold.id)
    if (known !== undefined && known.state !== 'live') return { outcome: 'ended' }
    const { turn = 0 } = hold
    if (known !== undefined && turn <= known.turn) return { outcome: 'granted', admittedMs: known.admitted }
    const giveBack = known && this.withdraw(account, known)
    const pass = this.pass(account)
    const undo = () => {
      pass()
      giveBack?.()
    }
    const tokens = Math.min(SUM_MAX, hold.estimate.inputTokens + hold.estimate.outputTokens)
    const refused = this.refusal(account, tokens, hold.estimate.costMicroUsd)
    if (refused !== undefined) {
      this.noteRefusals(account, hold.estimate.costMicroUsd)
      undo()
      return { outcome: 'refused', ...refused }
    }
    const owners = ownersOf(account)
    const moments = new Map(
      owners.map((owner) => {
        const { requests, tokens } = this.scope(owner)
        const { requestsPerMinute, tokensPerMinute } = owner.limits
        const moment = { requests: momentOf(requests, requestsPerMinute), tokens: momentOf(tokens, tokensPerMinute) }
        return [owner.name, moment]
      }),
    )
    for (const owner of owners) {
      const [scope, limits] = [this.scope(owner), owner.limits]
      scope.requests = pour(scope.requests, 1, limits.requestsPerMinute)
      scope.tokens = pour(scope.tokens, tokens, limits.tokensPerMinute)
    }
    const entry: Entry = {
      id: hold.id,
      account,
      state: 'live',
      due: this.clock.now + LEASE_MS,
      admitted: this.clock.now,
      turn,
      model: hold.model ?? '',
      tags: hold.tags ?? '',
      input: hold.estimate.inputTokens,
      floor: hold.floorMicroUsd,
      windows: new Map(owners.map((owner) => [owner.name, this.scope(owner).windows])),
      moments,
      tokens,
      held: hold.estimate.costMicroUsd,
      posted: { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 },
      charged: 0,
      usage: undefined,
      unclaimed: undefined,
    }
    this.entries.push(entry)
    this.put(entry)
    return { outcome: 'granted', admittedMs: entry.admitted }
  }

  extend(account: Account, id: string, soFar: Estimate, wanted: Estimate): ExtendReply {
    const entry = this.get(account, id)
    if (entry === undefined) return 'unknown'
    if (entry.state !== 'live') return 'ended'
    const owners = ownersOf(account, entry)
    this.pass(account, entry)
    const held = entry.held
    const heldTokens = entry.tokens
    entry.posted = {
      inputTokens: Math.max(entry.posted.inputTokens, soFar.inputTokens),
      outputTokens: Math.max(entry.posted.outputTokens, soFar.outputTokens),
      costMicroUsd: Math.max(entry.posted.costMicroUsd, soFar.costMicroUsd),
    }
    entry.held = Math.max(held, wanted.costMicroUsd)
    const fits = entry.held === held || this.withinSpend(owners, entry)
    if (!fits) entry.held = held
    const taken = Math.max(heldTokens, Math.min(SUM_MAX, entry.posted.inputTokens + entry.posted.outputTokens))
    const most = Math.max(taken, Math.min(SUM_MAX, wanted.inputTokens + wanted.outputTokens))
    const roomy = owners.every(
      (owner) =>
        levelOf(this.scope(owner).tokens) + (most - heldTokens) <=
        (owner.limits.tokensPerMinute ?? Number.POSITIVE_INFINITY),
    )
    entry.tokens = roomy ? most : taken
    for (const owner of owners) {
      const [scope, limits] = [this.scope(owner), owner.limits]
      scope.tokens = pour(scope.tokens, entry.tokens - heldTokens, limits.tokensPerMinute)
    }
    entry.due = Math.max(entry.due, this.clock.now + LEASE_MS)
    return fits ? 'extended' : 'exhausted'
  }

  settle(admission: Admission, charge: Charge, isDirect: boolean): SettleReply {
    const { account } = admission
    const entry = this.get(account, admission.id)
    if (entry === undefined) {
      if (!isDirect) return 'unknown'
      this.pass(account)
      this.charge(admission, charge)
      return 'settled'
    }
    if (entry.state === 'settled') return 'already_settled'
    if (entry.state === 'cancelled') return 'cancelled'
    this.pass(account, entry)
    const isOwn = countsIn(account, entry)
    if (!isOwn) this.recount(admission, entry)
    const { inputTokens, outputTokens, costMicroUsd } = charge
    const corrected = ownersOf(account, entry).filter((owner) => isOwn || !isCounter(owner))
    this.correct(corrected, entry, Math.min(SUM_MAX, inputTokens + outputTokens))
    this.finish(entry, 'settled', costMicroUsd, ENDED_MS)
    entry.usage = usageOf(charge)
    return 'settled'
  }

  cancel(account: Account, id: string): CancelReply {
    const entry = this.get(account, id)
    if (entry === undefined) {
      const barred = this.blank(account, id)
      this.finish(barred, 'cancelled', 0, ENDED_MS)
      this.put(barred)
      return 'cancelled'
    }
    if (entry.state !== 'live' && entry.state !== 'lost') return 'ended'
    this.pass(account, entry)
    const { inputTokens, outputTokens, costMicroUsd } = entry.posted
    this.correct(ownersOf(account, entry), entry, Math.min(SUM_MAX, inputTokens + outputTokens))
    this.returnRequest(ownersOf(account, entry), entry)
    this.finish(entry, 'cancelled', costMicroUsd, ENDED_MS)
    entry.usage = undefined
    if (costMicroUsd > 0) entry.usage = ownCount(entry, inputTokens, outputTokens, costMicroUsd)
    return 'cancelled'
  }

  reap(organization: string): number {
    let reaped = 0
    for (const [key, entry] of this.known) {
      if (entry.account.organization !== organization || entry.due > this.clock.now) continue
      reaped += 1
      if (entry.state !== 'live') {
        this.known.delete(key)
        if (entry.state === 'lost' && entry.usage !== undefined) entry.unclaimed = { ...entry.usage.figures }
        continue
      }
      const cost = Math.max(entry.posted.costMicroUsd, entry.floor)
      this.finish(entry, 'lost', cost, LOST_MS + Math.max(0, entry.admitted - this.clock.now))
      entry.usage = ownCount(entry, Math.max(entry.posted.inputTokens, entry.input), entry.posted.outputTokens, cost)
    }
    return reaped
  }

  figures(account: Account): {
    readonly organization: ModelFigures
    readonly key: ModelFigures
    readonly budgets?: readonly { readonly usage: ModelFigures }[]
  } {
    this.reap(account.organization)
    const undo = this.pass(account)
    const [organization, key, ...counters] = ownersOf(account).map((owner) => this.figuresOf(owner))
    undo()
    if (organization === undefined || key === undefined) throw new Error('Expected two scopes.')
    if (counters.length === 0) return { organization, key }
    return { organization, key, budgets: counters.map((usage) => ({ usage })) }
  }

  /** Figures by `day hour key model provider tags`. */
  usage(organization: string): ReadonlyMap<string, UsageFigures> {
    const usage = new Map<string, UsageFigures>()
    for (const entry of this.entries) {
      if (entry.account.organization !== organization || entry.usage === undefined) continue
      const { model, provider, tags } = entry.usage
      const hour = new Date(entry.admitted).getUTCHours()
      const place = [dayOf(entry.admitted), hour, entry.account.key, model, provider, tags].join(' ')
      usage.set(place, addUsage(usage.get(place) ?? noUsage, entry.usage.figures))
    }
    return usage
  }

  reservationCount(organization: string): number {
    return [...this.known.values()].filter((entry) => entry.account.organization === organization).length
  }

  /** The sum of an organisation's charges and holds. The generator keeps it below 2^53, where sums stop being exact. */
  weight(organization: string): number {
    const entries = this.entries.filter(({ account }) => account.organization === organization)
    return entries.reduce((sum, entry) => sum + Number(spentOf(entry)) + unposted(entry), 0)
  }

  /** What settlements of an organisation were not charged because lost reservations had been charged it. */
  claimedOf(organization: string): number {
    return this.claimed.get(organization) ?? 0
  }

  private charge({ account, id, admittedMs }: Admission, charge: Charge): void {
    const bound = this.boundWindows(ownersOf(account), admittedMs)
    const entry: Entry = { ...this.blank(account, id), admitted: admittedMs, windows: new Map(bound) }
    entry.usage = usageOf(charge)
    const cost = entry.usage === undefined ? charge.costMicroUsd : this.claim(entry, entry.usage)
    this.finish(entry, 'settled', cost, ENDED_MS)
    this.entries.push(entry)
    this.put(entry)
  }

  /**
   * A request whose reservation may have been lost and deleted: what is charged for deleted ones of its day and key is
   * not charged again. Returns the cost that is left.
   */
  private claim(entry: Entry, usage: NonNullable<Entry['usage']>): number {
    const { account, admitted } = entry
    const left = { ...usage.figures }
    const before = left.costMicroUsd
    for (const { account: other, admitted: at, unclaimed } of this.entries) {
      if (this.clock.now - admitted < LOST_MS - 60_000 || unclaimed === undefined) continue
      if (other.organization !== account.organization || other.key !== account.key) continue
      if (dayOf(at) !== dayOf(admitted)) continue
      for (const field of FIELDS) {
        const rest = Math.max(0, left[field] - unclaimed[field])
        unclaimed[field] -= left[field] - rest
        left[field] = rest
      }
    }
    entry.usage = { ...usage, figures: left }
    this.claimed.set(account.organization, this.claimedOf(account.organization) + before - left.costMicroUsd)
    return left.costMicroUsd
  }

  private blank(account: Account, id: string): Entry {
    const posted = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }
    const rest = {
      admitted: this.clock.now,
      turn: 0,
      model: '',
      tags: '',
      input: 0,
      floor: 0,
      tokens: 0,
      held: 0,
      charged: 0,
    }
    return {
      id,
      account,
      state: 'live',
      due: 0,
      windows: new Map(),
      moments: new Map(),
      posted,
      usage: undefined,
      unclaimed: undefined,
      ...rest,
    }
  }

  private finish(entry: Entry, state: 'settled' | 'lost' | 'cancelled', charged: number, epoch: number): void {
    entry.state = state
    entry.charged = charged
    entry.due = this.clock.now + epoch
  }

  private get(account: Account, id: string): Entry | undefined {
    return this.known.get(`${account.organization} ${id}`)
  }

  private put(entry: Entry): void {
    this.known.set(`${entry.account.organization} ${entry.id}`, entry)
  }

  private scope({ name }: Owner): ScopeClock {
    const { now } = this.clock
    const empty = emptyBucket(now)
    // The gateway names the windows of a new counter by its own clock, which may differ.
    const opened = name.includes('\n') ? this.clock.witness : now
    const scope = this.scopes.get(name) ?? { requests: empty, tokens: empty, windows: windowsAt(opened) }
    this.scopes.set(name, scope)
    return scope
  }

  /**
   * Advances all scopes of an account to the current time, or those of a request that it made. The returned function
   * undoes that: a call that changes nothing does not advance them either.
   */
  private pass(account: Account, entry?: Entry): () => void {
    const { now, witness } = this.clock
    const owners = ownersOf(account, entry)
    const before = owners.map(({ name }) => [name, this.scopes.get(name)] as const)
    for (const [name, scope] of before) if (scope !== undefined) this.scopes.set(name, { ...scope })
    for (const owner of owners) {
      const [scope, { limits }] = [this.scope(owner), owner]
      scope.requests = timePasses(scope.requests, now, limits.requestsPerMinute)
      scope.tokens = timePasses(scope.tokens, now, limits.tokensPerMinute)
      if (Math.abs(now - witness) > 60_000) continue
      // Both clocks must have passed the end of a counter's window, and its account has the next one.
      if (isCounter(owner) && account.budgets === undefined) continue
      const ahead = windowsAt(isCounter(owner) ? Math.min(now, witness) : now)
      const windows = BUDGETS.map((budget) => [budget, Math.max(scope.windows[budget], ahead[budget])] as const)
      scope.windows = Object.fromEntries(windows) as Windows
    }
    return () => {
      for (const [name, scope] of before) {
        if (scope === undefined) this.scopes.delete(name)
        else this.scopes.set(name, scope)
      }
    }
  }

  private refusal(account: Account, tokens: number, cost: number): Omit<Refused, 'outcome'> | undefined {
    const all: (Owner['of'] & { limit: LimitName; wait: number; held: boolean; spent?: number })[] = []
    const { now } = this.clock
    for (const owner of ownersOf(account)) {
      const { limits, of } = owner
      const [clock, figures] = [this.scope(owner), this.figuresOf(owner)]
      const { live } = figures
      const rate = (limit: LimitName, used: number, wanted: number, most: number | undefined) => {
        if (most === undefined || used + wanted <= most) return
        all.push({
          ...of,
          limit,
          wait: wanted > most ? Number.POSITIVE_INFINITY : ((used + wanted - most) * 60_000) / most,
          held: limit === 'tokens' && live > 0 && wanted <= most,
        })
      }
      rate('requests', levelOf(clock.requests), 1, limits.requestsPerMinute)
      rate('tokens', levelOf(clock.tokens), tokens, limits.tokensPerMinute)
      const places = limits.concurrentRequests ?? Number.POSITIVE_INFINITY
      if (live >= places)
        all.push({
          ...{ ...of, limit: 'concurrent_requests', wait: places === 0 ? Number.POSITIVE_INFINITY : 1000 },
          held: places > 0,
        })
      for (const limit of budgetsOf(owner)) {
        const [budget, most] = [figures[limit], limits.spend?.[limit]]
        const [spent, held, limited] = [BigInt(budget.spent), BigInt(budget.held), BigInt(most ?? SUM_MAX)]
        const missing = spent + held + BigInt(cost) - limited
        if (cost === 0 || missing <= 0n) continue
        const isHeld = spent + BigInt(cost) <= limited
        // From 1 s, if a tenth of the held money must be released, to 10 s, if all of it must.
        const end = endOf(limit, clock.windows)
        const wait = isHeld ? Math.max(1000, (10_000 * Number(missing)) / budget.held) : Math.max(1, end - now)
        const isNever = cost > (most ?? SUM_MAX)
        all.push({
          ...{ ...of, limit, wait: isNever ? Number.POSITIVE_INFINITY : wait, held: isHeld, spent: budget.spent },
        })
      }
    }
    const longest = Math.max(...all.map(({ wait }) => wait))
    const first = all.find(({ wait }) => wait === longest)
    if (first === undefined) return undefined
    const waitMs = Number.isFinite(longest) ? Math.min(SUM_MAX, Math.ceil(longest)) : undefined
    const { wait: _, spent, ...refusal } = first
    return {
      refusal: { ...refusal, waitMs, spent },
      held: all.every((one) => one.held),
      room: this.room(account),
    }
  }

  /** What each limit leaves. */
  private room(account: Account): UnitAmounts {
    const [requests, tokens, money] = [[SUM_MAX], [SUM_MAX], [BigInt(SUM_MAX)]]
    for (const owner of ownersOf(account)) {
      const { limits } = owner
      const [clock, figures] = [this.scope(owner), this.figuresOf(owner)]
      requests.push(Math.floor((limits.requestsPerMinute ?? Number.POSITIVE_INFINITY) - levelOf(clock.requests)))
      requests.push((limits.concurrentRequests ?? Number.POSITIVE_INFINITY) - figures.live)
      tokens.push(Math.floor((limits.tokensPerMinute ?? Number.POSITIVE_INFINITY) - levelOf(clock.tokens)))
      for (const name of budgetsOf(owner))
        money.push(BigInt(limits.spend?.[name] ?? SUM_MAX) - BigInt(figures[name].spent) - BigInt(figures[name].held))
    }
    const least = Number(money.sort((one, other) => Number(one - other))[0])
    const room = { requests: Math.min(...requests), tokens: Math.min(...tokens), micro_usd: least }
    return byUnit((unit) => Math.max(0, room[unit]))
  }

  /** Every budget that would refuse the request if nothing ran. A counter is not kept for a refused request. */
  private noteRefusals(account: Account, cost: number): void {
    for (const owner of ownersOf(account)) {
      if (isCounter(owner) && !this.entries.some(({ windows }) => windows.has(owner.name))) continue
      const figures = this.figuresOf(owner)
      for (const name of budgetsOf(owner)) {
        const { window, spent } = figures[name]
        const left = BigInt(owner.limits.spend?.[name] ?? SUM_MAX) - BigInt(spent)
        if (cost === 0 || BigInt(cost) <= left) continue
        const mark = this.markOf(owner, name)
        const before = mark.costs.filter(() => mark.window === window && BigInt(Math.min(...mark.costs)) > left)
        this.marks.set(`${owner.name} ${name}`, { window, costs: [...before, cost] })
      }
    }
  }

  private markOf({ name }: Owner, budget: string): Mark {
    return this.marks.get(`${name} ${budget}`) ?? { window: -1, costs: [] }
  }

  private withinSpend(owners: readonly Owner[], entry: Entry): boolean {
    return owners.every((owner) => {
      const [figures, windows] = [this.figuresOf(owner), entry.windows.get(owner.name)]
      return budgetsOf(owner).every((name) => {
        const { window, spent, held } = figures[name]
        const most = BigInt(owner.limits.spend?.[name] ?? SUM_MAX)
        return window !== windows?.[name] || BigInt(spent) + BigInt(held) <= most
      })
    })
  }

  /** Ends a reservation for one of a later turn, as if it had never been. The returned function undoes that. */
  private withdraw(account: Account, entry: Entry): () => void {
    const passed = this.pass(account, entry)
    this.correct(ownersOf(account, entry), entry, 0)
    this.returnRequest(ownersOf(account, entry), entry)
    const { posted } = entry
    entry.state = 'cancelled'
    entry.posted = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }
    return () => {
      passed()
      entry.state = 'live'
      entry.posted = posted
    }
  }

  /** The entry leaves its counters, and counts in those of an account, whose rates it does not use. */
  private recount({ account, admittedMs }: Admission, entry: Entry): void {
    const left = ownersOf(account, entry).filter(isCounter)
    this.correct(left, entry, 0)
    this.returnRequest(left, entry)
    const posted = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }
    const before = { ...entry, state: 'cancelled' as const, posted, charged: 0, usage: undefined, unclaimed: undefined }
    const [owners, counters] = [[...entry.windows].slice(0, 2), [...entry.windows].slice(2)]
    this.entries.push({ ...before, windows: new Map(counters) })
    this.pass(account)
    const own = this.boundWindows(ownersOf(account).filter(isCounter), admittedMs)
    entry.windows = new Map([...owners, ...own])
    entry.moments = new Map([...entry.moments].slice(0, 2))
  }

  /** The windows of owners at a time, none of which is later than their own. */
  private boundWindows(owners: readonly Owner[], ms: number) {
    const admission = windowsAt(ms)
    return owners.map((owner) => {
      const { windows } = this.scope(owner)
      const each = BUDGETS.map((budget) => [budget, Math.min(admission[budget], windows[budget])] as const)
      return [owner.name, Object.fromEntries(each) as Windows] as const
    })
  }

  private returnRequest(owners: readonly Owner[], entry: Entry): void {
    for (const owner of owners) {
      const [scope, { requestsPerMinute }] = [this.scope(owner), owner.limits]
      const back = this.back(entry, 1, 0, scope.requests, entry.moments.get(owner.name)?.requests, requestsPerMinute)
      scope.requests = pour(scope.requests, -back, requestsPerMinute)
    }
  }

  private correct(owners: readonly Owner[], entry: Entry, tokens: number): void {
    for (const owner of owners) {
      const [scope, { tokensPerMinute }] = [this.scope(owner), owner.limits]
      const moment = entry.moments.get(owner.name)?.tokens
      const back = this.back(entry, entry.tokens, tokens, scope.tokens, moment, tokensPerMinute)
      scope.tokens = pour(scope.tokens, -back, tokensPerMinute)
    }
  }

  /**
   * The part of a charge made at `moment` that is returned when the actual usage is known; negative if usage exceeded
   * it.
   */
  private back(
    entry: Entry,
    charge: number,
    used: number,
    bucket: Bucket,
    moment: Moment,
    perMinute: number | undefined,
  ): number {
    if (used >= charge) return charge - used
    if (moment === undefined || perMinute === undefined) return 0
    if (!stoodEmptySince(bucket, moment)) return charge - used
    const age = Math.max(0, this.clock.now - entry.admitted)
    return Math.min(charge - used, Math.max(0, charge - (perMinute * age) / 60_000))
  }

  private figuresOf(owner: Owner): ModelFigures {
    const clock = this.scope(owner)
    const bound = this.entries.filter(({ windows }) => windows.has(owner.name))
    const budget = (limit: (typeof BUDGETS)[number]) => {
      if (!budgetsOf(owner).includes(limit)) return { window: 0, spent: 0, held: 0, refused: 0 }
      const window = clock.windows[limit]
      const inWindow = bound.filter((entry) => entry.windows.get(owner.name)?.[limit] === window)
      const spent = inWindow.reduce((sum, entry) => sum + spentOf(entry), 0n)
      const held = inWindow.reduce((sum, entry) => sum + unposted(entry), 0)
      const mark = this.markOf(owner, limit)
      const refused = mark.window === window ? Math.min(...mark.costs) : 0
      return { window, spent: spent > BigInt(SUM_MAX) ? SUM_MAX : Number(spent), held, refused }
    }
    return {
      requests: Math.ceil(levelOf(clock.requests)),
      tokens: Math.ceil(levelOf(clock.tokens)),
      live: bound.filter(({ state }) => state === 'live').length,
      day: budget('day'),
      month: budget('month'),
      total: budget('total'),
      hour: budget('hour'),
      week: budget('week'),
    }
  }
}

/** The owners of an account. With an entry those that it counted in, whose limits the account may not have any more. */
function ownersOf(account: Account, entry?: Entry): readonly Owner[] {
  const { organization, key, budgets = [] } = account
  const own: readonly Owner[] = [
    { name: organization, limits: account.organizationLimits, of: { scope: 'organization' } },
    { name: `${organization} ${key}`, limits: account.keyLimits, of: { scope: 'key' } },
  ]
  const counters = budgets.map((budget, counter): Owner => {
    const name = `${organization}\n${counterName(budget)}`
    return { name, limits: budget.limits, of: { scope: 'budget', counter } }
  })
  if (entry === undefined) return [...own, ...counters]
  const known = new Map(counters.map((owner) => [owner.name, owner]))
  const counted = [...entry.windows.keys()].filter((name) => name.includes('\n'))
  return [...own, ...counted.map((name) => known.get(name) ?? { name, limits: {}, of: { scope: 'budget' as const } })]
}

function countsIn(account: Account, entry: Entry): boolean {
  const [own, counted] = [ownersOf(account), ownersOf(account, entry)]
  return own.length === counted.length && own.every(({ name }, i) => name === counted[i]?.name)
}

function spentOf(entry: Entry): bigint {
  return BigInt(entry.state === 'live' ? entry.posted.costMicroUsd : entry.charged)
}

function unposted(entry: Entry): number {
  return entry.state === 'live' ? Math.max(0, entry.held - entry.posted.costMicroUsd) : 0
}

function usageOf({ model, provider, tags, estimated, ...charge }: Charge): Entry['usage'] {
  if (model === '') return undefined
  const { inputTokens, cachedInputTokens, outputTokens, images, costMicroUsd } = charge
  const figures = {
    requests: 1,
    estimatedRequests: estimated ? 1 : 0,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    images,
    costMicroUsd,
  }
  return { model, provider, tags, figures }
}

function ownCount(
  { model, tags }: Entry,
  inputTokens: number,
  outputTokens: number,
  costMicroUsd: number,
): Entry['usage'] {
  return {
    model,
    provider: '',
    tags,
    figures: {
      requests: 1,
      estimatedRequests: 1,
      inputTokens,
      cachedInputTokens: 0,
      outputTokens,
      images: 0,
      costMicroUsd,
    },
  }
}
