/**
 * What the limits of a provider take of a request that does not wait: its part is taken and given back, and what the
 * provider reports of its own limits is read.
 */

import { Rooms } from '../../src/capacity/rooms.ts'
import { WaitQueue } from '../../src/capacity/wait-queue.ts'
import { Attempt } from '../../src/gateway/attempt.ts'
import { Breaker } from '../../src/gateway/breaker.ts'
import { RequestRoom } from '../../src/gateway/request-room.ts'
import { reportedLimits } from '../../src/providers/retry-after.ts'
import { ResponseHead } from '../../src/transport/response-head.ts'
import { catalog, keyOf } from '../../test/catalog/fixture.ts'
import { OwnRoom } from '../../test/support/one-worker.ts'
import type { Measurement } from './rounds.ts'

/** The fastest of many short rounds is one that nothing else on the machine interrupted. */
const ROUNDS = 200
const REQUESTS = 4000
const TARGET = { provider: 'openai', model: 'gpt-5' }
const HEAD = [
  'HTTP/1.1 200 OK',
  'content-type: application/json',
  'content-length: 400',
  'date: Fri, 27 Nov 2026 00:00:00 GMT',
  'openai-organization: acme',
  'openai-processing-ms: 350',
  'openai-version: 2020-10-01',
  'x-ratelimit-limit-requests: 5000',
  'x-ratelimit-limit-tokens: 2000000',
  'x-ratelimit-remaining-requests: 4999',
  'x-ratelimit-remaining-tokens: 1999984',
  'x-ratelimit-reset-requests: 12ms',
  'x-ratelimit-reset-tokens: 0s',
  'x-request-id: req_0123456789abcdef0123456789abcdef',
].join('\r\n')

/** Microseconds of each, in turns: what slows one down slows down the others. */
function fastest(...runs: readonly ((count: number) => number)[]): readonly number[] {
  const ms = runs.map(() => Number.POSITIVE_INFINITY)
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, run] of runs.entries()) {
      const startMs = performance.now()
      if (run(REQUESTS) !== REQUESTS) throw new Error('a request was not counted')
      ms[i] = Math.min(ms[i] ?? 0, performance.now() - startMs)
    }
  }
  return ms.map((each) => (each * 1000) / REQUESTS)
}

export async function limitMeasurements(): Promise<readonly Measurement[]> {
  const rooms = new Rooms(new OwnRoom())
  const limits = { requestsPerMinute: 1e9, tokensPerMinute: 1e12, concurrentRequests: 1e6 }
  rooms.use({ providers: { openai: limits }, targets: [] }, [TARGET], 1)
  await Bun.sleep(1)
  const take = (count: number) => {
    let entered = 0
    for (let i = 0; i < count; i++) {
      const grant = rooms.of(TARGET)?.tryEnter({ tokens: 2000, microUsd: 0 })
      grant?.ended({ tokens: 900, microUsd: 0 })
      if (grant !== undefined) entered++
    }
    return entered
  }
  const bytes = Buffer.from(HEAD)
  const parse = (count: number) => {
    let whole = 0
    for (let i = 0; i < count; i++) if (new ResponseHead(bytes, 0, bytes.length).status === 200) whole++
    return whole
  }
  // Each answer has a head of its own, which nothing has searched before.
  const hear = (count: number) => {
    let known = 0
    for (let i = 0; i < count; i++)
      if (rooms.hear(TARGET, reportedLimits(new ResponseHead(bytes, 0, bytes.length)), 0, false)) known++
    return known
  }
  // The same configuration has limits of others, and requests may wait: this target has none.
  const served = catalog()
  const model = served.model('a')
  if (model === undefined) throw new Error('the catalog of the tests has no model a')
  const candidate = { model, target: { provider: 'free', model: 'm' } }
  const breaker = new Breaker()
  const queue = new WaitQueue({ waited: () => undefined, shed: () => undefined })
  const capacity = { rooms, queue, maxWaitMs: 30_000, maxWaiting: 10_000, waitsForProviders: true }
  const permit = breaker.enter(candidate.target)
  if (permit === undefined) throw new Error('a target that was never called rests')
  const plain = (count: number) => {
    let entered = 0
    for (let i = 0; i < count; i++) if (new Attempt(candidate, permit, true).grant === undefined) entered++
    return entered
  }
  const unused = () => {
    throw new Error('a target without limits has room')
  }
  const owner = { lacksRoom: unused, entered: unused, gaveUp: unused }
  const room = new RequestRoom(capacity, breaker, keyOf(served), false, unused, owner)
  const unlimited = (count: number) => {
    let entered = 0
    for (let i = 0; i < count; i++) if (room.enter(candidate, permit, true) instanceof Attempt) entered++
    return entered
  }
  const [taken = 0, parsed = 0, heard = 0, bare = 0, entered = 0] = fastest(take, parse, hear, plain, unlimited)
  rooms.close()
  const row = (name: string, value: number, valueMax: number): Measurement => ({
    ...{ name, unit: 'µs', valueMax, figures: [{ gateway: 'weir', value }] },
  })
  return [
    row("a provider's three limits, for a request that does not wait: taken and given back", taken, 1),
    row('the queue, for a request whose target has no limits', entered - bare, 0.1),
    row('what a provider reports of its limits with an answer: read', heard - parsed, 1),
  ]
}
