import { expect, test } from 'bun:test'
import { LOG_EVENTS } from '../../src/logging/log-events.ts'
import { prettyLine } from '../../src/logging/pretty-line.ts'

const TIME = '2026-11-22T10:20:30.456Z'

/** The line without its time, which depends on the time zone. */
function words(line: object, isColoured = false): string {
  const text = prettyLine(`${JSON.stringify({ level: 'info', time: TIME, ...line })}\n`, isColoured)
  expect(text).toEndWith('\n')
  expect(text.split('\n')).toHaveLength(2)
  return text.replace(/\d\d:\d\d:30\.456/, 'TIME').trimEnd()
}

test('a request is one line of words', () => {
  const line = {
    request_id: 'req_1',
    ...{ organization: 'acme', key: 'ci', dialect: 'chat', requested_model: 'mini', served_model: 'mini' },
    ...{ provider: 'openai', fallbacks: 0, status: 200, streamed: true, first_byte_ms: 3.1, total_ms: 812.4 },
    ...{ input_tokens: 1204, cached_input_tokens: 0, output_tokens: 311, usage: 'provider', cost_micro_usd: 692 },
    ...{ outcome: 'completed', msg: 'request' },
  }
  expect(words(line)).toBe('TIME INFO  200 chat mini → openai acme/ci 812.4 ms 1204+311 tokens $0.000692 req_1')
  expect(words({ ...line, served_model: 'large', outcome: 'provider_cut', error: 'upstream_failed' })).toBe(
    'TIME INFO  200 chat mini → large@openai acme/ci 812.4 ms 1204+311 tokens $0.000692 provider_cut ' +
      'upstream_failed req_1',
  )
})

test('a refused request has its path and its sender', () => {
  const line = { request_id: 'req_1', status: 404, total_ms: 0.1, outcome: 'refused', error: 'not_found' }
  expect(words({ ...line, method: 'GET', path: '/x', remote: '10.0.0.1', msg: 'request' })).toBe(
    'TIME INFO  404 GET /x 0.1 ms refused not_found from 10.0.0.1 req_1',
  )
})

test('an event has its name, its message and its fields', () => {
  const event = {
    level: 'error',
    event: 'ledger.down',
    worker: 0,
    problem: 'no "x"',
    msg: LOG_EVENTS['ledger.down'][1],
  }
  expect(words(event)).toBe('TIME ERROR ledger.down ledger down worker=0 problem="no \\"x\\""')
  expect(words({ event: 'config.reloaded', changes: ['+ model a'], msg: 'configuration reloaded' })).toBe(
    'TIME INFO  config.reloaded configuration reloaded changes=["+ model a"]',
  )
})

test('colour only if it is wanted', () => {
  const line = { event: 'server.ready', msg: 'ready' }
  expect(words(line)).not.toContain('\u001b')
  expect(words(line, true)).toContain('\u001b[32mINFO \u001b[0m')
})

test('what callers wrote cannot steer a terminal, or begin another line', () => {
  const evil = 'm\u001b[31m\n\u009b2J\u007f'
  const line = { request_id: 'r', dialect: 'chat', requested_model: evil, status: 404, total_ms: 1, msg: 'request' }
  const text = words(line)
  expect(text).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/)
})

test('what is not JSON stays as it is', () => {
  expect(prettyLine('plain text\n', true)).toBe('plain text\n')
})
