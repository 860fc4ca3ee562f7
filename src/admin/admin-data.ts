/**
 * The figures of the admin API: what the supervisor knows, what the workers report, and what is read from the
 * ledger. What takes a read is kept for some seconds, however many ask.
 */

import { dayOf } from '../ledger/window.ts'
import { type CounterFilter, counterUsagesOf } from '../reports/counter-usage.ts'
import { fullness, limitUsagesOf, searchWords } from '../reports/limit-usage.ts'
import { configuredExpiringKeys, type StoredKeys, storedKeysOf } from '../reports/stored-keys.ts'
import type { BudgetRow, Budgets, FiguresNow, Status, Targets } from './api-shapes.ts'
import { budgetRow, counterRow, matchingBudgets, usedUpAt } from './budget-rows.ts'
import { FiguresHistory, POINTS_MAX, STEP_SECONDS } from './figures-history.ts'
import { fleetFigures, mixedFleet } from './fleet-report.ts'
import { type HistoryPoint, readHistory, writeHistory } from './history-file.ts'
import { Refreshed } from './refreshed.ts'
import { readSpend, type Spend } from './spend-figures.ts'
import { statusOf } from './status-report.ts'
import type { Supervision } from './supervision.ts'
import { TargetHistory, targetRows } from './target-rows.ts'

/** How old what was read from the ledger may be, if it may have changed, and if nothing suggests that it has. */
const FRESH_MS = 1000
const STALE_MS = 30_000
/** Readings of the sums for the history of the last hour. */
const STEPS_A_MINUTE = 60 / STEP_SECONDS
/** A status does not wait longer for the ledger; what is not known by then is null. */
const STATUS_WAIT_MS = 1000
/** The most rows of one answer. */
const BUDGETS_MAX = 1000

/** Rows of counters; of an organisation that has more of them than are read, how many rows its others have. */
interface CounterRows {
  readonly rows: readonly BudgetRow[]
  readonly left: ReadonlyMap<string, number>
}

const NO_COUNTERS: CounterRows = { rows: [], left: new Map() }

/** With the name of a budget, or a value, only counters are listed. */
interface BudgetFilter extends Pick<CounterFilter, 'organization' | 'name' | 'value'> {
  readonly key?: string | undefined
  /** The most rows, at most `BUDGETS_MAX`. */
  readonly limit?: number | undefined
  /** Words that the organisation, the key or the limit has. */
  readonly search?: string | undefined
}

export class AdminData {
  private readonly spend: Refreshed<Spend>
  private readonly allBudgets: Refreshed<readonly BudgetRow[]>
  /** Those of counters: there may be very many, so that they are read only when they are asked for. */
  private readonly allCounters: Refreshed<CounterRows>
  private readonly storedKeys: Refreshed<StoredKeys>
  private readonly history: FiguresHistory
  private readonly targetHistory: TargetHistory
  private readonly timer: ReturnType<typeof setInterval>
  /** Of the last hour. */
  private readonly fleetPoints: HistoryPoint[] = []
  private steps = 0
  private keptRequests = 0

  constructor(
    private readonly supervision: Supervision,
    clock?: () => number,
  ) {
    const config = () => supervision.state().config
    const { sums } = supervision
    const version = () => {
      // Requests that run hold more and more, and other nodes spend, too.
      if (sums.gauges().inFlight > 0 || config().ledger.kind === 'redis') return Number.NaN
      // A reload changes limits, and at midnight budgets renew.
      const { requests } = sums.totals()
      return requests + (supervision.state().lastReload?.atMs ?? 0) + dayOf(Date.now()) * 2 ** 30
    }
    const ages = { ageMs: FRESH_MS, ageMsMax: STALE_MS, version, clock }
    this.spend = new Refreshed({ read: () => readSpend(config()), ...ages })
    this.allBudgets = new Refreshed({
      read: async () => {
        const usages = await limitUsagesOf(config(), (await known(this.storedKeys))?.limited ?? [])
        return usages.map((usage) => budgetRow(usage, config().alerts?.spend))
      },
      ...ages,
    })
    this.allCounters = new Refreshed({ read: () => this.readCounters({}), ...ages })
    this.storedKeys = new Refreshed({ read: () => storedKeysOf(config()), ...ages, ageMs: STALE_MS })
    const before = readHistory(config().dataDir, Date.now())
    this.history = new FiguresHistory(() => ({ ...sums.gauges(), totals: sums.totals() }), Date.now, before)
    this.targetHistory = new TargetHistory(() => sums.targets())
    this.timer = setInterval(() => this.step(), STEP_SECONDS * 1000)
    this.timer.unref()
  }

  /** Ends the history, and keeps it for the next start. */
  close(): void {
    clearInterval(this.timer)
    writeHistory(this.supervision.state().config.dataDir, this.history.points())
  }

  async status(withHistory = false): Promise<Status> {
    const system = this.supervision.state()
    const hasCounters = system.config.organizations.some(({ budgets: own = [] }) => own.length > 0)
    const [reasons, spend, budgets, counters, keys] = await Promise.all([
      this.supervision.reasons(),
      known(this.spend),
      known(this.allBudgets),
      hasCounters ? known(this.allCounters) : NO_COUNTERS,
      known(this.storedKeys),
    ])
    const expiringKeys = [...configuredExpiringKeys(system.config), ...(keys?.expiring ?? [])]
    const { fleet } = this.supervision
    const [now, nowMs] = [this.history.now(), Date.now()]
    const of = { nodes: fleetFigures(now, fleet.others()), mixed: mixedFleet(fleet, nowMs) }
    const read = { reasons, costTodayMicroUsd: spend?.todayMicroUsd, expiringKeys, ...of }
    const status = statusOf(system, { ...read, budgets: budgets ?? [], counters: counters?.rows ?? [] }, now, nowMs)
    if (!withHistory) return status
    const points = [...this.history.points()]
    return { ...status, history: { step_seconds: STEP_SECONDS, points, nodes: [...this.fleetPoints] } }
  }

  /** What this node does now. */
  figures(): FiguresNow {
    return this.history.now()
  }

  targets(): Targets {
    const { config, stateOf } = this.supervision.state()
    return {
      rows: targetRows({
        ...{ config, stateOf },
        formsOf: (ref) => this.supervision.formsOf(ref),
        figuresOf: this.targetHistory.figures(),
        left: this.supervision.sums.gauges().left ?? {},
      }),
    }
  }

  /** Rejects if the ledger cannot be read. */
  async budgets(filter: BudgetFilter): Promise<Budgets> {
    const { organization, key, name, value, search, limit = BUDGETS_MAX } = filter
    const words = searchWords(search)
    const isOfCounters = name !== undefined || value !== undefined
    const [all, spend, counters] = await Promise.all([
      isOfCounters ? [] : this.allBudgets.get(),
      known(this.spend),
      key !== undefined
        ? NO_COUNTERS
        : isOfCounters
          ? this.readCounters({ organization, name, value })
          : this.allCounters.get(),
    ])
    const isOfOwner = (row: BudgetRow) => row.organization === (organization ?? row.organization)
    const ofOwners = all.filter((row) => isOfOwner(row) && row.key === (key ?? row.key))
    const ofCounters = counters.rows.filter(isOfOwner)
    const leftOf = ({ left }: CounterRows) =>
      organization === undefined ? left.values().reduce((sum, rows) => sum + rows, 0) : (left.get(organization) ?? 0)
    // There may be more than are read without a search.
    const searched =
      words.length > 0 && leftOf(counters) > 0
        ? await this.readCounters({ organization, name, value, words })
        : { rows: matchingBudgets(ofCounters, words), left: counters.left }
    const found = [...matchingBudgets(ofOwners, words), ...searched.rows].sort(
      (a, b) => Number(b.state === 'refusing') - Number(a.state === 'refusing') || fullness(b) - fullness(a),
    )
    const nowMs = Date.now()
    const shown = found.slice(0, limit).map((row) => {
      // What a counter spent in the last hour is not known.
      const lastHour = row.budget === undefined ? spend?.lastHour(row.organization, row.key) : undefined
      return { ...row, used_up_at: usedUpAt(row, lastHour ?? 0, nowMs) }
    })
    return {
      rows: shown,
      more: Math.max(0, found.length - limit) + leftOf(searched),
      total: ofOwners.length + ofCounters.length + leftOf(counters),
    }
  }

  private async readCounters(filter: Omit<CounterFilter, 'limited'>): Promise<CounterRows> {
    const { config } = this.supervision.state()
    const left = new Map<string, number>()
    const limited = (organization: string, _count: number, limitsLeft: number) => left.set(organization, limitsLeft)
    const usages = await counterUsagesOf(config, { ...filter, limited })
    return { rows: usages.map((usage) => counterRow(usage, config.alerts?.spend)), left }
  }

  /** Of spend limits, for the metrics: those that refuse first. Undefined while the ledger cannot be read. */
  async spendLimits(): Promise<readonly BudgetRow[] | undefined> {
    const all = await known(this.allBudgets)
    return all?.filter(({ unit }) => unit === 'micro_usd').slice(0, BUDGETS_MAX)
  }

  private step(): void {
    this.history.step()
    this.stepOfNodes()
    if (++this.steps % STEPS_A_MINUTE !== 0) return
    this.targetHistory.step()
    this.keepHistory()
  }

  /** A point of the sums of all nodes. */
  private stepOfNodes(): void {
    const own = this.history.points().at(-1)
    const sums = own && fleetFigures(own, this.supervision.fleet.others())
    if (own === undefined || sums === null || sums === undefined) return
    this.fleetPoints.push({ at: own.at, ...sums.now })
    if (this.fleetPoints.length > POINTS_MAX) this.fleetPoints.shift()
  }

  /** For a supervisor that is killed. Without requests nothing is written. */
  private keepHistory(): void {
    const { requests } = this.supervision.sums.totals()
    if (requests === this.keptRequests) return
    this.keptRequests = requests
    writeHistory(this.supervision.state().config.dataDir, this.history.points())
  }
}

/** The value, if it can be read in time. If the ledger cannot be read, the readiness check reports why. */
function known<T>(refreshed: Refreshed<T>): Promise<T | undefined> {
  return refreshed.fresh(STATUS_WAIT_MS)
}
