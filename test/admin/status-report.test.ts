/** What an operator should look at. */

import { expect, test } from 'bun:test'
import { statusOf } from '../../src/admin/status-report.ts'
import type { SystemState } from '../../src/admin/supervision.ts'
import { checked, systemState } from '../support/admin.ts'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const DAY_MS = 86_400_000
const config = checked({ providers: { fake: 'http://127.0.0.1:9/v1' } })
const figures = {
  requests_per_second: 0,
  open_streams: 0,
  in_flight: 0,
  error_share: null,
  limited_share: null,
  time_to_first_token_p50_ms: null,
  time_to_first_token_p95_ms: null,
  tokens_per_second: 0,
  cost_micro_usd_per_second: 0,
}
const nothing = {
  ...{ reasons: [], costTodayMicroUsd: 0, budgets: [], counters: [], expiringKeys: [] },
  ...{ nodes: null, mixed: undefined },
}
type Given = Partial<SystemState & Parameters<typeof statusOf>[1]>

function attention(given: Given): readonly string[] {
  const status = statusOf(systemState(config, given), { ...nothing, ...given }, figures, NOW)
  return status.attention.map(({ level, kind, message }) => `${level} ${kind}: ${message}`)
}

const rest = { provider: 'fake', model: 'm', rests: 1, asked: false, probing: false }
const budget = {
  organization: 'acme',
  limit: 'spend.day',
  unit: 'micro_usd',
  state: 'near',
  renews_at: null,
  used_up_at: null,
} as const

test('a healthy weir needs no attention', () => {
  expect(attention({})).toEqual([])
  expect(attention({ alertFailures: [{ hook: 'h', sinceMs: NOW - 5 * 60_000, reason: 'x' }] })).toEqual([])
})

test.each<[string, Given, string]>([
  ['a reason', { reasons: ['worker 1 is down'] }, 'error readiness: worker 1 is down'],
  ['the ledger', { isLedgerUp: false }, 'error ledger: A worker reports the ledger down.'],
  [
    'why it is down',
    { isLedgerUp: false, ledgerProblem: 'Redis is loading.' },
    'error ledger: The ledger is down: Redis is loading.',
  ],
  [
    'a rejected reload',
    { lastReload: { atMs: NOW, changes: [], problems: ['weir.yaml:3: x', 'y'] } },
    'error configuration: The last reload was rejected; the configuration before is in force: ' +
      'weir.yaml:3: x (and 1 more)',
  ],
  ['a warning', { warnings: ['weir.yaml:3: warning: x'] }, 'warning configuration: weir.yaml:3: warning: x'],
  [
    'the disk',
    { space: { freeBytes: 99, totalBytes: 1000 } },
    'warning disk: Only 9.9% of the disk of /nowhere/data is free.',
  ],
  [
    'a full disk',
    { space: { freeBytes: 63.9 * 1024 * 1024, totalBytes: 1e12 } },
    'error disk: The disk of /nowhere/data is full: only 63.9 MiB are free.',
  ],
  [
    'a death',
    {
      lastDeath: { atMs: NOW - 1000, worker: 2, how: 'signal SIGKILL' },
      workers: { configured: 3, ready: 3, restarts: 2 },
    },
    'warning worker: Worker 2 died (signal SIGKILL). Workers were restarted 2 times since the start.',
  ],
  [
    'a webhook that has failed for 5 minutes',
    { alertFailures: [{ hook: 'alerts.webhook', sinceMs: NOW - 5 * 60_000 - 1, reason: 'it answered 500' }] },
    'error alert: Alerts are not delivered to alerts.webhook: it answered 500. They are tried again for a day.',
  ],
  [
    'a rest',
    { rests: [{ ...rest, restMs: 1500, reason: 'timeout' }] },
    'warning target: fake/m rests for 2 s because it does not answer in time.',
  ],
  [
    'a rest that is over',
    { rests: [{ ...rest, restMs: 0, reason: 'timeout' }] },
    'warning target: fake/m gets one request at a time until it succeeds, because it does not answer in time.',
  ],
  [
    'a probe',
    { rests: [{ ...rest, restMs: 0, reason: 'timeout', probing: true }] },
    'warning target: fake/m is being probed because it does not answer in time.',
  ],
  [
    'a credential',
    { rests: [{ ...rest, restMs: 1500, reason: 'credential' }] },
    'error credential: fake rejects our credential (target fake/m).',
  ],
  [
    'a full budget',
    { budgets: [{ ...budget, key: 'ci', amount: 100, used: 80, held: 12 }] },
    'warning budget: 92% of spend.day of key ci of acme is used or held.',
  ],
  [
    'a budget that refuses',
    { budgets: [{ ...budget, key: null, amount: 1e6, used: 610_000, held: 0, state: 'refusing' }] },
    'error budget: spend.day of acme refuses requests: $0.61 of $1.00 is spent. It does not renew.',
  ],
  [
    'a key that expires',
    { expiringKeys: [{ id: 'ci', organization: 'acme', expiresAtMs: NOW + 14 * DAY_MS }] },
    'warning key_expiring: Key ci of acme expires at 2026-12-05T12:00:00.000Z.',
  ],
])('%s', (_name, given, line) => {
  expect(attention(given)).toEqual([line])
})

test.each<[string, Given]>([
  ['a reload that succeeded', { lastReload: { atMs: NOW, changes: ['+ model a'], problems: [] } }],
  ['a disk with a tenth', { space: { freeBytes: 100, totalBytes: 1000 } }],
  ['a death of long ago', { lastDeath: { atMs: NOW - 60_001, worker: 0, how: 'exit code 1' } }],
  ['a budget below 90 %', { budgets: [{ ...budget, key: null, amount: 1000, used: 899, held: 0 }] }],
  ['a full rate', { budgets: [{ ...budget, key: null, unit: 'requests', amount: 10, used: 10, held: 0 }] }],
  ['a key of later', { expiringKeys: [{ id: 'ci', organization: 'acme', expiresAtMs: NOW + 14 * DAY_MS + 1 }] }],
  ['a key that has expired', { expiringKeys: [{ id: 'ci', organization: 'acme', expiresAtMs: NOW }] }],
])('%s needs none', (_name, given) => {
  expect(attention(given)).toEqual([])
})

test('errors come first, and at most 100 are listed', () => {
  const warnings = Array.from({ length: 150 }, (_, i) => `w${i}`)
  const lines = attention({ warnings, reasons: ['draining'] })
  expect(lines).toHaveLength(100)
  expect(lines[0]).toBe('error readiness: draining')
})
