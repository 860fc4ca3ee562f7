/** The bytes in front of a request's body; a head of an earlier request is used again only if it fits. */

import { expect, test } from 'bun:test'
import { ForwardProxies } from '../../src/core/forward-proxies.ts'
import { RequestHeads } from '../../src/transport/request-head.ts'

const known = new RequestHeads(() => new ForwardProxies({}))
const requestHead = (url: string, headers: Readonly<Record<string, string>>) => known.of({ url, headers, body: '' })
const ADDRESS = 'https://api.example.com:8443/v1/chat?x=y'

test('a head has the request line, the host and the headers; the length follows', () => {
  const { text, origin, isAscii } = requestHead(ADDRESS, { 'Content-Type': 'application/json', 'user-agent': 'mine' })
  expect(text).toBe(
    'POST /v1/chat?x=y HTTP/1.1\r\nhost: api.example.com:8443\r\naccept-encoding: identity\r\naccept: */*\r\n' +
      'user-agent: mine\r\ncontent-type: application/json\r\ncontent-length: ',
  )
  expect(origin).toEqual({
    key: 'https://api.example.com:8443',
    isSecure: true,
    hostname: 'api.example.com',
    port: 8443,
    proxy: undefined,
  })
  expect(isAscii).toBe(true)
})

test('the same head for equal headers, another one if any differs', () => {
  const first = requestHead(ADDRESS, { a: '1', b: '2' })
  expect(requestHead(ADDRESS, { a: '1', b: '2' })).toBe(first)
  for (const headers of [{ a: '1' }, { a: '1', b: '3' }, { a: '1', b: '2', c: '3' }, { a: '1', c: '2' }, {}]) {
    const { text } = requestHead(ADDRESS, headers)
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    expect(text).toEndWith(`user-agent: weir\r\n${lines.join('')}content-length: `)
  }
  expect(requestHead(`${ADDRESS}z`, { a: '1', b: '2' }).text).toContain('x=yz ')
})

test('a headers object that changes after its request changes the next head', () => {
  const headers = { a: '1' }
  requestHead(ADDRESS, headers)
  headers.a = '2'
  expect(requestHead(ADDRESS, headers).text).toContain('a: 2\r\n')
})

test.each([
  ['a line end in a value', { x: 'a\r\nb: c' }],
  ['a NUL', { x: 'a\0' }],
  ['a character beyond Latin-1', { x: 'a😀' }],
  ['a line end in a name', { 'x\r\ny': 'a' }],
  ['a space in a name', { 'x ': 'a' }],
  ['a length of its own', { 'Content-Length': '5' }],
  ['a coding of its own', { 'transfer-encoding': 'chunked' }],
])('%s is refused', (_, headers) => {
  expect(() => requestHead(ADDRESS, headers)).toThrow(/^(?:header ".*"|the value of header x) cannot be sent$/)
})
