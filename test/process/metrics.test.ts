/**
 * The metrics of a running weir with several workers: they survive the death and the replacement of each, and
 * Prometheus gives the figures of `weir usage`.
 */

import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { probe } from '../../src/process/system/listen-address.ts'
import { configOf, KEY } from '../support/gateway.ts'
import { lasting, lastingUpstream } from '../support/served.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { PROGRAM, until, Weir } from './weir.ts'

const ALERTS = join(import.meta.dir, '../../contrib/prometheus/alerts.yaml')
const DASHBOARD = join(import.meta.dir, '../../contrib/grafana/weir.json')

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string }[]
}

const PANELS = ((await Bun.file(DASHBOARD).json()) as { panels: readonly Panel[] }).panels

const upstream = await lastingUpstream()
upstream.otherwise(speaks('openai', () => textAnswer('Hello')))
const config = configOf(
  {
    providers: { up: upstream.url },
    models: { m: ['up/m'], n: ['up/n'] },
    config: {
      workers: 2,
      drain_seconds: 20,
      organizations: [{ id: 'test', limits: { spend: { day: 5 } }, keys: [{ id: 'one', key: KEY }] }],
    },
  },
  '.',
)
const weir = lasting(await Weir.ready(JSON.stringify(config)))

/** Sends requests of both models, half of them streamed, one after the other. */
async function send(requests: number): Promise<void> {
  for (let i = 0; i < requests; i++) {
    const body = { model: i % 3 === 0 ? 'n' : 'm', stream: i % 2 === 0, messages: [{ role: 'user', content: 'Hello' }] }
    const answer = await fetch(`${weir.address}/v1/chat/completions`, {
      method: 'POST',
      // A worker that is replaced ends when its last connection is closed.
      keepalive: false,
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(answer.status).toBe(200)
    await answer.text()
  }
}

async function scrape(): Promise<string> {
  return await (await fetch(`${weir.admin}/metrics`)).text()
}

/** The sum of all series of a metric whose labels contain a text. */
function sumOf(text: string, name: string, labels = ''): number {
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) && line.includes(labels))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

/** Resolves to the metrics, once the workers have posted that many requests. */
async function counted(requests: number): Promise<string> {
  let text = ''
  await until(async () => {
    text = await scrape()
    return sumOf(text, 'weir_requests_total') >= requests
  })
  return text
}

test('counters survive a worker that is killed, and lose nothing when the workers are replaced', async () => {
  await send(10)
  await counted(10)
  const [killed = 0] = await weir.workers()
  process.kill(killed, 'SIGKILL')
  await weir.line('worker died')
  await until(async () => (await weir.readyz()).status === 200)
  expect(sumOf(await scrape(), 'weir_requests_total')).toBe(10)
  await send(10)
  // What they have not posted yet, the workers post when they end.
  weir.signal('SIGUSR2')
  await weir.line('workers replaced')
  const text = await counted(20)
  expect(sumOf(text, 'weir_requests_total')).toBe(20)
  expect(sumOf(text, 'weir_requests_total', 'model="n",organization="test",status="200"')).toBe(8)
  expect(sumOf(text, 'weir_worker_restarts_total', 'signal')).toBe(1)
  expect(sumOf(text, 'weir_time_to_first_token_seconds_count')).toBe(10)
  expect(sumOf(text, 'weir_spend_limit_usd', 'window="day"')).toBe(5)
  const labels = [
    'process="worker"',
    'version="[\\d.]+(?:\\+[\\w.]+)?"',
    'commit="\\w+"',
    'bun="[\\d.]+"',
    'node="[^"]+"',
  ]
  expect(text).toMatch(new RegExp(`^weir_build_info\\{${labels.join(',')}\\} 1$`, 'm'))
  for (const process of ['process="supervisor",worker=""', 'process="worker",worker="1"', 'process="ledger"'])
    expect(sumOf(text, 'process_resident_memory_bytes', process)).toBeGreaterThan(10_000_000)
})

test('workers that end post what they have counted', async () => {
  const before = sumOf(await scrape(), 'weir_requests_total')
  await send(3)
  for (const worker of await weir.workers()) process.kill(worker, 'SIGTERM')
  await until(async () => sumOf(await scrape(), 'weir_worker_restarts_total', 'exit') === 2)
  expect(sumOf(await scrape(), 'weir_requests_total')).toBe(before + 3)
  await until(async () => (await weir.readyz()).status === 200)
})

test('what was spent is read from the ledger', async () => {
  const cost = sumOf(await scrape(), 'weir_cost_usd_total')
  expect(cost).toBeGreaterThan(0)
  // In micro-dollars, because sums of decimals differ by binary fractions.
  const micro = (dollars: number) => Math.round(dollars * 1e6)
  await until(async () => micro(sumOf(await scrape(), 'weir_spend_used_usd', 'window="day"')) === micro(cost))
})

test('a rejected configuration shows until one is in force again', async () => {
  const config = await Bun.file(join(weir.folder, 'weir.yaml')).text()
  const reloaded = async (text: string, event: string) => {
    await weir.configure(text)
    weir.signal('SIGHUP')
    await until(() => weir.lines.some((line) => line['event'] === event))
    return await scrape()
  }
  expect(await reloaded('{', 'config.rejected')).toMatch(/^weir_config_last_reload_success 0$/m)
  expect(await reloaded(config, 'config.reloaded')).toMatch(/^weir_config_last_reload_success 1$/m)
})

test('every series that the alerts and the dashboard name exists', async () => {
  const known = new Set([...(await scrape()).matchAll(/^# HELP (\w+)/gm)].map(([, name = '']) => name))
  const expressions = PANELS.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  const text = [await Bun.file(ALERTS).text(), await Bun.file(DASHBOARD).text(), ...expressions].join('\n')
  const named = [...text.matchAll(/\b(?:weir|process)_[a-z_]+/g)].map(([name]) =>
    name.replace(/_(bucket|sum|count)$/, ''),
  )
  expect(new Set(named).size).toBeGreaterThan(30)
  expect([...new Set(named)].filter((name) => !known.has(name))).toEqual([])
})

test('the alert rules pass their own tests', async () => {
  for (const words of [
    ['check', 'rules', 'alerts.yaml'],
    ['test', 'rules', 'alerts.test.yaml'],
  ]) {
    const promtool = Bun.spawn(['promtool', ...words], { cwd: join(ALERTS, '..'), stdout: 'pipe', stderr: 'pipe' })
    const output = await promtool.stdout.text()
    expect([await promtool.exited, output]).toEqual([0, expect.stringContaining('SUCCESS')])
  }
})

interface Result {
  readonly data: {
    readonly result: readonly { readonly metric: { model: string }; readonly value: [number, string] }[]
  }
}

test('Prometheus answers the queries of the dashboard with the figures of `weir usage`', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-test-'))
  const { port } = probe({ host: '127.0.0.1', port: 0 })
  const place = new URL(weir.admin).host
  const job = { job_name: 'weir', static_configs: [{ targets: [place] }] }
  await Bun.write(
    join(folder, 'prometheus.yml'),
    JSON.stringify({ global: { scrape_interval: '1s' }, rule_files: [ALERTS], scrape_configs: [job] }),
  )
  const prometheus = Bun.spawn(
    [
      'prometheus',
      '--config.file=prometheus.yml',
      '--storage.tsdb.path=data',
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { cwd: folder, stdio: ['ignore', 'ignore', 'ignore'] },
  )
  try {
    const panel = PANELS.find(({ title }) => title === 'Since the start of weir, by model')
    const [requests = '', input = '', output = '', dollars = ''] = panel?.targets?.map(({ expr }) => expr) ?? []
    const ask = async (query: string) => {
      const url = new URL(`http://127.0.0.1:${port}/api/v1/query`)
      url.searchParams.set('query', query.replace(/\$\w+/g, '.*'))
      const { data } = (await (await fetch(url)).json()) as Result
      return Object.fromEntries(data.result.map(({ metric, value }) => [metric.model, Number(value[1])]))
    }
    await until(async () => Object.keys(await ask(requests).catch(() => ({}))).length === 2)
    const usage = Bun.spawn([...PROGRAM, 'usage', '--by', 'model', '--json'], { cwd: weir.folder, stdout: 'pipe' })
    const { rows } = (await usage.stdout.json()) as { rows: readonly Readonly<Record<string, number>>[] }
    const column = (name: string, unit = 1) =>
      Object.fromEntries(rows.map((row) => [String(row['model']), (row[name] ?? Number.NaN) / unit]))
    expect(rows).toHaveLength(2)
    expect(await ask(requests)).toEqual(column('requests'))
    expect(await ask(input)).toEqual(column('input_tokens'))
    expect(await ask(output)).toEqual(column('output_tokens'))
    expect(await ask(dollars)).toEqual(column('cost_micro_usd', 1_000_000))
  } finally {
    prometheus.kill()
    await prometheus.exited
    await rm(folder, { recursive: true, force: true })
  }
})
