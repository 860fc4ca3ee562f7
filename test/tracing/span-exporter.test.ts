/** Spans and collectors that take them, fail, hang or are slow: nothing grows without bound, and loss is counted. */

import { expect, test } from 'bun:test'
import type { TracingConfig } from '../../src/core/tracing-config.ts'
import type { Span } from '../../src/tracing/otlp.ts'
import { SpanExporter } from '../../src/tracing/span-exporter.ts'
import { resourceOf } from '../../src/tracing/spans.ts'
import { newSpanId, newTraceId } from '../../src/tracing/trace-context.ts'
import { collector, type collector as open, partialSuccess } from '../support/collector.ts'

const resource = resourceOf({ 'service.name': 'test' })

function span(name = 'a span'): Span {
  const context = { traceId: newTraceId(), spanId: newSpanId(), traceFlags: 1 }
  return {
    ...{ name, kind: 1, resource, status: { code: 0 }, attributes: {}, links: [], events: [], ended: true },
    ...{ startTime: [1, 2], endTime: [3, 4], duration: [2, 2], instrumentationScope: { name: 'weir' } },
    ...{ droppedAttributesCount: 0, droppedEventsCount: 0, droppedLinksCount: 0 },
    spanContext: () => context,
  }
}

function spans(count: number): readonly Span[] {
  return Array.from({ length: count }, () => span())
}

/** What an exporter reports, and promises of its events. */
class Exporting {
  dropped = 0
  readonly events: string[] = []
  readonly exporter: SpanExporter
  private readonly waiting = new Set<() => void>()

  constructor(url: string, times: { delayMs?: number; backoffMs?: number; calmMs?: number } = {}) {
    this.exporter = new SpanExporter({
      ...{ delayMs: 1, backoffMs: 1, ...times },
      dropped: (count) => {
        this.dropped += count
        this.wake()
      },
      dropping: ({ reason }) => void this.events.push(`dropping because ${reason}`),
      recovered: ({ dropped }) => {
        this.events.push(`recovered after ${dropped}`)
        this.wake()
      },
    })
    this.exporter.use(configOf(url))
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.waiting.add(resolve))
  }

  private wake(): void {
    for (const resolve of this.waiting) resolve()
    this.waiting.clear()
  }
}

function configOf(url: string): TracingConfig {
  return { url: `${url}/v1/traces`, headers: { 'x-team': 'platform' }, sample: 1, resource: {} }
}

/** A collector that answers the first requests with these statuses, and the others with 200. */
function failing(...statuses: readonly number[]): ReturnType<typeof open> {
  const collecting = collector()
  collecting.answer = (attempt) => new Response('', { status: statuses[attempt - 1] ?? 200 })
  return collecting
}

test('spans of several requests are sent together, in batches', async () => {
  using collecting = collector()
  const { exporter } = new Exporting(collecting.url)
  for (let n = 0; n < 100; n++) exporter.take(spans(3))
  expect((await collecting.received(300)).length).toBe(300)
  expect(collecting.requests.length).toBe(2)
})

test('spans that come while a batch is sent wait for the next full batch, or their time', async () => {
  using collecting = collector()
  const first = Promise.withResolvers<Response>()
  collecting.answer = (attempt) => (attempt === 1 ? first.promise : new Response())
  const { exporter } = new Exporting(collecting.url, { delayMs: 60_000 })
  exporter.take(spans(256))
  await collecting.asked(1)
  exporter.take(spans(300))
  first.resolve(new Response())
  expect((await collecting.received(512)).length).toBe(512)
  expect(collecting.requests.length).toBe(2)
  await exporter.close(20_000)
  expect(collecting.spans.length).toBe(556)
})

test('spans are posted as protobuf', async () => {
  using collecting = collector()
  const { exporter } = new Exporting(collecting.url)
  exporter.use(configOf(collecting.url))
  exporter.take(spans(2))
  await collecting.received(2)
  const [request] = collecting.requests
  expect(request?.path).toBe('/v1/traces')
  expect(request?.headers.get('content-type')).toBe('application/x-protobuf')
  expect(request?.headers.get('user-agent')).toBe('weir')
  expect(request?.headers.get('x-team')).toBe('platform')
})

test('without spans nothing is sent', async () => {
  using collecting = collector()
  const { exporter } = new Exporting(collecting.url)
  await exporter.close(20_000)
  expect(collecting.requests).toEqual([])
})

for (const status of [429, 502, 503, 504]) {
  test(`a batch is sent again after ${status}`, async () => {
    using collecting = failing(status, status)
    const exporting = new Exporting(collecting.url)
    exporting.exporter.take(spans(2))
    await collecting.received(2)
    expect(collecting.requests.length).toBe(3)
    expect(exporting.dropped).toBe(0)
  })
}

for (const status of [400, 401, 404, 413, 500, 301]) {
  test(`a batch is dropped after ${status}, and later ones are sent`, async () => {
    using collecting = failing(status)
    const exporting = new Exporting(collecting.url)
    exporting.exporter.take(spans(2))
    await exporting.until(() => exporting.dropped === 2)
    exporting.exporter.take([span('later')])
    expect((await collecting.received(1)).map(({ name }) => name)).toEqual(['later'])
    expect(exporting.events).toEqual([`dropping because the collector answered ${status}`])
  })
}

test('the log gets one line when spans begin to be dropped, and one when that ends', async () => {
  using collecting = failing(401, 401, 401)
  const exporting = new Exporting(collecting.url, { calmMs: 0 })
  for (let n = 1; n <= 3; n++) {
    exporting.exporter.take(spans(2))
    await exporting.until(() => exporting.dropped === 2 * n)
  }
  exporting.exporter.take(spans(1))
  await exporting.until(() => exporting.events.length === 2)
  expect(exporting.events).toEqual(['dropping because the collector answered 401', 'recovered after 6'])
})

test('a collector that now and then rejects a batch costs one line', async () => {
  using collecting = failing(401, 200, 401, 200, 401)
  const exporting = new Exporting(collecting.url)
  for (const rejected of [1, 2, 3]) {
    exporting.exporter.take(spans(1))
    await exporting.until(() => exporting.dropped === rejected)
    exporting.exporter.take(spans(1))
    await collecting.received(rejected)
  }
  expect(exporting.events).toEqual(['dropping because the collector answered 401'])
})

test('a batch is dropped after five attempts', async () => {
  using collecting = failing(503, 503, 503, 503, 503)
  const exporting = new Exporting(collecting.url)
  exporting.exporter.take(spans(4))
  await exporting.until(() => exporting.dropped === 4)
  expect(collecting.requests.length).toBe(5)
  expect(exporting.events).toEqual(['dropping because the collector answered 503'])
})

test('retry-after is honoured, and a close ends the wait', async () => {
  using collecting = collector()
  collecting.answer = (attempt) =>
    attempt === 1 ? new Response('', { status: 429, headers: { 'retry-after': '30' } }) : new Response()
  const { exporter } = new Exporting(collecting.url)
  exporter.take(spans(1))
  await collecting.asked(1)
  // Without the header the second attempt would come after a millisecond.
  await Bun.sleep(50)
  expect(collecting.requests.length).toBe(1)
  await exporter.close(20_000)
  expect(collecting.spans.length).toBe(1)
})

test('spans that the collector rejects of a batch are counted', async () => {
  using collecting = collector()
  const headers = { 'content-type': 'application/x-protobuf' }
  collecting.answer = () => new Response(partialSuccess(3), { headers })
  const exporting = new Exporting(collecting.url)
  exporting.exporter.take(spans(5))
  await exporting.until(() => exporting.dropped === 3)
  expect(exporting.events).toEqual(['dropping because the collector rejected them'])
})

test('an answer that cannot be read counts by its status', async () => {
  using collecting = collector()
  collecting.answer = (attempt) =>
    attempt === 1
      ? new Response('<html>', { headers: { 'content-type': 'text/html' } })
      : new Response(Uint8Array.of(0x0a, 0xff, 0xff), { headers: { 'content-type': 'application/x-protobuf' } })
  const exporting = new Exporting(collecting.url)
  exporting.exporter.take(spans(1))
  await collecting.received(1)
  exporting.exporter.take(spans(1))
  await collecting.received(2)
  await exporting.exporter.close(20_000)
  expect(exporting.dropped).toBe(0)
})

test('a collector that is down costs a bounded queue', async () => {
  const closed = collector()
  closed[Symbol.dispose]()
  const exporting = new Exporting(closed.url, { delayMs: 1, backoffMs: 60_000 })
  // The first batch is under way; the queue holds 4,096 spans beside it.
  for (let n = 0; n < 3000; n++) exporting.exporter.take(spans(2))
  expect(exporting.dropped).toBe(6000 - 4096)
  expect(exporting.events).toEqual(['dropping because the queue is full'])
  await exporting.exporter.close(20_000)
  expect(exporting.dropped).toBe(6000)
})

test('a collector that hangs holds up no end', async () => {
  using collecting = collector()
  const { promise: never } = Promise.withResolvers<Response>()
  collecting.answer = () => never
  const exporting = new Exporting(collecting.url)
  exporting.exporter.take(spans(300))
  await collecting.asked(1)
  await exporting.exporter.close(10)
  await exporting.until(() => exporting.dropped === 300)
})

test('spans that wait go to the collector of a new configuration', async () => {
  using before = collector()
  using after = collector()
  const { exporter } = new Exporting(before.url, { delayMs: 60_000 })
  exporter.take(spans(2))
  exporter.use(configOf(after.url))
  exporter.take(spans(1))
  await exporter.close(20_000)
  expect([before.spans.length, after.spans.length]).toEqual([0, 3])
})
