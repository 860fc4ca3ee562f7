/** The control socket: requests of commands of this machine, and commands and gateways of the version before. */

import { expect, test } from 'bun:test'
import { stat, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { askGateway, GatewayProblem } from '../../src/cli/gateway-client.ts'
import { openControl } from '../../src/process/control/control-socket.ts'
import { userActor } from '../../src/process/control/user-actor.ts'
import { adminPort } from '../support/admin.ts'

let folders = 0
const folder = () => join(tmpdir(), `weir-control-${process.pid}-${folders++}`)

async function answer(request: Request, actor: string): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url)
  if (pathname === '/big') return Response.json({ text: 'x'.repeat(5_000_000) })
  if (pathname === '/fails') return Response.json({ error: { code: 'x', message: 'it is broken' } }, { status: 500 })
  if (pathname === '/text') return new Response('not JSON')
  return Response.json({ method: request.method, n: searchParams.get('n'), body: await request.text(), actor })
}

async function opened(dataDir: string, handler = answer) {
  const control = await openControl(dataDir, handler)
  if ('problem' in control) throw new Error(control.problem)
  return { control, [Symbol.asyncDispose]: () => control.close() }
}

/** What comes back for these bytes, until the connection ends. */
function sent(dataDir: string, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(join(dataDir, 'control.sock'))
    let got = ''
    socket.on('data', (part) => {
      got += part
      if (got.includes('\n')) socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(got))
    socket.write(bytes)
  })
}

const me = userActor(process.getuid?.() ?? -1)

test('it is open to its owner alone, speaks HTTP, and knows who asks', async () => {
  const dataDir = folder()
  await using _ = await opened(dataDir)
  expect((await stat(join(dataDir, 'control.sock'))).mode & 0o777).toBe(0o600)
  expect(await askGateway(dataDir, 'GET /echo?n=1')).toEqual({ method: 'GET', n: '1', body: '', actor: me })
  expect(await askGateway(dataDir, 'POST /echo')).toMatchObject({ method: 'POST', actor: me })
  const posted = await fetch('http://weir/echo', {
    unix: join(dataDir, 'control.sock'),
    method: 'POST',
    body: '{"id":"ci"}',
  })
  expect(await posted.json()).toMatchObject({ body: '{"id":"ci"}' })
  expect(String((await askGateway(dataDir, 'GET /big'))?.['text']).length).toBe(5_000_000)
  await expect(askGateway(dataDir, 'GET /fails')).rejects.toThrow(/control\.sock: it is broken$/)
  await expect(askGateway(dataDir, 'GET /fails')).rejects.toBeInstanceOf(GatewayProblem)
  await expect(askGateway(dataDir, 'GET /text')).rejects.toThrow(/is not JSON/)
})

test('a command of the version before prints which one to use', async () => {
  const dataDir = folder()
  await using _ = await opened(dataDir)
  const reply = JSON.parse(await sent(dataDir, '{"ask":"reload"}\n'))
  expect(reply).toEqual({ ok: false, error: expect.stringContaining('use the weir command of its version') })
})

test('invalid and endless input does not harm it', async () => {
  const dataDir = folder()
  await using _ = await opened(dataDir)
  for (const text of ['nonsense\n', '\0\0\n', 'GET / HTTP/9.9\r\n\r\n', `GET /${'x'.repeat(1_000_000)}`])
    expect(await sent(dataDir, text)).not.toContain(' 200 ')
  expect(await askGateway(dataDir, 'GET /echo')).toMatchObject({ method: 'GET' })
})

test('a stream goes through, and ends when its reader has left', async () => {
  const dataDir = folder()
  const watched: boolean[] = []
  const unwatched = Promise.withResolvers<void>()
  const watch = (isWatched: boolean) => {
    watched.push(isWatched)
    if (!isWatched) unwatched.resolve()
  }
  const { answerLocal } = adminPort({ supervision: { watch } })
  await using _ = await opened(dataDir, answerLocal)
  const abort = new AbortController()
  const stream = await fetch('http://weir/api/events', {
    unix: join(dataDir, 'control.sock'),
    signal: abort.signal,
  })
  const { value } = (await stream.body?.getReader().read()) ?? {}
  expect(Buffer.from(value ?? []).toString()).toStartWith('event: status\n')
  abort.abort()
  await unwatched.promise
  expect(watched).toEqual([true, false])
})

test('the admin API needs no token there, and what only commands may ask is nowhere else', async () => {
  const dataDir = folder()
  const token = 'admin-token-0123456789'
  const reloads: object[] = []
  const { answerLocal, ask } = adminPort({
    token,
    supervision: {
      reload: async (by) => {
        reloads.push(by)
        return { problems: [], changes: ['~ tags'], warnings: ['a key is revoked'] }
      },
    },
  })
  await using _ = await opened(dataDir, answerLocal)
  expect(await askGateway(dataDir, 'GET /api/targets')).toHaveProperty('rows')
  const reloaded = { changes: ['~ tags'], warnings: ['a key is revoked'] }
  expect(await askGateway(dataDir, 'POST /api/reload')).toEqual(reloaded)
  expect(reloads).toEqual([{ source: 'cli', actor: me }])
  expect(await askGateway(dataDir, 'GET /local/rests')).toEqual({ rests: [], ledgerUp: true, learned: [] })
  await expect(askGateway(dataDir, 'GET /nothing')).rejects.toThrow(/There is nothing at this path/)
  const headers = { authorization: `Bearer ${token}` }
  const local = [
    ['GET', '/local/config'],
    ['GET', '/local/rests'],
    ['POST', '/local/alerts-test'],
  ] as const
  for (const [method, path] of local) expect((await ask(path, { method, headers })).status).toBe(404)
})

test('a gateway whose supervisor is of the version before answers what it knows', async () => {
  const dataDir = folder()
  const asks: string[] = []
  const path = join(dataDir, 'old')
  await Bun.write(join(path, 'x'), '')
  const server = createServer((socket) => {
    let received = ''
    socket.setEncoding('utf8').on('error', () => {})
    socket.on('data', (text: string) => {
      const lines = (received + text).split('\n')
      received = lines.pop() ?? ''
      for (const line of lines) {
        const ask = /"ask":"([\w-]+)"/.exec(line)?.[1]
        if (ask !== undefined) asks.push(ask)
        const known = ask === 'health' ? { ok: true, reasons: ['starting'] } : { ok: false, error: 'unknown command' }
        socket.write(`${JSON.stringify(known)}\n`)
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(join(path, 'control.sock'), resolve))
  expect(await askGateway(path, 'GET /readyz')).toMatchObject({ reasons: ['starting'] })
  await expect(askGateway(path, 'POST /api/reload')).rejects.toThrow(/unknown command/)
  await expect(askGateway(path, 'GET /api/status')).rejects.toThrow(/of an earlier version; restart the gateway/)
  expect(asks).toEqual(['health', 'reload'])
  server.close()
})

test('no server; a stale socket; a second program; a data_dir that is not a directory', async () => {
  const dataDir = folder()
  expect(await askGateway(dataDir, 'GET /echo')).toBeUndefined()
  {
    await using _ = await opened(dataDir)
    expect(await openControl(dataDir, answer)).toEqual({ problem: expect.stringContaining('another program') })
    expect(await askGateway(dataDir, 'GET /echo')).toMatchObject({ method: 'GET' })
  }
  expect(await askGateway(dataDir, 'GET /echo')).toBeUndefined()
  await writeFile(join(dataDir, 'control.sock'), '')
  await using _ = await opened(dataDir)
  expect(await askGateway(dataDir, 'GET /echo')).toMatchObject({ method: 'GET' })
  expect(await openControl(join(dataDir, 'control.sock'), answer)).toHaveProperty('problem')
})
