import { expect, test } from 'bun:test'
import { createAdmin, openAdmin } from '../../src/admin/admin-app.ts'

const figures = () => ({ targets: [], workers: { configured: 1, ready: 1 }, ledgerUp: true })

async function ask(reasons: () => Promise<readonly string[]>, path: string, method = 'GET') {
  const answer = await createAdmin({ reasons, figures }).fetch(new Request(`http://localhost${path}`, { method }))
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

test.each([
  ['GET', '/v1/models'],
  ['GET', '/healthz/more'],
  ['POST', '/healthz'],
  ['GET', '/%ff'],
])('%s %s is 404', async (method, path) => {
  expect((await ask(well, path, method)).status).toBe(404)
})

test('an internal error is 500 without details', async () => {
  const answer = await ask(() => Promise.reject(new Error('inside')), '/readyz')
  expect(answer.status).toBe(500)
  expect(JSON.stringify(answer.body)).not.toContain('inside')
})

test('the port is exclusive: a second program cannot share it', async () => {
  const parts = { reasons: well, figures }
  const admin = openAdmin({ host: '127.0.0.1', port: 0 }, parts)
  try {
    expect(() => openAdmin(admin.address, parts)).toThrow(expect.objectContaining({ code: 'EADDRINUSE' }))
  } finally {
    await admin.stop()
  }
})
