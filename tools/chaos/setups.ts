/**
 * The setups of the chaos run: a gateway with the embedded ledger and one worker; one with two workers; two gateways
 * with three workers over one Redis; one over a cluster; two over a Redis that Sentinels watch.
 */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Cluster, Redis } from 'ioredis'
import { EmbeddedAccountUsageReader } from '../../src/ledger/embedded/sqlite-readers.ts'
import { LEDGER_FILE, LEDGER_SCHEMA } from '../../src/ledger/embedded/state-tables.ts'
import { OUTBOX_FILE, OUTBOX_SCHEMA } from '../../src/ledger/redis/outbox/outbox-schema.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { Random } from '../../test/support/random.ts'
import { checkAlerts, reachedShares, reportedShares } from './alert-checks.ts'
import { AlertReceiver } from './alert-receiver.ts'
import type { ArrivalClock } from './arrival-clock.ts'
import { callUntil, type Load, type Result } from './callers.ts'
import {
  beyondHold,
  checkErrors,
  checkHeld,
  checkLimit,
  checkOutboxes,
  checkSpent,
  checkTags,
  checkTiers,
  checkTrail,
  checkUsageCommand,
  outboxRows,
} from './checks.ts'
import { RedisCluster } from './cluster.ts'
import {
  clusterFaults,
  type Fault,
  gatewayFaults,
  type Injected,
  injectFaults,
  redisFaults,
  sentinelFaults,
  sharedLedgerFaults,
} from './faults.ts'
import { Gateway } from './gateway.ts'
import { KeyChanges } from './key-changes.ts'
import {
  type AllFigures,
  figuresOf,
  finalOf,
  isIdle,
  pendingIn,
  rowsOf,
  spentOf,
  sumOf,
  trailOf,
} from './ledger-audit.ts'
import { acme, configOf, many, type Organization, TIGHT, tightMicroUsd } from './organizations.ts'
import type { Provider } from './provider.ts'
import { RedisServer } from './redis-server.ts'
import { checkAnswers, type Report } from './report.ts'
import { RotatedKey } from './rotation.ts'
import { SentinelSet } from './sentinels.ts'
import { callOverSocketsUntil } from './socket-callers.ts'

/** One in so many callers holds WebSockets. */
const SOCKETS_ONE_IN = 3
/** The duration of a lease and of the reaper's interval, and time for a busy machine. */
const WAIT_MS_MAX = 75_000
/** The least part of its limit that the key with the small budget spends, in at most so many rounds of all callers. */
const TIGHT_SHARE_SPENT = 0.6
const ROUNDS_MAX = 100
/** How long callers send requests while Redis is flushed. */
const FLUSH_LOAD_MS = 4000
/** Between faults of gateways that run beside failovers, so that there is someone to change keys. */
const RARE_MS = { first: 2000, last: 8000 }

export interface Run {
  readonly provider: Provider
  readonly folder: string
  readonly seconds: number
  readonly seed: number
  readonly callers: number
  readonly clock: ArrivalClock
}

/** A setup after its faults: what happened, and the checks that must hold. */
export interface SetupResult extends AsyncDisposable {
  readonly name: string
  readonly faults: readonly Injected[]
  readonly results: readonly Pick<Result, 'end'>[]
  check(report: Report): Promise<void>
}

/** `name` is the prefix of the marks of this setup's requests. */
function loadOf(
  { clock }: Run,
  name: string,
  organizations: readonly Organization[],
  gateways: readonly Gateway[],
): Load {
  let number = 0
  const keys = organizations.flatMap((one) => one.keys)
  const organization = organizations[0]?.organization ?? ''
  const ports = gateways.map(({ port }) => port)
  return { name, organization, ports, keys, number: () => number++, clock, results: [] }
}

function callers(run: Run, load: Load, untilMs: number): readonly Promise<void>[] {
  return Array.from({ length: run.callers }, (_, i) => {
    const call = i % SOCKETS_ONE_IN === 1 ? callOverSocketsUntil : callUntil
    return call(untilMs, load, new Random(run.seed + 1000 * (i + 1)))
  })
}

/** Keys that change during the faults. */
interface ChangingKeys {
  changeUntil(untilMs: number): Promise<void>
  check(report: Report, faults: readonly Injected[]): void
}

/** What runs beside the callers of a setup. */
interface Side {
  readonly receiver: AlertReceiver
  readonly sinceMs: number
  readonly keys: ChangingKeys
  readonly injected: readonly Injected[]
}

interface Wrecked {
  readonly load: Load
  readonly faults: readonly Fault[]
  /** Faults beside the others, in their own time. */
  readonly rare?: readonly Fault[]
  readonly receiver: AlertReceiver
  readonly keys: ChangingKeys
}

/** Runs callers, faults and changes of keys at the same time, for the duration of the run. */
async function runUnderFaults(run: Run, { load, faults, rare = [], receiver, keys }: Wrecked): Promise<Side> {
  const sinceMs = Date.now()
  const untilMs = performance.now() + run.seconds * 1000
  const calling = callers(run, load, untilMs)
  const [often, seldom] = await Promise.all([
    injectFaults(untilMs, faults, new Random(run.seed)),
    rare.length === 0 ? [] : injectFaults(untilMs, rare, new Random(run.seed + 100), RARE_MS),
    keys.changeUntil(untilMs),
    ...calling,
  ])
  await spendTight(run, load)
  receiver.isReliable = true
  return { receiver, sinceMs, keys, injected: [...often, ...seldom] }
}

async function rotatedKey(run: Run, load: Load, gateways: readonly Gateway[]): Promise<RotatedKey> {
  return await RotatedKey.create(gateways, load.organization, new Random(run.seed + 1))
}

/** On a slow machine the key that must come close to its limit has not: then callers go on with this key alone. */
async function spendTight(run: Run, load: Load): Promise<void> {
  const { served } = run.provider
  const keys = load.keys.filter(([id]) => `${load.organization}/${id}` === TIGHT)
  const costOf = ({ key, mark, end }: Result) =>
    `${load.organization}/${key}` === TIGHT && end === 'complete' ? (served.get(mark)?.costMicroUsd ?? 0) : 0
  const wanted = TIGHT_SHARE_SPENT * tightMicroUsd(run.seconds)
  for (let round = 0; round < ROUNDS_MAX && keys.length > 0; round++) {
    if (sumOf(load.results, costOf) > wanted) return
    await Promise.all(callers(run, { ...load, keys }, 0))
  }
}

/** Waits until every alert that must come has come. */
async function alertsArrived(run: Run, receiver: AlertReceiver, figures: () => Promise<AllFigures>): Promise<void> {
  const reached = reachedShares(await figures(), run.seconds)
  await waitUntil(async () => {
    const reported = reportedShares(receiver)
    return reached.every((name) => reported.has(name))
  })
}

function checkSide(report: Report, run: Run, side: Side, figures: AllFigures, gateways: readonly Gateway[]): void {
  const { receiver, sinceMs, keys, injected } = side
  const setbacks = injected.filter(({ isSetback }) => isSetback)
  checkAlerts(report, { receiver, figures, seconds: run.seconds, gateways, setbacks, sinceMs })
  keys.check(report, injected)
}

/** Waits until the condition holds, for at most `WAIT_MS_MAX`. If it never does, a check reports what is wrong. */
async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  const untilMs = performance.now() + WAIT_MS_MAX
  while (performance.now() < untilMs && !(await holds().catch(() => false))) await Bun.sleep(250)
}

/** One gateway, its ledger in the memory of its only worker, or of a process that two workers call. */
export async function runEmbedded(run: Run, workers: 1 | 2): Promise<SetupResult> {
  const receiver = new AlertReceiver(run.seed)
  const config = { ...configOf(acme, run.provider.url, receiver.url, run.seconds, { ledger: 'embedded' }), workers }
  const name = workers === 1 ? 'embedded' : 'shared'
  const gateway = await Gateway.start(join(run.folder, name), config)
  const load = loadOf(run, name, acme, [gateway])
  const faults = [...gatewayFaults([gateway]), ...(workers === 1 ? [] : sharedLedgerFaults([gateway]))]
  const keys = await rotatedKey(run, load, [gateway])
  const side = await runUnderFaults(run, { load, faults, receiver, keys })
  const { results } = load
  const readers = new EmbeddedAccountUsageReader(gateway.dataDir)
  const figures = () => figuresOf(acme, (account) => readers.read(account))
  await waitUntil(async () => isIdle(await figures()))
  await alertsArrived(run, receiver, figures)
  await gateway.stop()
  const check = async (report: Report) => {
    const rows = rowsOf(join(gateway.dataDir, LEDGER_FILE), LEDGER_SCHEMA)
    const byId = new Map(rows.map((row) => [row.id, row]))
    const { served } = run.provider
    const admissions = rows.map(({ admittedMs }) => admittedMs - performance.timeOrigin)
    const chargeOf = (id: string) => byId.get(id)?.costMicroUsd
    checkAnswers(report, { results, served, gateways: [gateway], admissions, chargeOf })
    const last = await figures()
    checkHeld(report, last)
    checkSpent(report, last, rows)
    // A reservation that its worker gave up, because the owner did not answer in time, has a model and no charge.
    const counted = rows.filter(({ kind, model }) => kind === 'lost' || (model !== '' && kind !== 'cancelled'))
    await checkUsageCommand(report, gateway, spentOf(last, acme), counted.length)
    const charges = rows.map((row) => [row.id, row] as const)
    await checkTags(report, gateway, charges, results)
    await checkTiers(report, gateway, charges, { results, served })
    const tight = rows.filter(({ key }) => key === 'tight')
    const beyond = sumOf(tight, ({ overageMicroUsd }) => overageMicroUsd)
    checkLimit(report, last, run.seconds, beyond)
    checkSide(report, run, side, last, [gateway])
    checkErrors(report, [gateway])
  }
  return {
    name: `embedded ledger: one gateway, ${workers === 1 ? 'one worker' : 'two workers'}`,
    faults: side.injected,
    results,
    check,
    [Symbol.asyncDispose]: async () => receiver[Symbol.dispose](),
  }
}

/** Gateways that share a ledger in Redis. */
interface Shared {
  readonly name: string
  readonly organizations: readonly Organization[]
  readonly gateways: readonly Gateway[]
  readonly client: Redis | Cluster
  readonly load: Load
  readonly side: Side
  /** FLUSHALL. */
  readonly empty: () => Promise<void>
}

/** Two gateways over one Redis; one of them has two workers that share its outbox. */
export async function runRedis(run: Run): Promise<SetupResult> {
  const server = await RedisServer.start(join(run.folder, 'redis'))
  const receiver = new AlertReceiver(run.seed)
  const config = configOf(acme, run.provider.url, receiver.url, run.seconds, { ledger: { redis: server.url } })
  const gateways = await Promise.all([
    Gateway.start(join(run.folder, 'node-0'), { ...config, workers: 2 }),
    Gateway.start(join(run.folder, 'node-1'), { ...config, ledger_unreachable: 'allow' }),
  ])
  const faults = [...gatewayFaults(gateways), ...redisFaults(server)]
  const load = loadOf(run, 'redis', acme, gateways)
  const keys = await rotatedKey(run, load, gateways)
  const side = await runUnderFaults(run, { load, faults, receiver, keys })
  const client = server.client()
  const empty = () => server.empty()
  const name = 'ledger in Redis: two gateways, three workers'
  return await checkedOverRedis(run, { name, organizations: acme, gateways, client, empty, load, side }, () =>
    server.kill(),
  )
}

/** One gateway over three masters, one of which has a replica that takes over. */
export async function runCluster(run: Run): Promise<SetupResult> {
  const cluster = await RedisCluster.start(join(run.folder, 'cluster'))
  const receiver = new AlertReceiver(run.seed)
  const ledger = { redis: { cluster: cluster.urls } }
  const config = configOf(many, run.provider.url, receiver.url, run.seconds, { ledger })
  const gateways = [await Gateway.start(join(run.folder, 'node-2'), config)]
  const faults = [...gatewayFaults(gateways), ...clusterFaults(cluster)]
  const fewer = { ...run, callers: Math.ceil(run.callers / 2) }
  const load = loadOf(run, 'cluster', many, gateways)
  const keys = await rotatedKey(run, load, gateways)
  const side = await runUnderFaults(fewer, { load, faults, receiver, keys })
  const client = cluster.client()
  const empty = () => cluster.empty()
  const name = 'ledger in a Redis Cluster: one gateway'
  return await checkedOverRedis(fewer, { name, organizations: many, gateways, client, empty, load, side }, () =>
    cluster.kill(),
  )
}

/**
 * Two gateways over a master, two replicas and three Sentinels. Faults of gateways and of Redis happen at the same
 * time.
 */
export async function runSentinel(run: Run): Promise<SetupResult> {
  const set = await SentinelSet.start(join(run.folder, 'sentinel'))
  const receiver = new AlertReceiver(run.seed)
  const config = configOf(acme, run.provider.url, receiver.url, run.seconds, { ledger: { redis: set.place } })
  const gateways = await Promise.all([
    Gateway.start(join(run.folder, 'node-3'), { ...config, workers: 2 }),
    Gateway.start(join(run.folder, 'node-4'), { ...config, ledger_unreachable: 'allow' }),
  ])
  const fewer = { ...run, callers: Math.ceil(run.callers / 2) }
  const load = loadOf(run, 'sentinel', acme, gateways)
  const keys = new KeyChanges(gateways, load.organization, new Random(run.seed + 1))
  const [faults, rare] = [sentinelFaults(set), gatewayFaults(gateways)]
  const side = await runUnderFaults(fewer, { load, faults, rare, receiver, keys })
  const client = set.client()
  const empty = () => set.empty()
  const lost = `${set.losses} failovers surely lost writes`
  const name = `ledger in a Redis with Sentinels: two gateways, three workers (${lost})`
  return await checkedOverRedis(fewer, { name, organizations: acme, gateways, client, empty, load, side }, () =>
    set.kill(),
  )
}

/** Sends requests while Redis is flushed three times. */
async function flushUnderLoad(run: Run, { load, empty }: Shared): Promise<void> {
  const calling = callers(run, load, performance.now() + FLUSH_LOAD_MS)
  for (let i = 0; i < 3; i++) {
    await Bun.sleep(FLUSH_LOAD_MS / 4)
    await empty()
  }
  await Promise.all(calling)
}

async function checkedOverRedis(run: Run, shared: Shared, stop: () => Promise<void>): Promise<SetupResult> {
  const { name, organizations, gateways, client, load, side } = shared
  const results = [...load.results]
  const store = new RedisStore(client, client)
  const outboxes = gateways.map((gateway) => join(gateway.dataDir, OUTBOX_FILE)).filter((path) => existsSync(path))
  const pending = () => sumOf(outboxes, (path) => pendingIn(path, OUTBOX_SCHEMA))
  const figures = () => figuresOf(organizations, (account) => store.figures(account))
  await waitUntil(async () => pending() === 0 && isIdle(await figures()))
  await alertsArrived(run, side.receiver, figures)
  const check = async (report: Report) => {
    const trail = await trailOf(client, organizations)
    const { served } = run.provider
    const rows = outboxRows(outboxes)
    // Charges that Redis lost are part of the sums that the gateways restored.
    const summed = new Map(rows.filter(({ id }) => !trail.has(id)).map((row) => [row.id, row.costMicroUsd]))
    const chargeOf = (id: string) => finalOf(trail.get(id)) ?? summed.get(id)
    checkAnswers(report, { results, served, gateways, chargeOf })
    const last = await figures()
    checkHeld(report, last)
    const final = [...trail.values()].flatMap((charges) => charges.slice(-1))
    checkSpent(report, last, final)
    checkTrail(report, trail, results)
    checkOutboxes(report, trail, rows, pending())
    const counted = final.filter(
      ({ kind, costMicroUsd }) => kind !== 'restored' && (costMicroUsd > 0 || kind === 'lost'),
    )
    const requests = counted.length + [...summed.values()].filter((cost) => cost > 0).length
    const charges = [...trail].flatMap(([id, of]) => of.slice(-1).map((charge) => [id, charge] as const))
    for (const gateway of gateways.slice(0, 1)) {
      await checkUsageCommand(report, gateway, spentOf(last, organizations), requests)
      await checkTags(report, gateway, charges, results)
      await checkTiers(report, gateway, charges, { results, served })
    }
    if (organizations === acme) {
      const tight = [...trail.values()].filter((charges) => charges[0]?.key === 'tight')
      checkLimit(report, last, run.seconds, sumOf(tight, beyondHold))
    }
    checkSide(report, run, side, last, gateways)
    checkErrors(report, gateways)
    await flushUnderLoad(run, shared)
    const logged = (one?: Organization) =>
      sumOf(outboxRows(outboxes), (row) =>
        one === undefined || row.organization === one.organization ? row.costMicroUsd : 0,
      )
    await waitUntil(async () => pending() === 0 && spentOf(await figures(), organizations) >= logged())
    const restored = await figures()
    const spent = spentOf(restored, organizations)
    const total = logged()
    report.check(
      `after three FLUSHALL under load: spent ${spent} = recorded by the gateways ${total}`,
      spent === total,
      [
        `outboxes: ${pending()} pending`,
        ...organizations
          .map((one) => [one.organization, spentOf(restored, [one]), logged(one)] as const)
          .filter(([, one, other]) => one !== other)
          .map(([organization, one, other]) => `${organization}: spent ${one}, recorded ${other}`),
      ],
    )
  }
  const dispose = async () => {
    client.disconnect()
    await Promise.all(gateways.map((gateway) => gateway.stop()))
    side.receiver[Symbol.dispose]()
    await stop()
  }
  return { name, faults: side.injected, results, check, [Symbol.asyncDispose]: dispose }
}
