/** When a worker posts what it has counted. */

import { expect, test } from 'bun:test'
import { SLOW_PERIOD_MS } from '../../src/core/ticker.ts'
import type { FiguresPost, WorkerGauges } from '../../src/metrics/figures-post.ts'
import { FiguresPoster } from '../../src/process/serving/figures-poster.ts'

/** A poster in a time of its own. */
class Posting {
  hasChanged = false
  running = 0
  readonly posts: WorkerGauges[] = []
  private nowMs = performance.now()
  readonly poster = new FiguresPoster({
    figures: this,
    gauges: () => ({ inFlight: this.running, streams: 0, sockets: 0, socketStateBytes: 0, outboxPending: 0 }),
    send: ({ gauges }) => this.posts.push(gauges),
  })

  constructor() {
    this.poster.start()
  }

  take(gauges: WorkerGauges): FiguresPost {
    this.hasChanged = false
    return { counters: {}, histograms: {}, gauges, errors: [] }
  }

  /** One tick, later than it should be by so many milliseconds. */
  tick(lateMs = 0): void {
    this.nowMs += SLOW_PERIOD_MS + lateMs
    this.poster.tick(this.nowMs)
  }

  /** The ticks of a second, more or less. */
  second(): void {
    this.tick()
    this.tick()
  }
}

function posting(): Posting & Disposable {
  const its = new Posting()
  return Object.assign(its, { [Symbol.dispose]: () => its.poster.stop() })
}

test('a worker posts at most once a second, and only if something changed', () => {
  using its = posting()
  its.second()
  expect(its.posts).toHaveLength(1)
  its.second()
  its.second()
  expect(its.posts).toHaveLength(1)
  its.hasChanged = true
  its.tick()
  expect(its.posts).toHaveLength(1)
  its.tick()
  expect(its.posts).toHaveLength(2)
  its.running = 3
  its.second()
  expect(its.posts.at(-1)?.inFlight).toBe(3)
})

test('the longest lag of the event loop since the last post is posted, and its end', () => {
  using its = posting()
  its.second()
  its.tick(250)
  its.tick()
  expect(its.posts.at(-1)?.loopLagSeconds).toBe(0.25)
  its.second()
  expect(its.posts.at(-1)?.loopLagSeconds).toBeLessThan(0.01)
  const { length } = its.posts
  its.tick(2)
  its.tick()
  expect(its.posts).toHaveLength(length)
})

test('a worker that ends posts what it has counted since', () => {
  const its = posting()
  its.second()
  its.hasChanged = true
  its.poster.stop()
  expect([its.posts.length, its.hasChanged]).toEqual([2, false])
})
