import { expect, test } from 'bun:test'
import { openAdmin } from '../../src/admin/admin-app.ts'
import { adminParts, adminPort } from '../support/admin.ts'

async function ask(reasons: () => Promise<readonly string[]>, path: string, method = 'GET') {
  const answer = await adminPort({ supervision: { reasons } }).ask(path, { method })
  return { status: answer.status, type: answer.headers.get('content-type'), body: await answer.json() }
}

const well = async () => []
const type = 'application/json'

test('/healthz is 200 also if weir is not ready', async () => {
  expect(await ask(async () => ['x'], '/healthz')).toEqual({ status: 200, type, body: { alive: true } })
})

test('/readyz is 200 without reasons and 503 with them', async () => {
  expect(await ask(well, '/readyz')).toEqual({ status: 200, type, body: { ready: true } })
  expect(await ask(async () => ['worker 1 is down', 'worker 2 is down'], '/readyz')).toEqual({
    status: 503,
    type,
    body: { ready: false, reasons: ['worker 1 is down', 'worker 2 is down'] },
  })
})

test.each(['/v1/models', '/healthz/more', '/api', '/api/status/', '/%ff'])('GET %s is 404', async (path) => {
  expect(await ask(well, path)).toEqual({
    status: 404,
    type,
    body: { error: { code: 'not_found', message: expect.stringContaining('/api/openapi.json') } },
  })
})

test('another method of a known path is 405 and names those that it takes', async () => {
  const port = adminPort({ token: 'a-token-of-16-chars' })
  const headers = { authorization: 'Bearer a-token-of-16-chars' }
  const answers = await Promise.all([
    port.ask('/api/status', { method: 'POST', headers }),
    port.ask('/api/reload', { headers }),
    port.ask('/api/events', { method: 'HEAD', headers }),
  ])
  expect(answers.map(({ status, headers }) => [status, headers.get('allow')])).toEqual([
    [405, 'GET'],
    [405, 'POST'],
    [405, 'GET'],
  ])
})

test('HEAD asks for the health without a body', async () => {
  const answer = await adminPort().ask('/readyz', { method: 'HEAD' })
  expect([answer.status, await answer.text()]).toEqual([200, ''])
})

test('an internal error is 500 without details, and the log has its place but not its message', async () => {
  const port = adminPort({ supervision: { reasons: () => Promise.reject(new RangeError('inside')) } })
  const answer = await port.ask('/readyz')
  expect(answer.status).toBe(500)
  expect(await answer.text()).not.toContain('inside')
  expect(port.lines).toEqual([
    expect.objectContaining({ event: 'admin.internal_error', path: '/readyz', error: 'RangeError' }),
  ])
  expect(JSON.stringify(port.lines)).not.toContain('inside')
})

test('the port is exclusive: a second program cannot share it', async () => {
  const admin = openAdmin({ host: '127.0.0.1', port: 0 }, adminParts())
  try {
    expect(() => openAdmin(admin.address, adminParts())).toThrow(expect.objectContaining({ code: 'EADDRINUSE' }))
  } finally {
    await admin.stop()
  }
})
