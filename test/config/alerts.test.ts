/** `alerts` of the file: what is accepted, and what is wrong with the rest. */

import { expect, test } from 'bun:test'
import { parseConfig } from '../../src/config/parse.ts'

const SECRET = 'secret: a-secret-of-the-test-0123'

function parsed(alerts: string, env: Readonly<Record<string, string>> = {}, use?: 'ledger') {
  const text = [
    'providers: { p: { dialect: openai, base_url: "http://127.0.0.1:1/v1" } }',
    'models: [{ name: m, targets: [{ provider: p, model: m }] }]',
    'organizations: [{ id: acme, keys: [{ id: ci, key: a-key-of-the-test-0123 }] }]',
    alerts,
  ].join('\n')
  return parseConfig(text, {
    env,
    readFile: () => ({ error: 'there are no files here' }),
    cores: 1,
    ...(use === undefined ? {} : { use }),
  })
}

test('without the section there are no alerts; without shares there are none about spend', () => {
  const absent = parsed('')
  expect(absent.ok && absent.config.alerts).toBeUndefined()
  const plain = parsed(`alerts: { webhook: "https://example.org/hook?a=1", ${SECRET} }`)
  const url = 'https://example.org/hook?a=1'
  const secret = 'a-secret-of-the-test-0123'
  const hook = { key: 'webhook', label: 'alerts.webhook', format: 'weir', events: ['*'] }
  expect(plain.ok && (plain.config.alerts as unknown)).toEqual({ hooks: [{ ...hook, url, secret }], spend: [] })
  const shares = parsed(`alerts: { webhook: "https://e.org", ${SECRET}, spend: [0.5, 1] }`)
  expect(shares.ok && shares.config.alerts).toMatchObject({ spend: [0.5, 1], hooks: [{ url: 'https://e.org' }] })
  expect(parsed(`alerts: { webhook: "http://127.0.0.1:9/hook", ${SECRET} }`).ok).toBe(true)
})

test.each([
  [`alerts: { ${SECRET} }`, 'alerts.secret', /webhook/],
  ['alerts: {}', 'alerts.webhook', /missing/],
  ['alerts: { hooks: [] }', 'alerts.webhook', /missing/],
  ['alerts: { webhook: "https://e.org" }', 'alerts.secret', /missing|required/],
  ['alerts: { webhook: "https://e.org", secret: short }', 'alerts.secret', /16 to 256/],
  [`alerts: { webhook: "http://example.org/hook", ${SECRET} }`, 'alerts.webhook', /https:\/\//],
  [`alerts: { webhook: "ftp://example.org", ${SECRET} }`, 'alerts.webhook', /https:\/\//],
  [`alerts: { webhook: "hook", ${SECRET} }`, 'alerts.webhook', /https:\/\//],
  [`alerts: { webhook: "https://a:b@e.org", ${SECRET} }`, 'alerts.webhook', /user name/],
  [`alerts: { webhook: "https://e.org", ${SECRET}, spend: [0] }`, 'alerts.spend[0]', /0/],
  [`alerts: { webhook: "https://e.org", ${SECRET}, spend: [1.5] }`, 'alerts.spend[0]', /1/],
  [`alerts: { webhook: "https://e.org", ${SECRET}, spend: [0.5, 0.5] }`, 'alerts.spend[1]', /above/],
  [`alerts: { webhook: "https://e.org", ${SECRET}, spend: [0.8, 0.5] }`, 'alerts.spend[1]', /above/],
])('%s', (alerts, path, message) => {
  const result = parsed(alerts)
  const problems = result.ok ? [] : result.problems
  expect(problems.map((problem) => problem.path)).toEqual([path])
  expect(problems[0]?.message).toMatch(message)
  expect(JSON.stringify(problems)).not.toContain('a-secret-of-the-test')
})

const KEY = 'secret: 0123456789abcdef0123456789abcdef'

test('hooks: of each format, beside the webhook', () => {
  const hooks = [
    `{ url: "https://e.org/a", ${SECRET} }`,
    '{ url: "https://hooks.slack.com/services/T/B/x", format: slack, events: ["target.*", model.down] }',
    '{ url: "http://alertmanager:9093", format: alertmanager }',
    `{ url: "https://am.example.org/x/api/v2/alerts", format: alertmanager, ${SECRET} }`,
    `{ url: "https://events.pagerduty.com/v2/enqueue", format: pagerduty, ${KEY} }`,
  ]
  const found = parsed(`alerts: { webhook: "https://e.org", ${SECRET}, hooks: [${hooks.join(', ')}] }`)
  if (!found.ok) throw new Error(JSON.stringify(found.problems))
  expect(found.config.alerts?.hooks.map(({ label, url, events }) => [label, url, events.join()])).toEqual([
    ['alerts.webhook', 'https://e.org', '*'],
    ['alerts.hooks[0] (weir)', 'https://e.org/a', '*'],
    ['alerts.hooks[1] (slack)', 'https://hooks.slack.com/services/T/B/x', 'target.*,model.down'],
    ['alerts.hooks[2] (alertmanager)', 'http://alertmanager:9093/api/v2/alerts', '*'],
    ['alerts.hooks[3] (alertmanager)', 'https://am.example.org/x/api/v2/alerts', '*'],
    ['alerts.hooks[4] (pagerduty)', 'https://events.pagerduty.com/v2/enqueue', '*'],
  ])
  expect(new Set(found.config.alerts?.hooks.map(({ key }) => key)).size).toBe(6)
})

test.each([
  ['{ format: slack }', 'url', /missing|required/],
  ['{ url: "https://e.org" }', 'secret', /missing/],
  [`{ url: "http://e.org", ${SECRET} }`, 'url', /https:\/\//],
  [`{ url: "http://e.org", format: alertmanager, ${SECRET} }`, 'url', /https:\/\//],
  [`{ url: "https://e.org", format: slack, ${SECRET} }`, 'secret', /no effect/],
  ['{ url: "https://e.org", format: pagerduty }', 'secret', /integration key/],
  [`{ url: "https://e.org", format: pagerduty, ${SECRET} }`, 'secret', /32/],
  [`{ url: "https://e.org", format: teams, ${SECRET} }`, 'format', /weir/],
  ['{ url: "https://e.org", format: slack, events: [] }', 'events', /empty/],
])('hook %s', (hook, key, message) => {
  const result = parsed(`alerts: { hooks: [${hook}] }`)
  const problems = result.ok ? [] : result.problems
  expect(problems.map((problem) => problem.path)).toEqual([`alerts.hooks[0].${key}`])
  expect(problems[0]?.message).toMatch(message)
  expect(JSON.stringify(problems)).not.toContain('a-secret-of-the-test')
})

test('two hooks of one format have two addresses; events that are none are doubtful', () => {
  const hook = '{ url: "https://e.org", format: slack }'
  const twice = parsed(`alerts: { hooks: [${hook}, ${hook}] }`)
  expect(twice.ok ? [] : twice.problems.map(({ path }) => path)).toEqual(['alerts.hooks[1].url'])
  const typo = parsed('alerts: { hooks: [{ url: "https://e.org", format: slack, events: [target.opened] }] }')
  expect(typo.warnings.map(({ path, message }) => `${path}: ${message}`)).toEqual([
    'alerts.hooks[0].events[0]: "target.opened" matches no type of alert (did you mean "target.open"?)',
  ])
})

test('commands of the ledger do without the secrets of the section', () => {
  const hooks = `hooks: [{ url: "\${A}", format: slack }, { url: "\${B}", format: slack }]`
  const section = `alerts: { webhook: "\${HOOK}", secret: "\${ALERT_SECRET}", ${hooks} }`
  expect(parsed(section).ok).toBe(false)
  expect(parsed(section, {}, 'ledger').ok).toBe(true)
})
