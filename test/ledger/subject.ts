/**
 * The subjects of the suites: one store of each kind, with a clock that the test sets and access to everything it
 * wrote.
 */

import type { Redis } from 'ioredis'
import { budgetLimits } from '../../src/core/limits.ts'
import { CROSSING_NAMES, crossingOf, crossingValues } from '../../src/ledger/embedded/crossing-table.ts'
import { chargedMicroUsd } from '../../src/ledger/embedded/reservation-moves.ts'
import { FullStore } from '../../src/ledger/embedded/socket/full-store.ts'
import type { ScopeState } from '../../src/ledger/embedded/store-state.ts'
import { RedisCrossingReader } from '../../src/ledger/redis/readers/redis-crossings.ts'
import { scopeFields } from '../../src/ledger/redis/store/record-layout.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import type { ReservationStore } from '../../src/ledger/reservation-store.ts'
import type { CrossingReader, SpendCrossing } from '../../src/ledger/spend-crossing.ts'
import { addUsage, noUsage, type UsageFigures } from '../../src/ledger/usage-figures.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { REDIS, VALKEY } from './programs.ts'
import { RedisServer } from './redis-server.ts'

export interface TestClock {
  now: number
  /** The gateway's own clock; windows roll over only if the two agree. */
  witness: number
}

export interface Audited {
  readonly id: string
  readonly kind: string
  readonly costMicroUsd: number
}

/** The verbs of a store; the in-memory store replies at once. */
type Store = {
  readonly [Verb in keyof ReservationStore]: (
    ...of: Parameters<ReservationStore[Verb]>
  ) => ReturnType<ReservationStore[Verb]> | Awaited<ReturnType<ReservationStore[Verb]>>
}

export interface Subject {
  readonly name: string
  readonly clock: TestClock
  readonly store: Store
  /** Usage by `day hour key model provider tags`. */
  usage(organization: string): Promise<ReadonlyMap<string, UsageFigures>>
  audit(organization: string): Promise<readonly Audited[]>
  /** How many reservations it stores, ended ones included. */
  reservationCount(organization: string): Promise<number>
  /** What is stored of a scope's budgets, by their names: not advanced to now, as `figures` are. */
  budgets(organization: string, scope: string): Promise<Readonly<Record<string, StoredBudget>>>
  /** The records of spend that reached a threshold, of the organisations `a` and `b`. */
  crossings(): Promise<readonly SpendCrossing[]>
  /** Deletes those, unless more was spent. In memory the journal has them, and they are gone once they are read. */
  take(crossings: readonly SpendCrossing[]): Promise<void>
  /** Drops counters that have ended; absent if `reap` does. */
  sweep?(): void
  /** The connection of a store in Redis. */
  readonly redis?: Redis | undefined
  open(): Promise<void>
  /** Deletes everything. */
  reset(): Promise<void>
  close(): Promise<void>
}

interface StoredBudget {
  readonly window: number
  readonly spent: number
}

export const START_MS = Date.UTC(2026, 10, 21, 9)

export function memorySubject(): Subject {
  const clock: TestClock = new OneClock()
  const make = () => {
    const seen = {
      usage: new Map<string, Map<string, UsageFigures>>(),
      audit: new Map<string, Audited[]>(),
      known: new Map<string, Set<string>>(),
      scopes: new Set<ScopeState>(),
    }
    const store = new FullStore(
      { now: () => clock.now },
      {
        scope: (scope) => seen.scopes.add(scope),
        reservation: ({ id, organization }) => emplace(seen.known, organization, () => new Set()).add(id),
        forgotten: (id) => {
          for (const ids of seen.known.values()) ids.delete(id)
        },
        used: (reservation, series, figures) => {
          const usage = emplace(seen.usage, reservation.organization, () => new Map<string, UsageFigures>())
          const place = placeOf(dayOf(reservation.admittedMs), reservation.key, series)
          usage.set(place, addUsage(usage.get(place) ?? noUsage, figures))
        },
        ended: (reservation, kind, charge) =>
          emplace(seen.audit, reservation.organization, () => []).push({
            id: reservation.id,
            kind,
            costMicroUsd: charge?.costMicroUsd ?? chargedMicroUsd(reservation),
          }),
      },
    )
    return { seen, store }
  }
  let current = make()
  return {
    name: 'memory',
    clock,
    get store() {
      return current.store
    },
    usage: async (organization) => current.seen.usage.get(organization) ?? new Map(),
    audit: async (organization) => current.seen.audit.get(organization) ?? [],
    reservationCount: async (organization) => current.seen.known.get(organization)?.size ?? 0,
    budgets: async (organization, key) => {
      const scope = [...current.seen.scopes].find((one) => one.organization === organization && one.key === key)
      const of = (at: number) => ({ window: scope?.windows[at] ?? 0, spent: scope?.budgets[at]?.spent ?? 0 })
      return Object.fromEntries(budgetLimits.map(({ name }, at) => [name, of(at)]))
    },
    crossings: async () => {
      const scopes = [...current.seen.scopes]
      const found = scopes.flatMap((scope) => crossingValues(scope, clock.now))
      for (const scope of scopes) scope.crossings = []
      return found.flatMap((values) => {
        const crossing = crossingOf(Object.fromEntries(CROSSING_NAMES.map((name, i) => [name, values[i] ?? ''])))
        return crossing === undefined ? [] : [crossing]
      })
    },
    take: async () => undefined,
    sweep: () => current.store.reapAll(),
    reset: async () => {
      current = make()
    },
    open: async () => undefined,
    close: async () => undefined,
  }
}

function emplace<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const value = make()
  map.set(key, value)
  return value
}

/** The in-memory store uses its gateway's clock, so there is no other that it could differ from. */
class OneClock implements TestClock {
  now = START_MS

  get witness(): number {
    return this.now
  }

  set witness(_: number) {}
}

const NOW_KEY = 'weir:test:now'
/** Replaces `clock.lua`, so that the test sets the time. */
const TEST_CLOCK = `local now = tonumber(redis.call('GET', '${NOW_KEY}'))\n`

/** The fields of a scope as texts. */
const UNPACK = `
  local packed = redis.call('HGET', KEYS[1], ARGV[1])
  local fields = packed and cmsgpack.unpack(packed) or {}
  for i = 1, #fields do fields[i] = string.format('%.0f', fields[i]) end
  return fields`

/** Starts its server in `open`. */
export function redisSubject(): Subject {
  return new RedisSubject('redis', REDIS)
}

/** Every store available on this machine. */
export function subjects(): readonly Subject[] {
  const valkey = VALKEY === undefined ? [] : [new RedisSubject('valkey', VALKEY)]
  return [memorySubject(), redisSubject(), ...valkey]
}

class RedisSubject implements Subject {
  readonly clock: TestClock = { now: START_MS, witness: START_MS }
  private opened:
    | {
        readonly server: RedisServer
        readonly redis: Redis
        readonly store: RedisStore
        readonly reader: RedisCrossingReader
      }
    | undefined

  constructor(
    readonly name: string,
    private readonly program: string,
  ) {}

  async open(): Promise<void> {
    const server = await RedisServer.of(this.program)
    const redis = server.client()
    const store = new RedisStore(redis, redis, () => this.clock.witness, TEST_CLOCK)
    this.opened = { server, redis, store, reader: new RedisCrossingReader(redis, store) }
  }

  /** Sets the time before every verb; one connection keeps the order of commands. */
  get store(): Store {
    const { redis, store } = this.parts
    redis.set(NOW_KEY, this.clock.now)
    return store
  }

  get redis(): Redis {
    return this.parts.redis
  }

  usage(organization: string): Promise<ReadonlyMap<string, UsageFigures>> {
    return redisUsage(this.parts.redis, organization)
  }

  audit(organization: string): Promise<readonly Audited[]> {
    return redisAudit(this.parts.redis, organization)
  }

  reservationCount(organization: string): Promise<number> {
    return this.parts.redis.hlen(redisKey(organization, 'reservations'))
  }

  async budgets(organization: string, scope: string): Promise<Readonly<Record<string, StoredBudget>>> {
    const values = await this.parts.redis.eval(UNPACK, 1, redisKey(organization, 'scopes'), scope)
    const at = (field: string) => Number((Array.isArray(values) && values[scopeFields.indexOf(field)]) || 0)
    return Object.fromEntries(budgetLimits.map(({ name }) => [name, { window: at(name), spent: at(`${name}_spent`) }]))
  }

  crossings(): Promise<readonly SpendCrossing[]> {
    return this.parts.reader.read(['a', 'b'])
  }

  take(crossings: readonly SpendCrossing[]): Promise<void> {
    const { reader }: { readonly reader: CrossingReader } = this.parts
    return reader.take(crossings)
  }

  async reset(): Promise<void> {
    await this.parts.redis.flushall()
  }

  async close(): Promise<void> {
    this.opened?.redis.disconnect()
    await this.opened?.server[Symbol.asyncDispose]()
  }

  private get parts() {
    if (this.opened === undefined) throw new Error('The subject is not open.')
    return this.opened
  }
}

/** Both stores keep a text with tabs: the model, the provider and the tags, or the model alone, and then the hour. */
function placeOf(day: number, key: string, series: string): string {
  const parts = series.split('\t')
  const hour = parts.pop() ?? ''
  const [model = '', provider = '', tags = ''] = parts
  return [day, hour, key, model, provider, tags].join(' ')
}

async function redisUsage(redis: Redis, organization: string): Promise<ReadonlyMap<string, UsageFigures>> {
  const usage = new Map<string, UsageFigures>()
  for (const [field, text] of Object.entries(await redis.hgetall(redisKey(organization, 'usage')))) {
    const [
      requests = 0,
      estimatedRequests = 0,
      inputTokens = 0,
      cachedInputTokens = 0,
      outputTokens = 0,
      images = 0,
      costMicroUsd = 0,
    ] = text.split(',').map(Number)
    const [day = '', key = '', series = ''] = field.split('\0')
    const place = placeOf(Number(day), key, series)
    const figures = {
      requests,
      estimatedRequests,
      inputTokens,
      cachedInputTokens,
      outputTokens,
      images,
      costMicroUsd,
    }
    // A reservation without a provider counts under its model alone, and a charge without one under three parts.
    usage.set(place, addUsage(usage.get(place) ?? noUsage, figures))
  }
  return usage
}

async function redisAudit(redis: Redis, organization: string): Promise<readonly Audited[]> {
  const entries = await redis.xrange(redisKey(organization, 'audit'), '-', '+')
  return entries.map(([, words]) => {
    const field = (name: string) => words[words.indexOf(name) + 1] ?? ''
    return { id: field('id'), kind: field('kind'), costMicroUsd: Number(field('cost')) }
  })
}

/** Figures without what was refused. */
export function withoutRefusals(figures: unknown): unknown {
  return JSON.parse(JSON.stringify(figures, (name, value) => (name === 'refused' ? undefined : value)))
}
