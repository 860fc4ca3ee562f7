/**
 * Headers are held back until the first content: an error before it is a status or a fallback, an error after it
 * is a cut.
 */

import { describe, expect, test } from 'bun:test'
import * as does from '../support/scenarios.ts'
import type { Scenario } from '../support/upstream.ts'
import { headField, lastingStage, STREAM, seen } from './stage.ts'

const [role = '', hello = '', ...restOf] = does.chatFrames(['Hello'])
const second = does.answersText('from the second')

const errorEvent = (error: object) => `data: ${JSON.stringify({ error })}\n\n`

/**
 * What comes before any content, what its caller gets if there is no other candidate, and whether another is
 * called.
 */
const before: readonly (readonly [name: string, scenario: Scenario, status: number, code: string, falls: boolean])[] = [
  ['overloaded', does.stream([role, errorEvent({ message: 'x', type: 'overloaded_error' })]), 503, 'overloaded', true],
  [
    'rate',
    does.stream([role, errorEvent({ message: 'x', code: 'rate_limit_exceeded' })]),
    429,
    'upstream_rate_limited',
    true,
  ],
  ['number', does.stream([role, errorEvent({ message: 'x', code: 429 })]), 429, 'upstream_rate_limited', true],
  ['server', does.stream([role, errorEvent({ message: 'x', type: 'server_error' })]), 502, 'upstream_failed', true],
  ['late', does.stream([role, errorEvent({ message: 'x', code: 504 })]), 504, 'upstream_timeout', true],
  ['credential', does.stream([errorEvent({ message: 'x', code: 401 })]), 502, 'upstream_failed', true],
  ['named', does.stream([role, 'event: error\ndata: {"message":"x"}\n\n']), 502, 'upstream_failed', true],
  [
    'rejected',
    does.stream([role, errorEvent({ message: 'too long', code: 'context_length_exceeded' })]),
    400,
    'context_length_exceeded',
    false,
  ],
  ['no-json', does.stream([role, 'data: {"choices":[\n\n']), 502, 'upstream_failed', true],
  ['reset', does.resets([role]), 502, 'upstream_failed', true],
  ['no-last-chunk', does.withoutLastChunk([role]), 502, 'upstream_failed', true],
  ['clean-end', does.stream([role]), 502, 'upstream_failed', true],
  ['only-done', does.stream(['data: [DONE]\n\n']), 502, 'upstream_failed', true],
  ['only-comments', does.stream([': PROCESSING\n\n', ': PROCESSING\n\n']), 502, 'upstream_failed', true],
  ['empty', does.stream([]), 502, 'upstream_failed', true],
  ['broken-at-once', does.inOneBreath([role, hello], 'zz\r\n'), 502, 'upstream_failed', true],
  ['html', does.json(200, '<html>', { 'content-type': 'text/html' }), 502, 'upstream_failed', true],
]

/** What comes after content: the caller has it, and nothing more. */
const after: readonly (readonly [name: string, scenario: Scenario])[] = [
  ['error-after', does.stream([role, hello, errorEvent({ message: 'x', type: 'overloaded_error' })])],
  ['error-in-one-chunk', does.stream([role + hello + errorEvent({ message: 'x', type: 'overloaded_error' })])],
  ['rejected-after', does.stream([role, hello, errorEvent({ message: 'x', code: 'context_length_exceeded' })])],
]

const releaseWhole = Promise.withResolvers<void>()
const releaseError = Promise.withResolvers<void>()

const alone = before.map(([name, scenario]) => [name, scenario] as const)
const followed = [...before, ...after].map(([name, scenario]) => [`${name}-2`, [scenario, second]] as const)
const stage = await lastingStage({
  ...Object.fromEntries(alone),
  ...Object.fromEntries(followed),
  'slow-whole': [does.waits([role], releaseWhole.promise, does.rest([hello, ...restOf])), second],
  'slow-error': [does.waits([role], releaseError.promise, does.rest([errorEvent({ message: 'x' })])), second],
})

describe('before the first content', () => {
  test.each(before)('%s: a status if there is no other candidate', async (name, _, status, code) => {
    const answer = await stage.ask(name, STREAM)
    expect(answer.status).toBe(status)
    expect(answer.json()).toMatchObject({ error: { code } })
    expect(answer.header('content-type')).toStartWith('application/json')
    expect(answer.header('x-gateway-served-model')).toBeUndefined()
    if (status === 429 || status === 503) expect(Number(answer.header('retry-after'))).toBeWithin(1, 61)
    const line = await stage.lineOf(answer)
    const outcome = status === 504 ? 'timed_out' : 'refused'
    expect(line).toMatchObject({
      status,
      error: code,
      outcome,
      streamed: false,
      attempts: [{ provider: 'p0', model: name }],
    })
    expect(line).not.toHaveProperty('cost_micro_usd')
  })

  test.each(before)(
    '%s: the next candidate, unless the mistake is the caller’s',
    async (name, _, status, __, falls) => {
      const model = `${name}-2`
      const answer = await stage.ask(model, STREAM)
      expect(answer.status).toBe(falls ? 200 : status)
      expect(stage.calls(model, 1)).toBe(falls ? 1 : 0)
      if (!falls) return
      expect(seen(answer.text)).toEqual({ text: 'from the second', finish: 'stop', done: true })
      expect(answer.header('x-gateway-fallback-count')).toBe('1')
      expect(answer.header('x-gateway-served-model')).toBe(model)
      expect(await stage.lineOf(answer)).toMatchObject({
        ...{ status: 200, fallbacks: 1, provider: 'p1', outcome: 'completed', usage: 'provider', streamed: true },
        attempts: [
          { provider: 'p0', model },
          { provider: 'p1', model, status: 200 },
        ],
      })
    },
  )
})

describe('after the first content', () => {
  test.each(after)('%s: a cut, and no second provider', async (name) => {
    const model = `${name}-2`
    const answer = await stage.ask(model, STREAM)
    expect([answer.status, answer.end]).toEqual([200, 'cut'])
    expect(seen(answer.text)).toEqual({ text: 'Hello', finish: undefined, done: false })
    expect(stage.calls(model, 1)).toBe(0)
    expect(await stage.lineOf(answer)).toMatchObject({
      status: 200,
      fallbacks: 0,
      outcome: 'provider_cut',
      usage: 'estimated',
    })
  })
})

test('5 s after a first event without content the headers go out; then an error is a cut', async () => {
  const [good, bad] = await Promise.all([stage.caller('slow-whole', STREAM), stage.caller('slow-error', STREAM)])
  // The providers send nothing more until these have arrived.
  expect(
    await Promise.all([headField(good, 'x-gateway-served-model'), headField(bad, 'x-gateway-fallback-count')]),
  ).toEqual(['slow-whole', '0'])
  releaseWhole.resolve()
  releaseError.resolve()
  const [whole, cut] = await Promise.all([good.answer(), bad.answer()])
  expect([whole.end, seen(whole.text)]).toEqual(['whole', { text: 'Hello', finish: 'stop', done: true }])
  expect([cut.status, cut.end, seen(cut.text)]).toEqual([200, 'cut', { text: '', finish: undefined, done: false }])
  expect(stage.calls('slow-error', 1)).toBe(0)
  expect(await stage.lineOf(cut)).toMatchObject({ outcome: 'provider_cut', usage: 'estimated', output_tokens: 0 })
})
