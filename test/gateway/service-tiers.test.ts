/** Service tiers from the request to the bill: what is reserved, sent, answered, charged, logged and warned of. */

import { beforeEach, describe, expect, test } from 'bun:test'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { IDLE_GAUGES } from '../support/gauges.ts'
import { stream as streams } from '../support/scenarios.ts'
import { lasting, lastingUpstream } from '../support/served.ts'
import { Serving } from '../support/serving.ts'
import type { Call } from '../support/upstream.ts'

const keyOf = (id: string) => `key-of-${id}-0123456789`
const PRICE = {
  ...{ input: 10, output: 100 },
  above: [{ input_tokens: 1000, input: 20, output: 200 }],
  tiers: { priority: { input: 30, output: 300 }, flex: { factor: 0.5 } },
  tier_aliases: { fast: 'priority' },
}

/** What the provider reports next. */
let report: { tier?: unknown; input: number; output: number }

const base = () => ('tier' in report ? { service_tier: report.tier } : {})
const event = (type: string, data: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`

function answerChat(call: Call) {
  const { input, output } = report
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
  const head = { id: 'c', object: 'chat.completion', created: 1, model: 'up', ...base() }
  const message = { role: 'assistant', content: 'Hi' }
  if (call.json['stream'] !== true)
    return call.answer(200, JSON.stringify({ ...head, choices: [{ index: 0, message, finish_reason: 'stop' }], usage }))
  const chunk = (more: object) => `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...more })}\n\n`
  return streams([
    chunk({ choices: [{ index: 0, delta: message, finish_reason: null }] }),
    chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
    `${chunk({ choices: [], usage })}data: [DONE]\n\n`,
  ])(call)
}

function answerResponses(call: Call) {
  const { input, output } = report
  const usage = { input_tokens: input, output_tokens: output, total_tokens: input + output }
  const content = [{ type: 'output_text', text: 'Hi', annotations: [] }]
  const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content }
  const head = { id: 'resp_1', object: 'response', created_at: 1, model: 'up' }
  const whole = { ...head, status: 'completed', ...base(), output: [item], usage }
  if (call.json['stream'] !== true) return call.answer(200, JSON.stringify(whole))
  return streams([
    event('response.created', { response: { ...head, status: 'in_progress', service_tier: 'auto', output: [] } }),
    event('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', content: [] } }),
    event('response.output_text.delta', { item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'Hi' }),
    event('response.output_item.done', { output_index: 0, item }),
    event('response.completed', { response: whole }),
  ])(call)
}

function answerMessages(call: Call) {
  const { input, output } = report
  const usage = { input_tokens: input, output_tokens: output, ...base() }
  const message = { id: 'm', type: 'message', role: 'assistant', model: 'up', stop_reason: 'end_turn', usage }
  const block = { type: 'text', text: 'Hi' }
  if (call.json['stream'] !== true) return call.answer(200, JSON.stringify({ ...message, content: [block] }))
  return streams([
    event('message_start', { message: { ...message, content: [], stop_reason: null } }),
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hi' } }),
    event('content_block_stop', { index: 0 }),
    event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: output } }),
    event('message_stop', {}),
  ])(call)
}

const upstream = await lastingUpstream({
  ...{ chat: answerChat, responses: answerResponses, messages: answerMessages },
  broken: (call) => call.answer(500, '{}'),
})
const openai = { dialect: 'openai', base_url: upstream.url, api_key: 'x' }
const target = (provider: string, model = provider) => ({ targets: [{ provider, model }], price: PRICE })
const more = { max_output_tokens: 100 }
const serving = lasting(
  new Serving({
    providers: {
      ...{ chat: openai, responses: { ...openai, api: 'responses' } },
      messages: { dialect: 'anthropic', base_url: upstream.url, api_key: 'x' },
    },
    models: {
      chat: { ...target('chat'), ...more },
      responses: { ...target('responses'), ...more },
      messages: { ...target('messages'), ...more },
      usual: { ...target('chat'), price: { ...PRICE, default_tier: 'fast' }, ...more },
      custom: { ...target('chat'), price: { input: 1, output: 1, tiers: { express: { factor: 2 } } }, ...more },
      failing: {
        ...target('chat', 'broken'),
        price: { input: 1, output: 1, tiers: { priority: { factor: 2 } } },
        fallbacks: ['chat'],
        ...more,
      },
    },
    config: {
      organizations: [
        { id: 'free', keys: [{ id: 'free', key: keyOf('free') }] },
        { id: 'limited', limits: { spend: { total: 100 } }, keys: [{ id: 'limited', key: keyOf('limited') }] },
        {
          ...{ id: 'strict', limits: { spend: { total: 100, strict: true } } },
          keys: [{ id: 'strict', key: keyOf('strict') }],
        },
      ],
    },
  }),
)

beforeEach(() => {
  report = { tier: 'default', input: 10, output: 1 }
})

const DIALECTS = ['chat', 'responses', 'messages'] as const
type Dialect = (typeof DIALECTS)[number]

const PATHS = { chat: '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages' }

interface Asked {
  readonly dialect?: Dialect
  readonly as?: string
  readonly tier?: unknown
  readonly stream?: boolean
  readonly content?: string
}

async function say(model: string, { dialect = 'chat', as = 'limited', tier, stream = false, content = 'Hi' }: Asked) {
  const input = dialect === 'responses' ? { input: content } : { messages: [{ role: 'user', content }] }
  const body = { model, stream, ...input, ...(tier === undefined ? {} : { service_tier: tier }) }
  const [calls, wanted] = [upstream.calls.length, serving.ledger.wanted.length]
  const answer = await ask(serving.port, requestBytes(PATHS[dialect], { key: keyOf(as), body: body as JsonObject }))
  const line = await serving.lineOf(answer.header('x-request-id'))
  const tiers = [...answer.text.matchAll(/"service_tier":"([^"]*)"/g)].map(([, name]) => name)
  const sent = upstream.calls.slice(calls).map((call) => call.json['service_tier'])
  // A fallback that is dearer asks for more.
  const reserved = serving.ledger.wanted[wanted] ?? serving.ledger.reserved.at(-1)?.estimate
  return { status: answer.status, body: answer.text, line, answered: tiers.at(-1), sent: sent.at(-1), reserved }
}

describe.each(DIALECTS)('callers of %s', (dialect) => {
  test.each(DIALECTS)('see and pay the tier that served, by %s', async (model) => {
    const baseName = dialect === 'messages' ? 'standard' : 'default'
    for (const stream of [false, true]) {
      const rows: readonly (readonly [tier: string, input: number, cost: number, shown: string, logged: string])[] = [
        ['default', 10, 200, baseName, 'default'],
        ['priority', 10, 600, 'priority', 'priority'],
        ['fast', 10, 600, 'fast', 'priority'],
        ['flex', 10, 100, 'flex', 'flex'],
        ['default', 2000, 40_200, baseName, 'default'],
        // Without `above` of its own it grows as the model does.
        ['priority', 2000, 120_600, 'priority', 'priority'],
        ['flex', 2000, 20_100, 'flex', 'flex'],
      ]
      for (const [tier, input, cost, shown, logged] of rows) {
        report = { tier, input, output: 1 }
        const { status, answered, line } = await say(model, { dialect, stream, tier: 'priority' })
        expect([stream, tier, input, status, answered]).toEqual([stream, tier, input, 200, shown])
        expect(line).toMatchObject({ cost_micro_usd: cost, service_tier: logged })
      }
    }
  })

  test.each(DIALECTS)('get 400 of %s for a tier without a price under a spend limit', async (model) => {
    const { status, body } = await say(model, { dialect, tier: 'scale' })
    const { error } = JSON.parse(body) as { error: JsonObject }
    expect(status).toBe(400)
    expect(error['message']).toBe(
      `The service tier 'scale' of model '${model}' has no price, and a spend limit applies. ` +
        "Use one of 'auto', 'default', 'flex', 'priority', 'fast', or leave service_tier out.",
    )
    if (dialect !== 'messages') expect(error).toMatchObject({ code: 'unpriced_service_tier', param: 'service_tier' })
  })
})

test('an answer that names no tier is charged what was asked for, and the column is empty', async () => {
  for (const tier of [undefined, null, '', 'auto']) {
    for (const model of DIALECTS.slice(0, 2)) {
      report = { tier, input: 10, output: 1 }
      const { line } = await say(model, { tier: 'priority' })
      expect(line).toMatchObject({ cost_micro_usd: 600, service_tier: '' })
    }
  }
  report = { tier: '', input: 10, output: 1 }
  const { line, answered } = await say('messages', { dialect: 'messages' })
  expect([line['cost_micro_usd'], line['service_tier'], answered]).toEqual([200, '', undefined])
})

describe('what the provider is sent', () => {
  test.each([
    ['chat', undefined, 'default'],
    ['chat', null, 'default'],
    ['chat', 'auto', 'default'],
    ['chat', 'flex', 'flex'],
    ['chat', 'fast', 'fast'],
    ['responses', undefined, 'default'],
    ['messages', undefined, 'standard_only'],
    ['messages', 'auto', 'standard_only'],
  ])('under a strict limit, %s with %p', async (model, tier, sent) => {
    expect(await say(model, { as: 'strict', tier })).toMatchObject({ status: 200, sent })
  })

  test('without one, what the caller wrote; what an API does not have is left out', async () => {
    expect((await say('chat', {})).sent).toBeUndefined()
    expect((await say('chat', { tier: 'auto' })).sent).toBe('auto')
    const left = await say('messages', { tier: 'priority' })
    expect(left.sent).toBeUndefined()
    expect(left.line['ignored']).toEqual(['service_tier'])
  })
})

describe('what is reserved', () => {
  test.each([
    ['no tier', 'chat', {}, 10, 100],
    ['auto', 'chat', { tier: 'auto' }, 10, 100],
    ['flex', 'chat', { tier: 'flex' }, 10, 100],
    ['priority', 'chat', { tier: 'fast' }, 30, 300],
    ["the account's default", 'usual', {}, 30, 300],
    ["the account's default for auto", 'usual', { tier: 'auto' }, 30, 300],
    ['the base tier by name', 'usual', { tier: 'default' }, 10, 100],
    ['a length', 'chat', { content: 'word '.repeat(3000) }, 20, 200],
    ['a length that the estimate nearly reaches', 'chat', { content: 'word '.repeat(900) }, 20, 200],
    ['a length of a tier', 'chat', { tier: 'priority', content: 'word '.repeat(3000) }, 60, 600],
    ['a dearer fallback', 'failing', { tier: 'priority', as: 'limited' }, 30, 300],
  ])('for %s', async (_, model, asked: Asked, input, output) => {
    const { reserved, status } = await say(model, asked)
    expect(status).toBe(200)
    const { inputTokens = 0, outputTokens = 0, costMicroUsd } = reserved ?? {}
    expect(costMicroUsd).toBe(inputTokens * input + outputTokens * output)
  })
})

test('a fallback is charged by its own row', async () => {
  report = { tier: 'priority', input: 2000, output: 1 }
  const { line } = await say('failing', { tier: 'priority' })
  expect(line).toMatchObject({ served_model: 'chat', cost_micro_usd: 120_600, service_tier: 'priority' })
})

describe('a tier without a price', () => {
  test('is passed on without a spend limit, and charged at the base price', async () => {
    report = { input: 10, output: 1 }
    const { sent, line } = await say('chat', { as: 'free', tier: 'scale' })
    expect(sent).toBe('scale')
    expect(line['cost_micro_usd']).toBe(200)
  })

  test('is counted by a name that weir or the configuration knows', async () => {
    const counted = () => {
      const { counters } = serving.service.figures.take(IDLE_GAUGES)
      return (counters['weir_unpriced_requests_total'] ?? []).map(([labels, added]) => [...labels, added])
    }
    counted()
    report = { input: 10, output: 1 }
    for (const tier of ['scale', 'express', 'express', 'x'.repeat(10_000), 'Priority', 'priority', 'flex', 'auto'])
      await say('chat', { as: 'free', tier })
    expect(counted()).toEqual([
      ['chat', 'scale', 1],
      ['chat', 'express', 2],
      ['chat', 'other', 2],
    ])
  })

  test('in an answer is charged at the base price, and warned of once an hour and model by all workers', async () => {
    const warned = () => serving.lines.filter(({ event: name }) => name === 'price.tier_unknown')
    for (const tier of ['turbo', 'warp', 'x'.repeat(10_000)]) {
      report = { tier, input: 10, output: 1 }
      expect((await say('chat', {})).line).toMatchObject({ cost_micro_usd: 200, service_tier: 'other' })
    }
    expect(warned().map(({ model, tier }) => [model, tier])).toEqual([['chat', 'turbo']])
    expect(serving.peerUpdates.filter(({ about }) => about === 'tier')).toEqual([{ about: 'tier', model: 'chat' }])
    // Another worker has warned of this one.
    serving.service.apply({ about: 'tier', model: 'usual' })
    await say('usual', {})
    expect(warned().filter(isObject)).toHaveLength(1)
  })
})
