/** `tracing` of the file, the variables of OpenTelemetry, and what is wrong or doubtful about either. */

import { describe, expect, test } from 'bun:test'
import { parseConfig } from '../../src/config/parse.ts'
import type { TracingConfig } from '../../src/core/tracing-config.ts'

type Env = Readonly<Record<string, string>>

function parsed(tracing: string, env: Env = {}, provider = '') {
  const text = [
    `providers: { p: { dialect: openai, base_url: "http://127.0.0.1:1/v1"${provider} } }`,
    'models: [{ name: m, targets: [{ provider: p, model: m }] }]',
    'organizations: [{ id: acme, keys: [{ id: ci, key: a-key-of-the-test-0123 }] }]',
    tracing,
  ].join('\n')
  return parseConfig(text, { env, readFile: () => ({ error: 'there are no files here' }), cores: 1 })
}

/** Undefined if there are no traces. Throws if the file has problems. */
function tracingOf(tracing: string, env: Env = {}): TracingConfig | undefined {
  const result = parsed(tracing, env)
  if (!result.ok) throw new Error(result.problems.map(({ message }) => message).join('\n'))
  return result.config.tracing
}

const FILE = 'tracing: { endpoint: "http://file:4318" }'

describe('where spans go', () => {
  const cases: readonly [string, Env, string | undefined][] = [
    ['', {}, undefined],
    [FILE, {}, 'http://file:4318/v1/traces'],
    ['tracing: { endpoint: "http://file:4318/" }', {}, 'http://file:4318/v1/traces'],
    ['tracing: { endpoint: "https://file/otlp" }', {}, 'https://file/otlp/v1/traces'],
    ['tracing: { endpoint: "https://file/otlp/v1/traces" }', {}, 'https://file/otlp/v1/traces'],
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://env:4318' }, 'http://env:4318/v1/traces'],
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://env:4318/base/' }, 'http://env:4318/base/v1/traces'],
    // The address of traces alone is taken as it is.
    ['', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://env:4318/here' }, 'http://env:4318/here'],
    ['', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://env:4318' }, 'http://env:4318/'],
    [
      '',
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://own/x', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://all' },
      'http://own/x',
    ],
    [FILE, { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://env:4318/here' }, 'http://file:4318/v1/traces'],
    ['tracing: { sample: 1 }', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://env' }, 'http://env/v1/traces'],
    // Empty and unusable variables count as not set.
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: '' }, undefined],
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' }, undefined],
    // What forbids traces forbids those of the environment alone.
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://env', OTEL_SDK_DISABLED: 'true' }, undefined],
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://env', OTEL_TRACES_EXPORTER: 'none' }, undefined],
    [FILE, { OTEL_SDK_DISABLED: 'true' }, 'http://file:4318/v1/traces'],
  ]
  for (const [file, env, url] of cases) {
    test(`${file} ${JSON.stringify(env)}`, () => expect(tracingOf(file, env)?.url).toBe(url))
  }
})

describe('which share is traced', () => {
  const cases: readonly [string, Env, number][] = [
    [FILE, {}, 0.01],
    ['tracing: { endpoint: "http://file", sample: 0 }', { OTEL_TRACES_SAMPLER: 'always_on' }, 0],
    ['tracing: { endpoint: "http://file", sample: 0.5 }', {}, 0.5],
    [FILE, { OTEL_TRACES_SAMPLER: 'always_on' }, 1],
    [FILE, { OTEL_TRACES_SAMPLER: 'parentbased_always_on' }, 1],
    [FILE, { OTEL_TRACES_SAMPLER: 'always_off' }, 0],
    [FILE, { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' }, 0.25],
    [FILE, { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' }, 0.25],
    [FILE, { OTEL_TRACES_SAMPLER: 'traceidratio' }, 1],
    [FILE, { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' }, 0.01],
    [FILE, { OTEL_TRACES_SAMPLER: 'jaeger_remote' }, 0.01],
    [FILE, { OTEL_TRACES_SAMPLER_ARG: '0.25' }, 0.01],
  ]
  for (const [file, env, sample] of cases) {
    test(`${file} ${JSON.stringify(env)}`, () => expect(tracingOf(file, env)?.sample).toBe(sample))
  }
})

test('headers of the file are added to those of the environment', () => {
  const env = {
    OTEL_EXPORTER_OTLP_HEADERS:
      'Authorization=Bearer%20all, x-team = platform ,broken,=x,bad name=1,x-line=a%0Ab,x-%=%',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'authorization=Bearer%20traces',
  }
  expect(tracingOf(FILE, env)?.headers).toEqual({ authorization: 'Bearer traces', 'x-team': 'platform' })
  const file = 'tracing: { endpoint: "http://file", headers: { AUTHORIZATION: "Bearer file" } }'
  expect(tracingOf(file, env)?.headers).toEqual({ authorization: 'Bearer file', 'x-team': 'platform' })
})

test('the resource has the name of the service', () => {
  expect(tracingOf(FILE)?.resource).toEqual({ 'service.name': 'weir' })
  const attributes = { OTEL_RESOURCE_ATTRIBUTES: 'service.name=a,deployment.environment.name=production%20eu' }
  const environment = { 'deployment.environment.name': 'production eu' }
  expect(tracingOf(FILE, attributes)?.resource).toEqual({ 'service.name': 'a', ...environment })
  const both = { ...attributes, OTEL_SERVICE_NAME: 'b' }
  expect(tracingOf(FILE, both)?.resource).toEqual({ 'service.name': 'b', ...environment })
})

describe('problems', () => {
  const cases: readonly [string, string, string][] = [
    ['tracing: {}', 'tracing.endpoint', 'is missing'],
    ['tracing: { endpoint: "collector:4318" }', 'tracing.endpoint', 'must be an address'],
    ['tracing: { endpoint: "ftp://collector" }', 'tracing.endpoint', 'must be an address'],
    ['tracing: { endpoint: "http://user:pass@collector" }', 'tracing.endpoint', 'user name or password'],
    ['tracing: { endpoint: "http://collector?x=1" }', 'tracing.endpoint', 'query or fragment'],
    ['tracing: { endpoint: "http://c", sample: 1.5 }', 'tracing.sample', ''],
    ['tracing: { endpoint: "http://c", sample: -1 }', 'tracing.sample', ''],
    ['tracing: { endpoint: "http://c", sample: "1 %" }', 'tracing.sample', ''],
    ['tracing: { endpoint: "http://c", headers: { content-type: x } }', 'tracing.headers.content-type', 'weir sets it'],
    ['tracing: { endpoint: "http://c", header: {} }', 'tracing.header', 'unknown'],
  ]
  for (const [file, path, words] of cases) {
    test(file, () => {
      const result = parsed(file)
      expect(result.ok ? [] : result.problems).toMatchObject([{ path, message: expect.stringContaining(words) }])
    })
  }

  test('a trace header of a provider that gets the trace', () => {
    const result = parsed(FILE, {}, ', propagate_trace: true, headers: { Traceparent: x }')
    expect(result.ok ? [] : result.problems).toMatchObject([{ path: 'providers.p.headers.Traceparent' }])
  })
})

describe('warnings', () => {
  const cases: readonly [string, Env, string, string][] = [
    ['tracing: { endpoint: "http://c:4317" }', {}, 'tracing.endpoint', '4318'],
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' }, 'tracing', 'OTEL_EXPORTER_OTLP_ENDPOINT'],
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'tracing', 'grpc'],
    ['', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4317' }, 'tracing', '4317'],
    [FILE, { OTEL_TRACES_SAMPLER: 'jaeger_remote' }, 'tracing', 'OTEL_TRACES_SAMPLER'],
  ]
  for (const [file, env, path, words] of cases) {
    test(`${file} ${JSON.stringify(env)}`, () => {
      const { ok, warnings } = parsed(file, env)
      expect(ok).toBe(true)
      expect(warnings).toMatchObject([{ path, message: expect.stringContaining(words) }])
    })
  }

  test('the environment asks for gRPC, and the file has an address of its own', () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4317', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }
    expect(parsed(FILE, env).warnings).toEqual([])
  })

  test('a provider is to get traces that there are not', () => {
    expect(parsed('', {}, ', propagate_trace: true').warnings).toMatchObject([{ path: 'providers.p.propagate_trace' }])
    expect(parsed(FILE, {}, ', propagate_trace: true').warnings).toEqual([])
  })
})
