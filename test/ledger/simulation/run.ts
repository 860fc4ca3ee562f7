/** One simulated world from its first request to its last charge, and the invariants that must hold. */

import { expect } from 'bun:test'
import type { Account, CounterAccount } from '../../../src/ledger/ledger.ts'
import { Random } from '../random.ts'
import { Gateway, type Truth } from './gateway.ts'
import type { Faults } from './network.ts'
import { LOST_MOST_MS, Server } from './server.ts'
import { World } from './world.ts'

export interface Outcome {
  readonly requests: number
  readonly steps: number
  readonly kinds: ReadonlyMap<string, number>
}

const MINUTE_MS = 60_000

const DAY_MS = 86_400_000
/** Longer than each time for which the ledger keeps something, and shorter. */
const ABSENCES_MS = [50 * MINUTE_MS, 61 * MINUTE_MS, DAY_MS + 1, 30 * DAY_MS, 32 * DAY_MS, 40 * DAY_MS, 100 * DAY_MS]
/** Beyond it the store has only sums of what lost requests were charged. */
const EXACT_MS = 31 * DAY_MS

/**
 * Runs about this many requests over a few virtual minutes under faults, waits until all are finished, and checks the
 * figures. With `isAnyAway`, one gateway is cut off while it serves, and comes back minutes or months later; with
 * `hasCounters`, requests count in budgets, too.
 */
export async function simulate(
  seed: number,
  requests: number,
  { isAnyAway = false, hasCounters = false } = {},
): Promise<Outcome> {
  const world = new World(seed)
  const { random } = world
  const server = new Server(world)
  const rate = () => random.pick([10, 30, 100, 1_000_000])
  const faults: Faults = { requestLost: rate(), replyLost: rate(), doubled: rate(), slow: rate() }
  const unreachable = random.pick(['refuse', 'allow'] as const)
  const gateways = ['a', 'b', 'c'].map((name) => new Gateway(world, server, faults, unreachable, name))
  const account = accountFor(random.pick([2_000, 1e9]) + requests * random.pick([5, 60, 1000]), random.pick([30, 1e6]))
  // Of its own, so that worlds without counters stay as they are.
  const own = hasCounters ? new Random(seed ^ 0x5bd1e995) : undefined
  const counterTotal = own?.pick([20_000, 1e9]) ?? 0
  // While Redis is away, `allow` serves the next candidate without a reservation of its own. One that is set back may
  // bring the reservation of an earlier turn back, whose counters then get the charge, too.
  const hasTurns = own?.oneIn(3) === true && unreachable === 'refuse' && !isAnyAway
  const length = 3 * MINUTE_MS
  for (let i = 0; i < requests; i++) {
    const key = random.pick(['ci', 'dev'])
    world.after(random.unit() * length, () => {
      const drawn = () => ({
        ...{ ...account, key },
        ...(own && { budgets: countersFor(own, counterTotal), timeZone: 'Asia/Kolkata' }),
      })
      const next = hasTurns && own?.oneIn(4) === true ? drawn() : undefined
      random.pick(gateways).request(drawn(), next).catch(fail)
    })
  }
  disturb(world, server, gateways, length, !hasTurns)
  const away = isAnyAway ? random.pick(gateways) : undefined
  if (away !== undefined) world.after(random.unit() * length, () => away.leave())
  await world.run(length + 2 * MINUTE_MS)
  const absenceMs = away === undefined ? 0 : random.pick(ABSENCES_MS)
  world.leap(absenceMs)
  if (away !== undefined && random.oneIn(2)) server.sumUp()
  await world.run(MINUTE_MS)
  away?.comeBack()
  if (away !== undefined && random.oneIn(3))
    world.after(random.unit() * MINUTE_MS, () => setBack(world, server, gateways))
  // Timers send lost calls again until they are acknowledged.
  await world.run(MINUTE_MS)
  check(server, gateways, account, world, absenceMs < EXACT_MS)
  return { requests, steps: world.steps, kinds: tally(server) }
}

function fail(error: unknown): void {
  throw error
}

function accountFor(total: number, concurrentRequests: number): Account {
  const spend = { total, strict: false, onExhausted: 'finish' } as const
  return { organization: 'acme', organizationLimits: { concurrentRequests, spend }, key: 'ci', keyLimits: {} }
}

/** What counts a request: a budget of each person, and most often one of all. */
const PEOPLE = ['ann', 'bob', 'eve']

function countersFor(random: Random, total: number): readonly CounterAccount[] {
  const person = counterOfPerson(random.pick(PEOPLE), total)
  return random.oneIn(4) ? [person] : [COUNTER_OF_ALL, person]
}

function counterOfPerson(value: string, total: number): CounterAccount {
  return { name: 'person', value, limits: { spend: { total, strict: false, onExhausted: 'finish' } } }
}

const COUNTER_OF_ALL = { ...counterOfPerson('', 1e9), name: 'all' }

/**
 * Injects kills of gateways, crashes of the server that lose up to a second, cut connections and full disks. Each world
 * has its own frequencies.
 */
function disturb(world: World, server: Server, gateways: readonly Gateway[], length: number, isSetBack: boolean): void {
  const { random } = world
  const often = (every: number, what: () => void) => {
    if (random.oneIn(3)) return
    for (let ms = random.unit() * every; ms < length; ms += random.unit() * 2 * every) world.after(ms, what)
  }
  often(15_000, () => random.pick(gateways).kill(world.delay(50, 5000)))
  often(10_000, () => random.pick(gateways).cut())
  if (isSetBack) often(40_000, () => setBack(world, server, gateways))
  often(40_000, () => {
    const { disk } = random.pick(gateways)
    disk.isFull = true
    world.after(world.delay(10, 3000), () => {
      disk.isFull = false
    })
  })
}

function setBack(world: World, server: Server, gateways: readonly Gateway[]): void {
  if (!server.isUp) return
  server.crash(world.random.pick([0, world.delay(0, 1000), world.delay(0, LOST_MOST_MS)]))
  for (const gateway of gateways) gateway.cut()
  world.after(world.delay(100, 8000), () => {
    server.isUp = true
  })
}

function check(server: Server, gateways: readonly Gateway[], account: Account, world: World, isExact: boolean): void {
  // Every lease has expired, also those of the gateways that died last.
  world.nowMs += 2 * 3_600_000
  const { organization } = server.ask((store) => store.figures(account))
  // Invariant: a row that a gateway wrote is charged with its amount, whatever failed in between.
  const charged = new Map(server.charges.map(({ id, kind, costMicroUsd }) => [id, { kind, costMicroUsd }]))
  for (const gateway of gateways) {
    expect(gateway.health).toMatchObject({ pending: 0 })
    checkRows(gateway, charged, isExact)
    for (const truth of gateway.truths) checkTruth(truth, gateway, charged.get(truth.id), isExact)
  }
  // Invariant: a reservation ends once, or is lost and then corrected.
  const ends = new Map<string, string[]>()
  for (const { id, kind } of server.charges) ends.set(id, [...(ends.get(id) ?? []), kind])
  for (const [id, kinds] of ends) {
    expect([id, kinds.join(' ')]).toEqual([
      id,
      expect.stringMatching(
        isExact
          ? /^(settled|direct|cancelled|lost|lost late|lost withdrawn)$/
          : /^(settled|direct|cancelled|lost|lost late|lost withdrawn|lost direct|lost cancelled)$/,
      ),
    ])
  }
  // Invariants: spending is the sum of the charges; in the end nothing is held, and no reservation is stored.
  const sum = [...charged.values()].reduce((total, { costMicroUsd }) => total + costMicroUsd, 0)
  expect(organization).toMatchObject({ live: 0, total: { held: 0 } })
  const { spent } = organization.total
  if (isExact) expect(spent).toBe(sum)
  // Nothing is charged twice. Requests that were never settled may make up for late ones of their day and key.
  else checkBounds(spent, sum, server, ends)
  if (isExact) checkCounters(server, gateways, account, charged)
  world.nowMs += 32 * DAY_MS
  server.ask((store) => store.reap(account.organization))
  expect(server.reservationCount).toBe(0)
}

/** Each counter has spent what its requests were charged, and holds nothing. */
function checkCounters(
  server: Server,
  gateways: readonly Gateway[],
  account: Account,
  charged: ReadonlyMap<string, { readonly costMicroUsd: number }>,
): void {
  const truths = gateways.flatMap((gateway) => gateway.truths.map((truth) => ({ truth, stored: gateway.disk.stored })))
  // A charge without a row makes up for others of its node that the server lost.
  if (truths.some(({ truth }) => truth.sentUnwritten || truth.isMoving)) return
  const budgets = [COUNTER_OF_ALL, ...PEOPLE.map((value) => counterOfPerson(value, 0))]
  const { budgets: usages = [] } = server.ask((store) => store.figures({ ...account, budgets }))
  for (const [i, { name, value }] of budgets.entries()) {
    let sum = 0
    for (const { truth, stored } of truths) {
      if (truth.account.budgets?.some((one) => one.name === name && one.value === value) !== true) continue
      const row = stored.get(truth.id)
      sum += row?.settlement.charge.costMicroUsd ?? charged.get(truth.id)?.costMicroUsd ?? 0
    }
    const { live, total } = usages[i]?.usage ?? {}
    expect([name, value, live, total?.held, total?.spent]).toEqual([name, value, 0, 0, sum])
  }
}

/**
 * A request whose reservation was lost, deleted, and then settled costs at most the greater of both charges. What was
 * charged for requests that nobody settled may be taken off others.
 */
function checkBounds(spent: number, sum: number, server: Server, ends: ReadonlyMap<string, readonly string[]>): void {
  const costs = new Map<string, number[]>()
  for (const { id, costMicroUsd } of server.charges) costs.set(id, [...(costs.get(id) ?? []), costMicroUsd])
  let [least, most] = [sum, sum]
  for (const [id, kinds] of ends) {
    const [first = 0, last = 0] = costs.get(id) ?? []
    if (kinds.join() === 'lost') least -= first
    if (kinds.join() === 'lost,direct') most += Math.max(0, first - last)
  }
  expect(spent).toBeLessThanOrEqual(most)
  expect(spent).toBeGreaterThanOrEqual(least)
}

/** Each row is charged its cost, under its own id or in a sum that the gateway restored. */
function checkRows(
  gateway: Gateway,
  charged: ReadonlyMap<string, { readonly kind: string; readonly costMicroUsd: number }>,
  isExact: boolean,
): void {
  const { stored, node } = gateway.disk
  let [written, found] = [0, 0]
  for (const [id, { settlement, state }] of stored) {
    const cost = settlement.charge.costMicroUsd
    expect([id, state]).toEqual([id, expect.stringMatching(/^(taken|absorbed)$/)])
    const own = charged.get(id)
    // The rest of what a lost request cost is in a sum if its reservation was deleted: it was never sent, or the server
    // lost what it had taken.
    const isInSum = own === undefined || (!isExact && own.kind === 'lost')
    expect([id, isInSum ? cost : own.costMicroUsd]).toEqual([id, cost])
    written += cost
    found += isInSum ? 0 : own.costMicroUsd
  }
  for (const [id, { costMicroUsd }] of charged) if (id.startsWith(`${node} `)) found += costMicroUsd
  // Charges without a row make up for the same amount that the server lost.
  const unwritten = gateway.truths.some(({ sentUnwritten }) => sentUnwritten)
  if (!unwritten) expect([node, found]).toEqual([node, written])
}

function checkTruth(
  truth: Truth,
  gateway: Gateway,
  charge: { kind: string; costMicroUsd: number } | undefined,
  isExact: boolean,
): void {
  // A request that ended while its gateway lived is in the gateway's log.
  if (truth.cost !== undefined && !truth.gatewayDied) expect(gateway.disk.stored.has(truth.id)).toBe(true)
  // Invariant: a request that called no provider is not charged, unless its gateway died while it reserved, or was away
  // for so long that the server had deleted the lost reservation before it was cancelled.
  const isForgotten = !isExact && charge?.kind === 'lost'
  if (!truth.called && !truth.gatewayDied && !isForgotten)
    expect([truth.id, charge?.costMicroUsd ?? 0]).toEqual([truth.id, 0])
  // Rows are written first: a settled request is in the log, unless the log could not be written.
  const isSettled = charge !== undefined && ['settled', 'late', 'direct'].includes(charge.kind)
  if (isSettled && !truth.sentUnwritten) expect([truth.id, gateway.disk.stored.has(truth.id)]).toEqual([truth.id, true])
  // Requests of a killed gateway are charged at least their floor.
  if (charge?.kind === 'lost') expect(charge.costMicroUsd).toBeGreaterThanOrEqual(30)
}

function tally(server: Server): ReadonlyMap<string, number> {
  const kinds = new Map<string, number>()
  for (const { kind } of server.charges) kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
  return kinds
}
