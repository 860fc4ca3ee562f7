import { expect, test } from 'bun:test'
import { ProxyHeaderError, readProxyHeader } from '../../src/process/serving/proxy-header.ts'
import { ipv4Header, proxyHeader } from '../support/proxy-header.ts'
import { property } from '../support/random.ts'

const IPV6 = Buffer.concat([
  Buffer.from('20010db8000000000000000000000009', 'hex'),
  Buffer.from('20010db8000000000000000000000001', 'hex'),
  Buffer.from([0x12, 0x34, 0x1f, 0x90]),
])
const MAPPED = Buffer.concat([Buffer.from('00000000000000000000ffffc0000209', 'hex'), Buffer.alloc(20)])

test.each([
  ['IPv4', ipv4Header(9), '192.0.2.9'],
  ['IPv4 with fields of the load balancer', ipv4Header(9, Buffer.from([0x03, 0, 1, 7])), '192.0.2.9'],
  ['IPv6', proxyHeader({ family: 0x21, rest: IPV6 }), '2001:db8::9'],
  ['IPv4 in IPv6', proxyHeader({ family: 0x21, rest: MAPPED }), '192.0.2.9'],
  ['a health check', proxyHeader({ versionAndCommand: 0x20, family: 0, rest: Buffer.alloc(0) }), undefined],
  ['a Unix socket', proxyHeader({ family: 0x31, rest: Buffer.alloc(216) }), undefined],
  ['an unknown family', proxyHeader({ family: 0, rest: Buffer.alloc(3) }), undefined],
])('%s', (_name, bytes, address) => {
  const after = Buffer.from('POST / HTTP/1.1\r\n')
  expect(readProxyHeader(Buffer.concat([bytes, after]))).toEqual({ address, bytes: bytes.length })
  for (let length = 0; length < bytes.length; length++)
    expect(readProxyHeader(bytes.subarray(0, length))).toBeUndefined()
})

test.each([
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\n')],
  ['the first bytes of HTTP', Buffer.from('P')],
  ['version 1', Buffer.from('PROXY TCP4 192.0.2.9 10.0.0.1 4660 8080\r\n')],
  ['another version', proxyHeader({ versionAndCommand: 0x11, family: 0x11, rest: Buffer.alloc(12) })],
  ['an unknown command', proxyHeader({ versionAndCommand: 0x22, family: 0x11, rest: Buffer.alloc(12) })],
  ['IPv4 without ports', proxyHeader({ family: 0x11, rest: Buffer.alloc(8) })],
  ['IPv6 without ports', proxyHeader({ family: 0x21, rest: Buffer.alloc(32) })],
  ['a header of 5,000 bytes', proxyHeader({ family: 0x11, rest: Buffer.alloc(5000) }).subarray(0, 16)],
])('rejects %s', (_name, bytes) => {
  expect(() => readProxyHeader(bytes)).toThrow(ProxyHeaderError)
})

property('damaged headers are rejected, incomplete or read, and nothing else', 2000, (random) => {
  const bytes = Buffer.from(random.pick([ipv4Header(9), proxyHeader({ family: 0x21, rest: IPV6 })]))
  for (let n = random.below(4); n > 0; n--) bytes[random.below(bytes.length)] = random.below(256)
  try {
    const header = readProxyHeader(bytes.subarray(0, random.below(bytes.length + 1)))
    if (header?.address !== undefined) expect(header.address).toMatch(/^[\da-f.:]+$/)
  } catch (error) {
    expect(error).toBeInstanceOf(ProxyHeaderError)
  }
})
