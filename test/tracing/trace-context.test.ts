/** W3C Trace Context: what is a valid header, and ids. */

import { describe, expect, test } from 'bun:test'
import {
  newSpanId,
  newTraceId,
  parseTraceparent,
  parseTracestate,
  traceparent,
} from '../../src/tracing/trace-context.ts'
import { property } from '../support/random.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const SPAN = '00f067aa0ba902b7'

describe('a traceparent', () => {
  const valid: readonly [string, number][] = [
    [`00-${TRACE}-${SPAN}-01`, 1],
    [`00-${TRACE}-${SPAN}-00`, 0],
    // The random flag is kept; flags that the standard does not define are not.
    [`00-${TRACE}-${SPAN}-03`, 3],
    [`00-${TRACE}-${SPAN}-02`, 2],
    [`00-${TRACE}-${SPAN}-ff`, 3],
    [`00-${TRACE}-${SPAN}-08`, 0],
    // A later version, with and without more fields.
    [`01-${TRACE}-${SPAN}-01`, 1],
    [`cc-${TRACE}-${SPAN}-01-what-the-future-will-be-like`, 1],
    [`cc-${TRACE}-${SPAN}-01-`, 1],
  ]
  for (const [header, flags] of valid) {
    test(`${header} is continued`, () => {
      expect(parseTraceparent(header)).toEqual({ traceId: TRACE, parentId: SPAN, flags })
    })
  }

  const malformed: readonly string[] = [
    '',
    'x',
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-`,
    `00-${TRACE}-${SPAN}-1`,
    `00-${TRACE}-${SPAN}-001`,
    // Version 00 has four fields.
    `00-${TRACE}-${SPAN}-01-`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-01.more`,
    `cc-${TRACE}-${SPAN}-01.more`,
    // An invalid version, ids of zeros.
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    // Upper case, other characters, other lengths.
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN.toUpperCase()}-01`,
    `00-${TRACE}-${SPAN}-0A`,
    `0-${TRACE}-${SPAN}-01`,
    `000-${TRACE}-${SPAN}-01`,
    `00-${TRACE.slice(1)}-${SPAN}-01`,
    `00-${TRACE}0-${SPAN}-01`,
    `00-${TRACE}-${SPAN.slice(1)}-01`,
    `00-${TRACE}-${SPAN}0-01`,
    `00_${TRACE}_${SPAN}_01`,
    `0g-${TRACE}-${SPAN}-01`,
    `00-${TRACE.replace('4', 'g')}-${SPAN}-01`,
    ` 00-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01\n`,
    // The header twice.
    `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`,
  ]
  for (const header of malformed) {
    test(`${JSON.stringify(header)} is ignored`, () => expect(parseTraceparent(header)).toBeUndefined())
  }
})

describe('a tracestate', () => {
  const valid: readonly [string, string][] = [
    ['rojo=00f067aa0ba902b7', 'rojo=00f067aa0ba902b7'],
    ['rojo=1,congo=t61rcWkgMzE', 'rojo=1,congo=t61rcWkgMzE'],
    [' rojo=1 ,\tcongo=2 ,, ', 'rojo=1,congo=2'],
    ['fw529a3039@dt=FfFfff', 'fw529a3039@dt=FfFfff'],
    [`a=${'x'.repeat(256)}`, `a=${'x'.repeat(256)}`],
  ]
  for (const [header, passed] of valid) {
    test(`${header} is passed on`, () => expect(parseTracestate(header)).toBe(passed))
  }

  const dropped: readonly (string | null)[] = [
    null,
    '',
    ' , ',
    'rojo',
    '=1',
    'Rojo=1',
    'rojo=1=2',
    'rojo=a\u00e9',
    `a=${'x'.repeat(257)}`,
    // More than 512 characters, more than 32 members.
    Array.from({ length: 30 }, (_, n) => `key${n}=${'x'.repeat(20)}`).join(','),
    Array.from({ length: 33 }, (_, n) => `k${n}=1`).join(','),
  ]
  for (const header of dropped) {
    test(`${JSON.stringify(header)?.slice(0, 40)} is dropped`, () => expect(parseTracestate(header)).toBeUndefined())
  }
})

property('what is written is read again, with the flags that the standard defines', 500, (random) => {
  const [traceId, spanId, flags] = [newTraceId(), newSpanId(), random.below(4)]
  expect(traceId).toMatch(/^(?!0{32})[0-9a-f]{32}$/)
  expect(spanId).toMatch(/^(?!0{16})[0-9a-f]{16}$/)
  expect(parseTraceparent(traceparent(traceId, spanId, flags))).toEqual({ traceId, parentId: spanId, flags })
  const later = `${random.pick(['01', '7f', 'fe'])}-${traceId}-${spanId}-${random.pick(['04', 'f0'])}`
  expect(parseTraceparent(later)).toEqual({ traceId, parentId: spanId, flags: 0 })
})

property('a header with one character changed is ignored, or differs', 2000, (random) => {
  const header = traceparent(newTraceId(), newSpanId(), 1)
  const at = random.below(header.length)
  const [first = '', ...others] = [...'0123456789abcdefABCDEF-_ g'].filter((character) => character !== header[at])
  const other = random.pick([first, ...others])
  const parsed = parseTraceparent(header.slice(0, at) + other + header.slice(at + 1))
  const isHex = /[0-9a-f]/.test(other)
  // The version and unknown flags may change without effect; a dash may move nowhere.
  if (at < 2 || at > 52) expect(isHex || parsed === undefined).toBe(true)
  else expect(parsed).not.toEqual(parseTraceparent(header))
})
