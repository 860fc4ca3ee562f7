/** How a gateway learns from Redis that another one has kept thoughts, and how often it waits for that. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Redis } from 'ioredis'
import type { ReservationPipeline } from '../../src/core/redis-config.ts'
import type { Issuer } from '../../src/core/thoughts.ts'
import type { RecalledThoughts } from '../../src/gateway/recalled-thoughts.ts'
import { ThinkingTargets, ThoughtMemory } from '../../src/gateway/thought-memory.ts'
import { Sealer } from '../../src/items/sealer.ts'
import { openThoughtStore } from '../../src/items/thought-stores.ts'
import { BASE, good } from '../config/fixture.ts'
import { until } from '../process/weir.ts'
import { plainRequest } from '../providers/requests.ts'
import { oneWorker } from '../support/one-worker.ts'
import { RedisServer } from '../support/redis.ts'

const TARGET = { provider: 'up', model: 'thinker' }
const ISSUER: Issuer = { id: 'up/key/thinker', form: 'responses' }
const CALL = 'call_0123456789ABCDEFGHIJ'
let server: RedisServer
let client: Redis

beforeAll(async () => {
  server = await RedisServer.start()
  client = new Redis(server.url)
})

afterAll(async () => {
  client.disconnect()
  await server[Symbol.asyncDispose]()
})

/** Counts how often somebody waits for Redis: what is asked in one turn is answered at once. */
class CountedTrips implements ReservationPipeline {
  trips = 0
  private questions: (() => Promise<() => void>)[] = []

  ask([command = '', ...words]: readonly (string | number)[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const asked = () => client.callBuffer(String(command), ...words)
      this.questions.push(() =>
        asked().then(
          (reply) => () => resolve(reply),
          (error) => () => reject(error),
        ),
      )
      if (this.questions.length === 1) setImmediate(() => void this.flush())
    })
  }

  private async flush(): Promise<void> {
    this.trips++
    const { questions } = this
    this.questions = []
    for (const answer of await Promise.all(questions.map((ask) => ask()))) answer()
  }
}

/** A gateway of its own, as far as thoughts go. */
function gatewayWith(pipeline?: ReservationPipeline) {
  const config = good(`${BASE}\nledger: { redis: "${server.url}" }\n`)
  const sealer = new Sealer([Buffer.alloc(32, 7).toString('base64')])
  const store = openThoughtStore(config, sealer, oneWorker(config).items, pipeline)
  if (store === undefined) throw new Error('no store')
  return { memory: new ThoughtMemory(store, new ThinkingTargets()), close: () => store.close?.() }
}

const question = { role: 'user', parts: [{ type: 'text', text: 'Look.' }] } as const
const history = plainRequest({
  messages: [
    question,
    { role: 'assistant', parts: [], toolCalls: [{ callId: CALL, name: 'look', json: '{}' }] },
    { role: 'tool', callId: CALL, parts: [{ type: 'text', text: 'seen' }], isError: undefined },
  ],
}).conversation

const recall = (memory: ThoughtMemory, organization: string) =>
  Promise.resolve(memory.recall(organization, [TARGET], history))
const countsOf = (recalled: RecalledThoughts | undefined) => recalled?.for(ISSUER).counts
const found = { found: 1, missing: 0, otherIssuer: 0 }

/** Resolves when the thought of another gateway is in Redis. */
async function keptByAnother(organization: string): Promise<void> {
  const { memory, close } = gatewayWith()
  const isKept = async () => {
    const keeper = memory.keeper(organization, plainRequest({ messages: [question] }).conversation, TARGET, ISSUER)
    keeper.event({ type: 'thought', json: '{"id":"rs_1"}' })
    keeper.event({ type: 'tool-start', index: 0, callId: CALL, name: 'look' })
    keeper.event({ type: 'end' })
    return (await client.scard('weir:{thoughts}:marks')) > marks
  }
  const marks = await client.scard('weir:{thoughts}:marks')
  // Nothing is kept before the gateway has connected.
  await until(isKept)
  // That Redis knows the script of a look-up does not depend on which gateway has sent it.
  expect(countsOf(await recall(memory, organization))).toEqual(found)
  close()
}

test('the first look-up of thoughts that another gateway has kept waits for one reply', async () => {
  await keptByAnother('acme')
  const pipeline = new CountedTrips()
  const { memory, close } = gatewayWith(pipeline)
  expect(countsOf(await recall(memory, 'acme'))).toEqual(found)
  expect(pipeline.trips).toBe(1)
  close()
})

test('thoughts that another gateway keeps between two requests are found', async () => {
  const { memory, close } = gatewayWith(new CountedTrips())
  expect(await recall(memory, 'initech')).toBeUndefined()
  await keptByAnother('initech')
  let recalled: RecalledThoughts | undefined
  // For some milliseconds after a question, none is sent.
  await until(async () => {
    recalled = await recall(memory, 'initech')
    return recalled !== undefined
  })
  expect(countsOf(recalled)).toEqual(found)
  close()
})

test('requests that share its question find them too; those of another organisation look nothing up', async () => {
  const { memory, close } = gatewayWith(new CountedTrips())
  await keptByAnother('umbrella')
  const organizations = ['umbrella', 'umbrella', 'nobody', 'umbrella', 'nobody']
  const all = await Promise.all(organizations.map((organization) => recall(memory, organization)))
  expect(all.map(countsOf)).toEqual([found, found, undefined, found, undefined])
  close()
})
