/**
 * The naive model of a store: it keeps every reservation ever made, and adds them up to find what is spent, held and
 * live; it finds what is left of a rate by replaying all events. Slow and obvious, unlike the stores' running totals.
 * Shares no code with them but the calendar.
 */

import { byUnit, type LimitName, type Limits, type UnitAmounts } from '../../src/core/limits.ts'
import type { Account, Admission, Charge, Estimate, Hold } from '../../src/ledger/ledger.ts'
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

/** The organisation's windows, then the key's: day, month, total. */
type Windows = readonly [readonly number[], readonly number[]]

interface Entry {
  readonly id: string
  readonly account: Account
  state: 'live' | 'settled' | 'lost' | 'cancelled'
  due: number
  readonly admitted: number
  readonly model: string
  readonly tags: string
  readonly input: number
  readonly floor: number
  readonly windows: Windows
  /** When it was added to the buckets of requests and tokens: the organisation's and the key's. */
  readonly moments: readonly { readonly requests: Moment; readonly tokens: Moment }[]
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
  day: number
  month: number
}

/** The figures of a scope that the model computes. */
type ModelFigures = Pick<ScopeUsage, 'live' | 'requests' | 'tokens' | 'day' | 'month' | 'total'>

/** What a budget refused in a window because of what is spent, since room was made last. */
interface Mark {
  readonly window: number
  readonly costs: readonly number[]
}

export interface ModelRefusal {
  readonly scope: ScopeName
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
    const undo = this.pass(account)
    if (known !== undefined) {
      undo()
      return { outcome: 'granted', admittedMs: known.admitted }
    }
    const tokens = Math.min(SUM_MAX, hold.estimate.inputTokens + hold.estimate.outputTokens)
    const refused = this.refusal(account, tokens, hold.estimate.costMicroUsd)
    if (refused !== undefined) {
      this.noteRefusals(account, hold.estimate.costMicroUsd)
      undo()
      return { outcome: 'refused', ...refused }
    }
    const moments = this.both(account).map(([scope, { requestsPerMinute, tokensPerMinute }]) => ({
      requests: momentOf(scope.requests, requestsPerMinute),
      tokens: momentOf(scope.tokens, tokensPerMinute),
    }))
    for (const [scope, limits] of this.both(account)) {
      scope.requests = pour(scope.requests, 1, limits.requestsPerMinute)
      scope.tokens = pour(scope.tokens, tokens, limits.tokensPerMinute)
    }
    const entry: Entry = {
      id: hold.id,
      account,
      state: 'live',
      due: this.clock.now + LEASE_MS,
      admitted: this.clock.now,
      model: hold.model ?? '',
      tags: hold.tags ?? '',
      input: hold.estimate.inputTokens,
      floor: hold.floorMicroUsd,
      windows: this.windows(account),
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
    this.pass(account)
    const held = entry.held
    const heldTokens = entry.tokens
    entry.posted = {
      inputTokens: Math.max(entry.posted.inputTokens, soFar.inputTokens),
      outputTokens: Math.max(entry.posted.outputTokens, soFar.outputTokens),
      costMicroUsd: Math.max(entry.posted.costMicroUsd, soFar.costMicroUsd),
    }
    entry.held = Math.max(held, wanted.costMicroUsd)
    const fits = entry.held === held || this.withinSpend(account, entry)
    if (!fits) entry.held = held
    const taken = Math.max(heldTokens, Math.min(SUM_MAX, entry.posted.inputTokens + entry.posted.outputTokens))
    const most = Math.max(taken, Math.min(SUM_MAX, wanted.inputTokens + wanted.outputTokens))
    const roomy = this.both(account).every(
      ([scope, limits]) =>
        levelOf(scope.tokens) + (most - heldTokens) <= (limits.tokensPerMinute ?? Number.POSITIVE_INFINITY),
    )
    entry.tokens = roomy ? most : taken
    for (const [scope, limits] of this.both(account)) {
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
    this.pass(account)
    const { inputTokens, outputTokens, costMicroUsd } = charge
    this.correct(account, entry, Math.min(SUM_MAX, inputTokens + outputTokens))
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
    this.pass(account)
    const { inputTokens, outputTokens, costMicroUsd } = entry.posted
    this.correct(account, entry, Math.min(SUM_MAX, inputTokens + outputTokens))
    for (const [i, [scope, { requestsPerMinute }]] of this.both(account).entries()) {
      const back = this.back(entry, 1, 0, scope.requests, entry.moments[i]?.requests, requestsPerMinute)
      scope.requests = pour(scope.requests, -back, requestsPerMinute)
    }
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

  figures(account: Account): { readonly organization: ModelFigures; readonly key: ModelFigures } {
    this.reap(account.organization)
    const undo = this.pass(account)
    const [organization, key] = (['organization', 'key'] as const).map((name, i) => this.figuresOf(account, name, i))
    undo()
    if (organization === undefined || key === undefined) throw new Error('Expected two scopes.')
    return { organization, key }
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
    const windows = (scope: readonly number[]) => [
      Math.min(dayOf(admittedMs), scope[0] ?? 0),
      Math.min(monthOf(admittedMs), scope[1] ?? 0),
      0,
    ]
    const [organization, key] = this.windows(account)
    const bound: Windows = [windows(organization), windows(key)]
    const entry: Entry = { ...this.blank(account, id), admitted: admittedMs, windows: bound }
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
    const rest = { admitted: this.clock.now, model: '', tags: '', input: 0, floor: 0, tokens: 0, held: 0, charged: 0 }
    return {
      id,
      account,
      state: 'live',
      due: 0,
      windows: [[], []],
      moments: [],
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

  private scope(name: string): ScopeClock {
    const { now } = this.clock
    const empty = emptyBucket(now)
    const scope = this.scopes.get(name) ?? { requests: empty, tokens: empty, day: dayOf(now), month: monthOf(now) }
    this.scopes.set(name, scope)
    return scope
  }

  private both(account: Account): readonly [ScopeClock, Limits][] {
    return [
      [this.scope(account.organization), account.organizationLimits],
      [this.scope(`${account.organization} ${account.key}`), account.keyLimits],
    ]
  }

  private windows(account: Account): Windows {
    const [organization, key] = this.both(account).map(([scope]) => [scope.day, scope.month, 0])
    return [organization ?? [], key ?? []]
  }

  /**
   * Advances both scopes to the current time. The returned function undoes that: a call that changes nothing does not
   * advance them either.
   */
  private pass(account: Account): () => void {
    const { now, witness } = this.clock
    const names = [account.organization, `${account.organization} ${account.key}`]
    const before = names.map((name) => [name, this.scopes.get(name)] as const)
    for (const [name, scope] of before) if (scope !== undefined) this.scopes.set(name, { ...scope })
    for (const [scope, limits] of this.both(account)) {
      scope.requests = timePasses(scope.requests, now, limits.requestsPerMinute)
      scope.tokens = timePasses(scope.tokens, now, limits.tokensPerMinute)
      if (Math.abs(now - witness) > 60_000) continue
      scope.day = Math.max(scope.day, dayOf(now))
      scope.month = Math.max(scope.month, monthOf(now))
    }
    return () => {
      for (const [name, scope] of before) {
        if (scope === undefined) this.scopes.delete(name)
        else this.scopes.set(name, scope)
      }
    }
  }

  private refusal(account: Account, tokens: number, cost: number): Omit<Refused, 'outcome'> | undefined {
    const all: { scope: ScopeName; limit: LimitName; wait: number; held: boolean; spent?: number }[] = []
    const { now } = this.clock
    for (const [i, [clock, limits]] of this.both(account).entries()) {
      const scope: ScopeName = i === 0 ? 'organization' : 'key'
      const { live, day, month, total } = this.figuresOf(account, scope, i)
      const rate = (limit: LimitName, used: number, wanted: number, most: number | undefined) => {
        if (most === undefined || used + wanted <= most) return
        all.push({
          scope,
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
          ...{ scope, limit: 'concurrent_requests', wait: places === 0 ? Number.POSITIVE_INFINITY : 1000 },
          held: places > 0,
        })
      const spend = (
        limit: LimitName,
        budget: { spent: number; held: number },
        most: number | undefined,
        end: number,
      ) => {
        const [spent, held, limited] = [BigInt(budget.spent), BigInt(budget.held), BigInt(most ?? SUM_MAX)]
        const missing = spent + held + BigInt(cost) - limited
        if (cost === 0 || missing <= 0n) return
        const isHeld = spent + BigInt(cost) <= limited
        // From 1 s, if a tenth of the held money must be released, to 10 s, if all of it must.
        const wait = isHeld ? Math.max(1000, (10_000 * Number(missing)) / budget.held) : Math.max(1, end - now)
        const isNever = cost > (most ?? SUM_MAX)
        all.push({ scope, limit, wait: isNever ? Number.POSITIVE_INFINITY : wait, held: isHeld, spent: budget.spent })
      }
      spend('day', day, limits.spend?.day, dayEndMs(clock.day))
      spend('month', month, limits.spend?.month, monthEndMs(clock.month))
      spend('total', total, limits.spend?.total, Number.POSITIVE_INFINITY)
    }
    const longest = Math.max(...all.map(({ wait }) => wait))
    const first = all.find(({ wait }) => wait === longest)
    if (first === undefined) return undefined
    const waitMs = Number.isFinite(longest) ? Math.min(SUM_MAX, Math.ceil(longest)) : undefined
    const { scope, limit, held, spent } = first
    const refusal = { scope, limit, waitMs, held, spent }
    return { refusal, held: all.every((one) => one.held), room: this.room(account) }
  }

  /** What each limit leaves. */
  private room(account: Account): UnitAmounts {
    const [requests, tokens, money] = [[SUM_MAX], [SUM_MAX], [BigInt(SUM_MAX)]]
    for (const [i, [clock, limits]] of this.both(account).entries()) {
      const { live, ...budgets } = this.figuresOf(account, i === 0 ? 'organization' : 'key', i)
      requests.push(Math.floor((limits.requestsPerMinute ?? Number.POSITIVE_INFINITY) - levelOf(clock.requests)))
      requests.push((limits.concurrentRequests ?? Number.POSITIVE_INFINITY) - live)
      tokens.push(Math.floor((limits.tokensPerMinute ?? Number.POSITIVE_INFINITY) - levelOf(clock.tokens)))
      for (const name of ['day', 'month', 'total'] as const)
        money.push(BigInt(limits.spend?.[name] ?? SUM_MAX) - BigInt(budgets[name].spent) - BigInt(budgets[name].held))
    }
    const least = Number(money.sort((one, other) => Number(one - other))[0])
    const room = { requests: Math.min(...requests), tokens: Math.min(...tokens), micro_usd: least }
    return byUnit((unit) => Math.max(0, room[unit]))
  }

  /** Every budget that would refuse the request if nothing ran. */
  private noteRefusals(account: Account, cost: number): void {
    for (const [i, [, { spend }]] of this.both(account).entries()) {
      const figures = this.figuresOf(account, i === 0 ? 'organization' : 'key', i)
      for (const name of ['day', 'month', 'total'] as const) {
        const { window, spent } = figures[name]
        const left = BigInt(spend?.[name] ?? SUM_MAX) - BigInt(spent)
        if (cost === 0 || BigInt(cost) <= left) continue
        const mark = this.markOf(account, i, name)
        const before = mark.costs.filter(() => mark.window === window && BigInt(Math.min(...mark.costs)) > left)
        this.marks.set(this.nameOf(account, i, name), { window, costs: [...before, cost] })
      }
    }
  }

  private markOf(account: Account, i: number, budget: string): Mark {
    return this.marks.get(this.nameOf(account, i, budget)) ?? { window: -1, costs: [] }
  }

  private nameOf({ organization, key }: Account, i: number, budget: string): string {
    return JSON.stringify([organization, i === 0 ? '' : `k${key}`, budget])
  }

  private withinSpend(account: Account, entry: Entry): boolean {
    return this.both(account).every(([, limits], i) => {
      const { day, month, total } = this.figuresOf(account, i === 0 ? 'organization' : 'key', i)
      const [dayWindow, monthWindow] = entry.windows[i] ?? []
      const within = (budget: { spent: number; held: number }, most: number | undefined) =>
        BigInt(budget.spent) + BigInt(budget.held) <= BigInt(most ?? SUM_MAX)
      return (
        (day.window !== dayWindow || within(day, limits.spend?.day)) &&
        (month.window !== monthWindow || within(month, limits.spend?.month)) &&
        within(total, limits.spend?.total)
      )
    })
  }

  private correct(account: Account, entry: Entry, tokens: number): void {
    for (const [i, [scope, { tokensPerMinute }]] of this.both(account).entries()) {
      const back = this.back(entry, entry.tokens, tokens, scope.tokens, entry.moments[i]?.tokens, tokensPerMinute)
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

  private figuresOf(account: Account, name: ScopeName, i: number): ModelFigures {
    const clock = this.scope(name === 'organization' ? account.organization : `${account.organization} ${account.key}`)
    const bound = this.entries.filter(
      (entry) =>
        entry.account.organization === account.organization &&
        (name === 'organization' || entry.account.key === account.key),
    )
    const budget = (window: number, b: number, limit: string) => {
      const inWindow = bound.filter((entry) => entry.windows[i]?.[b] === window)
      const spent = inWindow.reduce((sum, entry) => sum + spentOf(entry), 0n)
      const held = inWindow.reduce((sum, entry) => sum + unposted(entry), 0)
      const mark = this.markOf(account, i, limit)
      const refused = mark.window === window ? Math.min(...mark.costs) : 0
      return { window, spent: spent > BigInt(SUM_MAX) ? SUM_MAX : Number(spent), held, refused }
    }
    return {
      requests: Math.ceil(levelOf(clock.requests)),
      tokens: Math.ceil(levelOf(clock.tokens)),
      live: bound.filter(({ state }) => state === 'live').length,
      day: budget(clock.day, 0, 'day'),
      month: budget(clock.month, 1, 'month'),
      total: budget(0, 2, 'total'),
    }
  }
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
