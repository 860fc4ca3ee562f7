/** What operators see of the limits of providers on every node, and what `weir explain` answers without room. */

import { expect, test } from 'bun:test'
import { RedisServer } from '../support/redis.ts'
import { Upstream } from '../support/upstream.ts'
import { config, Holding, say, waiting } from './limited-provider.ts'
import { PROGRAM, until, Weir } from './weir.ts'

async function explain(node: Weir, key: string): Promise<string> {
  const words = ['explain', '--key', key, '--model', 'm', '--tokens', '50', '--output-tokens', '100']
  const child = Bun.spawn([...PROGRAM, ...words], { cwd: node.folder, stdout: 'pipe', stderr: 'inherit' })
  const text = await new Response(child.stdout).text()
  expect(await child.exited).toBe(0)
  return text
}

async function roomOf(node: Weir, unit: string): Promise<string | undefined> {
  const text = await (await fetch(`${node.admin}/metrics`)).text()
  return new RegExp(`^weir_target_room_ratio\\{target="up",unit="${unit}"\\} (.*)$`, 'm').exec(text)?.[1]
}

test('idle nodes show the room that others have left, and explain answers what a request would get', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const holding = new Holding(upstream)
  const limits = { concurrent_requests: 2, spend: { month: 1 } }
  const given = { redis: redis.url, limits, queue: { max_wait_ms: 60_000 } }
  const text = config(upstream.url, given)
  const nodes = await Promise.all([1, 2, 3].map(() => Weir.ready(text)))
  try {
    const [busy] = nodes
    if (busy === undefined) throw new Error('no node')
    expect(await explain(busy, 'one')).toContain('admitted: m at up (a) is asked first')
    const answers = [say(busy), say(busy, 'patient')]
    await until(() => holding.running === 2)
    for (const node of nodes) await until(async () => (await roomOf(node, 'concurrent_requests')) === '0')
    answers.push(say(busy))
    await until(async () => (await waiting(busy)) === 1)
    // The figures of workers are a second old.
    let lines = ''
    await until(async () => {
      lines = await explain(busy, 'one')
      return lines.includes('interactive: 1 wait now')
    })
    expect(lines).toContain('admitted, and waits: no candidate has room now')
    expect(lines).toContain('limit up/concurrent_requests 2, 0% left')
    expect(lines).toMatch(/limit up\/spend\.month \$1\.00, (100|99\.\d)% left/)
    expect(lines).toContain('batch: 0 wait now; since the start 0 waited, 0 were turned away')
    // A key whose requests do not wait gets the error that explain reports, also on a node that was idle.
    for (const node of nodes) {
      const refused = await say(node, 'hasty')
      const { error } = JSON.parse(refused.text)
      expect(await explain(node, 'hasty')).toContain(`rejected: ${refused.status} ${error.code}: ${error.message}`)
    }
    for (let released = 0; released < 3; released++) await holding.release()
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200])
  } finally {
    for (const node of nodes) await node[Symbol.asyncDispose]()
  }
}, 120_000)
