/** `weir explain`: the order of targets with `spread: weighted` is the one that the gateway uses; and its prices. */

import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noNeeds } from '../../src/catalog/capability.ts'
import { explainRequest } from '../../src/reports/request-explanation.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { Upstream } from '../support/upstream.ts'

const WEIGHTS = { a: 3, b: 2, c: 1 }

test('the order of targets for a conversation', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'weir-explain-'))
  await using upstream = await Upstream.start()
  upstream.otherwise(does.answersText('yes'))
  const targets = Object.entries(WEIGHTS).map(([model, weight]) => ({ provider: 'up', model, weight }))
  await using serving = new Serving({
    providers: { up: upstream.url },
    models: { m: { spread: 'weighted', targets, price: { input: 1, output: 1 } } },
  })
  const [organization] = serving.config.organizations
  const [key] = organization?.keys ?? []
  const question = { key: key?.id ?? '', model: 'm', needs: noNeeds, resting: [] }
  const explained = (conversation?: string) =>
    explainRequest({ ...serving.config, dataDir }, { ...question, conversation })
  try {
    const plain = await explained()
    expect(plain.candidates.map(({ target, weight }) => [target, weight])).toEqual(Object.entries(WEIGHTS))
    expect(plain.lines.join('\n')).toContain('--conversation shows the order for one of them')
    for (const conversation of ['one', 'two', 'three', 'four', 'five', 'six']) {
      const { candidates } = await explained(conversation)
      const body = { model: 'm', prompt_cache_key: conversation, messages: [{ role: 'user', content: 'hi' }] }
      await ask(serving.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
      expect(upstream.calls.at(-1)?.model).toBe(candidates[0]?.target ?? '')
    }
  } finally {
    await rm(dataDir, { recursive: true })
  }
})

test('the limits of target and provider, and how long the request would wait', async () => {
  await using serving = new Serving({
    providers: { up: 'http://127.0.0.1:9' },
    models: { m: { targets: [{ provider: 'up', model: 'a' }], price: { input: 1, output: 1 } } },
  })
  const key = serving.config.organizations[0]?.keys[0]?.id ?? ''
  const capacity = {
    providers: { up: { requestsPerMinute: 600 } },
    targets: [{ provider: 'up', model: 'a', limits: { spend: { month: 5_000_000 } } }],
  }
  const { candidates, lines } = await explainRequest(
    { ...serving.config, capacity },
    { key, model: 'm', needs: noNeeds, resting: [] },
  )
  expect(candidates[0]?.limits).toEqual(['limit up/a/spend.month $5.00', 'limit up/requests 600 a minute'])
  expect(lines.join('\n')).toContain('limit up/requests 600 a minute')
  expect(lines.join('\n')).toContain('it waits for up to 30000 ms; priority interactive')
})

test('a request without a tag that is required, and the budgets of every candidate', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'weir-explain-'))
  await using upstream = await Upstream.start()
  upstream.otherwise(does.answersText('yes'))
  const model = (name: string) => ({ targets: [{ provider: 'up', model: name }], price: { input: 1, output: 1 } })
  const limits = { spend: { total: 1 } }
  const budgets = ['m', 'other'].map((name) => ({ name: `for-${name}`, match: { models: [name] }, limits }))
  await using serving = new Serving({
    providers: { up: upstream.url },
    models: { m: { ...model('m'), fallbacks: ['other'] }, other: model('other') },
    config: {
      tags: [{ name: 'person', from: ['user'], required: true }],
      organizations: [{ id: 'acme', budgets, keys: [{ id: 'k', key: KEY }] }],
    },
  })
  const explained = (tags?: string) =>
    explainRequest({ ...serving.config, dataDir }, { key: 'k', model: 'm', needs: noNeeds, resting: [], tags })
  try {
    for (const [tags, status] of [
      [undefined, 400],
      ['person=ann ü', 400],
      ['nobody=ann', 400],
      ['person=ann', 200],
    ] as const) {
      const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
      const fields = tags === undefined ? {} : { 'x-gateway-tags': tags }
      const answer = await ask(serving.port, requestBytes('/v1/chat/completions', { key: KEY, body, fields }))
      const { rejected, limits } = await explained(tags)
      expect([answer.status, rejected?.status ?? 200]).toEqual([status, status])
      if (status === 400) expect(rejected?.message).toBe(JSON.parse(answer.text).error.message)
      expect(limits.map(({ budget }) => budget)).toEqual(['for-m', 'for-other'])
    }
  } finally {
    await rm(dataDir, { recursive: true })
  }
})

test('the price of a tier and a length', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'weir-explain-'))
  const price = {
    ...{ input: 1, cached_input: 0.1, output: 2, above: [{ input_tokens: 1000, input: 2, output: 4 }] },
    ...{ tiers: { priority: { input: 3, output: 6 } }, tier_aliases: { fast: 'priority' } },
  }
  await using serving = new Serving({
    providers: { up: 'http://127.0.0.1:9' },
    models: { m: { targets: [{ provider: 'up', model: 'a' }], price } },
  })
  const key = serving.config.organizations[0]?.keys[0]?.id ?? ''
  const priceOf = async (inputTokens: number, tier?: string) => {
    const needs = { ...noNeeds, inputTokens }
    const config = { ...serving.config, dataDir }
    return (await explainRequest(config, { key, model: 'm', needs, resting: [], tier })).candidates[0]?.price
  }
  try {
    expect(await priceOf(0)).toBe(
      'input $1.00, cached input $0.10, output $2.00 a million tokens ' +
        '(other prices for priority, fast; other prices above 1000 input tokens)',
    )
    expect(await priceOf(1000, 'fast')).toBe(
      'input $3.00, output $6.00 a million tokens (tier fast; other prices above 1000 input tokens)',
    )
    expect(await priceOf(1001, 'priority')).toBe(
      'input $6.00, output $12.00 a million tokens (tier priority; above 1000 input tokens)',
    )
    expect(await priceOf(1001, 'scale')).toContain(
      'input $2.00, output $4.00 a million tokens (tier scale has no price',
    )
  } finally {
    await rm(dataDir, { recursive: true })
  }
})
