import { expect, test } from 'bun:test'
import { rateLimitHeaders } from '../../src/ledger/rate-limit-headers.ts'

const REQUESTS = { limit: 60, remaining: 59, resetMs: 999 }
const TOKENS = { limit: 1_000_000_000_000, remaining: 0, resetMs: 90_001 }

const ofRequests = {
  'x-ratelimit-limit-requests': '60',
  'x-ratelimit-remaining-requests': '59',
  'x-ratelimit-reset-requests': '999ms',
}
const ofTokens = {
  'x-ratelimit-limit-tokens': '1000000000000',
  'x-ratelimit-remaining-tokens': '0',
  'x-ratelimit-reset-tokens': '1m31s',
}

test('each rate with a status has three headers', () => {
  expect(rateLimitHeaders({ rates: [REQUESTS, TOKENS] })).toEqual({ ...ofRequests, ...ofTokens })
  expect(rateLimitHeaders({ rates: [REQUESTS, undefined] })).toEqual(ofRequests)
  expect(rateLimitHeaders({ rates: [undefined, TOKENS] })).toEqual(ofTokens)
  expect(rateLimitHeaders({ rates: [{ ...REQUESTS, resetMs: 1500 }, undefined] })).toEqual({
    ...ofRequests,
    'x-ratelimit-reset-requests': '1.5s',
  })
})

test('without limits, or without an answer of the ledger, there are none', () => {
  expect(rateLimitHeaders({ rates: [undefined, undefined] })).toEqual({})
  expect(rateLimitHeaders({ rates: [] })).toEqual({})
  expect(rateLimitHeaders({})).toEqual({})
})
