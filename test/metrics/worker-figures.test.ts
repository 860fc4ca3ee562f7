/** What a worker counts of requests, over real sockets: each series with its labels and value. */

import { expect, test } from 'bun:test'
import { Catalog } from '../../src/catalog/catalog.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { RequestLog } from '../../src/gateway/access-log.ts'
import type { RequestLine } from '../../src/gateway/request-line.ts'
import { KEYS_MAX } from '../../src/metrics/families.ts'
import type { FiguresPost } from '../../src/metrics/figures-post.ts'
import { MergedFigures } from '../../src/metrics/merged-figures.ts'
import { WorkerFigures } from '../../src/metrics/worker-figures.ts'
import { KEY } from '../support/gateway.ts'
import { IDLE_GAUGES } from '../support/gauges.ts'
import { Serving } from '../support/serving.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'

const PRICE = { input: 1, output: 1 }

const MODELS = {
  m: { aliases: ['alias'], targets: [{ provider: 'up', model: 'good' }], price: PRICE },
  tired: {
    targets: [
      { provider: 'up', model: 'broken' },
      { provider: 'up', model: 'good' },
    ],
    price: PRICE,
  },
  cut: { targets: [{ provider: 'up', model: 'cut' }], price: PRICE },
}

async function provider(): Promise<Upstream> {
  const upstream = await Upstream.start()
  const failure = '{"error":{"message":"no","type":"server_error"}}'
  return upstream
    .on('broken', (call) => call.answer(500, failure))
    .on('cut', async (call) => {
      await call.head200()
      await call.chunk('data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}\n\n')
      call.close()
    })
    .otherwise(speaks('openai', () => textAnswer('Hello')))
}

function ask(serving: Serving, body: JsonObject, key = KEY, path = '/v1/chat/completions'): Promise<Response> {
  return fetch(`http://127.0.0.1:${serving.port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], ...body }),
  })
}

/** The counters of a post as lines: `name label,label value`. */
function linesOf({ counters }: FiguresPost): readonly string[] {
  return Object.entries(counters)
    .flatMap(([name, series]) => series.map(([labels, value]) => `${name} ${labels.join(',')} ${value}`))
    .sort()
}

function timesOf({ histograms }: FiguresPost): Readonly<Record<string, number>> {
  const found = Object.entries(histograms).flatMap(([name, series]) =>
    series.map(([labels, counts]) => [`${name} ${labels.join(',')}`, counts.reduce((sum, one) => sum + one, 0)]),
  )
  return Object.fromEntries(found)
}

test('requests, tokens, cost, attempts and times are counted once, by configured names', async () => {
  await using upstream = await provider()
  await using serving = new Serving({ providers: { up: upstream.url }, models: MODELS })
  const whole = (await (await ask(serving, { model: 'alias' })).json()) as { usage: { total_tokens: number } }
  await (await ask(serving, { model: 'm', stream: true })).text()
  await serving.idle()
  const post = serving.service.figures.take(IDLE_GAUGES)
  const lines = linesOf(post)
  const charges = [...serving.ledger.settled.values()].flat()
  const sum = (of: (charge: (typeof charges)[number]) => number) => charges.reduce((total, one) => total + of(one), 0)
  expect(whole.usage.total_tokens).toBeGreaterThan(0)
  expect(lines).toContain('weir_requests_total chat,m,test,200,completed, 2')
  expect(lines).toContain(`weir_tokens_total input,m,up,test ${sum(({ inputTokens }) => inputTokens)}`)
  expect(lines).toContain(`weir_tokens_total output,m,up,test ${sum(({ outputTokens }) => outputTokens)}`)
  expect(lines).toContain(`weir_cost_usd_total m,up,test ${sum(({ costMicroUsd }) => costMicroUsd)}`)
  expect(lines).toContain('weir_attempts_total up,good,answered 2')
  expect(timesOf(post)).toMatchObject({
    'weir_request_duration_seconds chat,m': 2,
    'weir_time_to_first_token_seconds chat,m': 1,
    'weir_time_per_output_token_seconds chat,m': 1,
    'weir_overhead_seconds ': 2,
    'weir_target_first_byte_seconds up,good': 2,
    'weir_ledger_operation_seconds reserve': 2,
    'weir_ledger_operation_seconds settle': 2,
  })
  expect(serving.service.figures.hasChanged).toBeFalse()
})

test('a fallback, a target that fails and a stream that breaks off show in attempts and as last errors', async () => {
  await using upstream = await provider()
  await using serving = new Serving({ providers: { up: upstream.url }, models: MODELS })
  await (await ask(serving, { model: 'tired' })).text()
  // weir breaks its own answer off, too.
  await ask(serving, { model: 'cut', stream: true }).then((answer) => expect(answer.text()).rejects.toThrow())
  await serving.idle()
  const post = serving.service.figures.take(IDLE_GAUGES)
  const lines = linesOf(post)
  expect(lines).toContain('weir_fallbacks_total tired,tired 1')
  expect(lines).toContain('weir_attempts_total up,broken,failed 1')
  expect(lines).toContain('weir_attempts_total up,good,answered 1')
  expect(lines).toContain('weir_attempts_total up,cut,cut 1')
  expect(lines.filter((line) => line.startsWith('weir_estimated_usage_total'))).toContain(
    'weir_estimated_usage_total cut,up 1',
  )
  expect(post.errors.map(({ model, error, status }) => [model, error, status])).toEqual([
    ['broken', 'failed', 500],
    ['cut', 'cut', 200],
  ])
  const merged = new MergedFigures()
  merged.add(post)
  expect(merged.totals()).toMatchObject({ requests: 2, errors: 1, limited: 0 })
  const [broken] = merged.targets().filter(({ model }) => model === 'broken')
  expect([...(broken?.attempts ?? [])]).toEqual([['failed', 1]])
  expect(broken?.lastError).toMatchObject({ error: 'failed', status: 500 })
})

test('a limit that refuses is counted with its owner', async () => {
  await using upstream = await provider()
  await using gateway = refusing(upstream)
  await (await ask(gateway, { model: 'm' })).text()
  await gateway.idle()
  const post = gateway.service.figures.take(IDLE_GAUGES)
  expect(linesOf(post)).toContain('weir_limit_refusals_total test,key,spend.day 1')
  expect(linesOf(post)).toContain('weir_requests_total chat,m,test,429,refused,insufficient_quota 1')
  const merged = new MergedFigures()
  merged.add(post)
  expect(merged.totals()).toMatchObject({ requests: 1, errors: 0, limited: 1 })
})

test('what a hostile caller writes makes no series', async () => {
  await using upstream = await provider()
  await using serving = new Serving({ providers: { up: upstream.url }, models: MODELS })
  for (let i = 0; i < 100; i++) {
    const model = i % 2 === 0 ? `unknown-${i}` : `m\n${i}`
    await (await ask(serving, { model })).text()
    await (await ask(serving, { model }, `unknown-key-0123456789-${i}`)).text()
    await (await ask(serving, { model: 'm' }, KEY, `/v1/unknown-${i}`)).text()
    await (await fetch(`http://127.0.0.1:${serving.port}/${i}`, { method: 'HEAD' })).text()
  }
  await serving.idle()
  const post = serving.service.figures.take(IDLE_GAUGES)
  expect(linesOf(post)).toEqual([
    'weir_requests_total ,,,200,completed, 100',
    'weir_requests_total ,,,404,refused,unknown_url 100',
    'weir_requests_total chat,,,401,refused,invalid_api_key 100',
    'weir_requests_total chat,,test,404,refused,model_not_found 100',
  ])
  expect(Object.keys(timesOf(post)).sort()).toEqual([
    'weir_request_duration_seconds ,',
    'weir_request_duration_seconds chat,',
  ])
})

test('ten thousand models that do not exist make no series', () => {
  const figures = new WorkerFigures({ keyLabel: false })
  for (let i = 0; i < 10_000; i++) record(figures, { requested_model: `unknown-${i}`, key: `k${i}` })
  const [series, ...others] = figures.take(IDLE_GAUGES).counters['weir_requests_total'] ?? []
  expect([series, others]).toEqual([[['chat', '', 'acme', '404', 'refused', ''], 10_000], []])
})

test('with the label of keys, the first keys have series of their own and the others share one', () => {
  const figures = new WorkerFigures({ keyLabel: true })
  for (let i = 0; i < KEYS_MAX + 10; i++) record(figures, { key: `k${i}` })
  const series = figures.take(IDLE_GAUGES).counters['weir_requests_total'] ?? []
  expect(series).toHaveLength(KEYS_MAX + 1)
  expect(series.at(-1)).toEqual([['chat', '', 'acme', '404', 'refused', '', '(other)'], 10])
})

/** A refused request. */
function record(figures: WorkerFigures, line: Partial<RequestLine>): void {
  const catalog = Catalog.from({ ownedBy: 'weir', models: [], organizations: [], auto: { candidates: [] } })
  const refused = { status: 404, streamed: false, outcome: 'refused', total_ms: 1, dialect: 'chat' } as const
  const log = new RequestLog('id', { write() {} })
  figures.record({ request_id: 'id', organization: 'acme', remote: '192.0.2.1', ...refused, ...line }, log, catalog)
}

/** A gateway whose ledger refuses every request for a limit of its key. */
function refusing(upstream: Upstream): Serving {
  const serving = new Serving({ providers: { up: upstream.url }, models: MODELS })
  serving.ledger.reserve = () => {
    throw new CallerError('quota_exhausted', 'The limit is used up.', { limit: { name: 'spend.day', of: 'key:one' } })
  }
  return serving
}
