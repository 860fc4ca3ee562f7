/** Many large request bodies at once: the memory that weir uses, and its answers to the callers. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { childrenOf } from '../support/process-table.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const MIB = 1024 * 1024
const ORGANIZATIONS = 10
const BODIES = 50

const keyOf = (n: number) => `key-of-organization-${n % ORGANIZATIONS}`
const words = 'Ten mebibytes of prose. '
const text = JSON.stringify({
  model: 'm',
  messages: [{ role: 'user', content: words.repeat((10 * MIB) / words.length - 10) }],
})
const body = Buffer.from(text)

/** The most memory that the worker has had, in bytes, by the kernel's own account. */
function peakRss(gateway: Gateway): number {
  const [worker] = childrenOf(gateway.pid)
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${worker}/status`, 'utf8'))?.[1]) * 1024
}

async function start(upstream: Upstream): Promise<Gateway> {
  const organizations = Array.from({ length: ORGANIZATIONS }, (_, n) => ({
    id: `organization-${n}`,
    keys: [{ id: `key-${n}`, key: keyOf(n) }],
  }))
  return await Gateway.start({
    providers: { up: upstream.url },
    config: { organizations: [...organizations, { id: 'test', keys: [{ id: 'test-key', key: KEY }] }] },
  })
}

/** The head of a request with this body. */
function head(key: string, fields: Readonly<Record<string, string>> = {}): Uint8Array {
  const declared = { 'content-length': String(body.length), ...fields }
  return requestBytes('/v1/chat/completions', { method: 'POST', key, fields: declared })
}

function counted(statuses: readonly number[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

test.each([
  ['one organization', 1, 429, 'rate_limit_exceeded'],
  ['ten organizations', ORGANIZATIONS, 503, 'overloaded'],
])('50 bodies of 10 MiB at once, of %s, stay under 700 MiB', async (_, organizations, refused, code) => {
  // The provider answers once all have been sent or refused, so that none makes room for another.
  const answered = Promise.withResolvers<void>()
  await using upstream = await Upstream.start({
    m: async (call) => {
      await answered.promise
      await json(200, chatBody('Read.'))(call)
    },
  })
  await using gateway = await start(upstream)
  const callers = await Promise.all(Array.from({ length: BODIES }, () => Caller.connect(gateway.port)))
  const answers = callers.map((caller, n) => {
    caller.send(head(keyOf(n % organizations)))
    caller.send(body)
    return caller.answer()
  })
  let refusedCount = 0
  for (const answer of answers) void answer.then(({ status }) => (refusedCount += Number(status === refused)))
  while (refusedCount + upstream.calls.length < BODIES) await Bun.sleep(50)
  answered.resolve()
  const all = await Promise.all(answers)
  const statuses = counted(all.map(({ status }) => status))
  expect(Object.keys(statuses)).toEqual(['200', String(refused)])
  expect(statuses['200']).toBeGreaterThanOrEqual(6)
  for (const answer of all.filter(({ status }) => status === refused)) {
    expect([answer.header('retry-after'), answer.json()]).toMatchObject(['1', { error: { code } }])
  }
  expect(peakRss(gateway)).toBeLessThan(700 * MIB)
  console.log(`peak ${Math.round(peakRss(gateway) / MIB)} MiB, ${JSON.stringify(statuses)}`)
  for (const caller of callers) caller.close()
})

test('150 connections of one key that upload slowly: six may, and the memory of the others is not taken', async () => {
  await using upstream = await Upstream.start()
  await using gateway = await start(upstream)
  const before = peakRss(gateway)
  const callers = await Promise.all(Array.from({ length: 150 }, () => Caller.connect(gateway.port)))
  const declared = callers.slice(0, 75)
  for (const caller of declared) {
    caller.send(head(KEY))
    caller.send(body.subarray(0, body.length - 1))
  }
  let refused = 0
  for (const caller of declared)
    void caller.answer().then(
      ({ status }) => (refused += Number(status === 429)),
      () => {},
    )
  while (refused < 69) await Bun.sleep(20)
  // Undeclared ones are counted as they grow: nothing is left for these.
  for (const caller of callers.slice(75)) {
    caller.send(
      requestBytes('/v1/chat/completions', { method: 'POST', key: KEY, fields: { 'transfer-encoding': 'chunked' } }),
    )
    caller.send(`${body.length.toString(16)}\r\n`)
    caller.send(body)
    expect((await caller.answer()).status).toBe(429)
    caller.close()
  }
  expect(peakRss(gateway) - before).toBeLessThan(250 * MIB)
  // Who leaves makes room.
  for (const caller of declared) caller.reset()
  upstream.on('m', json(200, chatBody('Read.')))
  for (let status = 429; status !== 200; ) {
    await using caller = await Caller.connect(gateway.port)
    caller.send(requestBytes('/v1/chat/completions', { key: KEY, body: text }))
    status = (await caller.answer()).status
    if (status !== 200) expect(status).toBe(429)
  }
})

test('4 MiB in small chunks take as much memory as whole, and are too large in chunks of one byte', async () => {
  await using upstream = await Upstream.start({ m: json(200, chatBody('Read.')) })
  await using gateway = await start(upstream)
  const end = '"}]}'
  const whole = Buffer.concat([body.subarray(0, 4 * MIB - end.length), Buffer.from(end)])
  const before = peakRss(gateway)
  for (const [size, status] of [
    [1, 413],
    [128, 200],
    [1, 413],
  ] as const) {
    const head = Buffer.from(`${size.toString(16)}\r\n`)
    const wire = Buffer.alloc((whole.length / size) * (head.length + size + 2))
    for (let from = 0, at = 0; from < whole.length; from += size) {
      at += head.copy(wire, at)
      at += whole.copy(wire, at, from, from + size)
      at += wire.write('\r\n', at)
    }
    await using caller = await Caller.connect(gateway.port)
    const fields = { 'transfer-encoding': 'chunked' }
    caller.send(requestBytes('/v1/chat/completions', { method: 'POST', key: KEY, fields }))
    caller.send(wire)
    caller.send('0\r\n\r\n')
    const answer = await caller.answer()
    expect(answer.status).toBe(status)
    if (status === 413) expect(answer.text).toContain('too many small chunks')
  }
  // With an object for each chunk it was 420 MiB.
  expect(peakRss(gateway) - before).toBeLessThan(100 * MIB)
})
