/** The admin API of a running weir with two workers. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { FormatRegistry, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { schemas } from '../../src/admin/api-schemas.ts'
import { explanation } from '../../src/reports/explanation-shape.ts'
import { EventReader } from '../support/event-reader.ts'
import { provider } from './provider.ts'
import { configuration, KEY, PROGRAM, until, Weir } from './weir.ts'

FormatRegistry.Set('date-time', (text) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(text))
FormatRegistry.Set('date', (text) => /^\d{4}-\d\d-\d\d$/.test(text))

let upstream: ReturnType<typeof provider>
let weir: Weir

beforeAll(async () => {
  upstream = provider()
  upstream.finish()
  weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }), ['--workers', '2'])
})

afterAll(async () => {
  await weir[Symbol.asyncDispose]()
  upstream[Symbol.dispose]()
})

async function read(path: string): Promise<Record<string, unknown>> {
  const answer = await fetch(`${weir.admin}${path}`)
  expect(answer.status).toBe(200)
  return (await answer.json()) as Record<string, unknown>
}

function expectShape(schema: TSchema, value: unknown): void {
  expect([...Value.Errors(schema, value)].map(({ path, message }) => `${path}: ${message}`)).toEqual([])
}

/** The lines of JSON that a command prints. */
async function runLines(...words: readonly string[]): Promise<Record<string, unknown>[]> {
  const child = Bun.spawn([...PROGRAM, ...words], { cwd: weir.folder, stdout: 'pipe', stderr: 'inherit' })
  const lines = (await new Response(child.stdout).text()).trimEnd().split('\n')
  expect(await child.exited).toBe(0)
  return lines.map((line): Record<string, unknown> => JSON.parse(line))
}

async function run(...words: readonly string[]): Promise<Record<string, unknown>> {
  return (await runLines(...words))[0] ?? {}
}

/** Makes a streamed request; resolves to its id. */
async function request(model = 'small'): Promise<string> {
  const answer = await fetch(`${weir.address}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] }),
  })
  await answer.text()
  return answer.headers.get('x-request-id') ?? ''
}

test('the status has its shape', async () => {
  const status = await read('/api/status')
  expectShape(schemas.Status, status)
  expect(status).toMatchObject({
    bun: Bun.version,
    ready: true,
    reasons: [],
    ledger: { kind: 'embedded', up: true },
    workers: { configured: 2, ready: 2, restarts: 0 },
  })
})

test('the targets are those of the configuration, with what the workers counted', async () => {
  await request()
  // Figures and states come in messages of their own.
  const first = async () => ((await read('/api/targets'))['rows'] as { attempts: number; state: string }[])[0]
  await until(async () => {
    const row = await first()
    return row !== undefined && row.attempts > 0 && row.state !== 'unknown'
  })
  const targets = await read('/api/targets')
  expectShape(schemas.Targets, targets)
  expect(targets['rows']).toMatchObject([
    {
      ...{ provider: 'fake', model: 'upstream', serves: ['small'], state: 'healthy', reason: null },
      ...{ success_share: 1, traffic_share: 1, first_byte_p50_ms: expect.any(Number), last_error: null },
    },
  ])
})

test('the last requests are those of all workers, the newest first, refused ones too', async () => {
  const ids: string[] = []
  for (let i = 0; i < 6; i++) ids.push(await request(i === 3 ? 'nothing' : 'small'))
  const { rows } = (await read('/api/requests?recent=6')) as { rows: Record<string, unknown>[] }
  // A caller has its answer before the request is settled, so lines of two workers may end in another order.
  expect(rows.map(({ request_id }) => String(request_id)).sort()).toEqual([...ids].sort())
  const times = rows.map(({ time }) => String(time))
  expect(times).toEqual([...times].sort().reverse())
  const lineOf = (id: string | undefined) => rows.find(({ request_id }) => request_id === id)
  expect(lineOf(ids[3])).toMatchObject({ msg: 'request', outcome: 'refused', status: 404, method: 'POST' })
  const completed = { outcome: 'completed', served_model: 'small', organization: 'acme', key: 'ci' }
  expect(lineOf(ids[5])).toMatchObject(completed)
})

test('a listener gets a status each second and each request that ends', async () => {
  await using events = new EventReader(await fetch(`${weir.admin}/api/events`))
  expectShape(schemas.Status, await events.next('status'))
  const id = await request()
  const line = await events.next('request', ({ request_id }) => request_id === id)
  expect(line).toMatchObject({ msg: 'request', outcome: 'completed', requested_model: 'small' })
  const moved = ({ now }: { now?: unknown }) => (now as { requests_per_second: number }).requests_per_second > 0
  await events.next('status', moved)
  const [one, other] = [await events.next('status'), await events.next('status')]
  expect(Date.parse(String(other['time'])) - Date.parse(String(one['time']))).toBeGreaterThan(500)
})

test('more requests than are sent are counted', async () => {
  await using events = new EventReader(await fetch(`${weir.admin}/api/events`))
  await events.next('status')
  await Promise.all(Array.from({ length: 400 }, () => request('nothing')))
  const { requests } = await events.next('omitted')
  expect(requests).toBeGreaterThan(0)
})

test('a reload by signal is in the status', async () => {
  weir.signal('SIGHUP')
  expect(await weir.line('configuration reloaded')).toMatchObject({ source: 'config', changes: [] })
  expect((await read('/api/status'))['last_reload']).toMatchObject({ ok: true, changes: [], problems: [] })
})

test('usage answers as the command does', async () => {
  await request()
  const path = '/api/usage?by=key,model'
  // A request is settled after its answer has ended.
  await until(async () => Bun.deepEquals(await read(path), await run('usage', '--by', 'key,model', '--json')))
  expectShape(schemas.Usage, await read(path))
  expect(await read(path)).toMatchObject({ by: 'key,model', rows: [{ key: 'ci', model: 'small' }] })
})

test('the audit answers with the lines of the command', async () => {
  const { rows } = (await read('/api/requests?limit=2&outcome=completed')) as { rows: Record<string, unknown>[] }
  expect(rows).toHaveLength(2)
  expectShape(schemas.AuditRows, { rows })
  expect(rows).toEqual(await runLines('audit', '--limit', '2', '--outcome', 'completed', '--json'))
})

test('keys, budgets and errors have their shapes', async () => {
  expectShape(schemas.Keys, await read('/api/keys'))
  expectShape(schemas.Budgets, await read('/api/budgets'))
  const answer = await fetch(`${weir.admin}/nothing`)
  expectShape(schemas.Error, await answer.json())
})

test('explain answers as the command does', async () => {
  const answer = await read('/api/explain?key=ci&model=small')
  expectShape(explanation, answer)
  expect(answer).toMatchObject({
    ...{ key: 'ci', organization: 'acme', model: 'small', key_state: 'active', rejected: null },
    candidates: [{ model: 'small', provider: 'fake', target: 'upstream', rest: null }],
  })
  expect(answer).toEqual(await run('explain', '--key', 'ci', '--model', 'small', '--json'))
})

test.each([
  ['/api/usage?by=modle', 400, 'invalid_parameter', 'by must be model, key'],
  ['/api/usage?bye=model', 400, 'invalid_parameter', 'unknown parameter "bye" (did you mean "by"?)'],
  ['/api/usage?since=yesterday', 400, 'invalid_parameter', 'since must be a date'],
  ['/api/usage?org=acme&org=other', 400, 'invalid_parameter', 'org comes twice'],
  ['/api/requests?limit=0', 400, 'invalid_parameter', 'limit must be a whole number from 1'],
  ['/api/requests?recent=201', 400, 'invalid_parameter', 'recent must be a whole number from 1 to 200'],
  ['/api/requests?outcome=good', 400, 'invalid_parameter', 'outcome must be one of completed'],
  ['/api/status?history=yes', 400, 'invalid_parameter', 'history must be true or false'],
  ['/api/explain?key=ci', 400, 'invalid_parameter', 'model is required'],
  ['/api/explain?key=cj&model=small', 404, 'unknown_key', 'no key has the id "cj" (did you mean "ci"?)'],
])('%s is %d %s', async (path, status, code, message) => {
  const answer = await fetch(`${weir.admin}${path}`)
  expect([answer.status, await answer.json()]).toEqual([
    status,
    { error: { code, message: expect.stringContaining(message) } },
  ])
})
