/** The template of log lines, against `JSON.stringify`. */

import { expect, test } from 'bun:test'
import { fieldsOfLine, type RequestLine } from '../../src/gateway/request-line.ts'
import { property, type Random } from '../support/random.ts'

const NAMES = ['acme', 'a "quoted" name', 'back\\slash', 'line\nend', 'größe', '\u2028', '\ud800', ''] as const
const OUTCOMES = ['completed', 'caller_left', 'provider_cut', 'timed_out', 'drained', 'refused'] as const

/** Now and then a field is absent. */
function maybe<T>(random: Random, value: T): T | undefined {
  return random.chance(0.1) ? undefined : value
}

/** In the order in which `RequestLog` writes its fields. */
function lineOf(random: Random): RequestLine {
  const isUnusual = random.chance(0.2)
  return {
    request_id: `req_${random.below(1e9)}`,
    organization: maybe(random, random.pick(NAMES)),
    key: maybe(random, random.pick(NAMES)),
    dialect: maybe(random, random.pick(['chat', 'messages'])),
    requested_model: maybe(random, random.pick(NAMES)),
    served_model: maybe(random, random.pick(NAMES)),
    provider: maybe(random, random.pick(NAMES)),
    fallbacks: maybe(random, random.below(3)),
    attempts: isUnusual ? [{ provider: random.pick(NAMES), model: 'm', error: 'timeout', ms: 1.5 }] : undefined,
    status: random.pick([200, 499, 502]),
    streamed: random.chance(0.5),
    first_byte_ms: random.chance(0.5) ? random.below(1e5) / 10 : undefined,
    total_ms: random.below(1e6) / 10,
    ...chargeOf(random),
    ignored: isUnusual ? maybe(random, [random.pick(NAMES)]) : undefined,
    outcome: random.pick(OUTCOMES),
    finish_reason: maybe(random, random.pick(['stop', 'tool_calls'])),
    tags: random.pick([undefined, { project: 'x' }, { team: 'a/b', user: 'x@y' }]),
    trace_id: random.chance(0.5) ? '4bf92f3577b34da6a3ce929d0e0e4736' : undefined,
    remote: random.pick(['192.0.2.1', '2001:db8::1', 'unknown']),
    error: isUnusual ? maybe(random, random.pick(NAMES)) : undefined,
  }
}

/** A line has all fields of a charge, or none. */
function chargeOf(random: Random): Partial<RequestLine> {
  const figure = () => random.pick([0, 7, random.below(1e6), Number.MAX_SAFE_INTEGER])
  return random.chance(0.1)
    ? { input_tokens: undefined, cached_input_tokens: undefined, output_tokens: undefined, usage: undefined }
    : {
        input_tokens: figure(),
        cached_input_tokens: figure(),
        output_tokens: figure(),
        usage: random.pick(['provider', 'estimated']),
        cost_micro_usd: figure(),
      }
}

property('a line has the same JSON as from JSON.stringify', 2000, (random) => {
  const line = lineOf(random)
  expect(`{${fieldsOfLine(line)}}`).toBe(JSON.stringify(line))
})

test('more keys than are remembered change nothing', () => {
  for (let n = 0; n < 10_000; n++) {
    const line = { ...LINE, key: `key ${n % 5000}`, provider: `p${n}` }
    expect(`{${fieldsOfLine(line)}}`).toBe(JSON.stringify(line))
  }
})

const LINE: RequestLine = {
  request_id: 'req_1',
  organization: 'acme',
  key: 'k',
  provider: 'p',
  status: 200,
  streamed: false,
  total_ms: 0,
  input_tokens: 1,
  cached_input_tokens: 0,
  output_tokens: 1,
  usage: 'provider',
  cost_micro_usd: 1,
  outcome: 'completed',
  remote: '192.0.2.1',
}
