/**
 * A caller that does not read: the provider is slowed down, the memory does not grow, and nothing is lost when it reads
 * on.
 */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { childrenOf, ownResidentBytes } from '../support/process-table.ts'
import * as does from '../support/scenarios.ts'
import type { Scenario } from '../support/upstream.ts'
import { lastingStage, STREAM, seen } from './stage.ts'

const MIB = 1024 * 1024
/** What the kernel's buffers and Bun may hold for one stream, in both directions and at both ends. */
const TAKEN_BYTES_MAX = 2 * (socketBytesMax('tcp_wmem') + socketBytesMax('tcp_rmem')) + 4 * MIB

/** How far the kernel lets a socket's buffer grow. */
function socketBytesMax(name: 'tcp_rmem' | 'tcp_wmem'): number {
  return Number(readFileSync(`/proc/sys/net/ipv4/${name}`, 'utf8').trim().split(/\s+/)[2])
}
const STREAMS = 8

const words = Array.from({ length: 60_000 }, (_, index) => `${index} ${'x'.repeat(250)} `)
const [role = '', ...frames] = does.chatFrames(words)
/** About 60 events a chunk: 27 MB in all. */
const finite = Array.from({ length: 1000 }, (_, index) => frames.slice(index * 61, index * 61 + 61).join(''))
const again = frames.slice(0, 64).join('')

const taken = new Array<number>(STREAMS).fill(0)

let begun = 0
const endless: Scenario = (call) => {
  const stream = begun++
  const count = (bytes: number) => {
    taken[stream] = bytes
  }
  return does.endless([role], again, count)(call)
}
// Without an output limit: these answers are longer than any model's.
const model = (name: string) => ({
  name,
  targets: [{ provider: 'p0', model: name }],
  price: { input: 1, output: 10 },
})
const config = { models: [model('endless'), model('finite')] }
// The runtime collects garbage ten times a second instead of once, so that what stays is what is held.
const env = { BUN_GC_TIMER_INTERVAL: '100' }
const stage = await lastingStage({ endless, finite: does.stream([role, ...finite]) }, { config, env })

/** Resolves once the providers have had to stop: what they could write no longer changes. */
async function stalled(): Promise<void> {
  for (let before = ''; before !== taken.join() || taken.includes(0); ) {
    before = taken.join()
    await Bun.sleep(250)
  }
}

/** Resident bytes of the workers. */
function workersRss(): number {
  return childrenOf(stage.gateway.pid).reduce((sum, child) => sum + ownResidentBytes(child), 0)
}

test('the provider stalls with the caller, in bounded memory, and its call ends when the caller leaves', async () => {
  await stage.ask('finite', STREAM)
  const before = workersRss()
  const callers = await Promise.all(Array.from({ length: STREAMS }, () => stage.caller('endless', STREAM)))
  for (const caller of callers) caller.pause()
  await stalled()
  expect(Math.max(...taken)).toBeLessThan(TAKEN_BYTES_MAX)
  // Two reads of Bun's HTTP client, of up to 0.75 MB each, and what is made of them. Garbage of the bytes that flowed
  // before does not count: the runtime collects it, and frees it some seconds later.
  while (workersRss() - before >= STREAMS * 5 * MIB) await Bun.sleep(250)
  const [first] = callers
  const atFirst = [...taken]
  first?.resume()
  while (taken.every((bytes, stream) => bytes < (atFirst[stream] ?? 0) + 4 * MIB)) await Bun.sleep(20)
  for (const caller of callers) caller.reset()
  for (const call of stage.upstreams[0]?.calls.filter(({ model }) => model === 'endless') ?? []) await call.aborted
})

test('a caller that stops and reads on gets every event', async () => {
  await using caller = await stage.caller('finite', STREAM)
  await caller.until('"0 x')
  caller.pause()
  await Bun.sleep(300)
  caller.resume()
  const answer = await caller.answer()
  const { text, finish, done } = seen(answer.text)
  expect([answer.end, finish, done, text === words.join('')]).toEqual(['whole', 'stop', true, true])
  expect(await stage.lineOf(answer)).toMatchObject({
    outcome: 'completed',
    usage: 'provider',
    output_tokens: words.length,
  })
})
