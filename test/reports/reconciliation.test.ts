/** `weir reconcile`: bills in each form against the audit trail, and the causes of what differs. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withTier } from '../../src/core/tags.ts'
import { type Charge, noCharge } from '../../src/ledger/ledger.ts'
import { BillProblem, readBill } from '../../src/reports/provider-bill.ts'
import { MAIN } from '../process/weir.ts'
import { openLedger } from '../support/open-ledger.ts'

const day = new Date().toISOString().slice(0, 10)
const before = new Date(Date.parse(day) - 86_400_000).toISOString().slice(0, 10)
const daySeconds = Date.parse(day) / 1000

const CONFIG = `
data_dir: ./data
providers:
  open: { dialect: openai, base_url: "http://127.0.0.1:9/v1" }
  claude: { dialect: anthropic, base_url: "http://127.0.0.1:9", api_key: k }
models:
  - { name: plain, targets: [{ provider: open, model: gpt-plain }], price: { input: 1, output: 2 } }
  - { name: outside, targets: [{ provider: open, model: gpt-outside }], price: { input: 1, output: 2 } }
  - { name: fast, targets: [{ provider: open, model: gpt-fast }], price: { input: 1, output: 2 } }
  - { name: guessed, targets: [{ provider: open, model: gpt-guessed }], price: { input: 1, output: 2 } }
  - { name: forgotten, targets: [{ provider: open, model: gpt-forgotten }], price: { input: 1, output: 2 } }
  - { name: written, targets: [{ provider: claude, model: claude-written }], price: { input: 1, output: 2 } }
  - { name: dear, targets: [{ provider: open, model: gpt-dear }],
      price: { input: 1, output: 2, tiers: { priority: { factor: 2 } } } }
organizations: [{ id: acme, keys: [{ id: ci, key: configured-key-0123456789 }] }]
`

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-reconcile-'))
  await Bun.write(join(folder, 'weir.yaml'), CONFIG)
  const ledger = await openLedger({
    ledger: { kind: 'embedded' },
    ledgerUnreachable: 'refuse',
    dataDir: join(folder, 'data'),
  })
  const served = async (model: string, more: Partial<Charge> = {}) => {
    const estimate = { inputTokens: 1000, outputTokens: 100, costMicroUsd: 1200 }
    const account = { organization: 'acme', key: 'ci', organizationLimits: {}, keyLimits: {} }
    const held = await ledger.reserve(account, { id: crypto.randomUUID(), estimate, floorMicroUsd: 0 })
    await ledger.settle(held, { ...noCharge('completed'), ...estimate, model, provider: 'open', ...more })
  }
  await served('plain', { cachedInputTokens: 400 })
  await served('plain')
  await served('outside')
  await served('fast', { tags: withTier('', 'priority') })
  await served('guessed')
  await served('guessed', { estimated: true, inputTokens: 900, outputTokens: 80 })
  await served('forgotten')
  await served('written', { provider: 'claude', cacheWriteTokens: 500 })
  await served('dear')
  await ledger.close()
})
afterAll(() => rm(folder, { recursive: true, force: true }))

let files = 0

async function reconcile(bills: readonly (string | object)[], ...flags: readonly string[]) {
  const from: string[] = []
  for (const bill of bills) {
    const file = join(folder, `bill-${++files}`)
    await Bun.write(file, typeof bill === 'string' ? bill : JSON.stringify(bill))
    from.push('--from', file)
  }
  const child = Bun.spawn([process.execPath, MAIN, 'reconcile', ...from, ...flags], {
    cwd: folder,
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { stdout, stderr, code }
}

interface Row {
  readonly date: string
  readonly model: string
  readonly ours: Readonly<Record<string, number | null>>
  readonly theirs: Readonly<Record<string, number | null>>
  readonly difference: Readonly<Record<string, number | null>>
  readonly cause: string | null
}

async function rowsOf(bills: readonly (string | object)[], ...flags: readonly string[]) {
  const { stdout, stderr, code } = await reconcile(bills, '--json', ...flags)
  const read: { rows: Row[]; total: Row; since: string; until: string } = JSON.parse(stdout || `"${stderr}"`)
  return { ...read, code, causes: Object.fromEntries(read.rows.map(({ model, cause }) => [model, cause])) }
}

const HEADINGS = 'date,model,input_tokens,cached_input_tokens,cache_write_tokens,output_tokens,cost'
const csv = (...rows: readonly string[]) => `${[HEADINGS, ...rows].join('\n')}\n`
const SOUND = `${day},gpt-plain,2000,400,0,200,0.0024`

describe('a month', () => {
  test('with five differences, each with its cause', async () => {
    const bill = csv(
      SOUND,
      `${day},gpt-outside,51000,0,0,5100,0.0612`,
      `${day},gpt-fast,1000,0,0,100,0.0024`,
      `${day},gpt-guessed,2200,0,0,210,0.00262`,
      `${day},claude-written,1000,0,500,100,0.001325`,
      `${day},gpt-dear,1000,0,0,100,0.0024`,
    )
    const { code, causes, total, since } = await rowsOf([bill])
    expect(code).toBe(1)
    expect(since).toBe(day)
    expect(causes).toEqual({
      'gpt-plain': null,
      'gpt-outside': expect.stringContaining('requests outside weir'),
      'gpt-fast': expect.stringContaining('a tier'),
      'gpt-guessed': expect.stringContaining('estimated usage'),
      'claude-written': expect.stringContaining('cache writes'),
      'gpt-dear': expect.stringContaining('a tier'),
      'gpt-forgotten': 'the bill has no request of this model on this day',
    })
    expect(total.ours['input_tokens']).toBe(8900)
    expect(total.theirs['input_tokens']).toBe(58_200)
    expect(total.difference['input_tokens']).toBe(8900 - 58_200)
    expect(total.theirs['cost']).toBe(0.072345)
  })

  test("with the same five in OpenAI's and Anthropic's pages of usage and costs", async () => {
    const use = (model: string, input_tokens: number, output_tokens: number, more: object = {}) => ({
      ...{ object: 'organization.usage.completions.result', model, input_tokens, output_tokens, batch: null, ...more },
    })
    const cost = (line_item: string, value: number) => ({
      ...{ object: 'organization.costs.result', amount: { value, currency: 'usd' }, line_item, project_id: null },
    })
    const usage = openaiPage(
      use('gpt-plain-2026-05-01', 2000, 200, { input_cached_tokens: 400 }),
      use('gpt-outside', 51_000, 5100),
      ...[use('gpt-fast', 1000, 100), use('gpt-guessed', 2200, 210), use('gpt-dear', 1000, 100)],
    )
    const costs = openaiPage(
      ...[cost('gpt-plain-2026-05-01, input', 0.0016), cost('gpt-plain-2026-05-01, cached input', 0.0004)],
      ...[cost('gpt-plain-2026-05-01, output', 0.0004), cost('gpt-outside, input', 0.051)],
      ...[cost('gpt-outside, output', 0.0102), cost('gpt-fast, input', 0.0024), cost('gpt-guessed, input', 0.00262)],
      cost('gpt-dear, input', 0.0024),
    )
    const written = anthropicPage({
      ...{ uncached_input_tokens: 500, cache_read_input_tokens: 0, output_tokens: 100, model: 'claude-written' },
      cache_creation: { ephemeral_5m_input_tokens: 500, ephemeral_1h_input_tokens: 0 },
    })
    const amounts = anthropicPage(
      { currency: 'USD', amount: '0.05', model: 'claude-written', token_type: 'uncached_input_tokens' },
      { currency: 'USD', amount: '0.0625', model: 'claude-written', token_type: 'cache_creation' },
      { currency: 'USD', amount: '0.02', model: 'claude-written', token_type: 'output_tokens' },
    )
    const { code, causes } = await rowsOf([usage, costs, written, amounts])
    expect(code).toBe(1)
    expect(causes).toEqual({
      'gpt-plain': null,
      'gpt-outside': 'requests outside weir: the provider counted more tokens',
      'gpt-fast': 'a tier: requests were served by priority',
      'gpt-guessed': 'estimated usage: 1 of 2 requests, whose provider reported no usage',
      'claude-written': 'cache writes: the price of the model has no cache_write',
      'gpt-dear': 'a tier: the bill fits the price of priority',
      'gpt-forgotten': 'the bill has no request of this model on this day',
    })
  })

  test('whose rows have the tokens of each class and dollars of both sides', async () => {
    const { rows } = await rowsOf([csv(SOUND)])
    expect(rows.find(({ model }) => model === 'gpt-plain')).toEqual({
      ...{ date: day, model: 'gpt-plain', cause: null },
      ours: { input_tokens: 2000, cached_input_tokens: 400, cache_write_tokens: 0, output_tokens: 200, cost: 0.0024 },
      theirs: { input_tokens: 2000, cached_input_tokens: 400, cache_write_tokens: 0, output_tokens: 200, cost: 0.0024 },
      difference: { input_tokens: 0, cached_input_tokens: 0, cache_write_tokens: 0, output_tokens: 0, cost: 0 },
    })
  })
})

describe('the tolerance', () => {
  test.each([
    ['', 1],
    ['0.05', 0],
    ['5%', 0],
    ['1%', 1],
  ])('%p exits with %p at a difference of 2 %', async (tolerance, code) => {
    const others = ['outside', 'fast', 'forgotten', 'dear'].map((name) => `${day},gpt-${name},1000,0,0,100,0.0012`)
    const bill = csv(
      ...[`${day},plain,2040,400,0,200,0.0024`, `${day},guessed,1900,0,0,180,0.0024`, ...others],
      `${day},claude-written,1000,0,500,100,0.0012`,
    )
    const flags = tolerance === '' ? [] : ['--tolerance', tolerance]
    expect((await rowsOf([bill], ...flags)).code).toBe(code)
  })

  test('is a share', async () => {
    const { code, stderr } = await reconcile([csv(SOUND)], '--tolerance', 'much')
    expect([code, stderr]).toEqual([
      2,
      'weir: --tolerance must be a share such as 1% or 0.01, not "much" (see --help)\n',
    ])
  })
})

const page = (results: readonly object[], bucket: object) => ({
  ...{ object: 'page', has_more: false, next_page: null, data: [{ ...bucket, results }] },
})
const openaiPage = (...results: readonly object[]) =>
  page(results, { object: 'bucket', start_time: daySeconds, end_time: daySeconds + 86_400 })
const anthropicPage = (...results: readonly object[]) =>
  page(results, { starting_at: `${day}T00:00:00Z`, ending_at: `${before}T00:00:00Z` })

describe('the bill', () => {
  test("may be OpenAI's usage and costs, for the providers of that dialect", async () => {
    const usage = openaiPage(
      { model: 'gpt-plain', input_tokens: 1500, input_cached_tokens: 400, output_tokens: 200, service_tier: 'default' },
      { model: 'gpt-plain', input_tokens: 500, output_tokens: 0 },
      { model: 'gpt-fast-2026-05-01', input_tokens: 1000, output_tokens: 100 },
    )
    const costs = openaiPage(
      { object: 'organization.costs.result', amount: { value: 0.002, currency: 'usd' }, line_item: 'gpt-plain, input' },
      { amount: { value: '0.0004', currency: 'usd' }, line_item: 'gpt-plain, output' },
      { amount: { value: 0.0024, currency: 'usd' }, line_item: 'gpt-fast-2026-05-01, input' },
    )
    const { rows, causes } = await rowsOf([usage, [costs]])
    expect(causes['gpt-plain']).toBeNull()
    expect(causes['gpt-fast']).toBe('a tier: requests were served by priority')
    expect(rows.map(({ model }) => model)).not.toContain('claude-written')
    expect(rows.find(({ model }) => model === 'gpt-plain')?.theirs).toEqual({
      ...{ input_tokens: 2000, cached_input_tokens: 400, cache_write_tokens: null, output_tokens: 200, cost: 0.0024 },
    })
  })

  test("may be Anthropic's usage and cost report, whose amounts are cents", async () => {
    const usage = anthropicPage({
      ...{ model: 'claude-written', uncached_input_tokens: 300, cache_read_input_tokens: 200, output_tokens: 100 },
      cache_creation: { ephemeral_5m_input_tokens: 400, ephemeral_1h_input_tokens: 100 },
    })
    const cost = anthropicPage({
      model: 'claude-written',
      amount: '0.12',
      currency: 'USD',
      token_type: 'output_tokens',
    })
    const { rows } = await rowsOf([usage, cost])
    expect(rows).toHaveLength(1)
    expect(rows[0]?.theirs).toEqual({
      ...{ input_tokens: 1000, cached_input_tokens: 200, cache_write_tokens: 500, output_tokens: 100, cost: 0.0012 },
    })
  })

  test('may be costs alone, of all models together', async () => {
    const { rows, total } = await rowsOf([openaiPage({ amount: { value: 1, currency: 'usd' }, line_item: null })])
    expect(rows).toHaveLength(1)
    expect(rows[0]?.theirs['input_tokens']).toBeNull()
    expect(rows[0]?.ours['cost']).toBe(0.0096)
    expect(total.ours['cost']).toBe(0.0096)
  })

  test('has a day that weir has not, and a model that weir does not know', async () => {
    const { rows, until } = await rowsOf([csv(SOUND, `${before},unknown,10,0,0,1,0.5`)], '--until', day)
    expect(rows.map(({ date, model, cause }) => [date, model, cause])).toEqual([
      [before, 'unknown', 'requests outside weir: weir has none of this model on this day'],
    ])
    expect(until).toBe(day)
  })

  test.each([
    ['{"data":[{}]}', 'has data that is no bucket'],
    ['{}', 'has a page without data'],
    ['[1', 'is not JSON'],
    ['{"data":[]} {"data":', 'is not JSON'],
    ['{"data":[]}, {"data":[]}', 'is not JSON'],
    ['[]', 'is not JSON'],
    ['{"data":[]}}', 'is not JSON'],
    ['a,b\n1,2\n', 'is neither JSON nor CSV'],
    [csv('2026-13-01,m,1,1,1,1,1'), 'row 2: date must be a day'],
    [csv('2026-11-01,m,-1,1,1,1,1'), 'row 2: input_tokens must be a whole number'],
    [csv('2026-11-01,m,1,1,1,1,much'), 'row 2: cost must be dollars'],
    [JSON.stringify(openaiPage({ input_tokens: 1 })), 'does not name models'],
    [JSON.stringify(anthropicPage({ amount: '1', currency: 'EUR' })), 'has amounts in "EUR"'],
    [JSON.stringify(openaiPage({ amount: { value: 'x' } })), 'has an amount that is no number'],
  ])('is rejected: %s', (text, problem) => {
    expect(() => readBill(text)).toThrow(BillProblem)
    expect(() => readBill(text)).toThrow(problem)
  })

  test('may leave out which tokens were written to a cache: these are not compared, in the sums neither', async () => {
    const { rows, causes, total } = await rowsOf([csv(SOUND, `${day},claude-written,1000,0,,100,0.0012`)])
    expect(causes['claude-written']).toBeNull()
    expect(rows.find(({ model }) => model === 'claude-written')?.difference['cache_write_tokens']).toBeNull()
    expect(total.difference['cache_write_tokens']).toBe(0)
  })

  test('may have no row', () => {
    expect(readBill(csv())).toEqual({ lines: [], dates: [], isCut: false })
    expect(() => readBill('date,model\n')).toThrow(BillProblem)
  })

  test('may be one page a line, of which the last must be there', () => {
    const first = JSON.stringify({ ...openaiPage(), has_more: true })
    expect(readBill(`${first}\n${JSON.stringify(openaiPage())}\n`)).toMatchObject({ dates: [day, day], isCut: false })
    expect(readBill(first).isCut).toBe(true)
    // As curl prints them, one after another.
    const pretty = JSON.stringify(openaiPage({ model: 'a}{"b', input_tokens: 1 }), null, 2)
    const both = readBill(`${pretty}\n${JSON.stringify([openaiPage()])}${pretty}\n`)
    expect(both.lines.map(({ model }) => model)).toEqual(['a}{"b', 'a}{"b'])
  })
})
