/** Who asked for a reload: the user of a command, or the token and the address of a caller of the admin API. */

import { expect, test } from 'bun:test'
import { Gateway } from '../support/gateway.ts'

test('the actor of a reload', async () => {
  await using gateway = await Gateway.start({
    providers: { up: 'http://127.0.0.1:9/v1' },
    models: { m: ['up/m'] },
    config: {
      listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] },
      admin: {
        host: '127.0.0.1',
        port: 0,
        tokens: [{ name: 'ops', token: 'operator-token-0123456789', role: 'operate' }],
      },
    },
  })
  const reload = async (token: string, headers: Record<string, string>) => {
    const authorization = `Bearer ${token}`
    const answer = await fetch(`${gateway.adminUrl}/api/reload`, {
      method: 'POST',
      headers: { authorization, ...headers },
    })
    return answer.status
  }
  const reloadedBy = async (actor: string) =>
    await gateway.line((line) => line['event'] === 'config.reloaded' && line['actor'] === actor)
  const token = 'operator-token-0123456789'
  expect(await reload(token, { 'x-forwarded-for': '203.0.113.5, 198.51.100.7' })).toBe(200)
  expect(await reloadedBy('token:ops (198.51.100.7)')).toMatchObject({ source: 'api' })
  expect(await reload(token, { forwarded: 'for="[2001:db8::9]:4711"' })).toBe(200)
  await reloadedBy('token:ops (2001:db8::9)')
  expect(await reload('wrong', { 'x-forwarded-for': '198.51.100.8' })).toBe(401)
  await gateway.line(({ remote }) => remote === '198.51.100.8')
  expect((await gateway.run('reload')).code).toBe(0)
  // The system knows the user; the name is that of /etc/passwd.
  const ofCommand = await gateway.line(({ event, source }) => event === 'config.reloaded' && source === 'cli')
  expect(ofCommand['actor']).toMatch(new RegExp(`^uid:${process.getuid?.()}(?: \\(\\S+\\))?$`))
})
