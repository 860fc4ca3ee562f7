/** Which requests are traced, and the spans of one whose parts are known. */

import { describe, expect, test } from 'bun:test'
import type { Candidate } from '../../src/catalog/resolve.ts'
import type { RequestLine } from '../../src/gateway/request-line.ts'
import type { Span } from '../../src/tracing/otlp.ts'
import { SpanTracer } from '../../src/tracing/tracer.ts'

const PARENT = '4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7'
const candidate = { model: { name: 'public' }, target: { provider: 'p', model: 'own' } } as Candidate

function tracer(options: { sample?: number; random?: () => number; propagates?: boolean } = {}) {
  const { sample = 1, random = Math.random, propagates = false } = options
  const taken: Span[] = []
  const made = new SpanTracer({
    config: { url: 'http://collector', headers: {}, sample, resource: { 'service.name': 'weir' } },
    providers: new Map([['p', { system: 'aws.bedrock', address: 'provider', port: 443, propagates }]]),
    isModel: (name) => name === 'public',
    take: (spans) => void taken.push(...spans),
    random,
  })
  return { tracer: made, taken }
}

function request(fields: Record<string, string> = {}, path = '/v1/messages', method = 'POST'): Request {
  return new Request(`http://gateway${path}`, { method, headers: fields })
}

function line(fields: Partial<RequestLine> = {}): RequestLine {
  const model = { requested_model: 'public', served_model: 'public', provider: 'p' }
  const remote = '192.0.2.1'
  const known = { request_id: 'req_1', remote, organization: 'acme', key: 'ci', dialect: 'messages', ...model }
  return { ...known, status: 200, streamed: false, total_ms: 5, outcome: 'completed', ...fields }
}

/** The spans of a request that is always traced, with one call. */
function spansOf(fields: Partial<RequestLine>, ...made: Parameters<typeof request>): readonly Span[] {
  const { tracer: tracing, taken } = tracer()
  const trace = tracing.begin(request(...made))
  trace?.call(candidate).began()
  trace?.end(line(fields), { reasoning: 7, cacheWrite5m: 3, cacheWrite1h: 2 })
  return taken
}

describe('the share', () => {
  for (const [sample, draw, isTraced] of [
    [0, 0, false],
    [0.25, 0.2499, true],
    [0.25, 0.25, false],
    [1, 0.9999, true],
  ] as const) {
    test(`${sample}, drawn ${draw}`, () => {
      const trace = tracer({ sample, random: () => draw }).tracer.begin(request())
      expect(trace !== undefined).toBe(isTraced)
    })
  }

  test('does not count for a request with a trace of its caller', () => {
    const none = tracer({ sample: 0 })
    none.tracer.begin(request({ traceparent: `00-${PARENT}-01` }))?.end(line())
    expect(none.taken).toHaveLength(1)
    const all = tracer({ sample: 1 })
    all.tracer.begin(request({ traceparent: `00-${PARENT}-00` }))?.end(line())
    expect(all.taken).toHaveLength(0)
  })
})

test('without a valid key, twenty requests a second are traced', () => {
  const { tracer: tracing, taken } = tracer()
  const header = { traceparent: `00-${PARENT}-01` }
  for (let n = 0; n < 100; n++) tracing.begin(request(header))?.end(line({ organization: undefined, status: 401 }))
  // A test that is interrupted for a second sees more.
  expect(taken.length).toBeGreaterThanOrEqual(20)
  expect(taken.length).toBeLessThan(100)
  tracing.begin(request())?.end(line())
  expect(taken.at(-1)?.attributes['weir.organization']).toBe('acme')
})

test('a trace that is not sampled goes on to a provider, with another span and without the flag', () => {
  const { tracer: tracing, taken } = tracer({ propagates: true })
  const trace = tracing.begin(request({ traceparent: `00-${PARENT}-02`, tracestate: 'a=1' }))
  const headers = trace?.call(candidate).headers
  expect(headers?.['traceparent']).toMatch(/^00-4bf92f3577b34da6a3ce929d0e0e4736-(?!00f067aa0ba902b7)[0-9a-f]{16}-02$/)
  expect(headers?.['tracestate']).toBe('a=1')
  trace?.end(line())
  expect(taken).toEqual([])
})

describe('operations', () => {
  for (const [dialect, path, name] of [
    ['chat', '/v1/chat/completions', 'chat public'],
    ['responses', '/v1/responses', 'chat public'],
    ['messages', '/anthropic/v1/messages', 'chat public'],
    ['messages', '/v1/messages/count_tokens?beta=true', 'count_tokens public'],
    ['images', '/v1/images/edits', 'generate_content public'],
    ['embeddings', '/v1/embeddings', 'embeddings public'],
    ['models', '/v1/models', 'POST /v1/models'],
  ] as const) {
    test(path, () => expect(spansOf({ dialect }, {}, path)[0]?.name).toBe(name))
  }

  test('an image is named as such', () => {
    for (const { attributes } of spansOf({ dialect: 'images' }, {}, '/v1/images/generations'))
      expect(attributes['gen_ai.output.type']).toBe('image')
  })

  test('a method that the conventions do not know is no part of a name', () => {
    const [server] = spansOf({ dialect: undefined, status: 404, outcome: 'refused' }, {}, '/x', 'PROPFIND')
    expect(server).toMatchObject({ name: 'HTTP', attributes: { 'http.request.method': '_OTHER' } })
  })
})

test('figures that the log line leaves out are on both spans', () => {
  for (const { attributes } of spansOf({ input_tokens: 20, cached_input_tokens: 4, output_tokens: 9 })) {
    expect(attributes).toMatchObject({
      'gen_ai.provider.name': 'aws.bedrock',
      'gen_ai.usage.input_tokens': 20,
      'gen_ai.usage.cache_read.input_tokens': 4,
      'gen_ai.usage.cache_creation.input_tokens': 5,
      'gen_ai.usage.output_tokens': 9,
      'gen_ai.usage.reasoning.output_tokens': 7,
    })
  }
})

test('only a 5xx and a broken stream are errors of the server', () => {
  const cases: readonly [Partial<RequestLine>, string | undefined][] = [
    [{ status: 429, outcome: 'refused', error: 'rate_limited' }, undefined],
    [{ status: 502, outcome: 'refused', error: 'upstream_unavailable' }, 'upstream_unavailable'],
    [{ status: 504, outcome: 'timed_out' }, '504'],
    [{ status: 200, outcome: 'timed_out' }, 'timed_out'],
    [{ status: 200, outcome: 'refused', error: 'budget_exceeded' }, 'budget_exceeded'],
    [{ status: 200, outcome: 'caller_left' }, undefined],
    [{ status: 499, outcome: 'caller_left' }, undefined],
    [{ status: 200, outcome: 'completed' }, undefined],
  ]
  for (const [fields, error] of cases) {
    const [server] = spansOf(fields)
    expect(server?.status.code).toBe(error === undefined ? 0 : 2)
    expect(server?.attributes['error.type']).toBe(error ?? fields.error)
  }
})
