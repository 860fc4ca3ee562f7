/** Which requests go through a proxy, by the environment. */

import { describe, expect, test } from 'bun:test'
import { ForwardProxies } from '../../src/core/forward-proxies.ts'

type Env = Readonly<Record<string, string>>

/** The host and port of the proxy; undefined for a direct connection. */
function proxyFor(url: string, env: Env): string | undefined {
  const proxy = new ForwardProxies(env).of(new URL(url))
  return proxy === undefined ? undefined : `${proxy.hostname}:${proxy.port}`
}

test.each<[url: string, env: Env, proxy: string | undefined]>([
  ['http://a.test', {}, undefined],
  ['http://a.test', { HTTP_PROXY: 'http://p.test:3128' }, 'p.test:3128'],
  ['https://a.test', { HTTP_PROXY: 'http://p.test:3128' }, undefined],
  ['https://a.test', { HTTPS_PROXY: 'http://p.test:3128' }, 'p.test:3128'],
  ['http://a.test', { HTTPS_PROXY: 'http://p.test:3128' }, undefined],
  ['http://a.test', { HTTP_PROXY: 'http://upper.test', http_proxy: 'http://lower.test' }, 'lower.test:80'],
  ['http://a.test', { HTTP_PROXY: 'http://upper.test', http_proxy: '' }, 'upper.test:80'],
  ['http://a.test', { HTTP_PROXY: '' }, undefined],
  ['http://a.test', { HTTP_PROXY: ' p.test:8080 ' }, 'p.test:8080'],
  ['http://a.test', { HTTP_PROXY: '[2001:db8::1]:8080' }, '2001:db8::1:8080'],
  ['https://a.test', { HTTPS_PROXY: 'https://p.test/path' }, 'p.test:443'],
])('%s with %p: %s', (url, env, proxy) => {
  expect(proxyFor(url, env)).toBe(proxy)
})

describe('NO_PROXY', () => {
  test.each([
    ['*', ['http://a.test', 'http://[::1]:9'], []],
    ['a.test', ['http://a.test', 'http://b.a.test:8080', 'http://A.test'], ['http://xa.test', 'http://a.test.b']],
    ['.a.test', ['http://a.test', 'http://b.a.test'], ['http://xa.test']],
    ['*.a.test', ['http://a.test', 'http://b.a.test'], ['http://xa.test']],
    ['x.test, A.TEST\tb.test', ['http://a.test', 'http://b.test', 'http://x.test'], ['http://c.test']],
    ['a.test:8080', ['http://a.test:8080', 'http://b.a.test:8080'], ['http://a.test', 'https://a.test']],
    ['a.test:443', ['https://a.test'], ['http://a.test', 'https://a.test:444']],
    ['127.0.0.1', ['http://127.0.0.1:9'], ['http://127.0.0.2', 'http://localhost']],
    ['127.0.0.1:9', ['http://127.0.0.1:9'], ['http://127.0.0.1:8']],
    ['10.0.0.0/8', ['http://10.255.0.1'], ['http://11.0.0.1', 'http://10.test']],
    ['::1', ['http://[::1]:9'], ['http://[::2]:9']],
    ['[::1]', ['http://[::1]:9'], ['http://[::2]:9']],
    ['[::1]:9', ['http://[::1]:9'], ['http://[::1]:8']],
    ['fd00::/8', ['http://[fd12::1]'], ['http://[fe80::1]']],
    ['10.0.0.0/33, 10.0.0.0/x, /, :, ., %', [], ['http://10.0.0.0', 'http://a.test']],
    ['', [], ['http://a.test']],
  ])('%p', (text, direct, proxied) => {
    const env = { HTTP_PROXY: 'p.test', HTTPS_PROXY: 'p.test', NO_PROXY: text }
    for (const url of direct) expect([url, proxyFor(url, env)]).toEqual([url, undefined])
    for (const url of proxied) expect([url, proxyFor(url, env)]).toEqual([url, 'p.test:80'])
    const { NO_PROXY, ...rest } = env
    for (const url of direct) expect(proxyFor(url, { ...rest, no_proxy: NO_PROXY })).toBeUndefined()
  })
})

test.each([
  ['user:word@', 'user:word'],
  ['user@', 'user:'],
  ['us%40er:w%3Ard%@', 'us@er:w%3Ard%'],
  ['', undefined],
])('the user of the address: %s', (user, credential) => {
  const { authorization } = new ForwardProxies({ HTTP_PROXY: `http://${user}p.test` }).of(new URL('http://a')) ?? {}
  expect(authorization).toBe(credential && `Basic ${Buffer.from(credential).toString('base64')}`)
})

test.each(['socks5://user:word@p.test', 'http://', 'http://user:word@', 'p.test:99999'])(
  'what is no address of a proxy is a problem, and is not shown: %s',
  (text) => {
    const proxies = new ForwardProxies({ HTTPS_PROXY: text, NO_PROXY: 'direct.test' })
    expect(proxies.problems.map(([name]) => name)).toEqual(['HTTPS_PROXY'])
    expect(String(proxies.problems)).not.toContain('word')
    expect(() => proxies.of(new URL('https://a.test'))).toThrow(
      'HTTPS_PROXY is not the address of an HTTP proxy; write http://HOST:PORT or https://HOST:PORT',
    )
    expect(proxies.of(new URL('http://a.test'))).toBeUndefined()
    expect(proxies.of(new URL('https://direct.test'))).toBeUndefined()
  },
)
