/** Routes: a path may have several methods, and each of them one route. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type App, createApp, type Route } from '../../src/http/app.ts'
import type { SocketConnection } from '../../src/http/socket-connection.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { Serving } from '../support/serving.ts'

const row = (method: Route['method'], path: string, answer: string): Route => ({
  ...{ method, path, family: 'chat', dialect: undefined },
  run: (life) => life.complete(JSON.stringify(answer)),
})

const ROWS = [row('GET', '/a', 'got a'), row('POST', '/a', 'posted a'), row('POST', '/b', 'posted b')]

let weir: Serving
/** The same routes by Bun's router, and by Elysia's alone. */
const servers: Record<string, Bun.Server<SocketConnection>> = {}

beforeAll(() => {
  weir = new Serving({ providers: { up: 'http://127.0.0.1:9' } })
  const serve = (app: Pick<App, 'fetch' | 'websocket'> & Partial<App>) =>
    Bun.serve({ hostname: '127.0.0.1', port: 0, development: false, ...app })
  servers['Bun'] = serve(createApp(weir.service.state, ROWS))
  const { fetch, websocket } = createApp(weir.service.state, ROWS)
  servers['Elysia'] = serve({ fetch, websocket })
})

afterAll(async () => {
  for (const server of Object.values(servers)) await server.stop(true)
  await weir[Symbol.asyncDispose]()
})

for (const router of ['Bun', 'Elysia']) {
  const send = (method: string, path: string) => {
    const body = method === 'POST' ? {} : undefined
    return ask(servers[router]?.port ?? 0, requestBytes(path, { key: KEY, method, ...(body && { body }) }))
  }

  test.each([
    ['GET', '/a', 200, 'got a'],
    ['GET', '/a?beta=true', 200, 'got a'],
    ['POST', '/a', 200, 'posted a'],
    ['POST', '/b', 200, 'posted b'],
  ])(`${router}: %s %s`, async (method, path, status, answer) => {
    const got = await send(method, path)
    expect([got.status, got.json()]).toEqual([status, answer])
  })

  test.each([
    ['DELETE', '/a', 405, 'GET, POST', 'This path takes GET or POST, not DELETE.'],
    ['GET', '/b', 405, 'POST', 'This path takes POST, not GET.'],
    ['GET', '/c', 404, undefined, 'There is nothing at this path; the paths of this API are exact and begin with /v1.'],
  ])(`${router}: %s %s is %d`, async (method, path, status, allow, message) => {
    const got = await send(method, path)
    expect([got.status, got.header('allow')]).toEqual([status, allow])
    expect(got.json()).toMatchObject({ error: { message } })
  })
}

test('a second route of one path and method is an error, and not a silent replacement', () => {
  const rows = [...ROWS, row('POST', '/a', 'another')]
  expect(() => createApp(weir.service.state, rows)).toThrow('POST /a has two routes')
})
