/** The walk over candidates by itself: when the next one is asked at once, and when after a while. */

import { expect, test } from 'bun:test'
import type { Candidate } from '../../src/catalog/resolve.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { attempt } from '../../src/gateway/attempt.ts'
import { Breaker } from '../../src/gateway/breaker.ts'

const HOUR = 3_600_000
const model = {
  name: 'm',
  aliases: [],
  targets: [],
  fallbacks: [],
  price: undefined,
  contextWindow: undefined,
  maxOutputTokens: undefined,
  defaultOutputTokens: 4096,
  supports: new Set<never>(),
  promptCache: { key: false, explicit: false, ttls: new Set<never>() },
}
const candidates: readonly Candidate[] = ['a', 'b'].map((name) => ({ model, target: { provider: 'p', model: name } }))

/** Milliseconds from the failure of the first candidate to the question to the second, where the draw is `random`. */
async function waited(fault: ProviderError, random: number, dueMs: number): Promise<number> {
  let failedMs = 0
  const gateway = {
    breaker: new Breaker(),
    routing: { maxAttempts: 3, totalTimeoutMs: HOUR },
    random: () => random,
    upstreams: new Map(),
    logEvent: () => {},
  }
  const asking = {
    dueMs: performance.now() + dueMs,
    flight: { interrupted: undefined },
    trace: { attempts: [] },
    affords: () => Promise.resolve(true),
    isAutomatic: false,
    drop: () => {},
  }
  const { value, candidate } = await attempt(gateway, candidates, asking, async ({ target }) => {
    if (target.model === 'b') return performance.now() - failedMs
    failedMs = performance.now()
    throw fault
  })
  expect(candidate.target.model).toBe('b')
  return value
}

test.each([500, 502, 503, 504, 529])('after a %i the next one is asked after a while that is drawn', async (status) => {
  const fault = new ProviderError(status === 504 ? 'timeout' : 'failed', 'x', { status })
  expect(await waited(fault, 0.6, HOUR)).toBeGreaterThanOrEqual(59)
})

test.each([
  ['that cannot be reached', new ProviderError('unreachable', 'x')],
  ['that is rate limited', new ProviderError('rate_limited', 'x', { status: 429 })],
  ['that rejects our credential', new ProviderError('credential', 'x', { status: 401 })],
  ['whose stream is cut', new ProviderError('cut', 'x', { status: 200 })],
])('after one %s at once', async (_, fault) => {
  // A draw that would never end.
  expect(await waited(fault, HOUR, HOUR)).toBeLessThan(HOUR)
})

test('nor is waited beyond the time of the request', async () => {
  expect(await waited(new ProviderError('failed', 'x', { status: 500 }), HOUR, 60_000)).toBeLessThan(HOUR)
})
