/** The configuration of nginx in the documents: nginx passes on streams, whole and cut, and WebSockets. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http2 from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Gateway, KEY } from '../support/gateway.ts'
import { lastingPort } from '../support/ports.ts'
import { chatFrames, resets, rest, waits } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { pageOf, ROOT } from './pages.ts'

const TLS = join(ROOT, 'test/fixtures/tls')
const folder = mkdtempSync(join(tmpdir(), 'weir-nginx-'))
const release = Promise.withResolvers<void>()
const frames = chatFrames(['Hel', 'lo'])
const place = {} as { port: number; upstream: Upstream; gateway: Gateway; nginx: Bun.Subprocess }

/** `PATH` of users other than root lacks the folder of Debian's nginx. */
const NGINX = Bun.which('nginx', { PATH: `${process.env['PATH']}:/usr/sbin` })

beforeAll(async () => {
  const [block = undefined] = pageOf('docs/operating.md').blocks.filter(({ info }) => info === 'nginx')
  place.upstream = await Upstream.start({
    slow: waits([frames.slice(0, 2).join('')], release.promise, rest(frames.slice(2))),
    breaks: resets([frames.slice(0, 2).join('')]),
  })
  const models = { slow: ['up/slow'], breaks: ['up/breaks'] }
  place.gateway = await Gateway.start({ providers: { up: place.upstream.url }, models })
  place.port = await lastingPort()
  const site = (block?.text ?? '')
    .replace('listen 443', `listen 127.0.0.1:${place.port}`)
    .replace('127.0.0.1:8080', `127.0.0.1:${place.gateway.port}`)
    .replace('/etc/ssl/models.pem', join(TLS, 'good.crt'))
    .replace('/etc/ssl/models.key', join(TLS, 'leaf.key'))
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/temp/${name};`)
    .join(' ')
  mkdirSync(join(folder, 'temp'))
  const http = `http { access_log off; ${paths}\n${site}\n}`
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  const main = `${user} daemon off; pid ${folder}/pid; error_log stderr; events {}`
  writeFileSync(join(folder, 'nginx.conf'), `${main} ${http}`)
  if (NGINX === null) throw new Error('nginx is not installed')
  place.nginx = Bun.spawn([NGINX, '-p', folder, '-c', join(folder, 'nginx.conf')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
})

afterAll(async () => {
  place.nginx.kill('SIGQUIT')
  await place.nginx.exited
  await place.gateway[Symbol.asyncDispose]()
  await place.upstream[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

interface Streamed {
  /** Resolves once the text so far has this. */
  readonly has: (words: string) => Promise<void>
  /** Whether the stream ended without an error, and all that it had. */
  readonly ended: Promise<{ readonly whole: boolean; readonly text: string }>
}

/** A WebSocket through nginx, over TLS, and the types of its frames so far. */
async function socket(): Promise<{
  readonly socket: WebSocket
  readonly types: string[]
  readonly ended: Promise<number>
}> {
  const types: string[] = []
  const headers = { authorization: `Bearer ${KEY}` }
  const tls = { ca: readFileSync(join(TLS, 'authority.crt'), 'utf8') }
  const opened = new WebSocket(`wss://127.0.0.1:${place.port}/v1/responses`, { headers, tls })
  opened.addEventListener('message', ({ data }) => types.push(JSON.parse(data).type))
  const ended = new Promise<number>((resolve) => opened.addEventListener('close', ({ code }) => resolve(code)))
  await new Promise((resolve, reject) => {
    opened.addEventListener('open', resolve)
    opened.addEventListener('error', reject)
  })
  return { socket: opened, types, ended }
}

/** Asks for a stream over HTTP/2. nginx listens some milliseconds after its start. */
async function ask(model: string): Promise<Streamed> {
  const authority = readFileSync(join(TLS, 'authority.crt'))
  for (;;) {
    const client = http2.connect(`https://127.0.0.1:${place.port}`, { ca: authority })
    const isOpen = await new Promise((resolve) => {
      client.once('connect', () => resolve(true))
      client.once('error', () => resolve(false))
    })
    if (!isOpen) {
      await Bun.sleep(20)
      continue
    }
    expect(client.alpnProtocol).toBe('h2')
    const request = client.request({
      ...{ ':method': 'POST', ':path': '/v1/chat/completions' },
      ...{ authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    })
    const arrived = { text: '', wake: () => {} }
    request.setEncoding('utf8').on('data', (text: string) => {
      arrived.text += text
      arrived.wake()
    })
    const ended = new Promise<{ whole: boolean; text: string }>((resolve) => {
      let whole = false
      request.once('end', () => {
        whole = request.rstCode === 0
      })
      request.once('error', () => {})
      request.once('close', () => {
        client.close()
        resolve({ whole: whole && request.rstCode === 0, text: arrived.text })
      })
    })
    request.end(JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'hi' }] }))
    const has = async (words: string) => {
      while (!arrived.text.includes(words))
        await new Promise<void>((resolve) => {
          arrived.wake = resolve
        })
    }
    return { has, ended }
  }
}

test('a stream arrives while the provider is still writing, and ends whole', async () => {
  const { has, ended } = await ask('slow')
  await has('"Hel')
  release.resolve()
  const { whole, text } = await ended
  expect([whole, text.trimEnd().endsWith('data: [DONE]')]).toEqual([true, true])
})

test('a stream that broke off does not end as a whole one', async () => {
  const { whole, text } = await (await ask('breaks')).ended
  expect([whole, text.includes('"Hel'), text.includes('[DONE]')]).toEqual([false, true, false])
})

test('a WebSocket has its events one by one, and its end', async () => {
  const { socket: opened, types, ended } = await socket()
  const last = (type: string) =>
    new Promise<void>((resolve) => {
      if (types.includes(type)) resolve()
      opened.addEventListener('message', () => types.includes(type) && resolve())
    })
  opened.send(JSON.stringify({ type: 'response.create', model: 'breaks', input: 'hi' }))
  await last('response.failed')
  expect(types).toContain('response.output_text.delta')
  opened.send(JSON.stringify({ type: 'response.create', model: 'slow', input: 'hi' }))
  await last('response.completed')
  place.gateway.signal('SIGUSR2')
  expect(await ended).toBe(1012)
})
