/**
 * The server with the store. It can be down, and may have lost its last second when it returns. Keeps what is needed to
 * undo that second.
 */

import { expect } from 'bun:test'
import type { EndKind } from '../../../src/ledger/audit-columns.ts'
import { advanceAll } from '../../../src/ledger/embedded/account-state.ts'
import { chargedMicroUsd } from '../../../src/ledger/embedded/reservation-moves.ts'
import { FullStore } from '../../../src/ledger/embedded/socket/full-store.ts'
import { copyOf, type ReservationState, type ScopeState } from '../../../src/ledger/embedded/store-state.ts'
import {
  type Account,
  type Admission,
  type Charge,
  counterOf,
  type Hold,
  noCharge,
} from '../../../src/ledger/ledger.ts'
import {
  addSpend,
  type CounterSpend,
  type FoundCounters,
  spendByCounter,
  spendOf,
} from '../../../src/ledger/redis/protocol/counter-spend.ts'
import {
  DataLossError,
  type Entered,
  type FoundReservation,
  type NodeEpoch,
  type NodeFigures,
  type NodeSums,
  type NumberedRow,
} from '../../../src/ledger/redis/protocol/epochs.ts'
import type { Surveyed } from '../../../src/ledger/redis/protocol/link.ts'
import type { Settlement } from '../../../src/ledger/redis/protocol/settlement.ts'
import type { SettleOptions, SettleReply } from '../../../src/ledger/reservation-store.ts'
import { addUsage, noUsage, type UsageFigures, usageOf } from '../../../src/ledger/usage-figures.ts'
import { placeName, type UsagePlace, type UsageRow } from '../../../src/ledger/usage-log.ts'
import { partsOf, seriesOf } from '../../../src/ledger/usage-series.ts'
import { dayOf, NODE_DAYS_KEPT } from '../../../src/ledger/window.ts'
import type { World } from './world.ts'

export interface Charged {
  readonly id: string
  readonly kind: EndKind
  readonly costMicroUsd: number
}

/** How far back a crash may set it. */
export const LOST_MOST_MS = 20_000

const TOTAL = { spend: { total: 0, strict: false, onExhausted: 'finish' } } as const

/** A store to which what it lost of counters can be given back. */
class CounterStore extends FullStore {
  giveBack({ organization, counter, timeZone, windows, spent }: CounterSpend): void {
    const budgets = [{ ...counterOf(counter), limits: TOTAL }]
    const account = { organization, organizationLimits: {}, key: '', keyLimits: {}, budgets, timeZone }
    const state = this.stateOf(account, this.clock.now())
    advanceAll(state, this.clock.now())
    const [, , scope] = state.scopes
    scope?.budgets.forEach((budget, i) => {
      if ((scope.windows[i] ?? 0) <= (windows[i] ?? 0)) budget.spent += spent[i] ?? 0
    })
    if (scope !== undefined) this.keep([{ ...scope, untilMs: Number.MAX_SAFE_INTEGER }])
  }
}

export class Server {
  isUp = true
  readonly charges: Charged[] = []
  private store: CounterStore
  private turnEndMs = 0
  private readonly epoch = new Map<string, number>()
  private readonly nodes = new Map<string, Omit<Entered, 'isLegacy' | 'wasEmpty'>>()
  private readonly figures = new Map<string, UsageFigures>()
  private readonly sums = new Map<string, NodeSums>()
  /** What nodes have spent in counters, by node and counter. */
  private readonly parts = new Map<string, CounterSpend>()
  private readonly scopes = new Map<string, ScopeState>()
  private readonly reservations = new Map<string, ReservationState>()
  private undo: { readonly ms: number; readonly back: () => void }[] = []

  constructor(private readonly world: World) {
    this.store = this.newStore()
  }

  /** Runs a verb if the server is up. */
  ask<T>(verb: (store: FullStore) => T): T {
    return verb(this.store)
  }

  /** Invariant: no grant leaves a limit exceeded. */
  reserve(account: Account, hold: Hold): ReturnType<FullStore['reserve']> {
    const isNew = !this.reservations.has(hold.id)
    const reply = this.store.reserve(account, hold)
    if (reply.outcome !== 'granted' || !isNew) return reply
    const { organization } = this.store.figures(account)
    const { concurrentRequests = 0, spend } = account.organizationLimits
    expect(organization.live).toBeLessThanOrEqual(concurrentRequests)
    expect(organization.total.spent + organization.total.held).toBeLessThanOrEqual(spend?.total ?? 0)
    return reply
  }

  /** Settlements of a node count by node after the node has begun to restore what this epoch lacked. */
  settle(admission: Admission, charge: Charge, options: SettleOptions = {}): SettleReply {
    const { from } = options
    const { account, admittedMs } = admission
    if (from === undefined) throw new Error('A node must give its id.')
    const record = this.nodes.get(from.node)
    if (this.epoch.get('') !== from.epoch || record?.epoch !== from.epoch || record.given === 0)
      throw new DataLossError(account.organization)
    const reply = this.store.settle(admission, charge, options)
    if (reply === 'settled') this.countSpend(from.node, { ...admission, charge, heldMicroUsd: 0 })
    const usage = usageOf(charge)
    if (reply === 'settled' && usage !== undefined)
      this.count(from.node, { day: dayOf(admittedMs), ...account, series: seriesOf(charge), ...usage })
    return reply
  }

  enter({ node, epoch: known }: NodeEpoch, ended: number): Entered {
    const before = this.epoch.get('') ?? 0
    const isNew = before === 0 || before < known || before === ended
    const epoch = isNew ? Math.max(Math.floor(this.world.nowMs), known + 1, ended + 1) : before
    if (isNew) this.set(this.epoch, '', epoch)
    const record = this.nodes.get(node)
    const entered = record?.epoch === epoch ? record : { epoch, given: 0, requests: record?.requests ?? 0 }
    const wasEmpty = this.nodes.size === 0 && this.reservations.size === 0
    this.set(this.nodes, node, entered)
    return { ...entered, isLegacy: false, sums: this.sums.get(node), wasEmpty }
  }

  /** Whether no node has looked for overdue reservations for nearly half a minute. */
  takeTurn(): boolean {
    if (this.world.nowMs < this.turnEndMs) return false
    this.turnEndMs = this.world.nowMs + 25_000
    return true
  }

  survey(organization: string, node: string): Surveyed {
    const epoch = this.epoch.get('') ?? 0
    const record = this.nodes.get(node)
    const [isWhole, requests] = record?.epoch === epoch ? [record.given === 'all', record.requests] : [false, 0]
    return { organization, epoch, isWhole, requests }
  }

  figuresOfNode(node: string, places: readonly UsagePlace[]): NodeFigures {
    const figures = places.map((place) => {
      const name = placeName(place)
      return [name, { ...place, ...(this.figures.get(`${node} ${name}`) ?? noUsage) }] as const
    })
    return { figures: new Map(figures), foldedBefore: 0 }
  }

  /** Sums up what every node served long ago, as the maintenance does it for nodes that are away. */
  sumUp(): void {
    const before = dayOf(this.world.nowMs) - NODE_DAYS_KEPT
    for (const [name, figures] of this.figures) {
      const space = name.indexOf(' ')
      const [node, [day = '', key = '']] = [name.slice(0, space), name.slice(space + 1).split('\0')]
      const record = this.nodes.get(node)
      if (record?.epoch === this.epoch.get('') && record?.given !== 'all') continue
      if (Number(day) >= before) continue
      const { byKey } = this.sums.get(node) ?? { byKey: new Map<string, UsageFigures>() }
      const sum = addUsage(byKey.get(key) ?? noUsage, figures)
      this.set(this.sums, node, { before, byKey: new Map([...byKey, [key, sum]]) })
      this.set(this.figures, name, undefined)
    }
  }

  known(): ReadonlyMap<string, FoundReservation> {
    return new Map(
      [...this.reservations].map(([id, { state, admittedMs }]) => {
        return [id, { isOpen: state === 'live' || state === 'lost', admittedMs }]
      }),
    )
  }

  /** Charges a row as one settlement of its day. */
  restore(epoch: number, node: string, row: NumberedRow): number | 'all' | undefined {
    const record = this.nodes.get(node)
    if (this.epoch.get('') !== epoch || record?.epoch !== epoch) return undefined
    if (record.given === 'all' || (row.last > 0 && row.number !== record.given + 1)) return record.given
    if ('counter' in row) {
      this.store.giveBack(row)
      this.addPart(node, row)
    } else if (row.last > 0) {
      const charge = { ...noCharge('completed'), ...row, ...partsOf(row.series) }
      const account = { ...row, organizationLimits: {}, keyLimits: {} }
      const id = `${node} ${epoch} ${row.number}`
      this.store.settle({ id, account, admittedMs: row.day * 86_400_000 }, charge, { isDirect: true })
      this.count(node, row)
    }
    const given = row.number === row.last ? 'all' : row.number
    this.set(this.nodes, node, { epoch, given, requests: this.nodes.get(node)?.requests ?? 0 })
    return given
  }

  /** Adds what a settlement spends in its counters to what its node has spent. */
  private countSpend(node: string, settlement: Settlement): void {
    const ofAccount = spendOf(settlement)
    if (ofAccount === undefined) return
    for (const spend of spendByCounter(ofAccount, this.world.nowMs)) this.addPart(node, spend)
  }

  private addPart(node: string, spend: CounterSpend): void {
    const name = `${node} ${spend.counter}`
    const known = this.parts.get(name)
    this.set(this.parts, name, known === undefined ? spend : addSpend(known, spend))
  }

  countersOfNode(node: string, names: readonly string[], ids: readonly string[]): FoundCounters {
    const parts = names.flatMap((name) => {
      const part = this.parts.get(`${node} ${name}`)
      return part === undefined ? [] : [[name, part] as const]
    })
    const holds = ids.flatMap((id) => {
      const { counters = [], windows = [] } = this.reservations.get(id) ?? {}
      const own = counters.map((key, i) => [key.slice(1), windows[i + 2] ?? []] as const)
      return own.length === 0 ? [] : [[id, new Map(own)] as const]
    })
    return { parts: new Map(parts), holds: new Map(holds) }
  }

  private count(node: string, row: UsageRow): void {
    const name = `${node} ${placeName(row)}`
    this.set(this.figures, name, addUsage(this.figures.get(name) ?? noUsage, row))
    const record = this.nodes.get(node)
    if (record !== undefined) this.set(this.nodes, node, { ...record, requests: record.requests + row.requests })
  }

  /** Crashes, and returns without what it did last. */
  crash(lostMs: number): void {
    this.isUp = false
    const keep = this.world.nowMs - lostMs
    for (let last = this.undo.at(-1); last !== undefined && last.ms > keep; last = this.undo.at(-1)) {
      last.back()
      this.undo.pop()
    }
    this.store = this.newStore()
    this.store.restore(
      [...this.scopes.values()].map(copyOf),
      [...this.reservations.values()].map((reservation) => ({ ...reservation })),
    )
  }

  get reservationCount(): number {
    return this.reservations.size
  }

  private newStore(): CounterStore {
    return new CounterStore(
      { now: () => Math.floor(this.world.nowMs) },
      {
        scope: (scope) => this.set(this.scopes, `${scope.organization} ${scope.key}`, copyOf(scope)),
        reservation: (reservation) => this.set(this.reservations, reservation.id, { ...reservation }),
        forgotten: (id) => this.set(this.reservations, id, undefined),
        used: () => undefined,
        ended: (reservation, kind, charge) => {
          const costMicroUsd = charge?.costMicroUsd ?? chargedMicroUsd(reservation)
          this.charges.push({ id: reservation.id, kind, costMicroUsd })
          this.remember(() => this.charges.pop())
        },
      },
    )
  }

  private set<T>(map: Map<string, T>, key: string, value: T | undefined): void {
    const before = map.get(key)
    if (value === undefined) map.delete(key)
    else map.set(key, value)
    this.remember(() => (before === undefined ? map.delete(key) : map.set(key, before)))
  }

  private remember(back: () => void): void {
    const oldest = this.world.nowMs - 2 * LOST_MOST_MS
    if (this.undo.length > 4096 && (this.undo[2048]?.ms ?? 0) < oldest)
      this.undo = this.undo.filter(({ ms }) => ms >= oldest)
    this.undo.push({ ms: this.world.nowMs, back })
  }
}
