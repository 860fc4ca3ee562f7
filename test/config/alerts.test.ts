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
  expect(plain.ok && plain.config.alerts).toEqual({
    webhook: 'https://example.org/hook?a=1',
    secret: 'a-secret-of-the-test-0123',
    spend: [],
    viaFetch: false,
  })
  const proxied = parsed(`alerts: { webhook: "https://e.org", ${SECRET}, spend: [0.5, 1] }`, {
    HTTPS_PROXY: 'http://p',
  })
  expect(proxied.ok && proxied.config.alerts).toMatchObject({ spend: [0.5, 1], viaFetch: true })
  expect(parsed(`alerts: { webhook: "http://127.0.0.1:9/hook", ${SECRET} }`).ok).toBe(true)
})

test.each([
  [`alerts: { ${SECRET} }`, 'alerts.webhook', /missing|required/],
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

test('commands of the ledger do without the secrets of the section', () => {
  const section = `alerts: { webhook: "\${HOOK}", secret: "\${ALERT_SECRET}" }`
  expect(parsed(section).ok).toBe(false)
  expect(parsed(section, {}, 'ledger').ok).toBe(true)
})
