/**
 * `bun tools/bench/many-keys.ts [COUNT]`: measures two gateways over a Redis with very many API keys, beside two
 * without any, for the table in docs/keys.md. CPU time is that of a worker, from /proc.
 */

import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import { newToken } from '../../src/keys/key-format.ts'
import { ask, requestBytes } from '../../test/support/caller.ts'
import { Gateway } from '../../test/support/gateway.ts'
import { childrenOf, ownCpuMs, ownResidentBytes } from '../../test/support/process-table.ts'
import { RedisServer } from '../../test/support/redis.ts'

const COUNT = Number(process.argv[2] ?? 500_000)
const RECORDS = 'weir:{keys}:records'
const VERSION = 'weir:{keys}:version'
const IDLE_MS = 30_000
const FILLED_A_CALL = 1000
const MB = 1024 * 1024

/** The one worker of a gateway. */
function workerOf(gateway: Gateway): number {
  return childrenOf(gateway.pid)[0] ?? 0
}

function cpuSeconds(pid: number): number {
  return ownCpuMs(pid) / 1000
}

function residentMb(pid: number): number {
  return ownResidentBytes(pid) / MB
}

async function fill(client: Redis): Promise<void> {
  for (let from = 0; from < COUNT; from += FILLED_A_CALL) {
    const words: string[] = []
    for (let at = from; at < Math.min(COUNT, from + FILLED_A_CALL); at++) {
      const id = `of-many-${at}`
      const sha256 = createHash('sha256').update(id).digest('hex')
      const record = { id, organization: 'test', sha256, shown: 'gwk_abcdefgh', models: ['m*'], createdMs: 1.7e12 }
      words.push(id, JSON.stringify(record))
    }
    await client.hset(RECORDS, ...words)
  }
  await client.incr(VERSION)
}

function start(redis: RedisServer): Promise<Gateway> {
  return Gateway.start({ providers: { up: 'http://127.0.0.1:9/v1' }, config: { ledger: { redis: redis.url } } })
}

/** The status of the list of models, which only an accepted key gets. */
async function statusOf(gateway: Gateway, key: string): Promise<number> {
  return (await ask(gateway.port, requestBytes('/v1/models', { key, method: 'GET' }))).status
}

/** Resolves to the milliseconds until it is true. */
async function until(what: () => boolean | Promise<boolean>, pauseMs = 10): Promise<number> {
  const begun = performance.now()
  while (!(await what())) await Bun.sleep(pauseMs)
  return performance.now() - begun
}

/** Resolves when all keys were read. */
async function isReady(gateway: Gateway): Promise<boolean> {
  return (await fetch(`${gateway.adminUrl}/readyz`)).status === 200
}

interface Start {
  readonly gateways: readonly Gateway[]
  readonly acceptsMs: number
  readonly readMs: number
  readonly cpu: number
}

async function startBoth(redis: RedisServer): Promise<Start> {
  const begun = performance.now()
  const gateways = await Promise.all([start(redis), start(redis)])
  const acceptsMs = performance.now() - begun
  await until(async () => (await Promise.all(gateways.map(isReady))).every(Boolean))
  const readMs = performance.now() - begun
  // What is compiled and collected after the start belongs to it.
  await Bun.sleep(3000)
  return { gateways, acceptsMs, readMs, cpu: Math.max(...gateways.map((each) => cpuSeconds(workerOf(each)))) }
}

async function idleShare(gateway: Gateway): Promise<number> {
  const pid = workerOf(gateway)
  const before = cpuSeconds(pid)
  await Bun.sleep(IDLE_MS)
  return (cpuSeconds(pid) - before) / (IDLE_MS / 1000)
}

function show(what: string, ...figures: readonly string[]): void {
  process.stdout.write(`${what}: ${figures.join(', ')}\n`)
}

async function measure(redis: RedisServer, name: string): Promise<readonly Gateway[]> {
  const { gateways, acceptsMs, readMs, cpu } = await startBoth(redis)
  const [first] = gateways
  if (first === undefined) throw new Error('No gateway was started.')
  const [accepts, all] = [acceptsMs, readMs].map((ms) => `${(ms / 1000).toFixed(1)} s`)
  show(`${name}, start`, `accepts requests after ${accepts}`, `all keys read after ${all}`, `CPU ${cpu.toFixed(1)} s`)
  show(`${name}, memory of a worker`, `${residentMb(workerOf(first)).toFixed(0)} MB`)
  show(`${name}, idle`, `${((await idleShare(first)) * 100).toFixed(1)} % of a core`)
  return gateways
}

const empty = await RedisServer.start()
for (const gateway of await measure(empty, 'without keys')) await gateway[Symbol.asyncDispose]()
await empty[Symbol.asyncDispose]()

const redis = await RedisServer.start()
const client = new Redis(redis.url)
await fill(client)
const { token, sha256, shown } = newToken()
const record = { id: 'laptop', organization: 'test', sha256, shown, createdMs: Date.now() }
await client.hset(RECORDS, record.id, JSON.stringify(record))
await client.incr(VERSION)
const usage = Number(await client.memory('USAGE', RECORDS, 'SAMPLES', 0))
show(`${COUNT} keys in Redis`, `${(usage / MB).toFixed(0)} MB`)
const gateways = await measure(redis, `${COUNT} keys`)

const { token: other, sha256: otherHash, shown: otherShown } = newToken()
const revoked = { id: 'phone', organization: 'test', sha256: otherHash, shown: otherShown, createdMs: Date.now() }
// Changed as a command does, but without its pause at the end.
const change = await import('../../src/keys/redis-key-store.ts').then(({ openRedisKeyStore }) =>
  openRedisKeyStore({ kind: 'single', url: redis.url }),
)
await change.create(revoked)
await until(async () => (await Promise.all(gateways.map((each) => statusOf(each, other)))).join() === '200,200')
await change.revoke('phone', Date.now())
const rejectedMs = await until(
  async () => (await Promise.all(gateways.map((each) => statusOf(each, other)))).join() === '401,401',
)
show('a revoked key is rejected by both', `after ${(rejectedMs / 1000).toFixed(2)} s`)
await change.close()

let rejected = 0
let peakMb = 0
const workers = gateways.map(workerOf)
const cpuBefore = [...workers, redis.pid].map(cpuSeconds)
await client.flushall()
const restoredMs = await until(async () => {
  for (const gateway of gateways) if ((await statusOf(gateway, token)) === 401) rejected++
  peakMb = Math.max(peakMb, ...workers.map(residentMb))
  return (await client.hlen(RECORDS)) >= COUNT + 1
}, 200)
const cpu = [...workers, redis.pid].map((pid, at) => (cpuSeconds(pid) - (cpuBefore[at] ?? 0)).toFixed(1))
show('after FLUSHALL all keys are back', `after ${(restoredMs / 1000).toFixed(0)} s`, `at most ${peakMb.toFixed(0)} MB`)
show('CPU seconds of it', `workers ${cpu[0]} and ${cpu[1]}`, `Redis ${cpu[2]}`)
show('meanwhile a valid key was rejected', `${rejected} times`)
for (const gateway of gateways) await gateway[Symbol.asyncDispose]()
client.disconnect()
await redis[Symbol.asyncDispose]()
