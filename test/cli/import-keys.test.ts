/** `weir import litellm --keys`: a key of LiteLLM works against weir, with its limits and what it has spent. */

import { afterAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { readCsv } from '../../src/core/csv-table.ts'
import { microDollars, shifted } from '../../src/core/decimal.ts'
import { amountsOf } from '../../src/core/limit-amounts.ts'
import { limitsOfJson, limitTable } from '../../src/core/limits.ts'
import { SLICE_TOKENS } from '../../src/gateway/quote.ts'
import { dumpRows, isTrue, listOf, timeOf } from '../../src/import/dump-rows.ts'
import { fromLitellm } from '../../src/import/litellm.ts'
import { PROGRAM, Weir } from '../process/weir.ts'
import { RedisServer } from '../support/redis.ts'
import { answersText } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'weir-import-keys-'))
  folders.push(folder)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

async function weir(cwd: string, ...args: readonly string[]) {
  const env = { PATH: process.env['PATH'], OPENAI_API_KEY: 'x', MASTER: 'master-key-0123456789' }
  const child = Bun.spawn([...PROGRAM, ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { code, stdout, stderr }
}

const hashOf = (key: string) => createHash('sha256').update(key).digest('hex')

const COLUMNS = 'token,key_name,key_alias,spend,expires,models,team_id,rpm_limit,max_budget,budget_duration,blocked'
const ROWS = [
  `${hashOf('sk-web-0123456789')},sk-...6789,web,9.99995,2099-01-01 00:00:00.000,{small},t-1,600,10,30d,`,
  `${hashOf('sk-free-0123456789')},sk-...6789,free,5.5,,{},,,,,f`,
  `${hashOf('sk-shut-0123456789')},sk-...6789,shut,0,,{},,,,,t`,
  `${hashOf('sk-late-0123456789')},sk-...6789,late,0,2020-01-01 00:00:00,{},,,,,`,
  `${hashOf('sk-page-0123456789')},sk-...6789,,0,,{},litellm-dashboard,,,,`,
  `${hashOf('sk-lab-0123456789')},sk-...6789,lab,1,,{},t-2,,,,`,
]
const DUMP = `${COLUMNS}\n${ROWS.join('\n')}\n`
const teamsWith = (spend: number) =>
  JSON.stringify([
    { team_id: 't-1', team_alias: 'Growth Team', models: ['small'], max_budget: 50 },
    { team_id: 't-2', team_alias: 'Lab', max_budget: 3, spend },
  ])
const TEAMS = teamsWith(2.99995)

const proxy = (url: string) => `
model_list:
  - model_name: small
    litellm_params: { model: hosted_vllm/m, api_base: "${url}" }
    model_info: { max_tokens: 1000, max_input_tokens: 10000, input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 }
general_settings: { master_key: os.environ/MASTER }
`

describe.each(['embedded', 'redis'] as const)('%s', (kind) => {
  test('the old key works, within what is left of its budget, however often it is taken over', async () => {
    await using redis = kind === 'redis' ? await RedisServer.start() : undefined
    await using upstream = await Upstream.start({ m: answersText('Hello') })
    const folder = folderWith({ 'litellm.yaml': proxy(upstream.url), 'keys.csv': DUMP, 'teams.json': TEAMS })
    const given = ['import', 'litellm', 'litellm.yaml', '--keys', 'keys.csv', '--teams', 'teams.json'] as const
    const made = await weir(folder, ...given)
    expect(made.code).toBe(0)
    expect(made.stderr.split('\n').filter((line) => /^(?:key|created):/.test(line))).toHaveLength(4)
    expect(made.stderr).toContain('\norganisation: Lab: spent $2.99995 so far\n')
    const file = parse(made.stdout)
    expect(file.organizations.map((each: { id: string }) => each.id)).toEqual(['default', 'Growth-Team', 'Lab'])
    const ledger = redis === undefined ? 'embedded' : { redis: redis.url }
    const config = { ...file, ledger, data_dir: join(folder, 'data'), listen: { port: 0 }, admin: { port: 0 } }
    writeFileSync(join(folder, 'weir.yaml'), JSON.stringify(config))
    const apply = () => weir(folder, ...given, '--apply-keys', '--config', 'weir.yaml')
    const first = await apply()
    expect([first.code, first.stderr.match(/^created: /gm)?.length]).toEqual([0, 4])
    expect(first.stderr).toContain('updated: Lab: spent $2.99995 so far\n')
    // The keys and the team.
    expect((await apply()).stderr.match(/^unchanged: /gm)).toHaveLength(5)

    const start = { env: { MASTER: 'master-key-0123456789' }, folder }
    await using gateway = await Weir.ready(JSON.stringify(config), [], start)
    const ask = async (key: string, tokens = 10) => {
      const answer = await fetch(`${gateway.address}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: 'small', max_tokens: tokens, messages: [{ role: 'user', content: 'hi' }] }),
      })
      const body = (await answer.json()) as { error?: { code: string; message: string } }
      return { status: answer.status, code: body.error?.code, message: body.error?.message }
    }
    expect((await ask('sk-web-0123456789')).status).toBe(200)
    expect((await ask('sk-free-0123456789')).status).toBe(200)
    for (const key of ['shut', 'late', 'page', 'none']) expect((await ask(`sk-${key}-0123456789`)).status).toBe(401)
    // Of $10, $0.00005 was left: 100 tokens of output cost four times that.
    const refused = await ask('sk-web-0123456789', 100)
    expect(refused).toMatchObject({ status: 429, code: 'insufficient_quota' })
    expect(refused.message).toMatch(
      /more than is left of the monthly spend limit of \$10\.00 .*renews at \d{4}-\d\d-01T/,
    )
    // The team has $0.00005 left, too, and its key has no limit of its own.
    expect((await ask('sk-lab-0123456789')).status).toBe(200)
    const ofTeam = await ask('sk-lab-0123456789', 100)
    expect(ofTeam).toMatchObject({ status: 429, code: 'insufficient_quota' })
    expect(ofTeam.message).toMatch(/more than is left of the total spend limit of \$3\.00 /)
    const ofLab = await weir(folder, 'explain', '--key', 'lab', '--model', 'small', '--output-tokens', '100')
    expect(ofLab.stdout).toMatch(
      /rejected: 429 insufficient_quota: .* total spend limit of \$3\.00 for organisation 'Lab'/,
    )
    expect(ofLab.stdout).toMatch(/organisation "Lab".*\$3\.00 in total \(\$0\.0000\d* left/)
    const listed = await fetch(`${gateway.admin}/api/budgets?search=lab`)
    const { rows } = (await listed.json()) as { rows: { organization: string; used: number; state: string }[] }
    expect(rows).toMatchObject([{ organization: 'Lab', limit: 'spend.total', state: 'refusing' }])
    expect(rows[0]?.used).toBeWithin(2_999_951, 3_000_000)
    // What was spent elsewhere is no usage of weir.
    const usage = JSON.parse((await weir(folder, 'usage', '--json')).stdout)
    expect([usage.total.requests, usage.total.cost_micro_usd < 100]).toEqual([3, true])
    const { stdout } = await weir(folder, 'explain', '--key', 'web', '--model', 'small')
    expect(stdout).toMatch(/\$10\.00 a month \(\$0\.0000\d+ left, renews/)
    // A change of the key keeps it.
    await weir(folder, 'keys', 'update', '--id', 'web', '--spend-month', '20')
    expect((await ask('sk-web-0123456789', 100)).status).toBe(200)
    // A later dump, at the day of the move, replaces what was spent.
    writeFileSync(join(folder, 'keys.csv'), DUMP.replace('9.99995', '25'))
    writeFileSync(join(folder, 'teams.json'), teamsWith(0))
    expect((await apply()).stderr).toMatch(/^updated: web /m)
    expect((await ask('sk-web-0123456789', 1)).status).toBe(429)
    expect((await ask('sk-lab-0123456789', 100)).status).toBe(200)
    const { stdout: audit } = await weir(folder, 'audit', '--admin', '--json', '--limit', '100')
    const entries = audit
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const ofTeams = entries.filter(({ action }) => action === 'organization.updated').map(({ details }) => details)
    expect(ofTeams).toContainEqual({ spent_before: { total: 2.99995 }, from: 'litellm' })
    expect(ofTeams).toContainEqual({ spent_before: {}, from: 'litellm' })
  })
})

describe('what a dump becomes', () => {
  const NOW = Date.UTC(2026, 10, 23, 12)
  const TOKEN = hashOf('sk-a')
  const keysOf = (row: object) => {
    const imported = fromLitellm(proxy('http://127.0.0.1:1'), { keys: [{ token: TOKEN, ...row }] }, NOW)
    if ('problem' in imported) throw new Error(imported.problem)
    return { key: imported.keys[0], notes: imported.notes.filter((line) => line.includes(': key ')) }
  }

  test.each([
    ['30d', undefined, 'month', Date.UTC(2026, 11, 1), undefined],
    ['1mo', '2026-11-25T00:00:00Z', 'month', Date.UTC(2026, 10, 25), undefined],
    ['1d', '2026-11-23 23:00:00', 'day', Date.UTC(2026, 10, 23, 23), undefined],
    ['24h', undefined, 'day', Date.UTC(2026, 10, 24), undefined],
    [undefined, undefined, 'total', undefined, undefined],
    ['7d', undefined, 'month', Date.UTC(2026, 11, 1), 'its budget for 7d is one of the calendar month'],
    ['1h', undefined, 'day', Date.UTC(2026, 10, 24), 'its budget for 1h is one of the UTC day'],
    ['90d', undefined, 'total', undefined, 'its budget for 90d is one that never renews'],
  ])('a budget for %p that renews at %p', (duration, renews, window, untilMs, note) => {
    const row = { max_budget: 12.5, spend: '0.30000000000000004', budget_duration: duration, budget_reset_at: renews }
    const { key, notes } = keysOf({ ...row, key_alias: 'a' })
    expect(key?.description['limits']).toEqual({ spend: { [window]: 12.5 } })
    expect(key?.before).toEqual({ [window]: { microUsd: 300_000, ...(untilMs === undefined ? {} : { untilMs }) } })
    expect(notes.join()).toContain(note ?? '')
    expect(notes).toHaveLength(note === undefined ? 0 : 1)
  })

  test('a budget that was to renew before the dump begins anew', () => {
    const row = { max_budget: 5, spend: 5, budget_duration: '1d', budget_reset_at: '2026-11-23 00:00:00' }
    expect(keysOf(row).key?.before).toBeUndefined()
  })

  test('the limits of a budget that a key or a team names, as a table of its own or in the row', () => {
    const budget = { budget_id: 'b-1', max_budget: 7, budget_duration: '30d', rpm_limit: 60, tpm_limit: null }
    const rows = {
      keys: [
        { token: hashOf('sk-1'), key_alias: 'plain', budget_id: 'b-1', spend: 2, team_id: 't' },
        { token: hashOf('sk-2'), key_alias: 'own', budget_id: 'b-1', max_budget: '3', rpm_limit: '5' },
        { token: hashOf('sk-3'), key_alias: 'inner', budget_id: 'b-9', litellm_budget_table: budget },
        { token: hashOf('sk-4'), key_alias: 'unknown', budget_id: 'b-2' },
      ],
      teams: [{ team_id: 't', budget_id: 'b-1' }],
      budgets: [budget],
    }
    const imported = fromLitellm(proxy('http://127.0.0.1:1'), rows, NOW)
    if ('problem' in imported) throw new Error(imported.problem)
    const keys = new Map(
      imported.keys.map(({ description, before }) => [
        String(description['id']),
        { before, limits: description['limits'] },
      ]),
    )
    const ofBudget = { requests_per_minute: 60, spend: { month: 7 } }
    expect(keys.get('plain')).toMatchObject({
      limits: ofBudget,
      before: { month: { microUsd: 2_000_000, untilMs: Date.UTC(2026, 11, 1) } },
    })
    expect(keys.get('own')?.limits).toEqual({ requests_per_minute: 5, spend: { total: 3 } })
    expect(keys.get('inner')?.limits).toEqual(ofBudget)
    expect(keys.get('unknown')?.limits).toBeUndefined()
    const { organizations } = parse(imported.text)
    expect(organizations.find(({ id }: { id: string }) => id === 't').limits).toEqual(ofBudget)
    expect(imported.notes.filter((line) => line.includes('budget b-'))).toEqual([
      'to do: key unknown: has the limits of budget b-2; dump the table LiteLLM_BudgetTable, and add --budgets FILE',
    ])
  })

  test('users, tags, end users and models of keys and teams have budgets, which the new file takes', async () => {
    const text = `${proxy('http://127.0.0.1:1')}
litellm_settings:
  max_end_user_budget: 0.5
  max_internal_user_budget: 4
  internal_user_budget_duration: 7d
  tag_budget_config: { "product:chat": { max_budget: 2, budget_duration: 1h } }
`
    const ofModel = (most: number) => ({ small: { budget_limit: String(most), time_period: '1d' } })
    const files = {
      'litellm.yaml': text,
      'keys.json': JSON.stringify([
        { token: hashOf('sk-1'), key_alias: 'one', user_id: 'ann@example.org', model_max_budget: ofModel(3) },
        { token: hashOf('sk-2'), key_alias: 'two', user_id: 'bob', model_max_budget: JSON.stringify(ofModel(3)) },
        { token: hashOf('sk-3'), key_alias: 'three', user_id: 'cy', team_id: 't', model_max_budget: { small: 1 } },
        { token: hashOf('sk-4'), key_alias: 'four', user_id: 'dee' },
        { token: hashOf('sk-5'), key_alias: 'five', user_id: 'a b' },
        { token: hashOf('sk-6'), key_alias: 'six', user_id: 'a-b' },
      ]),
      'teams.json': JSON.stringify([{ team_id: 't', model_max_budget: ofModel(9) }]),
      'budgets.json': JSON.stringify([{ budget_id: 'b', max_budget: 6, budget_duration: '30d', rpm_limit: 5 }]),
      'users.json': JSON.stringify([
        { user_id: 'ann@example.org', max_budget: 1.5, budget_duration: '1d', spend: 1 },
        { user_id: 'bob' },
        { user_id: 'cy', max_budget: 1 },
        { user_id: 'dee' },
        { user_id: 'a b' },
        { user_id: 'a-b' },
      ]),
      'tags.json': JSON.stringify([{ tag_name: 'batch', budget_id: 'b' }]),
    }
    const folder = folderWith(files)
    const flags = ['keys', 'teams', 'budgets', 'users', 'tags'].flatMap((name) => [`--${name}`, `${name}.json`])
    const made = await weir(folder, 'import', 'litellm', 'litellm.yaml', ...flags)
    expect(made).toMatchObject({ code: 0 })
    const file = parse(made.stdout)
    expect(file.tags).toEqual([
      { name: 'tag', from: ['header:x-litellm-tags'] },
      { name: 'end_user', from: ['user'] },
      'user',
    ])
    const ofTag = (name: string, values: readonly string[], limits: object, number = '') => {
      return { name: `${name}${number}`, per: `tag:${name}`, match: { tags: { [name]: values } }, limits }
    }
    const ofAll = [
      ofTag('tag', ['product:chat'], { spend: { hour: 2 } }),
      ofTag('tag', ['batch'], { requests_per_minute: 5, spend: { month: 6 } }, '-2'),
      { name: 'end_user', per: 'tag:end_user', limits: { spend: { total: 0.5 } } },
    ]
    const match = { models: ['small'] }
    const budgetsOf = (id: string) => file.organizations.find((each: { id: string }) => each.id === id).budgets
    expect(budgetsOf('default')).toEqual([
      ofTag('user', ['ann@example.org'], { spend: { day: 1.5 } }),
      // The names of two users stay two.
      ofTag('user', ['a-b', 'bob', 'dee', 'h:yGh6CKpdbtIEQyj6aml6uO'], { spend: { week: 4 } }, '-2'),
      ...ofAll,
      { name: 'keys-small', per: 'key', match: { keys: ['one', 'two'], ...match }, limits: { spend: { day: 3 } } },
    ])
    expect(budgetsOf('t')).toEqual([
      ...ofAll,
      { name: 'model-small', match, limits: { spend: { day: 9 } } },
      { name: 'keys-small', per: 'key', match: { keys: ['three'], ...match }, limits: { spend: { total: 1 } } },
    ])
    expect(made.stderr).toContain('lost: user ann@example.org: what is spent of its budget ($1) is not carried over')
    writeFileSync(
      join(folder, 'weir.yaml'),
      JSON.stringify({ ...file, data_dir: join(folder, 'data'), listen: { port: 0 } }),
    )
    const applied = await weir(
      folder,
      'import',
      'litellm',
      'litellm.yaml',
      ...flags,
      '--apply-keys',
      '--config',
      'weir.yaml',
    )
    expect([applied.code, applied.stderr.match(/^created: /gm)?.length]).toEqual([0, 6])
    const listed = await weir(folder, 'keys', 'list', '--json')
    expect(listed.stdout).toContain('"fixed_tags":{"user":"ann@example.org"}')
    const explained = await weir(folder, 'explain', '--key', 'one', '--model', 'small')
    expect(explained.stdout).toContain('budget "user" of "ann@example.org": $1.50 a day')
    expect(explained.stdout).toContain('budget "keys-small" of "one": $3.00 a day')
  })

  test('names, models, hashes, and what is lost', () => {
    const { key, notes } = keysOf({
      ...{ key_alias: 'Ünder score/1', models: ['all-team-models'], tpm_limit: '1000', metadata: { a: 1 } },
      ...{ aliases: {}, soft_budget: 3, budget_id: 'b-1', max_parallel_requests: 2 },
    })
    expect(key?.description).toEqual({
      ...{ organization: 'default', id: 'nder-score-1' },
      limits: { tokens_per_minute: 1000, concurrent_requests: 2 },
    })
    expect(notes).toEqual([
      'lost: key Ünder score/1: metadata, soft_budget are not carried over',
      'assumed: key Ünder score/1: its id is nder-score-1',
      'to do: key Ünder score/1: tpm_limit 1000 refuses requests without max_tokens, for which weir reserves ' +
        '4096 tokens of output; raise it, or let callers name max_tokens',
      'to do: key Ünder score/1: has the limits of budget b-1; ' +
        'dump the table LiteLLM_BudgetTable, and add --budgets FILE',
    ])
    expect(keysOf({ key_alias: 'a', tpm_limit: SLICE_TOKENS }).notes).toEqual([])
    expect(keysOf({ models: '{"gpt 4",small}' }).key?.description['models']).toEqual(['gpt-4', 'small'])
    expect(keysOf({ models: ['no-default-models'] }).key?.description['models']).toEqual([])
    expect(keysOf({ token: 'sk-a' }).key?.sha256).toBe(TOKEN)
    expect(keysOf({ token: 'nonsense' }).key).toBeUndefined()
  })
})

test('dumps as CSV and as JSON in all forms', () => {
  const row = { token: 'a', models: ['x'] }
  const text = JSON.stringify(row)
  for (const dump of [`[${text}]`, `${text}\n${text}\n`.slice(0, text.length + 1), `{"keys":[${text}]}`])
    expect(dumpRows(dump)).toEqual([row])
  expect(dumpRows(`${text}\n${text}\n`)).toEqual([row, row])
  expect(dumpRows('{"token":"a","models":[]}')).toEqual([{ token: 'a', models: [] }])
  expect(dumpRows(`${text}\nx`)).toEqual({ problem: 'is no JSON: line 2' })
  expect(readCsv('a,b\r\n1,"x, ""y""\nz"\n2,\n')).toEqual([
    { a: '1', b: 'x, "y"\nz' },
    { a: '2', b: '' },
  ])
  expect(dumpRows('a,b\n"1,2\n')).toEqual({ problem: 'is no CSV: a quote in row 2 is not closed' })
  expect(listOf({ m: '{a,"b, \\"c\\"",d}' }, 'm')).toEqual(['a', 'b, "c"', 'd'])
  expect(['t', 'true', '1', 'f', ''].map((b) => isTrue({ b }, 'b'))).toEqual([true, true, true, false, false])
  const times = [
    '2026-11-23 10:00:00.5',
    '2026-11-23T10:00:00.500Z',
    '2026-11-23 11:00:00.5+01',
    '2026-11-23 10:00:00.5+00:00',
  ]
  expect(times.map((time) => timeOf({ time }, 'time'))).toEqual(times.map(() => Date.UTC(2026, 10, 23, 10, 0, 0, 500)))
})

test('prices and amounts have no noise of binary fractions', () => {
  const costs: readonly unknown[] = [2.5e-7, 1e-7, '0.000003', '7.5E-8', 3, 'x', 1.1e-6, 0]
  expect(costs.map((cost) => shifted(cost, 6))).toEqual(['0.25', '0.1', '3', '0.075', '3000000', undefined, '1.1', '0'])
  expect([9.99, 0.1 + 0.2, 25.000000000000004, '1e-9'].map(microDollars)).toEqual([9_990_000, 300_000, 25_000_000, 0])
})

test('spend elsewhere counts until its window ends, for limits and for thresholds', () => {
  const before = { day: { microUsd: 40, untilMs: Date.now() + 60_000 }, month: { microUsd: 90, untilMs: 1000 } }
  const limits = limitsOfJson({ spend: { day: 100, month: 100, total: 100, before } }) ?? {}
  const from = limitTable.findIndex(({ name }) => name === 'day')
  const shares = [0.3, 0.5]
  const amounts = amountsOf(limits, shares)
  expect(amounts.slice(from, from + 3)).toEqual([60, 100, 100])
  // A share that was reached elsewhere is reported no more; hours and weeks have no limit.
  expect(amounts.slice(limitTable.length)).toEqual([-1, 10, 30, 50, 30, 50, -1, -1, -1, -1])
  expect(amountsOf(limits, shares)).toBe(amounts)
})
