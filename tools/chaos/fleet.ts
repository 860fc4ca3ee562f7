/**
 * The fleet of the chaos run: four nodes that share the quotas of a provider, with slices leased, clocks that differ,
 * and connections to Redis that are cut or go silent. However nodes die and lose Redis, no quota is passed by more than
 * its bound, and no request waits for ever.
 */

import { writeFile } from 'node:fs/promises'
import net from 'node:net'
import { join } from 'node:path'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { REDIS_TIMEOUT_MS } from '../../src/core/redis-config.ts'
import { Random } from '../../test/support/random.ts'
import { chatBody, json } from '../../test/support/scenarios.ts'
import { Upstream } from '../../test/support/upstream.ts'
import type { End, Result } from './callers.ts'
import { BETWEEN_MS, type Fault, gatewayFaults, type Injected, injectFaults, redisFaults } from './faults.ts'
import { Gateway } from './gateway.ts'
import { RedisServer } from './redis-server.ts'
import type { Report } from './report.ts'
import type { Run, SetupResult } from './setups.ts'

const NODES = 4
/** How far the clocks of every other node are ahead. */
const AHEAD_MS = 2000
/** Less than the callers want, also on a slow machine. */
const PER_MINUTE = 360
const PLACES = 12
const MONEY_USD = 0.06
/** Of twelve tokens, as every answer has. */
const PRICE = { input: 10, output: 10 }
const COST_MICRO_USD = 120
const WAIT_MS = 8000
/** The provider answers within this time. */
const ANSWER_MS = 300
/**
 * Beyond its wait and its answer a request may take so long: what two cores with eight processes of weir, Redis and
 * the callers add to it.
 */
const BUSY_MS = 2000
/**
 * While its node cannot reach Redis, a request finds that out twice at most: when it reserves, and when it asks for
 * room. Whatever asks later, in the queue or to settle, holds it up no longer. The timeout counts only time in which
 * the event loop runs: while other nodes start on the same cores it took up to eight times as long.
 */
const LOST_MS = 2 * 8 * REDIS_TIMEOUT_MS
/** A request without any answer until then waits for ever. */
const PATIENCE_MS = 60_000
const MINUTE_MS = 60_000
/** Nodes know each other again, and serve, within so long after the last fault. */
const RECOVERED_MS = 40_000
/** Faults of nodes happen beside those of their connections. */
const BESIDE_MS = { first: 1000, last: 6000 }
const KEYS = { interactive: 'chaos-person-0123456789', batch: 'chaos-batch-0123456789' } as const
const MODELS = ['rate', 'rate', 'rate', 'places', 'places', 'money'] as const
type ModelName = (typeof MODELS)[number]

/** Names the node that a request comes from. */
const NODE_HEADER = 'x-node'
/** The program of the last node, if not this one: an executable of another version. */
const { WEIR_EARLIER_EXECUTABLE } = process.env
const EARLIER = WEIR_EARLIER_EXECUTABLE?.split(' ')

interface Arrival {
  readonly ms: number
  readonly model: string
  readonly node: number
}

/** A request as its caller saw it. */
interface Sent extends Pick<Result, 'end'> {
  readonly node: number
  readonly startMs: number
  readonly tookMs: number
  readonly what: string
}

/** Records when requests arrive, and how many run at once. */
class CountingProvider implements AsyncDisposable {
  readonly arrivals: Arrival[] = []
  /** How many of `places` ran when one more had arrived. */
  readonly running: { readonly ms: number; readonly count: number }[] = []
  private count = 0

  private constructor(
    private readonly upstream: Upstream,
    random: Random,
  ) {
    upstream.otherwise(async (call) => {
      upstream.calls.length = 0
      const { model } = call
      this.arrivals.push({ ms: performance.now(), model, node: Number(call.header(NODE_HEADER)) })
      if (model === 'places') this.running.push({ ms: performance.now(), count: ++this.count })
      await Promise.race([Bun.sleep(random.between(30, ANSWER_MS)), call.ended])
      if (model === 'places') this.count--
      if (call.open) await json(200, chatBody('Hello.'))(call)
    })
  }

  static async start(seed: number): Promise<CountingProvider> {
    return new CountingProvider(await Upstream.start(), new Random(seed))
  }

  get url(): string {
    return this.upstream.url
  }

  of(model: ModelName): readonly number[] {
    return this.arrivals.flatMap((arrival) => (arrival.model === model ? [arrival.ms] : []))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.upstream[Symbol.asyncDispose]()
  }
}

/** A node's way to Redis: it passes everything on, or refuses connections, or swallows what is sent. */
class RedisPath {
  private state: 'open' | 'refused' | 'silent' = 'open'
  private readonly sockets = new Set<net.Socket>()

  private constructor(
    private readonly server: net.Server,
    readonly port: number,
  ) {}

  static async to(redisPort: number): Promise<RedisPath> {
    const server = net.createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('The proxy does not listen on a port.')
    const path = new RedisPath(server, address.port)
    server.on('connection', (socket) => path.accept(socket, redisPort))
    return path
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}/0`
  }

  async lose(how: 'refused' | 'silent', ms: number): Promise<void> {
    this.state = how
    if (how === 'refused') for (const socket of this.sockets) socket.destroy()
    await Bun.sleep(ms)
    this.state = 'open'
    // What was swallowed never comes.
    for (const socket of this.sockets) socket.destroy()
  }

  close(): void {
    this.server.close()
    for (const socket of this.sockets) socket.destroy()
  }

  private accept(socket: net.Socket, redisPort: number): void {
    if (this.state === 'refused') return void socket.destroy()
    const redis = net.connect(redisPort, '127.0.0.1')
    for (const [one, other] of [
      [socket, redis],
      [redis, socket],
    ] as const) {
      this.sockets.add(one)
      one.on('error', () => undefined)
      one.on('data', (data: Buffer) => this.state === 'open' && other.write(data))
      one.on('close', () => {
        this.sockets.delete(one)
        other.destroy()
      })
    }
  }
}

/** When a node could not reach Redis, in `performance.now` milliseconds. */
interface Loss {
  readonly node: number
  readonly fromMs: number
  readonly untilMs: number
}

/** A node finds out that Redis is back after this time. */
const BACK_MS = 3000

class Fleet {
  readonly losses: Loss[] = []
  readonly sent: Sent[] = []
  /** Callers that still wait. */
  waiting = 0

  private constructor(
    readonly gateways: readonly Gateway[],
    readonly paths: readonly RedisPath[],
    readonly redis: RedisServer,
    readonly provider: CountingProvider,
  ) {}

  static async start({ folder, seed }: Run): Promise<Fleet> {
    const redis = await RedisServer.start(join(folder, 'fleet-redis'))
    const provider = await CountingProvider.start(seed)
    const paths = await Promise.all(Array.from({ length: NODES }, () => RedisPath.to(redis.port)))
    const clock = join(folder, 'clock-ahead.js')
    await writeFile(clock, CLOCK_AHEAD)
    const gateways = await Promise.all(
      paths.map((path, i) => {
        const env = i % 2 === 0 ? {} : { BUN_OPTIONS: `--preload ${clock}` }
        const program = i === NODES - 1 ? EARLIER : undefined
        const config = { ...configOf(provider.url, i), node_name: nameOf(i), ledger: { redis: path.url } }
        return Gateway.start(join(folder, `fleet-${i}`), config, { env, program })
      }),
    )
    return new Fleet(gateways, paths, redis, provider)
  }

  /** Nodes lose Redis, some of them for longer than it keeps what they hold. */
  get faults(): readonly Fault[] {
    const lose = async (random: Random, how: 'refused' | 'silent', ms: number, count: number) => {
      const first = random.below(NODES)
      const nodes = Array.from({ length: count }, (_, i) => (first + i) % NODES)
      const fromMs = performance.now()
      await Promise.all(nodes.map((node) => this.paths[node]?.lose(how, ms)))
      for (const node of nodes) this.losses.push({ node, fromMs, untilMs: performance.now() + BACK_MS })
    }
    return [
      { name: 'node cut off', weight: 4, act: (random) => lose(random, 'refused', random.between(500, 6000), 1) },
      { name: 'node cut off for long', weight: 1, act: (random) => lose(random, 'refused', 25_000, 1) },
      {
        name: 'Redis silent for a node',
        weight: 3,
        act: (random) => lose(random, 'silent', random.between(300, 5000), 1),
      },
      { name: 'two nodes cut off', weight: 2, act: (random) => lose(random, 'refused', random.between(500, 6000), 2) },
    ]
  }

  /** Redis itself, or each connection to it, was away: for every node. */
  note(injected: readonly Injected[]): void {
    for (const { name, fromMs, untilMs } of injected) {
      if (!/^(?:Redis killed|Redis frozen|connections cut)$/.test(name)) continue
      for (let node = 0; node < NODES; node++) this.losses.push({ node, fromMs, untilMs: untilMs + BACK_MS })
    }
  }

  async call(node: number, model: ModelName, key: string, leavesMs?: number): Promise<Sent> {
    const startMs = performance.now()
    const ended = (end: End, what = ''): Sent => ({ node, end, what, startMs, tookMs: performance.now() - startMs })
    this.waiting++
    try {
      const answer = await fetch(`http://127.0.0.1:${this.gateways[node]?.port}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
        signal: AbortSignal.timeout(leavesMs ?? PATIENCE_MS),
      })
      const text = await answer.text()
      if (answer.status === 200) return ended('complete', model)
      const isRefused = answer.status === 429 || answer.status === 503
      return isRefused
        ? ended('rejected', `${model} ${answer.status}`)
        : ended('wrong', `${answer.status} ${text.slice(0, 300)}`)
    } catch (error) {
      const hasLeft = error instanceof Error && error.name === 'TimeoutError'
      if (hasLeft && leavesMs === undefined) return ended('wrong', `no answer of node ${node} within ${PATIENCE_MS} ms`)
      // The gateway was killed.
      return ended(hasLeft ? 'cut' : 'none')
    } finally {
      this.waiting--
    }
  }

  async callUntil(untilMs: number, random: Random): Promise<void> {
    while (performance.now() < untilMs) {
      const key = random.chance(0.5) ? KEYS.interactive : KEYS.batch
      const model = MODELS[random.below(MODELS.length)] ?? 'rate'
      const leavesMs = random.below(12) === 0 ? random.between(20, 4000) : undefined
      const one = await this.call(random.below(NODES), model, key, leavesMs)
      this.sent.push(one)
      await Bun.sleep(one.end === 'complete' ? random.below(40) : 200)
    }
  }

  /** Whether every node serves, and knows every other. */
  async isWell(): Promise<boolean> {
    const names = await Promise.all(this.known.map((gateway) => namesOf(gateway)))
    const all = this.known.map((_, i) => nameOf(i))
    if (!names.every((of) => all.every((name) => of.filter((one) => one === name).length === 1))) return false
    const calls = this.gateways.flatMap((_, i) => [
      this.call(i, 'rate', KEYS.interactive),
      this.call(i, 'places', KEYS.interactive),
    ])
    return (await Promise.all(calls)).every(({ end }) => end === 'complete')
  }

  /** Those of this version, which report what they are. */
  get known(): readonly Gateway[] {
    return EARLIER === undefined ? this.gateways : this.gateways.slice(0, -1)
  }

  async close(): Promise<void> {
    await Promise.all(this.gateways.map((gateway) => gateway.stop()))
    for (const path of this.paths) path.close()
    await this.provider[Symbol.asyncDispose]()
    await this.redis.kill()
  }
}

async function namesOf(gateway: Gateway): Promise<readonly string[]> {
  const { nodes } = await gateway.command('nodes').catch((): JsonObject => ({}))
  return isArray(nodes) ? nodes.filter(isObject).map(({ name }) => String(name)) : []
}

function nameOf(node: number): string {
  return `node-${node}`
}

export async function runFleet(run: Run): Promise<SetupResult> {
  const fleet = await Fleet.start(run)
  const { gateways, redis } = fleet
  const startMs = performance.now()
  // Each node has learned how many there are.
  await Bun.sleep(6000)
  const untilMs = performance.now() + run.seconds * 1000
  const calling = Array.from({ length: run.callers * 3 }, (_, i) =>
    fleet.callUntil(untilMs, new Random(run.seed + 1000 * (i + 1))),
  )
  const ofRedis = redisFaults(redis).filter(({ isSetback, name }) => isSetback !== true && name !== 'scripts flushed')
  const rare = [...gatewayFaults(gateways), ...ofRedis]
  const [often, seldom] = await Promise.all([
    injectFaults(untilMs, fleet.faults, new Random(run.seed), BETWEEN_MS),
    injectFaults(untilMs, rare, new Random(run.seed + 100), BESIDE_MS),
  ])
  fleet.note(seldom)
  const late = Bun.sleep(PATIENCE_MS + BUSY_MS)
  await Promise.race([Promise.all(calling), late])
  const stuck = fleet.waiting
  const [endMs, isWell] = [performance.now(), await recovers(fleet)]
  const check = async (report: Report) => {
    checkWaits(report, fleet, [...often, ...seldom], stuck)
    report.check(`${fleet.known.length} nodes know each other, and all serve, soon after the faults`, isWell)
    checkRate(report, fleet, startMs, endMs)
    checkPlaces(report, fleet)
    checkMoney(report, fleet)
    const errors = gateways.flatMap((gateway) => gateway.errors)
    report.check(`internal errors of the gateways: ${errors.length}`, errors.length === 0, errors)
  }
  const mixed = EARLIER === undefined ? '' : ', one of another version'
  return {
    name: `fleet: ${NODES} nodes whose clocks are ${AHEAD_MS / 1000} s apart${mixed}`,
    faults: [...often, ...seldom],
    results: fleet.sent,
    check,
    [Symbol.asyncDispose]: () => fleet.close(),
  }
}

async function recovers(fleet: Fleet): Promise<boolean> {
  const untilMs = performance.now() + RECOVERED_MS
  while (performance.now() < untilMs) if (await fleet.isWell()) return true
  return false
}

function checkWaits(report: Report, { sent, losses }: Fleet, faults: readonly Injected[], stuck: number): void {
  const wrong = sent.filter(({ end }) => end === 'wrong')
  const examples = wrong.map(({ what }) => what)
  report.check(`every caller got an answer, a 429 or a 503 (${wrong.length} did not)`, wrong.length === 0, examples)
  const answered = sent.filter(({ end }) => end === 'complete' || end === 'rejected')
  const frozen = faults.filter(({ name }) => name.endsWith('frozen'))
  const boundOf = ({ node, startMs, tookMs }: Sent) => {
    const within = <Span extends Pick<Loss, 'fromMs' | 'untilMs'>>(spans: readonly Span[]) =>
      spans.filter(({ fromMs, untilMs }) => fromMs <= startMs + tookMs && untilMs >= startMs)
    const frozenMs = within(frozen).reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0)
    const isLost = within(losses).some((loss) => loss.node === node)
    return WAIT_MS + ANSWER_MS + BUSY_MS + frozenMs + (isLost ? LOST_MS : 0)
  }
  const longest = Math.round(Math.max(0, ...answered.map(({ tookMs }) => tookMs)))
  const left = Math.round(Math.min(...answered.map((one) => boundOf(one) - one.tookMs)))
  report.check(
    `the longest of ${answered.length} answers took ${longest} ms, and each was at least ${left} ms below its bound: ` +
      `${WAIT_MS + ANSWER_MS + BUSY_MS} ms, and more while a process was frozen or Redis was lost`,
    left >= 0,
    answered.flatMap((one) => {
      const { node, end, what, startMs, tookMs } = one
      const during = faults.filter(({ fromMs, untilMs }) => fromMs <= startMs + tookMs && untilMs >= startMs)
      const names = during.map(
        ({ name, fromMs, untilMs }) => `${name} ${at(fromMs, startMs)} to ${at(untilMs, startMs)}`,
      )
      return boundOf(one) < tookMs ? [`node ${node}, ${what}: ${end} after ${at(tookMs, 0)}; ${names.join(', ')}`] : []
    }),
  )
  report.check(`requests that still wait at the end: ${stuck}`, stuck === 0)
}

function at(ms: number, sinceMs: number): string {
  return `${((ms - sinceMs) / 1000).toFixed(1)} s`
}

/** In any minute: 7/6 of the limit and 2 % for each node, and beyond that the parts of nodes that had lost Redis. */
function checkRate(report: Report, { provider, losses }: Fleet, startMs: number, endMs: number): void {
  const arrivals = provider.of('rate')
  let [from, least, most] = [0, Number.POSITIVE_INFINITY, 0]
  for (const [to, ms] of arrivals.entries()) {
    while (ms - (arrivals[from] ?? 0) >= MINUTE_MS) from++
    const count = to - from + 1
    most = Math.max(most, count)
    least = Math.min(least, rateBound(losses, ms - MINUTE_MS, ms) - count)
  }
  const plain = Math.round(rateBound([], 0, 0))
  report.check(
    `requests to a provider of ${PER_MINUTE} a minute: at most ${most} in any minute (${plain} without losses of ` +
      `Redis), always at least ${Math.round(least)} below the bound`,
    least >= 0,
  )
  const share = arrivals.length / ((PER_MINUTE * (endMs - startMs)) / MINUTE_MS)
  report.check(`its limit was used: ${Math.round(share * 100)} % ≥ 75 %`, share >= 0.75)
}

/** Losses of one node that overlap as one: it keeps to its part without a new beginning. */
function merged(losses: readonly Loss[]): readonly Loss[] {
  const whole: Loss[] = []
  for (const loss of losses.toSorted((one, other) => one.fromMs - other.fromMs)) {
    const at = whole.findIndex(({ node, untilMs }) => node === loss.node && untilMs >= loss.fromMs)
    const known = whole[at]
    if (known === undefined) whole.push(loss)
    else whole[at] = { ...known, untilMs: Math.max(known.untilMs, loss.untilMs) }
  }
  return whole
}

/** A node that had lost Redis kept to its part: a bucket once, and what came back while it was lost. */
function rateBound(losses: readonly Loss[], fromMs: number, untilMs: number): number {
  const part = PER_MINUTE / NODES
  const lostMs = new Map<number, number>()
  for (const loss of merged(losses)) {
    const ms = Math.min(untilMs, loss.untilMs) - Math.max(fromMs, loss.fromMs)
    if (ms > 0) lostMs.set(loss.node, (lostMs.get(loss.node) ?? 0) + ms)
  }
  const beyond = [...lostMs.values()].reduce((sum, ms) => sum + part / 6 + (part * ms) / MINUTE_MS, 0)
  return (PER_MINUTE * 7) / 6 + NODES * Math.max(1, Math.floor(PER_MINUTE * 0.02)) + beyond
}

function checkPlaces(report: Report, { provider, losses }: Fleet): void {
  const part = Math.floor(PLACES / NODES)
  const boundAt = (at: number) => {
    const lost = losses.filter(({ fromMs, untilMs }) => at >= fromMs && at <= untilMs)
    return PLACES + part * new Set(lost.map(({ node }) => node)).size
  }
  const beyond = provider.running.filter(({ ms, count }) => count > boundAt(ms))
  const most = Math.max(0, ...provider.running.map(({ count }) => count))
  report.check(
    `requests at once to a provider of ${PLACES}: at most ${most}; ${beyond.length} of ` +
      `${provider.running.length} arrived beyond the bound`,
    beyond.length === 0,
    beyond.map(({ ms, count }) => `${count} > ${boundAt(ms)}`),
  )
}

/** Beyond the limit goes only what nodes spent that had lost Redis. */
function checkMoney(report: Report, { provider, losses }: Fleet): void {
  const paid = provider.arrivals.filter(({ model }) => model === 'money')
  const apart = paid.filter(({ ms, node }) =>
    losses.some((loss) => loss.node === node && ms >= loss.fromMs && ms <= loss.untilMs),
  )
  const [spent, most] = [paid.length * COST_MICRO_USD, MONEY_USD * 1e6 + apart.length * COST_MICRO_USD]
  report.check(
    `spent at a provider of ${MONEY_USD * 1e6} micro-dollars: ${spent} ≤ ${most} (with ${apart.length} requests of ` +
      'nodes without Redis)',
    spent <= most && paid.length > 0,
  )
}

function configOf(url: string, node: number): JsonObject {
  const provider = (limits: JsonObject) => ({
    ...{ dialect: 'openai', base_url: url, api_key: 'x', limits, headers: { [NODE_HEADER]: String(node) } },
  })
  const model = (name: ModelName) => ({
    ...{ name, targets: [{ provider: name, model: name }], max_output_tokens: 3, price: PRICE },
  })
  return {
    workers: 1,
    ledger_unreachable: 'allow',
    routing: { probe: false },
    compaction: { keys: [Buffer.alloc(32, 1).toString('base64')] },
    queue: { max_wait_ms: WAIT_MS, max_waiting: 500 },
    providers: {
      rate: provider({ requests_per_minute: PER_MINUTE }),
      places: provider({ concurrent_requests: PLACES }),
      money: provider({ spend: { total: MONEY_USD } }),
    },
    models: [model('rate'), model('places'), model('money')],
    organizations: [
      {
        id: 'acme',
        keys: [
          { id: 'person', key: KEYS.interactive },
          { id: 'batch', key: KEYS.batch, priority: 'batch' },
        ],
      },
    ],
  }
}

/** Loaded first by each process of a node: moves its clock. */
const CLOCK_AHEAD = `const now = Date.now
globalThis.Date = class extends Date {
  constructor(...words) {
    if (words.length === 0) super(now() + ${AHEAD_MS})
    else super(...words)
  }
  static now() {
    return now() + ${AHEAD_MS}
  }
}
`
