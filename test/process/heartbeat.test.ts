import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Heartbeat } from '../../src/process/children/heartbeat.ts'
import { provider } from './provider.ts'
import { configuration, until, Weir } from './weir.ts'

const PERIOD_MS = 4000

/** A heartbeat under a clock of its own. Its timer is not waited for: `after` does what it would do. */
function beating() {
  let nowMs = 0
  let asked = 0
  let silentMs: number | undefined
  const heartbeat = new Heartbeat({ ask: () => asked++, lost: (ms) => (silentMs = ms) }, () => nowMs)
  heartbeat.start()
  const after = (ms: number) => {
    nowMs += ms
    heartbeat.tick()
  }
  return { heartbeat, after, asked: () => asked, silentMs: () => silentMs, [Symbol.dispose]: () => heartbeat.stop() }
}

describe('a worker is pinged', () => {
  test('every few seconds, and is lost after five pings without an answer', () => {
    using it = beating()
    for (let periods = 1; periods < 5; periods++) it.after(PERIOD_MS)
    expect([it.asked(), it.silentMs()]).toEqual([5, undefined])
    it.after(PERIOD_MS)
    expect([it.asked(), it.silentMs()]).toEqual([5, 20_000])
  })

  test('five more times after each answer', () => {
    using it = beating()
    for (let periods = 0; periods < 100; periods++) {
      if (periods % 4 === 0) it.heartbeat.heard()
      it.after(PERIOD_MS)
    }
    expect(it.silentMs()).toBeUndefined()
  })

  test('again from the start if the supervisor itself stood still', () => {
    using it = beating()
    for (let periods = 0; periods < 4; periods++) it.after(PERIOD_MS)
    it.after(3_600_000)
    for (let periods = 0; periods < 4; periods++) it.after(PERIOD_MS)
    expect(it.silentMs()).toBeUndefined()
    it.after(PERIOD_MS)
    expect(it.silentMs()).toBe(20_000)
  })
})

describe('a worker that stands still', () => {
  let upstream: ReturnType<typeof provider>
  let weir: Weir

  beforeAll(async () => {
    upstream = provider()
    weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }))
  })

  afterAll(async () => {
    await weir[Symbol.asyncDispose]()
    upstream[Symbol.dispose]()
  })

  test('is reported, killed and replaced', async () => {
    const worker = await weir.worker()
    process.kill(worker, 'SIGSTOP')
    expect(await weir.line('worker does not answer')).toMatchObject({
      ...{ level: 'error', event: 'worker.stuck', worker: 0, pid: worker, silent_ms: 20_000 },
    })
    expect(await weir.line('worker died')).toMatchObject({ worker: 0, pid: worker, how: 'signal SIGKILL' })
    await until(async () => (await weir.readyz()).status === 200)
    expect(await weir.workers()).not.toContain(worker)
    expect(await weir.models()).toEqual(['small'])
  })
})
