/** The figures as Prometheus reads them. */

import { expect, test } from 'bun:test'
import { metricsText } from '../../src/admin/metrics.ts'
import { type SpendRow, spendReader } from '../../src/admin/spend-figures.ts'
import type { SupervisorFigures } from '../../src/admin/supervision.ts'
import { priceAges } from '../../src/admin/system-series.ts'
import type { Rest } from '../../src/gateway/breaker.ts'
import { TARGET_STATES, type TargetState } from '../../src/gateway/target-states.ts'
import { MergedFigures } from '../../src/metrics/merged-figures.ts'
import { adminPort, checked, supervisorFigures, UNKNOWN } from '../support/admin.ts'

const A = { provider: 'up', model: 'a' }
const B = { provider: 'up', model: 'ft:"b"\\1' }
const rest: Rest = { ...A, restMs: 2500, rests: 2, asked: false, reason: 'failed', probing: false }

const resting: TargetState = {
  state: 'resting',
  rest,
  failing: { reason: 'failed', sinceMs: 1000, lastMs: 5000, isOfStreams: false },
  answeredMs: 0,
  isDown: true,
}

/** Every sample by its name and labels. */
function samples(text: string): Readonly<Record<string, number>> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

test('each target shows whether it is skipped, and how long; earlier targets have no series', async () => {
  let figures: SupervisorFigures = supervisorFigures({
    targets: [
      { target: A, state: resting },
      { target: B, state: UNKNOWN },
    ],
    workers: { configured: 2, ready: 1, restarts: { exit: 1, signal: 2, stuck: 0 }, loopLag: new Map([[1, 0.25]]) },
    freeBytes: 5_000_000_000,
    dataDirBytes: 1234,
    lastReload: { isSuccess: false, succeededMs: 1_500_000_000_500 },
    builds: [{ process: 'worker', version: '1', commit: 'c', bun: '2' }],
    // A worker that died and is not started again yet.
    processes: [{ process: 'worker', worker: '1', cpuSeconds: 12.5, running: undefined }],
  })
  const admin = adminPort({ supervision: { figures: () => figures } })
  const scrape = async () => await admin.ask('/metrics')
  const answer = await scrape()
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
  const [a, b] = ['provider="up",model="a"', 'provider="up",model="ft:\\"b\\"\\\\1"']
  const text = await answer.text()
  expect(text).toMatch(/^# HELP weir_target_resting .+\n# TYPE weir_target_resting gauge$/m)
  expect(text).toMatch(/^# TYPE weir_worker_restarts_total counter$/m)
  expect(samples(text)).toEqual({
    [`weir_target_resting{${a}}`]: 1,
    [`weir_target_resting{${b}}`]: 0,
    [`weir_target_rest_seconds{${a}}`]: 2.5,
    [`weir_target_rest_seconds{${b}}`]: 0,
    [`weir_target_failing_seconds{${a}}`]: 4,
    [`weir_target_failing_seconds{${b}}`]: 0,
    ...Object.fromEntries(
      TARGET_STATES.flatMap((state) => [
        [`weir_target_state{${a},state="${state}"}`, state === 'resting' ? 1 : 0],
        [`weir_target_state{${b},state="${state}"}`, state === 'unknown' ? 1 : 0],
      ]),
    ),
    'weir_in_flight_requests{streamed="true"}': 0,
    'weir_in_flight_requests{streamed="false"}': 0,
    weir_sockets: 0,
    weir_socket_state_bytes: 0,
    weir_socket_turns_total: 0,
    weir_workers: 2,
    weir_workers_ready: 1,
    'weir_worker_restarts_total{reason="exit"}': 1,
    'weir_worker_restarts_total{reason="signal"}': 2,
    'weir_worker_restarts_total{reason="stuck"}': 0,
    'weir_event_loop_lag_seconds{worker="1"}': 0.25,
    weir_ledger_up: 1,
    weir_ledger_fields: 0,
    weir_nodes: 0,
    'weir_nodes_mixed{what="configuration"}': 0,
    'weir_nodes_mixed{what="prices"}': 0,
    'weir_nodes_mixed{what="version"}': 0,
    weir_outbox_pending: 0,
    weir_trace_spans_dropped_total: 0,
    weir_data_dir_bytes: 1234,
    weir_data_dir_free_bytes: 5_000_000_000,
    weir_config_last_reload_success: 0,
    weir_config_last_reload_timestamp_seconds: 1_500_000_000.5,
    'weir_build_info{process="worker",version="1",commit="c",bun="2",node="gateway-1"}': 1,
    'process_cpu_seconds_total{process="worker",worker="1"}': 12.5,
    'weir_spend_used_usd{organization="test",window="day"}': 0,
    'weir_spend_used_usd{organization="test",window="month"}': 0,
    'weir_spend_used_usd{organization="test",window="total"}': 0,
    'weir_spend_held_usd{organization="test",window="day"}': 0,
    'weir_spend_held_usd{organization="test",window="month"}': 0,
    'weir_spend_held_usd{organization="test",window="total"}': 0,
  })
  figures = {
    ...figures,
    targets: [{ target: A, state: { ...resting, state: 'probing', rest: { ...rest, probing: true } } }],
    ledgerUp: false,
    ledgerFields: 1234,
    freeBytes: undefined,
  }
  expect(samples(await (await scrape()).text())).toMatchObject({
    [`weir_target_resting{${a}}`]: 1,
    [`weir_target_rest_seconds{${a}}`]: 0,
    weir_ledger_up: 0,
    weir_ledger_fields: 1234,
    weir_data_dir_free_bytes: Number.NaN,
  })
  expect(await (await scrape()).text()).not.toContain('ft:')
})

test('counters and histograms: money in dollars, buckets that add up, the key if a series has one', async () => {
  const counted = new MergedFigures()
  counted.add(
    {
      counters: {
        weir_cost_usd_total: [
          [['m', 'up', 'acme'], 1_100_000],
          [['m', 'up', 'acme', 'ci'], 3],
        ],
        weir_fallbacks_total: [[['a', 'b'], 2]],
      },
      histograms: { weir_time_per_output_token_seconds: [[['chat', 'm'], [1, 0, 2, ...new Array(11).fill(0)], 0.15]] },
      gauges: { inFlight: 3, streams: 2, sockets: 5, socketStateBytes: 600, outboxPending: 4, loopLagSeconds: 0 },
      errors: [],
    },
    1,
  )
  const admin = adminPort({ supervision: { figures: () => supervisorFigures({ counted }) } })
  const text = await (await admin.ask('/metrics')).text()
  const found = samples(text)
  expect(text).toMatch(/^# TYPE weir_time_per_output_token_seconds histogram$/m)
  const name = 'weir_time_per_output_token_seconds'
  const served = 'dialect="chat",model="m"'
  expect(found).toMatchObject({
    'weir_cost_usd_total{model="m",provider="up",organization="acme"}': 1.1,
    'weir_cost_usd_total{model="m",provider="up",organization="acme",key="ci"}': 0.000003,
    'weir_fallbacks_total{requested="a",served="b"}': 2,
    'weir_in_flight_requests{streamed="true"}': 2,
    'weir_in_flight_requests{streamed="false"}': 1,
    weir_sockets: 5,
    weir_socket_state_bytes: 600,
    weir_outbox_pending: 4,
    [`${name}_bucket{${served},le="0.01"}`]: 1,
    [`${name}_bucket{${served},le="0.025"}`]: 1,
    [`${name}_bucket{${served},le="0.05"}`]: 3,
    [`${name}_bucket{${served},le="+Inf"}`]: 3,
    [`${name}_sum{${served}}`]: 0.15,
    [`${name}_count{${served}}`]: 3,
  })
})

test('spend is read once for all who ask, and left out while the ledger cannot be read', async () => {
  const row: SpendRow = { organization: 'a', window: 'day', usedMicroUsd: 1, heldMicroUsd: 0, limitMicroUsd: undefined }
  const config = checked({ providers: { fake: 'http://127.0.0.1:9/v1' } })
  let reads = 0
  const read = spendReader(
    () => config,
    async () => {
      reads++
      return [row]
    },
  )
  const all = await Promise.all([read(), read(), read()])
  expect(all).toEqual([[row], [row], [row]])
  expect(await read()).toEqual([row])
  expect(reads).toBe(1)
  const broken = spendReader(
    () => config,
    () => Promise.reject(new Error('unreachable')),
  )
  expect(await broken()).toBeUndefined()
})

test('models whose prices are dated have an age', () => {
  const models = [
    { name: 'old', price: { input: 1, asOf: '2026-08-01' } },
    { name: 'undated', price: { input: 1 } },
    { name: 'free' },
  ]
  const ages = priceAges({ models: models.map((model) => ({ ...MODEL, ...model })) }, Date.UTC(2026, 10, 1, 12))
  const text = metricsText({ ...supervisorFigures({}), priceAges: ages })
  expect(text.split('\n').filter((line) => line.startsWith('weir_price_age_days'))).toEqual([
    'weir_price_age_days{model="old"} 92',
  ])
})

const MODEL = {
  ...{ aliases: [], targets: [], fallbacks: [], defaultOutputTokens: 1, supports: [] },
  promptCache: { key: false, explicit: false, ttls: [] },
}
