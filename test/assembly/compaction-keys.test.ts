/** Without compaction keys in the configuration, weir creates one, and all its processes use it. */

import { describe, expect, test } from 'bun:test'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const start = (upstream: Upstream, config: JsonObject) => Gateway.start({ providers: { up: upstream.url }, config })

async function post(gateway: Gateway, path: string, input: unknown): Promise<JsonObject> {
  const answer = await ask(gateway.port, requestBytes(path, { key: KEY, body: { model: 'm', input } }))
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 200 })
  return JSON.parse(answer.text)
}

async function compacted(gateway: Gateway): Promise<unknown> {
  const { output } = JSON.parse(JSON.stringify(await post(gateway, '/v1/responses/compact', 'The word is plum.')))
  return output[0]
}

const goOn = (gateway: Gateway, item: unknown) =>
  post(gateway, '/v1/responses', [item, { role: 'user', content: 'Which word?' }])

describe('a created key', () => {
  test('outlives the process, and is readable by its owner alone', async () => {
    await using upstream = await Upstream.start()
    upstream.otherwise(does.answersText('Plum.'))
    const folder = await mkdtemp(join(tmpdir(), 'weir-keys-'))
    try {
      const first = await start(upstream, { data_dir: folder })
      const item = await compacted(first)
      await first[Symbol.asyncDispose]()
      expect((await stat(join(folder, 'compaction.key'))).mode & 0o777).toBe(0o600)
      await using second = await start(upstream, { data_dir: folder })
      expect(await goOn(second, item)).toMatchObject({ status: 'completed' })
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('is the same for all workers', async () => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    upstream.otherwise(does.answersText('Plum.'))
    await using gateway = await start(upstream, { ledger: { redis: redis.url }, workers: 2 })
    const item = await compacted(gateway)
    // Each on a connection of its own: the kernel deals them out over the workers.
    for (let turn = 0; turn < 12; turn++) expect(await goOn(gateway, item)).toMatchObject({ status: 'completed' })
  })
})

describe('two nodes on one Redis', () => {
  const KEYS = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64'))

  test('without keys: each makes its own, and check and the start warn', async () => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    upstream.otherwise(does.answersText('Plum.'))
    await using one = await start(upstream, { ledger: { redis: redis.url } })
    await using other = await start(upstream, { ledger: { redis: redis.url } })
    await one.line(({ event, level }) => event === 'compaction.own_key' && level === 'warn')
    const { code, stderr } = await one.run('check')
    expect([code, stderr]).toEqual([0, expect.stringContaining('warning: compaction.keys: is missing, so each node')])
    const body = { model: 'm', input: [await compacted(one), { role: 'user', content: 'Which word?' }] }
    const answer = await ask(other.port, requestBytes('/v1/responses', { key: KEY, body }))
    expect(answer).toMatchObject({ status: 400 })
    expect(answer.text).toContain('encrypted_content')
  })

  test('with the same keys, in the middle of a rotation: each goes on with what the other has compacted', async () => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    upstream.otherwise(does.answersText('Plum.'))
    const config = (keys: readonly string[]) => ({ ledger: { redis: redis.url }, compaction: { keys } })
    await using one = await start(upstream, config(KEYS))
    await using other = await start(upstream, config(KEYS.toReversed()))
    expect((await one.run('check')).stderr).not.toContain('compaction')
    expect(await goOn(other, await compacted(one))).toMatchObject({ status: 'completed' })
    expect(await goOn(one, await compacted(other))).toMatchObject({ status: 'completed' })
    expect(one.lines.filter(({ event }) => event === 'compaction.own_key')).toEqual([])
  })
})
