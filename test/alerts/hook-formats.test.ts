/**
 * What each format of a hook posts, for every type of alert, at its beginning and its end: it has the form that the
 * service publishes, the end finds its beginning, and nothing that an alert quotes has an effect. And an Alertmanager
 * takes it: its own notifications begin and end.
 */

import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Ajv2020 from 'ajv/dist/2020.js'
import { pino } from 'pino'
import {
  ALERT_TYPES,
  type Alert,
  type AlertType,
  alertOf,
  type Occurrence,
  resolvedOf,
  topicOf,
} from '../../src/alerts/alert.ts'
import { Alerts } from '../../src/alerts/alerts.ts'
import { hookBody } from '../../src/alerts/hook-formats.ts'
import type { HookConfig } from '../../src/core/alerts-config.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { lastingPort } from '../support/ports.ts'
import { webhook } from '../support/webhook.ts'

const root = mkdtempSync(join(tmpdir(), 'weir-hooks-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const NOW = Date.parse('2026-11-21T12:00:00Z')
const KEY = '0123456789abcdef0123456789abcdef'
/** Mark-up of Slack, a template, half a character, and more than any service takes. */
const ODD = `<!channel> *a* & <https://e.org|x> {{ .Labels }} \u2028 ${'\u{1f600}'.repeat(3000)}`

function spend(more: object = {}) {
  return { organization: 'acme', key: null, window: 'day', limit_usd: 5, spent_usd: 4.1, ...more } as const
}

const target = { provider: 'openai', model: 'gpt-5-mini' }

test('what a person reads has the cause of a failure, and dollars as everywhere', () => {
  const [ofAnswer, ofConnection] = FIELDS['target.open'].map(ALERT_TYPES['target.open'].summary)
  expect(ofAnswer).toEndWith('(overloaded)')
  expect(ofConnection).toEndWith('(unreachable, ENOTFOUND)')
  const refusing = ALERT_TYPES['spend.refusing'].summary
  expect(refusing(spend())).toEndWith('$4.10 of its day limit of $5.00 is spent')
  expect(refusing(spend({ limit_usd: 0.0512, spent_usd: 0 }))).toEndWith('$0.00 of its day limit of $0.0512 is spent')
  const ofCounter = refusing(spend({ name: 'person', value: 'ann' }))
  expect(ofCounter).toBe(
    'Requests of budget person (ann) of acme are refused: $4.10 of its day limit of $5.00 is spent',
  )
})

test('each counter of a budget has alerts of its own', () => {
  const counters = [
    {},
    { name: 'pool', value: null },
    { name: 'person', value: 'ann' },
    { name: 'person', value: 'bo' },
  ]
  const alerts = counters.map((counter) =>
    alertOf({ type: 'spend.refusing', fields: spend(counter) }, { node: 'n', nowMs: NOW }),
  )
  expect(new Set(alerts.map(topicOf)).size).toBe(counters.length)
  expect(topicOf(alerts[0] as Alert)).toBe('["spend.refusing","acme",null,"day"]')
})

/** The fields of each type, and others that are as odd as they may be. */
const FIELDS: Readonly<Record<AlertType, readonly JsonObject[]>> = {
  'spend.threshold': [spend({ share: 0.8 }), spend({ key: ODD, share: 1 })],
  'spend.refusing': [spend(), spend({ key: 'ci' })],
  'provider.credential_rejected': [target],
  'provider.credit_exhausted': [target],
  'target.open': [
    { ...target, reason: 'overloaded', since: '2026-11-21T11:59:00.000Z' },
    { ...target, reason: 'unreachable', cause: 'ENOTFOUND', since: '2026-11-21T11:59:00.000Z' },
  ],
  'model.down': [{ model: 'm', reason: ODD, since: '2026-11-21T11:59:00.000Z' }],
  'ledger.down': [{ reason: 'Redis is not reached (ECONNREFUSED)' }, { reason: ODD }, {}],
  'ledger.up': [{}],
  'disk.full': [
    { data_dir: '/var/lib/weir', free_bytes: 12 },
    { data_dir: '', free_bytes: null },
  ],
  'reload.rejected': [{ problems: ['a', 'b', 'c', 'd'] }, { problems: Array(10).fill(ODD) }],
  'worker.died': [{ worker: 0, how: 'signal SIGKILL' }],
  'fleet.mixed': [{ since: '2026-11-21T11:50:00.000Z', differences: ['models[3].price on b', ODD] }],
  'key.expiring': [{ organization: 'acme', key: 'ci', expires_at: '2026-11-27T00:00:00.000Z' }],
  test: [{}],
}

const CASES = Object.entries(FIELDS).flatMap(([type, all]) =>
  all.flatMap((fields): readonly JsonObject[] => {
    const origin = { node: 'gateway-1', nowMs: NOW, id: 'alert_1' }
    const firing = { ...alertOf({ type, fields } as unknown as Occurrence, origin) }
    return ALERT_TYPES[type as AlertType].ends ? [firing, resolvedOf(firing, NOW + 60_000)] : [firing]
  }),
)

function hookOf(format: HookConfig['format'], more: Partial<HookConfig> = {}): HookConfig {
  const url = 'http://127.0.0.1:9/'
  return { key: format, label: format, format, url, secret: KEY, events: ['*'], ...more }
}

function bodyOf(format: HookConfig['format'], alert: JsonObject): JsonObject {
  return JSON.parse(hookBody(JSON.stringify(alert), hookOf(format), NOW + 61_000).body)
}

test.each(['slack', 'alertmanager', 'pagerduty'] as const)('%s: its published form, for every type', (format) => {
  const schema = JSON.parse(readFileSync(join(import.meta.dir, `../fixtures/alerts/${format}.schema.json`), 'utf8'))
  const validate = new Ajv2020({ strict: false, allErrors: true }).compile(schema)
  for (const alert of CASES) {
    const body = bodyOf(format, alert)
    expect({ alert: alert['type'], errors: validate(body) ? [] : validate.errors }).toEqual({
      alert: alert['type'],
      errors: [],
    })
    // Half a character is none.
    expect(JSON.stringify(body)).not.toMatch(/\\ud[89ab]../i)
  }
})

test('weir: the alert as it is, with its own time in the signature', () => {
  const [firing = {}] = CASES
  const text = JSON.stringify(firing)
  const { body, headers } = hookBody(text, hookOf('weir'), NOW)
  expect(body).toBe(text)
  expect(headers['weir-signature']).toMatch(new RegExp(`^t=${NOW / 1000},v1=[0-9a-f]{64}$`))
})

test('the end is about the same as its beginning, and has its own time', () => {
  for (const alert of CASES.filter(({ status }) => status === 'resolved')) {
    const firing: JsonObject = { ...alert, status: 'firing', resolved_at: undefined }
    const [begun, ended] = [bodyOf('alertmanager', firing), bodyOf('alertmanager', alert)].map(
      (body) => (body as unknown as readonly JsonObject[])[0] ?? {},
    )
    expect(ended?.['labels']).toEqual(begun?.['labels'] ?? {})
    expect([begun?.['startsAt'], begun?.['endsAt']]).toEqual(['2026-11-21T12:00:00.000Z', '2026-11-21T12:06:01.000Z'])
    expect(ended?.['endsAt']).toBe('2026-11-21T12:01:00.000Z')
    expect(bodyOf('pagerduty', firing)).toMatchObject({ event_action: 'trigger', dedup_key: 'alert_1' })
    expect(bodyOf('pagerduty', alert)).toEqual({
      ...{ routing_key: KEY, event_action: 'resolve', dedup_key: 'alert_1', client: 'weir' },
    })
    expect(String(bodyOf('slack', alert)['text'])).toStartWith('[resolved] ')
  }
})

test('what all nodes report has no node in its labels, and what an alert quotes is no mark-up', () => {
  const labels = CASES.map((alert) => {
    const [first] = bodyOf('alertmanager', alert) as unknown as readonly { readonly labels: JsonObject }[]
    return `${alert['type']} ${first?.labels['node']}`
  })
  expect(labels.filter((text) => text.endsWith('undefined')).map((text) => text.split('.')[0])).toEqual([
    ...['spend', 'spend', 'spend', 'spend', 'spend', 'spend', 'fleet', 'fleet', 'key'],
  ])
  for (const alert of CASES) expect(bodyOf('slack', alert)['text']).not.toMatch(/[<>]/)
})

/** Its configuration: everything at once to one receiver, ends as well. */
const ALERTMANAGER = (url: string) => `
route: { receiver: hook, group_by: [alertname], group_wait: 100ms, group_interval: 1s, repeat_interval: 1h }
receivers:
  - name: hook
    webhook_configs: [{ url: "${url}", send_resolved: true }]
`

interface Notified {
  readonly status: string
  readonly alerts: readonly { readonly status: string; readonly labels: JsonObject; readonly annotations: JsonObject }[]
}

test('an Alertmanager reports the beginning and the end of what it is sent', async () => {
  using receiver = webhook()
  const port = await lastingPort()
  const config = join(root, 'alertmanager.yaml')
  writeFileSync(config, ALERTMANAGER(receiver.url))
  const child = Bun.spawn(
    [
      ...['prometheus-alertmanager', `--config.file=${config}`, `--storage.path=${join(root, 'alertmanager')}`],
      ...[`--web.listen-address=127.0.0.1:${port}`, '--cluster.listen-address='],
    ],
    { stdout: 'ignore', stderr: 'ignore' },
  )
  const url = `http://127.0.0.1:${port}/api/v2/alerts`
  const hook = hookOf('alertmanager', { url, secret: undefined })
  const logger = pino({ level: 'silent' })
  // Its attempts before the Alertmanager listens fail, and are repeated.
  const alerts = new Alerts({ dataDir: join(root, 'data'), config: { hooks: [hook], spend: [] }, node: 'n1', logger })
  try {
    const down = (reason: string): Occurrence => ({ type: 'model.down', fields: { model: 'm', reason, since: '' } })
    alerts.report(down('no target answers'))
    const notified = async (status: string) => {
      const matching = (body: JsonObject) => (body as unknown as Notified).status === status
      return ((await receiver.until(1, matching)) as unknown as readonly Notified[])[0]?.alerts[0]
    }
    const labels = { alertname: 'model.down', service: 'weir', severity: 'critical', node: 'n1', model: 'm' }
    expect(await notified('firing')).toMatchObject({
      ...{ status: 'firing', labels },
      annotations: { summary: 'Model m is down: no target answers', id: expect.stringMatching(/^alert_[0-9a-f]{32}$/) },
    })
    alerts.hold('model.down', [])
    expect(await notified('resolved')).toMatchObject({ status: 'resolved', labels })
    const left: unknown = await (await fetch(`${url}?active=true`)).json()
    expect(left).toEqual([])
  } finally {
    await alerts.close()
    child.kill()
    await child.exited
  }
})
