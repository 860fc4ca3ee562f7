/** An account without credit, in the words of each provider; and what only sounds like it. */

import { expect, test } from 'bun:test'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'

const headers = new Headers()
const ofOpenai = (message: string, code: string | null = null, type = 'error') => ({ error: { message, type, code } })
const ofGoogle = (code: number, status: string, message: string, details: readonly object[] = []) => ({
  error: { code, status, message, details },
})
const QUOTA = 'You exceeded your current quota, please check your plan and billing details.'

const EXHAUSTED: readonly (readonly [string, Provider, number, object | string])[] = [
  ['OpenAI', openai, 429, ofOpenai(QUOTA, 'insufficient_quota', 'insufficient_quota')],
  ['OpenAI, a hard limit', openai, 400, ofOpenai('Billing hard limit has been reached', 'billing_hard_limit_reached')],
  ['OpenAI, an inactive account', openai, 429, ofOpenai('Your account is not active', 'billing_not_active')],
  ['Azure', azure, 429, ofOpenai(QUOTA, 'insufficient_quota')],
  ['Azure, a subscription', azure, 403, ofOpenai('The subscription is disabled.', '403')],
  ['DeepSeek', openai, 402, ofOpenai('Insufficient Balance', 'invalid_request_error', 'unknown_error')],
  ['OpenRouter', openai, 402, { error: { code: 402, message: 'Insufficient credits. Add more using the website.' } }],
  ['OpenRouter, a key', openai, 403, { error: { code: 403, message: 'Key limit exceeded (total limit).' } }],
  ['Moonshot', openai, 429, ofOpenai('Your account org-1 <ak-1> is suspended', null, 'exceeded_current_quota_error')],
  [
    'xAI, new',
    openai,
    403,
    { code: 'The caller does not have permission', error: "Your newly created team doesn't have any credits yet." },
  ],
  [
    'xAI, spent',
    openai,
    429,
    {
      code: 'Some resource has been exhausted',
      error: 'Your team 1-2-3 has either used all available credits or reached its monthly spending limit.',
    },
  ],
  ['Perplexity', openai, 401, ofOpenai(QUOTA, '401', 'insufficient_quota')],
  ['Alibaba', openai, 400, ofOpenai('Access denied, please make sure your account is in good standing.', 'Arrearage')],
  ['SiliconFlow', openai, 403, { code: 30001, message: 'Sorry, your account balance is insufficient' }],
  ['Zhipu', openai, 429, ofOpenai('余额不足或无可用资源包,请充值。', '1113')],
  ['Fireworks', openai, 412, ofOpenai('Account acme is suspended, possibly due to reaching the monthly limit.')],
  ['any, without a body', openai, 402, ''],
  ['weir', openai, 429, ofOpenai('Key "ci" has spent its day.', 'insufficient_quota', 'insufficient_quota')],
  [
    'Anthropic',
    anthropic,
    400,
    {
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: 'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.',
      },
    },
  ],
  ['Anthropic, 402', anthropic, 402, { type: 'error', error: { type: 'billing_error', message: 'Payment' } }],
  [
    'Anthropic, a limit of the workspace',
    anthropic,
    400,
    {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'You have reached your specified API usage limits.' },
    },
  ],
  ['Gemini', gemini, 429, ofGoogle(429, 'RESOURCE_EXHAUSTED', 'Your prepayment credits are depleted.')],
  [
    'Gemini, billing',
    gemini,
    403,
    ofGoogle(403, 'PERMISSION_DENIED', 'Billing is off.', [{ reason: 'BILLING_DISABLED' }]),
  ],
  [
    'Bedrock',
    bedrock,
    403,
    { __type: 'AccessDeniedException', message: 'INVALID_PAYMENT_INSTRUMENT: A valid payment instrument is needed.' },
  ],
]

test.each(EXHAUSTED)('%s', (_, provider, status, body) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  expect(provider.responseError(status, headers, text).kind).toBe('credit_exhausted')
})

test('as an event of a stream', () => {
  for (const body of [ofOpenai(QUOTA, 'insufficient_quota'), ofOpenai('Insufficient Balance')])
    expect(() => openai.decoder().read('', body)).toThrow(expect.objectContaining({ kind: 'credit_exhausted' }))
})

test.each([
  ['Gemini, a limit a minute', gemini, 429, ofGoogle(429, 'RESOURCE_EXHAUSTED', QUOTA), 'rate_limited'],
  ['the same on its other endpoint', openai, 429, [ofGoogle(429, 'RESOURCE_EXHAUSTED', QUOTA)], 'rate_limited'],
  ['OpenAI, a rate', openai, 429, ofOpenai('Rate limit reached for requests', 'rate_limit_exceeded'), 'rate_limited'],
  [
    'Alibaba, a rate',
    openai,
    429,
    ofOpenai('Allocated quota exceeded, please increase your quota limit.', 'insufficient_quota'),
    'rate_limited',
  ],
  ['a fault of the provider', openai, 500, ofOpenai('Insufficient balance of the cluster'), 'failed'],
  ['a caller within an error', openai, 400, ofOpenai("Invalid value: 'Insufficient Balance'"), 'rejected'],
  [
    'a caller within an error',
    openai,
    400,
    ofOpenai("Invalid value: 'insufficient_quota'", 'invalid_value'),
    'rejected',
  ],
] as const)('%s is none: %#', (_, provider, status, body, kind) => {
  expect(provider.responseError(status, headers, JSON.stringify(body)).kind).toBe(kind)
})
