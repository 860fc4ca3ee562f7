/**
 * `scripts/soak --budgets`: many organizations with counters of their people's spend, on two nodes over one Redis with
 * Sentinels, while nodes are killed, Redis fails over, and keys and raises change. Then every counter must be the sum
 * of its requests, and every alert have come under one id.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JsonObject } from '../../src/core/json.ts'
import { tagsByName } from '../../src/core/tags.ts'
import type { CounterAccount } from '../../src/ledger/ledger.ts'
import { OUTBOX_FILE, OUTBOX_SCHEMA } from '../../src/ledger/redis/outbox/outbox-schema.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { Random } from '../../test/support/random.ts'
import { ALERT_SECRET, AlertReceiver } from '../chaos/alert-receiver.ts'
import { outboxRows } from '../chaos/checks.ts'
import { Gateway } from '../chaos/gateway.ts'
import { pendingIn, sumOf, trailOf } from '../chaos/ledger-audit.ts'
import { Report } from '../chaos/report.ts'
import { SentinelSet } from '../chaos/sentinels.ts'

const KILL_EVERY_MS = 20_000
const FAILOVER_EVERY_MS = 60_000
const CHANGE_EVERY_MS = 1000
/** Leases and the reaper's interval, and time for a busy machine. */
const WAIT_MS_MAX = 150_000
const ANSWER_MS_MAX = 250
const REQUEST_TIMEOUT_MS = 20_000
/** In micro-dollars: each answer has as many tokens, at a dollar for a million. */
const COST = 1000
/** What a person may spend, which the busiest ones reach, and what a raise gives them. */
const LIMIT_USD = (8 * COST) / 1e6
const RAISED_USD = (40 * COST) / 1e6
const SHARES = [0.5, 1]
const UNITS = 1e9
const ZONES = ['UTC', 'Europe/Berlin', 'Asia/Kathmandu', 'America/St_Johns']
/** Memory that grows by more than this between the first and the last quarter is a leak. */
const GROWTH_MAX = 1.3

export interface BudgetFlags {
  readonly seconds: number
  readonly organizations: number
  /** Of each organization: each has a counter. */
  readonly people: number
  /** Requests a second. */
  readonly rate: number
}

interface World {
  readonly flags: BudgetFlags
  readonly nodes: readonly Gateway[]
  readonly redis: SentinelSet
  readonly random: Random
  readonly counted: Map<string, number>
  /** Organizations that were called. */
  readonly called: Set<string>
  readonly untilMs: number
}

function idOf(organization: number): string {
  return `org-${organization}`
}

function keyOf(id: string): string {
  return `soak-key-of-${id}-0123456789`
}

/** Those with low numbers come most often: the n-th as often as Zipf has it. */
function zipf(random: Random, count: number): number {
  return Math.min(count - 1, Math.floor((count + 1) ** (random.below(UNITS) / UNITS)) - 1)
}

function configOf({ organizations }: BudgetFlags, provider: string, alerts: string, redis: SentinelSet): JsonObject {
  const limits = { spend: { day: LIMIT_USD, total: 1e6 }, requests_per_minute: 10_000, concurrent_requests: 100 }
  const budgets = [
    { name: 'person', per: 'tag:person', limits },
    { name: 'all', limits: { spend: { hour: 1000, month: 1e6, total: 1e6 } } },
  ]
  return {
    tags: ['person'],
    alerts: { webhook: alerts, secret: ALERT_SECRET, spend: SHARES },
    ledger: { redis: redis.place },
    providers: { up: { dialect: 'openai', base_url: provider, api_key: 'x' } },
    models: [{ name: 'm', targets: [{ provider: 'up', model: 'up' }], price: { input: 0, output: 1 } }],
    organizations: Array.from({ length: organizations }, (_, i) => ({
      id: idOf(i),
      timezone: ZONES[i % ZONES.length] ?? 'UTC',
      budgets,
      keys: [{ id: `k-${i}`, key: keyOf(idOf(i)) }],
    })),
  }
}

/** A provider whose every answer costs the same. */
function startProvider(random: Random) {
  const usage = { prompt_tokens: 1, completion_tokens: COST, total_tokens: COST + 1 }
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }]
  const body = JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'up', choices, usage })
  return Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async () => {
      await Bun.sleep(random.below(ANSWER_MS_MAX))
      return new Response(body, { headers: { 'content-type': 'application/json' } })
    },
  })
}

async function call(world: World): Promise<void> {
  const { flags, nodes, random, counted, called } = world
  const organization = idOf(zipf(random, flags.organizations))
  const person = `p${zipf(random, flags.people)}`
  const node = nodes[random.below(nodes.length)]
  called.add(organization)
  let end: string
  try {
    const answer = await fetch(`http://127.0.0.1:${node?.port}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${keyOf(organization)}`, 'x-gateway-tags': `person=${person}` },
      body: JSON.stringify({ model: 'm', max_tokens: COST, messages: [{ role: 'user', content: 'Hi' }] }),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    })
    await answer.text()
    end = String(answer.status)
  } catch {
    end = 'broken'
  }
  counted.set(end, (counted.get(end) ?? 0) + 1)
}

async function callUntil(world: World): Promise<void> {
  const pending = new Set<Promise<void>>()
  while (performance.now() < world.untilMs) {
    const calling = call(world).finally(() => pending.delete(calling))
    pending.add(calling)
    await Bun.sleep(1000 / world.flags.rate)
  }
  await Promise.all(pending)
}

/** Gives people other limits and takes them away, and makes and revokes keys. */
async function changeUntil({ flags, nodes, random, counted, untilMs }: World): Promise<void> {
  const raises: string[] = []
  for (let n = 0; performance.now() < untilMs; n++) {
    await Bun.sleep(CHANGE_EVERY_MS)
    const node = nodes[random.below(nodes.length)]
    const organization = idOf(zipf(random, flags.organizations))
    const value = `p${zipf(random, flags.people)}`
    const until = new Date(Date.now() + random.between(5000, 60_000)).toISOString()
    const raise = { organization, name: 'person', value, limits: { spend: { day: RAISED_USD } }, until, reason: 'soak' }
    let change: string
    try {
      const old = raises.length > 5 ? raises.shift() : undefined
      if (n % 3 === 2) {
        const path = `/api/keys/${encodeURIComponent(`soak-${n}`)}`
        await node?.administer('POST', '/api/keys', { organization, id: `soak-${n}` })
        await node?.administer('DELETE', path)
        change = 'keys made and revoked'
      } else if (old !== undefined && n % 3 === 1) {
        await node?.administer('DELETE', `/api/budgets/raises/${old}`)
        change = 'raises ended'
      } else {
        raises.push(String((await node?.administer('POST', '/api/budgets/raises', raise))?.['id']))
        change = 'raises'
      }
    } catch {
      change = 'changes while a node or Redis was away'
    }
    counted.set(change, (counted.get(change) ?? 0) + 1)
  }
}

async function every(ms: number, untilMs: number, act: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; performance.now() + ms < untilMs; n++) {
    await Bun.sleep(ms)
    await act(n)
  }
}

/** Of all processes of the nodes, and of the master, in bytes. */
interface Memory {
  readonly redis: number
  readonly keys: number
}

async function watchMemory({ redis, flags, untilMs, counted }: World, samples: Memory[]): Promise<void> {
  await every((flags.seconds * 1000) / 20, untilMs, async () => {
    const client = redis.client()
    const used = /used_memory:(\d+)/.exec(await client.info('memory'))?.[1]
    samples.push({ redis: Number(used), keys: await client.dbsize() })
    client.disconnect()
    const last = samples.at(-1)
    const ends = [...counted].map(([end, count]) => `${count} ${end}`).join(' · ')
    console.log(`     Redis ${((last?.redis ?? 0) / 2 ** 20).toFixed(0)} MiB, ${last?.keys} keys; ${ends}`)
  })
}

async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  const untilMs = performance.now() + WAIT_MS_MAX
  while (performance.now() < untilMs && !(await holds().catch(() => false))) await Bun.sleep(1000)
}

/** Runs the soak. Resolves to whether every check passed. */
export async function soakBudgets(flags: BudgetFlags): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-soak-'))
  const random = new Random(1)
  const provider = startProvider(random)
  using receiver = new AlertReceiver(1)
  receiver.isReliable = true
  const redis = await SentinelSet.start(join(folder, 'redis'))
  const config = configOf(flags, `http://127.0.0.1:${provider.port}/v1`, receiver.url, redis)
  const nodes = await Promise.all(
    [0, 1].map((i) => Gateway.start(join(folder, `node-${i}`), { ...config, workers: 1 })),
  )
  const untilMs = performance.now() + flags.seconds * 1000
  const world: World = { flags, nodes, redis, random, counted: new Map(), called: new Set(), untilMs }
  const memory: Memory[] = []
  let failovers = 0
  await Promise.all([
    callUntil(world),
    changeUntil(world),
    watchMemory(world, memory),
    every(KILL_EVERY_MS, untilMs, async (n) => {
      const node = nodes[n % nodes.length]
      await node?.kill()
      await node?.start()
    }),
    every(FAILOVER_EVERY_MS, untilMs, async (n) => {
      await (n % 2 === 0 ? redis.orderFailover() : redis.killAlone(random.between(200, 1500), 4000))
      failovers += 1
    }),
  ])
  const kills = sumOf(nodes, (node) => node.kills.length)
  console.log(`     ${kills} kills of nodes, ${failovers} failovers, of which ${redis.losses} surely lost writes`)
  const report = new Report()
  await checkCounters(report, world)
  checkAlerts(report, receiver)
  checkMemory(report, memory)
  for (const { errors } of nodes) report.check(`errors in the log: ${errors.length}`, errors.length === 0, errors)
  await Promise.all(nodes.map((node) => node.stop()))
  await Promise.all([redis.kill(), provider.stop(true)])
  if (report.passed) await rm(folder, { recursive: true, force: true })
  else console.log(`The logs and data directories are in ${folder}`)
  return report.passed
}

async function checkCounters(report: Report, { flags, nodes, redis, called }: World): Promise<void> {
  const client = redis.client()
  const store = new RedisStore(client, client)
  const outboxes = nodes.map((node) => join(node.dataDir, OUTBOX_FILE))
  const people = Array.from({ length: flags.people }, (_, i) => `p${i}`)
  const named = (name: string, value: string): CounterAccount => ({ name, value, limits: {} })
  const budgets = [named('all', ''), ...people.map((value) => named('person', value))]
  const organizations = [...called].sort()
  const read = (organization: string) =>
    store.figures({ organization, organizationLimits: {}, key: '', keyLimits: {}, budgets })
  await waitUntil(async () => {
    for (const organization of organizations) if ((await read(organization)).organization.live > 0) return false
    return sumOf(outboxes, (path) => pendingIn(path, OUTBOX_SCHEMA)) === 0
  })
  const rows = outboxRows(outboxes)
  const logged = new Set(rows.map(({ id }) => id))
  const trail = await trailOf(
    client,
    organizations.map((organization) => ({ organization, keys: [] })),
  )
  // Those of requests whose node was killed: no log has them.
  const lost = [...trail].flatMap(([id, charges]) => {
    const last = charges.at(-1)
    return logged.has(id) || last === undefined || last.kind === 'restored' ? [] : [last]
  })
  const sums = new Map<string, number>()
  const add = (name: string, cost: number) => sums.set(name, (sums.get(name) ?? 0) + cost)
  for (const { organization, tags, costMicroUsd } of [...rows, ...lost]) {
    const { person } = tagsByName(tags)
    add(`${organization} all`, costMicroUsd)
    if (person !== undefined) add(`${organization} person ${person}`, costMicroUsd)
  }
  const wrong: string[] = []
  let [counters, held] = [0, 0]
  for (const organization of organizations) {
    const { budgets: usages = [] } = await read(organization)
    for (const [i, { name, value }] of budgets.entries()) {
      const usage = usages[i]?.usage
      const place = [organization, name, value].filter(Boolean).join(' ')
      const sum = sums.get(place) ?? 0
      if (sum > 0) counters += 1
      held += (usage?.live ?? 0) + (usage?.total.held ?? 0)
      if (usage?.total.spent !== sum) wrong.push(`${place}: spent ${usage?.total.spent}, its requests ${sum}`)
    }
  }
  client.disconnect()
  const places = `of ${organizations.length} organizations`
  const requests = `${rows.length} requests in logs and ${lost.length} of killed nodes, ${places}`
  report.check(
    `${requests}: ${counters} counters, ${wrong.length} of them not the sum of theirs`,
    wrong.length === 0,
    wrong,
  )
  report.check(`nothing is held at the end: ${held} = 0`, held === 0)
}

/** An alert that is sent again has the same id. */
function checkAlerts(report: Report, { accepted }: AlertReceiver): void {
  const ids = new Map<string, Set<string>>()
  for (const { alert } of accepted) {
    const { organization, name, value, window, share, id } = alert
    const place = [organization, name, value, window, share].join(' ')
    ids.set(place, (ids.get(place) ?? new Set()).add(String(id)))
  }
  const several = [...ids].filter(([, own]) => own.size > 1).map(([place, own]) => `${place}: ${[...own].join(' ')}`)
  report.check(
    `${ids.size} shares of limits were reported, ${accepted.length} times; with several ids: ${several.length}`,
    ids.size > 0 && several.length === 0,
    several,
  )
}

function checkMemory(report: Report, samples: readonly Memory[]): void {
  const quarter = Math.ceil(samples.length / 4)
  // The first ones are before the counters of the busiest exist.
  const first = Math.max(...samples.slice(quarter, 2 * quarter).map((one) => one.redis / one.keys))
  const last = Math.max(...samples.slice(-quarter).map((one) => one.redis / one.keys))
  report.check(
    `Redis: ${first.toFixed(0)} bytes a key in the second quarter, ${last.toFixed(0)} in the last`,
    last <= GROWTH_MAX * first,
  )
}
