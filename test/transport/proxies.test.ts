/** Requests through forward proxies: tunnels, requests that a proxy passes on, and what goes wrong with either. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { ForwardProxies } from '../../src/core/forward-proxies.ts'
import { HttpClient } from '../../src/transport/client.ts'
import { Authorities } from '../../src/transport/dial.ts'
import { closedPort } from '../support/upstream.ts'
import { Exchanged, response } from './exchanges.ts'
import { ForwardProxy } from './forward-proxy.ts'
import { RawServer } from './raw-server.ts'

const MIB = 1024 * 1024
const pem = (name: string): string => readFileSync(join(import.meta.dir, '../fixtures/tls', name), 'utf8')
const secure = (name: string) => ({ cert: pem(`${name}.crt`), key: pem('leaf.key') })
const authorities = new Authorities(pem('authority.crt'))
const PROXY_TLS = [
  ['a proxy', undefined],
  ['a proxy with TLS', secure('good')],
] as const

/** Answers each request with its body. */
function echo(tls?: ReturnType<typeof secure>, texts: string[] = []): Promise<RawServer> {
  return RawServer.answering((socket, { text }) => {
    texts.push(text)
    socket.write(response(text.slice(text.indexOf('\r\n\r\n') + 4)))
  }, tls)
}

const withTls = (tls: ReturnType<typeof secure> | undefined) => (tls === undefined ? {} : { secure: tls })
const basic = (user: string) => `proxy-authorization: Basic ${Buffer.from(user).toString('base64')}\r\n`

describe.each(PROXY_TLS)('through %s', (_, tls) => {
  test('a request over HTTP is passed on with its whole URL, and connections are used again', async () => {
    const texts: string[] = []
    await using server = await echo(undefined, texts)
    await using proxy = await ForwardProxy.start(withTls(tls))
    const client = new HttpClient({ authorities, proxies: proxy.proxies('us%40er:p%3Aw') })
    const url = `http://provider.test:${server.port}/v1/x?y=z`
    for (const body of ['one', 'two']) expect((await new Exchanged(client, url, body).done).body).toBe(body)
    expect(texts[0]).toStartWith(`POST ${url} HTTP/1.1\r\nhost: provider.test:${server.port}\r\n`)
    expect(texts[0]).toContain(basic('us@er:p:w'))
    expect([proxy.connections, server.connections]).toEqual([1, 1])
  })

  test('a request over TLS takes a tunnel: the provider gets what it gets without a proxy', async () => {
    const texts: string[] = []
    await using server = await echo(secure('good'), texts)
    await using proxy = await ForwardProxy.start(withTls(tls))
    const client = new HttpClient({ authorities, proxies: proxy.proxies('user:word') })
    for (const body of ['one', 'two']) expect((await new Exchanged(client, server.url(), body).done).body).toBe(body)
    const authority = `127.0.0.1:${server.port}`
    expect(proxy.heads).toEqual([
      `CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\nuser-agent: weir\r\n${basic('user:word')}\r\n`,
    ])
    expect(server.connections).toBe(1)
    const direct = new HttpClient({ authorities })
    await new Exchanged(direct, server.url(), 'one').done
    expect(texts[2]).toBe(texts[0] ?? '')
  })

  test('large bodies arrive in both directions, and a caller that does not read is waited for', async () => {
    const size = 8 * MIB
    await using server = await echo(secure('good'))
    await using proxy = await ForwardProxy.start(withTls(tls))
    const client = new HttpClient({ authorities, proxies: proxy.proxies() })
    const sent = new Exchanged(client, server.url(), [new Uint8Array(size)])
    await sent.answered
    sent.exchange.pause()
    await Bun.sleep(100)
    expect(sent.outcome.body.length).toBeLessThanOrEqual(MIB)
    sent.exchange.resume()
    expect((await sent.done).body.length).toBe(size)
  })

  test.each(['silent proxy', 'silent tunnel', 'silent provider', 'body'])(
    'an abort leaves nothing open: %s',
    async (where) => {
      await using server = await RawServer.answering((socket) => {
        if (where === 'body') socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello')
      }, secure('good'))
      const asked = Promise.withResolvers<void>()
      const answer = (socket: Socket) => {
        asked.resolve()
        if (where === 'silent tunnel') socket.write('HTTP/1.1 200 OK\r\n\r\n')
        if (where !== 'silent proxy' && where !== 'silent tunnel') return false
        socket.resume()
        return true
      }
      await using proxy = await ForwardProxy.start({ ...withTls(tls), answer })
      const client = new HttpClient({ authorities, proxies: proxy.proxies() })
      const sent = new Exchanged(client, server.url())
      await asked.promise
      if (where === 'body') await sent.begun
      if (where === 'silent provider') while (server.requests === 0) await Bun.sleep(5)
      expect(sent.exchange.wasSent()).toBe(where === 'silent provider' || where === 'body')
      if (where.endsWith('proxy') || where.endsWith('tunnel')) expect(await sent.exchange.canConnect(20)).toBe(false)
      sent.exchange.abort()
      await Promise.all([proxy.allClosed(), server.allClosed()])
      expect(sent.outcome.end).toBeUndefined()
    },
  )

  test('a provider that breaks off is a cut', async () => {
    await using server = await RawServer.answering(
      (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello', () => socket.destroy()),
      secure('good'),
    )
    await using proxy = await ForwardProxy.start(withTls(tls))
    const client = new HttpClient({ authorities, proxies: proxy.proxies() })
    expect(await new Exchanged(client, server.url()).done).toMatchObject({ status: 200, end: 'cut' })
    await proxy.allClosed()
  })

  test.each([
    ['wrong-name', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['expired', 'CERT_HAS_EXPIRED'],
  ])('the certificate of the provider is checked: %s', async (certificate, code) => {
    await using server = await echo(secure(certificate))
    await using proxy = await ForwardProxy.start(withTls(tls))
    const client = new HttpClient({ authorities, proxies: proxy.proxies() })
    const sent = new Exchanged(client, server.url())
    expect((await sent.done).end).toBe('unreachable')
    expect(sent.error?.cause).toMatchObject({ code })
    expect([server.requests, sent.exchange.wasSent()]).toEqual([0, false])
    await proxy.allClosed()
  })
})

/** What a request through a proxy that answers so comes to: its `cause` in the log, and the message. */
async function failure(sends: readonly string[], url: string, closes = false): Promise<readonly [string, string]> {
  await using proxy = await ForwardProxy.start({
    answer: (socket) => {
      for (const piece of sends) socket.write(piece)
      if (closes) socket.end()
    },
  })
  const client = new HttpClient({ authorities, proxies: proxy.proxies('user:pass-word') })
  const sent = new Exchanged(client, url)
  expect((await sent.done).end).toBe('unreachable')
  const { message = '', causeCode = '' } = sent.error ?? {}
  expect(message).toContain(`the proxy 127.0.0.1:${proxy.port}`)
  expect(`${message} ${sent.error?.stack} ${sent.error?.cause}`).not.toMatch(/pass-word|dXNlc/)
  await proxy.allClosed()
  return [causeCode, message]
}

const REFUSED =
  'HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 5\r\n\r\nhello'

describe('a proxy that', () => {
  test.each([
    ['rejects the credentials', REFUSED, 'proxy_407'],
    ['forbids the host', 'HTTP/1.1 403 Forbidden\r\n\r\nno', 'proxy_403'],
    ['cannot reach the host', 'HTTP/1.0 502 Bad Gateway\r\n\r\n', 'proxy_502'],
    ['redirects', 'HTTP/1.1 302 Found\r\nlocation: http://x.test/\r\n\r\n', 'proxy_302'],
    ['refuses after an interim answer', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 504 Late\r\n\r\n', 'proxy_504'],
    ['is no HTTP server', 'SSH-2.0-OpenSSH_9.2\r\n\r\n', 'proxy_malformed'],
    ['sends more than the head', 'HTTP/1.1 200 OK\r\n\r\nhello', 'proxy_malformed'],
    ['sends a head without an end', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(65 * 1024)}`, 'proxy_malformed'],
  ])('%s', async (_, sends, cause) => {
    for (const pieces of [[sends], sends.length < 300 ? [...sends] : [sends]])
      expect((await failure(pieces, 'https://provider.test:443/'))[0]).toBe(cause)
  })

  test('closes the connection instead of answering', async () => {
    expect((await failure([], 'https://provider.test/', true))[0]).toBe('proxy_ECONNRESET')
    expect((await failure(['HTTP/1.1 20'], 'https://provider.test/', true))[0]).toBe('proxy_ECONNRESET')
  })

  test('rejects the credentials of a request over HTTP: not the answer of a provider', async () => {
    const [cause, message] = await failure([REFUSED], 'http://provider.test/')
    expect(cause).toBe('proxy_407')
    expect(message).toEndWith('answered 407; check the user and the password in its address')
  })

  test('answers for the provider: the answer is passed on, except 407', async () => {
    await using proxy = await ForwardProxy.start({
      answer: (socket) => socket.write('HTTP/1.1 503 No\r\ncontent-length: 5\r\n\r\nhello'),
    })
    const client = new HttpClient({ proxies: proxy.proxies() })
    expect(await new Exchanged(client, 'http://provider.test/').done).toMatchObject({ status: 503, body: 'hello' })
  })

  test('is not there', async () => {
    const missing = async (address: string) => {
      const client = new HttpClient({ proxies: new ForwardProxies({ HTTPS_PROXY: address, HTTP_PROXY: address }) })
      return await Promise.all(
        ['http://127.0.0.1:9/', 'https://127.0.0.1:9/'].map(async (url) => {
          const sent = new Exchanged(client, url)
          expect([(await sent.done).end, sent.exchange.wasSent()]).toEqual(['unreachable', false])
          return sent.error?.causeCode
        }),
      )
    }
    expect(await missing(`http://127.0.0.1:${await closedPort()}`)).toEqual(Array(2).fill('proxy_ECONNREFUSED'))
    expect(await missing('http://nowhere.invalid:3128')).toEqual(Array(2).fill('proxy_ENOTFOUND'))
    expect(await missing('socks5://127.0.0.1:1080')).toEqual(Array(2).fill('proxy_invalid'))
  })

  test('has a certificate that is not trusted', async () => {
    await using proxy = await ForwardProxy.start({ secure: secure('expired') })
    const client = new HttpClient({ authorities, proxies: proxy.proxies() })
    for (const url of ['http://127.0.0.1:9/', 'https://127.0.0.1:9/']) {
      const sent = new Exchanged(client, url)
      expect((await sent.done).end).toBe('unreachable')
      expect(sent.error?.causeCode).toBe('proxy_CERT_HAS_EXPIRED')
    }
    expect(proxy.heads).toEqual([])
  })

  test('is not for this host', async () => {
    await using server = await echo()
    await using proxy = await ForwardProxy.start()
    const client = new HttpClient({ proxies: proxy.proxies('', { NO_PROXY: '127.0.0.0/8' }) })
    expect((await new Exchanged(client, server.url(), 'hello').done).body).toBe('hello')
    expect(proxy.connections).toBe(0)
  })
})
