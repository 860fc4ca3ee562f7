/**
 * `scripts/soak --budgets`: many organizations with counters of their people's spend, on two nodes over one Redis with
 * Sentinels, while nodes are killed, Redis fails over, and keys and raises change. Then every counter must be the sum
 * of its requests, every share that is reached be reported under one id, and memory be level.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JsonObject } from '../../src/core/json.ts'
import { residentBytes } from '../../test/support/process-table.ts'
import { Random } from '../../test/support/random.ts'
import { ALERT_SECRET, AlertReceiver } from '../chaos/alert-receiver.ts'
import { Gateway } from '../chaos/gateway.ts'
import { sumOf } from '../chaos/ledger-audit.ts'
import { Report } from '../chaos/report.ts'
import { SentinelSet } from '../chaos/sentinels.ts'
import { checkAlerts, checkCounters, placeOf } from './budget-checks.ts'

/** A node that is killed; the other lives through the run, so that its memory shows what leaks. */
const KILL_EVERY_MS = 20_000
const FAILOVER_EVERY_MS = 60_000
const CHANGE_EVERY_MS = 1000
const ANSWER_MS_MAX = 250
const REQUEST_TIMEOUT_MS = 20_000
/** In micro-dollars: each answer has as many tokens, at a dollar for a million. */
const COST = 1000
/** What a person may spend, which the busiest ones reach, and what a raise gives them. */
const LIMIT_USD = (8 * COST) / 1e6
const RAISED_USD = (40 * COST) / 1e6
const SHARES = [0.5, 1]
const UNITS = 1e9
/** Each session has as many, most often of several organizations. */
const SESSION_CALLS = 2
const ZONES = ['UTC', 'Europe/Berlin', 'Asia/Kathmandu', 'America/St_Johns']
/** Memory that grows by more than this between the second and the last quarter is a leak. */
const GROWTH_MAX = 1.3
/** How often memory is read, and how often it is printed. */
const SAMPLES = 60
const PRINTED_EVERY = 3

export interface BudgetFlags {
  readonly seconds: number
  readonly organizations: number
  /** Who may call for each organization: those who did have a counter. */
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
  /** People whose limit was another for some seconds, each with the organization. */
  readonly raised: Set<string>
  readonly untilMs: number
  calls: number
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
    { name: 'session', per: 'tag:session', limits: { spend: { total: 1000 } }, idle_hours: 1 },
    { name: 'all', limits: { spend: { hour: 1000, month: 1e6, total: 1e6 } } },
  ]
  return {
    tags: ['person', 'session'],
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
  const session = `s${Math.floor(world.calls++ / SESSION_CALLS)}`
  const node = nodes[random.below(nodes.length)]
  called.add(organization)
  let end: string
  try {
    const answer = await fetch(`http://127.0.0.1:${node?.port}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${keyOf(organization)}`,
        'x-gateway-tags': `person=${person},session=${session}`,
      },
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
async function changeUntil({ flags, nodes, random, counted, raised, untilMs }: World): Promise<void> {
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
        raised.add(placeOf(organization, 'person', value))
        raises.push(String((await node?.administer('POST', '/api/budgets/raises', raise))?.['id']))
        change = 'raises'
      }
    } catch {
      change = 'changes while a node or Redis was away'
    }
    counted.set(change, (counted.get(change) ?? 0) + 1)
  }
}

/** Acts every so many milliseconds; late if the act before has taken longer. */
async function every(ms: number, untilMs: number, act: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0, dueMs = performance.now() + ms; dueMs < untilMs; n++, dueMs += ms) {
    await Bun.sleep(dueMs - performance.now())
    await act(n)
  }
}

/** In bytes. */
interface Memory {
  /** The largest process of the node that lives, and of the one that is killed again and again. */
  readonly living: number
  readonly killed: number
  readonly redis: number
  readonly keys: number
}

async function watchMemory({ redis, nodes, flags, untilMs, counted }: World, samples: Memory[]): Promise<void> {
  const [living, killed] = nodes
  await every((flags.seconds * 1000) / SAMPLES, untilMs, async (n) => {
    const client = redis.client()
    const used = /used_memory:(\d+)/.exec(await client.info('memory'))?.[1]
    const sample = {
      redis: Number(used),
      keys: await client.dbsize(),
      living: bytesOf(living),
      killed: bytesOf(killed),
    }
    samples.push(sample)
    client.disconnect()
    if (n % PRINTED_EVERY !== 0) return
    const ends = [...counted].map(([end, count]) => `${count} ${end}`).join(' · ')
    const mib = [sample.living, sample.killed, sample.redis].map((bytes) => (bytes / 2 ** 20).toFixed(0))
    console.log(`     nodes ${mib[0]} and ${mib[1]} MiB, Redis ${mib[2]} MiB, ${sample.keys} keys; ${ends}`)
  })
}

/** 0 while it is away. */
function bytesOf(node: Gateway | undefined): number {
  if (node?.pid === undefined) return 0
  try {
    return residentBytes(node.pid)
  } catch {
    // It was killed meanwhile.
    return 0
  }
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
  const world: World = {
    flags,
    nodes,
    redis,
    random,
    counted: new Map(),
    called: new Set(),
    raised: new Set(),
    untilMs,
    calls: 0,
  }
  const memory: Memory[] = []
  let failovers = 0
  await Promise.all([
    callUntil(world),
    changeUntil(world),
    watchMemory(world, memory),
    every(KILL_EVERY_MS, untilMs, async () => {
      await nodes[1]?.kill()
      await nodes[1]?.start()
    }),
    every(FAILOVER_EVERY_MS, untilMs, async (n) => {
      await (n % 2 === 0 ? redis.orderFailover() : redis.killAlone(random.between(200, 1500), 4000))
      failovers += 1
    }),
  ])
  const kills = sumOf(nodes, (node) => node.kills.length)
  console.log(`     ${kills} kills of nodes, ${failovers} failovers, of which ${redis.losses} surely lost writes`)
  const report = new Report()
  const reached = await checkCounters(report, world, LIMIT_USD * 1e6, SHARES)
  await checkAlerts(report, receiver, reached)
  checkMemory(report, memory)
  for (const { errors } of nodes) report.check(`errors in the log: ${errors.length}`, errors.length === 0, errors)
  await Promise.all(nodes.map((node) => node.stop()))
  await Promise.all([redis.kill(), provider.stop(true)])
  if (report.passed) await rm(folder, { recursive: true, force: true })
  else console.log(`The logs and data directories are in ${folder}`)
  return report.passed
}

function checkMemory(report: Report, samples: readonly Memory[]): void {
  const quarter = Math.ceil(samples.length / 4)
  const figures: readonly (readonly [string, (one: Memory) => number])[] = [
    ['Redis, bytes a key', ({ redis, keys }) => redis / keys],
    ['the node that lives, MiB', ({ living }) => living / 2 ** 20],
    ['the node that is killed, MiB', ({ killed }) => killed / 2 ** 20],
  ]
  for (const [what, figure] of figures) {
    // In the first quarter the counters of the busiest come to be, and caches fill.
    const early = Math.max(...samples.slice(quarter, 2 * quarter).map(figure))
    const late = Math.max(...samples.slice(-quarter).map(figure))
    report.check(
      `${what}: at most ${early.toFixed(0)} in the second quarter, ${late.toFixed(0)} in the last`,
      late <= GROWTH_MAX * early,
    )
  }
}
