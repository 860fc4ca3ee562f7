/** The worlds of the chaos run: one gateway with the embedded ledger; two over one Redis, with three workers; one over a cluster. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Cluster, Redis } from 'ioredis'
import { EmbeddedStandings } from '../src/ledger/embedded/sqlite-readers.ts'
import { LEDGER_FILE, LEDGER_SCHEMA } from '../src/ledger/embedded/state-tables.ts'
import { OUTBOX_FILE, OUTBOX_SCHEMA } from '../src/ledger/redis/delivery/outbox-schema.ts'
import { RedisStore } from '../src/ledger/redis/store/redis-store.ts'
import { Random } from '../test/support/random.ts'
import { type Asked, callUntil, type Load } from './callers.ts'
import {
  beyondHold,
  judgeAlarms,
  judgeHeld,
  judgeLimit,
  judgeOutboxes,
  judgeSpent,
  judgeTrail,
  judgeUsage,
  outboxRows,
} from './checks.ts'
import { StoreCluster } from './cluster.ts'
import { clusterWrecks, gatewayWrecks, storeWrecks, type Wreck, wreckUntil } from './faults.ts'
import { entriesOf, figuresOf, finalOf, isIdle, rowsOf, spentOf, sumOf, trailOf } from './ledger-audit.ts'
import { Node } from './node.ts'
import { acme, configOf, many, type Tenant } from './organizations.ts'
import type { Provider } from './provider.ts'
import { Store } from './redis-server.ts'
import { judgeAnswers, type Verdict } from './report.ts'

/** A lease, the reaper's beat, and a busy machine. */
const QUIET_MS_MAX = 75_000
/** How long callers go on while Redis is emptied. */
const EMPTIED_MS = 4000

export interface Run {
  readonly provider: Provider
  readonly folder: string
  readonly seconds: number
  readonly seed: number
  readonly callers: number
}

/** A world that has come to its end, and what it is to be judged by. */
export interface Ended extends AsyncDisposable {
  readonly name: string
  readonly wrecked: ReadonlyMap<string, number>
  readonly asked: readonly Asked[]
  judge(verdict: Verdict): Promise<void>
}

/** `name` begins the marks of this world's requests. */
function loadOf(name: string, tenants: readonly Tenant[], nodes: readonly Node[]): Load {
  let number = 0
  const keys = tenants.flatMap((tenant) => tenant.keys)
  return { name, ports: nodes.map(({ port }) => port), keys, number: () => number++, asked: [] }
}

function callers(run: Run, load: Load, untilMs: number): readonly Promise<void>[] {
  return Array.from({ length: run.callers }, (_, i) => callUntil(untilMs, load, new Random(run.seed + 1000 * (i + 1))))
}

/** Callers and wrecks side by side, until the time is up. */
async function wreck(run: Run, load: Load, wrecks: readonly Wreck[]): Promise<ReadonlyMap<string, number>> {
  const untilMs = performance.now() + run.seconds * 1000
  const calling = callers(run, load, untilMs)
  const [wrecked] = await Promise.all([wreckUntil(untilMs, wrecks, new Random(run.seed)), ...calling])
  return wrecked
}

/** Waits for something that comes by itself. What did not come is seen by the judges. */
async function quiet(holds: () => Promise<boolean>): Promise<void> {
  const untilMs = performance.now() + QUIET_MS_MAX
  while (performance.now() < untilMs && !(await holds().catch(() => false))) await Bun.sleep(250)
}

/** One process, its ledger in memory and in SQLite. */
export async function embeddedWorld(run: Run): Promise<Ended> {
  const config = configOf(acme, run.provider.url, run.seconds, { ledger: 'embedded' })
  const node = await Node.start(join(run.folder, 'embedded'), config)
  const load = loadOf('embedded', acme, [node])
  const wrecked = await wreck(run, load, gatewayWrecks([node]))
  const { asked } = load
  const standings = new EmbeddedStandings(node.dataDir)
  const figures = () => figuresOf(acme, (account) => standings.read(account))
  await quiet(async () => isIdle(await figures()))
  await node.stop()
  const judge = async (verdict: Verdict) => {
    const rows = rowsOf(join(node.dataDir, LEDGER_FILE), LEDGER_SCHEMA)
    const byId = new Map(rows.map((row) => [row.id, row]))
    const { served } = run.provider
    judgeAnswers(verdict, { asked, served, nodes: [node], chargeOf: (id) => byId.get(id)?.costMicroUsd })
    const last = await figures()
    judgeHeld(verdict, last)
    judgeSpent(verdict, last, rows)
    const counted = rows.filter(({ kind, model }) => kind === 'lost' || model !== '')
    await judgeUsage(verdict, node, spentOf(last, acme), counted.length)
    const tight = rows.filter(({ key }) => key === 'tight')
    const beyond = sumOf(tight, ({ overageMicroUsd }) => overageMicroUsd)
    judgeLimit(verdict, last, run.seconds, beyond)
    judgeAlarms(verdict, [node])
  }
  return {
    name: 'embedded ledger: one gateway',
    wrecked,
    asked,
    judge,
    [Symbol.asyncDispose]: async () => undefined,
  }
}

/** Gateways over a Redis. */
interface Shared {
  readonly name: string
  readonly tenants: readonly Tenant[]
  readonly nodes: readonly Node[]
  readonly client: Redis | Cluster
  readonly load: Load
  /** FLUSHALL. */
  readonly empty: () => Promise<void>
}

/** Two nodes, one of them with two workers that share its outbox, over one Redis. */
export async function redisWorld(run: Run): Promise<Ended> {
  const store = await Store.start(join(run.folder, 'redis'))
  const config = configOf(acme, run.provider.url, run.seconds, { ledger: { redis: store.url } })
  const nodes = await Promise.all([
    Node.start(join(run.folder, 'node-0'), { ...config, workers: 2 }),
    Node.start(join(run.folder, 'node-1'), { ...config, ledger_unreachable: 'allow' }),
  ])
  const wrecks = [...gatewayWrecks(nodes), ...storeWrecks(store)]
  const load = loadOf('redis', acme, nodes)
  const wrecked = await wreck(run, load, wrecks)
  const client = store.client()
  const empty = () => store.empty()
  const name = 'ledger in Redis: two gateways, three workers'
  return await overRedis(run, { name, tenants: acme, nodes, client, empty, load }, wrecked, () => store.kill())
}

/** One node over three masters, one of which has a replica that takes over. */
export async function clusterWorld(run: Run): Promise<Ended> {
  const cluster = await StoreCluster.start(join(run.folder, 'cluster'))
  const config = configOf(many, run.provider.url, run.seconds, { ledger: { redis: { cluster: cluster.urls } } })
  const nodes = [await Node.start(join(run.folder, 'node-2'), config)]
  const wrecks = [...gatewayWrecks(nodes), ...clusterWrecks(cluster)]
  const fewer = { ...run, callers: Math.ceil(run.callers / 2) }
  const load = loadOf('cluster', many, nodes)
  const wrecked = await wreck(fewer, load, wrecks)
  const client = cluster.client()
  const empty = () => cluster.empty()
  const name = 'ledger in a Redis Cluster: one gateway'
  return await overRedis(fewer, { name, tenants: many, nodes, client, empty, load }, wrecked, () => cluster.kill())
}

/** Redis is emptied under load. */
async function empties(run: Run, { load, empty }: Shared): Promise<void> {
  const calling = callers(run, load, performance.now() + EMPTIED_MS)
  for (let i = 0; i < 3; i++) {
    await Bun.sleep(EMPTIED_MS / 4)
    await empty()
  }
  await Promise.all(calling)
}

async function overRedis(
  run: Run,
  shared: Shared,
  wrecked: ReadonlyMap<string, number>,
  stop: () => Promise<void>,
): Promise<Ended> {
  const { name, tenants, nodes, client, load } = shared
  const asked = [...load.asked]
  const book = new RedisStore(client, client)
  const outboxes = nodes.map((node) => join(node.dataDir, OUTBOX_FILE)).filter((path) => existsSync(path))
  const entries = (state: number) => sumOf(outboxes, (path) => entriesOf(path, OUTBOX_SCHEMA, state))
  const figures = () => figuresOf(tenants, (account) => book.figures(account))
  await quiet(async () => entries(0) === 0 && isIdle(await figures()))
  const judge = async (verdict: Verdict) => {
    const trail = await trailOf(client, tenants)
    const { served } = run.provider
    const rows = outboxRows(outboxes)
    // What Redis lost of its trail is in the sums that the nodes gave back.
    const summed = new Map(rows.filter(({ id }) => !trail.has(id)).map((row) => [row.id, row.costMicroUsd]))
    const chargeOf = (id: string) => finalOf(trail.get(id)) ?? summed.get(id)
    judgeAnswers(verdict, { asked, served, nodes, chargeOf })
    const last = await figures()
    judgeHeld(verdict, last)
    const final = [...trail.values()].flatMap((charges) => charges.slice(-1))
    judgeSpent(verdict, last, final)
    judgeTrail(verdict, trail, asked)
    judgeOutboxes(verdict, trail, rows, entries(0))
    const counted = final.filter(
      ({ kind, costMicroUsd }) => kind !== 'restored' && (costMicroUsd > 0 || kind === 'lost'),
    )
    const requests = counted.length + [...summed.values()].filter((cost) => cost > 0).length
    for (const node of nodes.slice(0, 1)) await judgeUsage(verdict, node, spentOf(last, tenants), requests)
    if (tenants === acme) {
      const tight = [...trail.values()].filter((charges) => charges[0]?.key === 'tight')
      judgeLimit(verdict, last, run.seconds, sumOf(tight, beyondHold))
    }
    judgeAlarms(verdict, nodes)
    await empties(run, shared)
    const logged = (tenant?: Tenant) =>
      sumOf(outboxRows(outboxes), (row) =>
        tenant === undefined || row.organization === tenant.organization ? row.costMicroUsd : 0,
      )
    await quiet(async () => entries(0) === 0 && spentOf(await figures(), tenants) >= logged())
    const emptied = await figures()
    const spent = spentOf(emptied, tenants)
    const total = logged()
    verdict.check(
      `after three FLUSHALL under load: spent ${spent} = what the nodes wrote down ${total}`,
      spent === total,
      [
        `outboxes: ${entries(0)} pending`,
        ...tenants
          .map((tenant) => [tenant.organization, spentOf(emptied, [tenant]), logged(tenant)] as const)
          .filter(([, one, other]) => one !== other)
          .map(([organization, one, other]) => `${organization}: spent ${one}, written down ${other}`),
      ],
    )
  }
  const dispose = async () => {
    client.disconnect()
    await Promise.all(nodes.map((node) => node.stop()))
    await stop()
  }
  return { name, wrecked, asked, judge, [Symbol.asyncDispose]: dispose }
}
