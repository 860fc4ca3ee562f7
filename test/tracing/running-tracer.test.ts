/** Traces of the running program: workers, drains, reloads, a collector that is down, providers that get them. */

import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { STREAM, Stage } from '../gateway/stage.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { collector } from '../support/collector.ts'
import { configOf, Gateway, KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`
const [role = '', hello = ''] = does.chatFrames(['Hello'])

function asking(port: number, model: string, fields: Readonly<Record<string, string>> = {}) {
  const body = { model, messages: [{ role: 'user', content: 'hi' }] }
  return ask(port, requestBytes('/v1/chat/completions', { key: KEY, body, fields }))
}

test.concurrent('every worker sends its spans, the last ones when it drains', async () => {
  using collecting = collector()
  await using upstream = await Upstream.start()
  upstream.on('m', does.answersText('Hello'))
  await using gateway = await Gateway.start({
    providers: { p: upstream.url },
    config: { workers: 2, tracing: { endpoint: `${collecting.url}/v1/traces`, sample: 1 } },
  })
  await Promise.all(Array.from({ length: 20 }, () => asking(gateway.port, 'm')))
  process.kill(gateway.pid, 'SIGTERM')
  expect(await gateway.exit).toEqual({ code: 0, signal: null })
  expect(collecting.spans.length).toBe(40)
  const instances = new Set(collecting.spans.map(({ resource }) => resource['service.instance.id']))
  expect(instances.size).toBe(2)
})

test.concurrent('a stream that the drain cuts is in the last spans', async () => {
  using collecting = collector()
  await using stage = await Stage.start(
    { left: does.stalls([role, hello]) },
    { config: { drain_seconds: 0, tracing: { endpoint: collecting.url, sample: 1 } } },
  )
  const caller = await stage.caller('left', STREAM)
  await caller.until('Hello')
  process.kill(stage.gateway.pid, 'SIGTERM')
  await stage.gateway.exit
  const [server, client] = collecting.spans
  expect(server).toMatchObject({
    isError: true,
    attributes: { 'error.type': 'shutting_down', 'weir.outcome': 'drained' },
  })
  expect(client).toMatchObject({ isError: false, attributes: { 'weir.outcome': 'drained' } })
})

test.concurrent('a reload turns tracing on, moves it and turns it off', async () => {
  using first = collector()
  using second = collector()
  await using upstream = await Upstream.start()
  upstream.on('m', does.answersText('Hello'))
  const setup = { providers: { p: upstream.url } }
  await using gateway = await Gateway.start(setup)
  const reload = async (config: object) => {
    // The ports stay as they are.
    const file = { ...configOf({ ...setup, config: { ...config } }, gateway.folder) }
    await writeFile(gateway.configFile, JSON.stringify(file))
    return (await gateway.run('reload')).stdout
  }
  expect(await reload({ tracing: { endpoint: first.url, sample: 1 } })).toContain('~ tracing')
  await asking(gateway.port, 'm')
  expect(await first.received(2)).toHaveLength(2)
  await reload({ tracing: { endpoint: second.url, sample: 1 } })
  await asking(gateway.port, 'm')
  expect(await second.received(2)).toHaveLength(2)
  await reload({})
  const answer = await asking(gateway.port, 'm', { traceparent: TRACEPARENT })
  const line = await gateway.request(answer.header('x-request-id'))
  expect(line).not.toHaveProperty('trace_id')
  expect([first.spans.length, second.spans.length]).toEqual([2, 2])
})

test.concurrent('a collector that is down costs no request anything, and one line', async () => {
  const closed = collector()
  closed[Symbol.dispose]()
  await using stage = await Stage.start(
    { whole: does.answersText('Hello') },
    { config: { tracing: { endpoint: closed.url, sample: 1 } } },
  )
  const answers = await Promise.all(Array.from({ length: 50 }, () => stage.ask('whole')))
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 200))
  process.kill(stage.gateway.pid, 'SIGTERM')
  expect(await stage.gateway.exit).toEqual({ code: 0, signal: null })
  const lines = stage.gateway.lines.filter(({ event }) => event === 'traces.dropping')
  expect(lines).toMatchObject([{ level: 'warn', reason: 'the collector is unreachable', collector: closed.url }])
})

test.concurrent('a provider gets the trace of its own call if the configuration allows it, and else none', async () => {
  using collecting = collector()
  await using open = await Upstream.start()
  await using shut = await Upstream.start()
  open.on('m', does.json(503, '{}'))
  shut.on('m', does.answersText('Hello'))
  await using gateway = await Gateway.start({
    providers: {
      open: { dialect: 'openai', base_url: open.url, propagate_trace: true },
      shut: { dialect: 'openai', base_url: shut.url },
    },
    models: { m: ['open/m', 'shut/m'] },
    config: { tracing: { endpoint: collecting.url, sample: 0 } },
  })
  const tracestate = 'vendor=1, other=2'
  await asking(gateway.port, 'm', { traceparent: TRACEPARENT, tracestate })
  const spans = await collecting.received(3)
  const call = await open.call('m')
  const toOpen = spans.find(({ attributes }) => attributes['weir.attempt'] === 1)
  expect(call.header('traceparent')).toBe(`00-${TRACE}-${toOpen?.spanId}-01`)
  expect(call.header('tracestate')).toBe('vendor=1,other=2')
  const other = await shut.call('m')
  expect([other.header('traceparent'), other.header('tracestate')]).toEqual([undefined, undefined])
})

test.concurrent('a signed request gets the trace, too', async () => {
  using collecting = collector()
  const heard = Promise.withResolvers<Headers>()
  using server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch({ headers }) {
      heard.resolve(headers)
      return new Response('{"message":"no"}', { status: 400, headers: { 'content-type': 'application/json' } })
    },
  })
  const aws = { dialect: 'bedrock', region: 'eu-west-1', access_key_id: 'AKID', secret_access_key: 'secret' }
  await using gateway = await Gateway.start({
    providers: { aws: { ...aws, base_url: `http://127.0.0.1:${server.port}`, propagate_trace: true } },
    config: { tracing: { endpoint: collecting.url } },
  })
  await asking(gateway.port, 'm', { traceparent: TRACEPARENT })
  const headers = await heard.promise
  expect(headers.get('traceparent')).toStartWith(`00-${TRACE}-`)
  expect(headers.get('authorization')).toStartWith('AWS4-HMAC-SHA256')
  expect(headers.get('authorization')).not.toContain('traceparent')
})

test.concurrent('spans that are dropped are counted in the metrics and cost one line', async () => {
  using collecting = collector()
  collecting.answer = () => new Response('', { status: 401 })
  await using stage = await Stage.start(
    { whole: does.answersText('Hello') },
    { config: { tracing: { endpoint: collecting.url, sample: 1 } } },
  )
  await Promise.all([stage.ask('whole'), stage.ask('whole')])
  const event = await stage.gateway.line((line) => line['event'] === 'traces.dropping')
  expect(event).toMatchObject({ level: 'warn', reason: 'the collector answered 401', collector: collecting.url })
  // Workers post what they have counted once a second.
  let metrics = ''
  while (!metrics.includes('weir_trace_spans_dropped_total 4')) {
    metrics = await (await fetch(`${stage.gateway.adminUrl}/metrics`)).text()
    await Bun.sleep(50)
  }
})
