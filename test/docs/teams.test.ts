/** docs/teams.md, followed from its first command to its report by a platform team of three teams. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'
import { isObject, parseObject } from '../../src/core/json.ts'
import { Gateway } from '../support/gateway.ts'
import { ALERT_SECRET, type TestWebhook, webhook } from '../support/webhook.ts'
import { type Block, pageOf } from './pages.ts'
import { Reader } from './reader.ts'

const { blocks } = pageOf('docs/teams.md')
const WEIR_ADMIN_TOKEN = 'an-admin-token-of-the-test-0123456789'
/** The usage of every answer, and what it costs in micro-dollars at the page's prices. */
const USAGE = { prompt_tokens: 4000, completion_tokens: 2000, total_tokens: 6000 }
const COSTS = { 'gpt-5': 25_000, 'gpt-5-mini': 5000 } as const
/** In place of the page's 500 dollars: four answers of gpt-5. */
const PAYMENTS_USD = 0.1
/** In place of its 5 dollars for a person: one answer of gpt-5-mini. */
const PERSON_USD = 0.005

let provider: Bun.Server<undefined>
let hook: TestWebhook
let gateway: Gateway
let reader: Reader

beforeAll(async () => {
  provider = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }]
      return Response.json({ id: '1', object: 'chat.completion', created: 1, model: 'm', choices, usage: USAGE })
    },
  })
  hook = webhook()
  const page = blocks.find(({ info }) => info === 'yaml')?.text ?? ''
  const env = { WEIR_ADMIN_TOKEN, WEIR_ALERT_SECRET: ALERT_SECRET, OPENAI_API_KEY: 'provider-key' }
  const smaller = page.replace('{ month: 500 }', `{ month: ${PAYMENTS_USD} }`)
  const config = parse(smaller.replace('{ day: 5, month: 50 }', `{ day: ${PERSON_USD}, month: 50 }`))
  gateway = await Gateway.start({
    env,
    providers: {},
    config: {
      ...config,
      admin: { ...config.admin, port: 0 },
      alerts: { ...config.alerts, webhook: hook.url },
      providers: { openai: { ...config.providers.openai, base_url: `http://127.0.0.1:${provider.port}/v1` } },
    },
  })
  reader = await Reader.of(gateway, env)
})

afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  hook[Symbol.dispose]()
  await provider.stop(true)
})

const steps = blocks.filter(({ info }) => info === 'sh step')

/** Runs the next steps of the page, up to the one that contains the words, and resolves to what that one prints. */
async function follow(words: string): Promise<string> {
  let step: Block | undefined
  let printed = ''
  do {
    step = steps.shift()
    if (step === undefined) throw new Error(`No step has ${words}.`)
    const { code, stdout, stderr } = await reader.shell(step.text)
    expect({ at: step.at, code, stderr: code === 0 ? '' : stderr }).toEqual({ at: step.at, code: 0, stderr: '' })
    // `curl` exits with 0 for an error of HTTP.
    expect(stdout).not.toContain('"error":{')
    printed = stdout
  } while (!step.text.includes(words))
  return printed
}

async function secretOf(file: string): Promise<string> {
  return (await readFile(join(gateway.folder, file), 'utf8')).trim()
}

async function ask(
  key: string,
  model: string,
  tags = '',
  person = '',
): Promise<{ readonly status: number; readonly code: unknown }> {
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      ...(tags === '' ? {} : { 'x-gateway-tags': tags }),
      ...(person === '' ? {} : { 'x-gateway-user': person }),
    },
    body: JSON.stringify({ model, max_tokens: 2000, messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  const { error } = (await answer.json()) as { error?: unknown }
  return { status: answer.status, code: isObject(error) ? error['code'] : undefined }
}

const SERVED = { status: 200, code: undefined }

test('three teams: keys, tags, a budget that is used up, its alerts, a rotated key, and the report', async () => {
  const made = parseObject(await follow('/api/keys')) ?? {}
  const support = String(made['secret'])
  expect(made).toMatchObject({ organization: 'support', tags: { team: 'support' }, limits: { spend: { day: 5 } } })
  const listed = await follow('weir keys list')
  for (const words of ['payments-app', 'team=search', '$20.00 a day', 'support-bot']) expect(listed).toContain(words)

  // The step is the first answer of payments, and there is room for three more.
  expect(await follow('project=checkout')).toContain('"completion_tokens":2000')
  const [payments, search] = [await secretOf('payments.key'), await secretOf('search.key')]
  for (let i = 0; i < 3; i++) expect(await ask(payments, 'gpt-5')).toEqual(SERVED)
  expect(await ask(payments, 'gpt-5')).toEqual({ status: 429, code: 'insufficient_quota' })
  const alerts = await hook.until(3, ({ type }) => type === 'spend.threshold')
  expect(alerts.map(({ share }) => Number(share)).sort()).toEqual([0.5, 0.8, 1])
  for (const alert of alerts) expect(alert).toMatchObject({ organization: 'payments', key: null, window: 'month' })
  expect(hook.received.every(({ isGenuine }) => isGenuine)).toBe(true)
  expect(await follow('weir explain')).toContain('limits of organisation "payments": $0.10 a month')

  // The other teams go on; a caller may charge another team's tag, not its budget.
  expect(await ask(search, 'gpt-5', 'team=support')).toEqual(SERVED)
  expect(await ask(support, 'gpt-5-mini')).toEqual(SERVED)
  expect(await ask(support, 'gpt-5')).toEqual({ status: 403, code: 'model_not_allowed' })

  // One answer of gpt-5-mini uses up a person's day; a raise makes room for one more.
  const refused = { status: 429, code: 'insufficient_quota' }
  for (const person of ['ann', 'bob']) {
    expect(await ask(search, 'gpt-5-mini', '', person)).toEqual(SERVED)
    expect(await ask(search, 'gpt-5-mini', '', person)).toEqual(refused)
  }
  expect((await follow('weir budgets --org')).replaceAll(/ +/g, ' ')).toMatch(/person ann spend\.day \$0\.005/)
  await follow('weir budgets raise')
  expect(await ask(search, 'gpt-5-mini', '', 'ann')).toEqual(SERVED)
  expect(await ask(search, 'gpt-5-mini', '', 'bob')).toEqual(refused)

  await follow('weir keys rotate')
  for (const key of [search, await secretOf('search-new.key')])
    expect(await ask(key, 'gpt-5-mini', 'project=ranking')).toEqual(SERVED)

  const rows = (await follow('weir usage --by tag:team,model --csv')).trim().split('\n')
  expect(rows[0]).toBe(blocks.find(({ text }) => text.startsWith('tag:team'))?.text.split('\n')[0])
  const costs = rows.slice(1).map((row) => [row.split(',').slice(0, 3).join(' '), Number(row.split(',').at(-1))])
  expect(costs).toEqual([
    ['payments gpt-5 4', 4 * COSTS['gpt-5']],
    ['search gpt-5-mini 5', 5 * COSTS['gpt-5-mini']],
    ['support gpt-5 1', COSTS['gpt-5']],
    ['support gpt-5-mini 1', COSTS['gpt-5-mini']],
  ])
  const total = 5 * COSTS['gpt-5'] + 6 * COSTS['gpt-5-mini']
  const headers = { authorization: `Bearer ${WEIR_ADMIN_TOKEN}` }
  for (const by of ['org', 'tag:project', 'tag:team,model']) {
    const report = await (await fetch(`${gateway.adminUrl}/api/usage?by=${by}`, { headers })).json()
    expect(report).toMatchObject({ total: { requests: 11, cost_micro_usd: total } })
  }
  expect(await follow('--until')).toStartWith('tag:team,model,requests')
  expect(steps).toEqual([])
})
