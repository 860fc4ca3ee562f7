import { describe, expect, test } from 'bun:test'
import { CallerAddress } from '../../src/core/caller-address.ts'
import { property } from '../support/random.ts'

const PROXIES = ['10.0.0.0/8', '192.0.2.7', 'fd00::/8', '2001:db8::7']

function addressOf(peer: string, headers: Record<string, string>, proxies: readonly string[] = PROXIES): string {
  return new CallerAddress(proxies).of(new Headers(headers), peer)
}

describe('the address of a caller', () => {
  for (const [what, peer, headers, expected] of [
    ['of a trusted proxy', '10.1.2.3', { 'x-forwarded-for': '198.51.100.1' }, '198.51.100.1'],
    ['of a proxy that is one address', '192.0.2.7', { 'x-forwarded-for': '198.51.100.1' }, '198.51.100.1'],
    ['of the neighbour of a trusted address', '192.0.2.8', { 'x-forwarded-for': '198.51.100.1' }, '192.0.2.8'],
    ['of a peer that is not trusted', '198.51.100.9', { 'x-forwarded-for': '198.51.100.1' }, '198.51.100.9'],
    ['without a header', '10.1.2.3', {}, '10.1.2.3'],
    ['with an empty header', '10.1.2.3', { 'x-forwarded-for': '' }, '10.1.2.3'],
    ['of two proxies in a row', '10.1.2.3', { 'x-forwarded-for': '198.51.100.1, 10.9.9.9' }, '198.51.100.1'],
    ['that the caller has made up', '10.1.2.3', { 'x-forwarded-for': '203.0.113.5, 198.51.100.1' }, '198.51.100.1'],
    ['that is not one', '10.1.2.3', { 'x-forwarded-for': '198.51.100.1, unknown' }, '10.1.2.3'],
    ['with a port', '10.1.2.3', { 'x-forwarded-for': '198.51.100.1:4711' }, '198.51.100.1'],
    ['of IPv6', 'fd00::1', { 'x-forwarded-for': '2001:db8::9' }, '2001:db8::9'],
    ['of IPv6 in brackets', 'fd00::1', { 'x-forwarded-for': '[2001:db8::9]:4711' }, '2001:db8::9'],
    ['of IPv6 with a zone', 'fd00::1', { 'x-forwarded-for': 'fe80::1%eth0' }, 'fe80::1'],
    ['of IPv4 in IPv6', '::ffff:10.1.2.3', { 'x-forwarded-for': '::ffff:198.51.100.1' }, '198.51.100.1'],
    ['of all proxies', '10.1.2.3', { 'x-forwarded-for': '10.0.0.1, 10.0.0.2' }, '10.0.0.1'],
    ['in Forwarded', '10.1.2.3', { forwarded: 'for=198.51.100.1;proto=https;by=10.1.2.3' }, '198.51.100.1'],
    ['in Forwarded, quoted', '10.1.2.3', { forwarded: 'proto=https; For="[2001:db8::9]:4711"' }, '2001:db8::9'],
    [
      'in Forwarded, twice',
      '10.1.2.3',
      { forwarded: 'for=203.0.113.5, for=198.51.100.1, for=10.2.2.2' },
      '198.51.100.1',
    ],
    ['in Forwarded, hidden', '10.1.2.3', { forwarded: 'for=198.51.100.1, for=_hidden' }, '10.1.2.3'],
    ['in Forwarded without one', '10.1.2.3', { forwarded: 'proto=https' }, '10.1.2.3'],
    [
      'in both headers',
      '10.1.2.3',
      { 'x-forwarded-for': '198.51.100.1', forwarded: 'for=203.0.113.5' },
      '198.51.100.1',
    ],
    ['of a unix socket', 'unknown', { 'x-forwarded-for': '198.51.100.1' }, 'unknown'],
  ] as const) {
    test(what, () => expect(addressOf(peer, { ...headers })).toBe(expected))
  }
})

test('without trusted proxies no header counts', () => {
  expect(addressOf('10.1.2.3', { 'x-forwarded-for': '198.51.100.1', forwarded: 'for=198.51.100.1' }, [])).toBe(
    '10.1.2.3',
  )
})

test('every address can be trusted', () => {
  const headers = { 'x-forwarded-for': '203.0.113.5, 198.51.100.1' }
  expect(addressOf('192.0.2.1', headers, ['0.0.0.0/0'])).toBe('203.0.113.5')
  expect(addressOf('2001:db8::1', { 'x-forwarded-for': '2001:db8::2' }, ['::/0'])).toBe('2001:db8::2')
})

property('what a caller writes never names another address than its own', 500, (random) => {
  const own = '198.51.100.77'
  const piece = () =>
    random.pick(['203.0.113.5', '10.0.0.1', ',', ' ', '"', 'for=', ';', '[', ']', ':', 'x', '%', '=', '::1', 'fd00::1'])
  const written = Array.from({ length: random.below(12) }, piece).join('')
  const name = random.pick(['x-forwarded-for', 'forwarded'])
  const appended = name === 'forwarded' ? `for=${own}` : own
  const headers = { [name]: written === '' ? appended : `${written}, ${appended}` }
  expect(addressOf('10.1.2.3', headers)).toBe(own)
})

property('whatever a header has, the address is one', 500, (random) => {
  const text = Array.from({ length: random.below(40) }, () => String.fromCharCode(33 + random.below(94))).join('')
  expect(addressOf('10.1.2.3', { [random.pick(['x-forwarded-for', 'forwarded'])]: text })).toMatch(/^[\da-f.:]+$/)
})
