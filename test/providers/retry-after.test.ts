/** The wait that a provider's headers ask for, and what they report of its limits. */

import { expect, setSystemTime, test } from 'bun:test'
import { rateLimitedMs, reportedLimits, retryAfterMs } from '../../src/providers/retry-after.ts'
import { ResponseHead } from '../../src/transport/response-head.ts'

const NOW = Date.UTC(2026, 10, 21, 12, 0, 0)
const inSeconds = (seconds: number) => new Date(NOW + seconds * 1000).toUTCString()
const used = { 'x-ratelimit-remaining-requests': '0' }

test.each<[string, Readonly<Record<string, string>>, number | undefined]>([
  ['nothing', {}, undefined],
  ['seconds', { 'retry-after': '7' }, 7000],
  ['part of a second', { 'retry-after': '0.25' }, 250],
  ['none', { 'retry-after': '0' }, 0],
  ['milliseconds, which are more exact', { 'retry-after': '8', 'retry-after-ms': '7400' }, 7400],
  ['a date', { 'retry-after': inSeconds(40) }, 40_000],
  ['a date that is over', { 'retry-after': inSeconds(-40) }, 0],
  ['nonsense', { 'retry-after': 'soon', 'retry-after-ms': 'later' }, undefined],
  ['nothing between the quotes', { 'retry-after': '' }, undefined],
  ['what is no number of seconds', { 'retry-after': 'Infinity' }, undefined],
  ['milliseconds that are nonsense beside seconds', { 'retry-after': '3', 'retry-after-ms': '-1' }, 3000],
  ['a limit of requests', { ...used, 'x-ratelimit-reset-requests': '6m0s' }, 360_000],
  ['one that is short', { ...used, 'x-ratelimit-reset-requests': '20ms' }, 20],
  ['one with a part of a second', { ...used, 'x-ratelimit-reset-requests': '1m12.5s' }, 72_500],
  [
    'the longer of two that are used up',
    {
      ...used,
      'x-ratelimit-reset-requests': '2s',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '9s',
    },
    9000,
  ],
  [
    'not one that is not used up',
    {
      ...used,
      'x-ratelimit-reset-requests': '2s',
      'x-ratelimit-remaining-tokens': '17',
      'x-ratelimit-reset-tokens': '9s',
    },
    2000,
  ],
  ['a limit without a name, in seconds', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '12' }, 12_000],
  ['… as a Unix time', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': `${NOW / 1000 + 5}` }, 5000],
  ['… in milliseconds', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': `${NOW + 5250}` }, 5250],
  ['… as a date', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': new Date(NOW + 3000).toISOString() }, 3000],
  ['a limit, and an explicit wait', { ...used, 'x-ratelimit-reset-requests': '9s', 'retry-after': '1' }, 1000],
  ['a limit in words', { ...used, 'x-ratelimit-reset-requests': 'soon' }, undefined],
])('%s', (_, fields, ms) => {
  setSystemTime(NOW)
  try {
    expect(rateLimitedMs(new Headers(fields))).toBe(ms)
    const outright = 'retry-after' in fields || 'retry-after-ms' in fields
    expect(retryAfterMs(new Headers(fields))).toBe(outright ? ms : undefined)
  } finally {
    setSystemTime()
  }
})

const anthropic = (name: string, limit: number, remaining: number, seconds: number) => ({
  [`anthropic-ratelimit-${name}-limit`]: `${limit}`,
  [`anthropic-ratelimit-${name}-remaining`]: `${remaining}`,
  [`anthropic-ratelimit-${name}-reset`]: new Date(NOW + seconds * 1000).toISOString(),
})
const tokens = anthropic('tokens', 400, 90, 3)
const inAndOut = { ...anthropic('input-tokens', 1000, 500, 30), ...anthropic('output-tokens', 400, 100, 45) }

test.each<[string, Readonly<Record<string, string>>, (string | number | undefined)[][]]>([
  ['nothing', {}, []],
  [
    'those of OpenAI',
    {
      'x-ratelimit-limit-requests': '5000',
      'x-ratelimit-remaining-requests': '4999',
      'x-ratelimit-reset-requests': '12ms',
      'x-ratelimit-remaining-tokens': '0',
    },
    [
      ['requests', 4999, 5000, 12],
      ['tokens', 0, undefined, undefined],
    ],
  ],
  ['one without a name', { 'x-ratelimit-remaining': '3', 'x-ratelimit-limit': '10' }, [['requests', 3, 10, undefined]]],
  [
    'those of Anthropic',
    { ...anthropic('requests', 50, 49, 1), ...tokens },
    [
      ['requests', 49, 50, 1000],
      ['tokens', 90, 400, 3000],
    ],
  ],
  [
    '… of input and output, of which the scarcer one decides',
    { ...anthropic('requests', 50, 49, 1), ...tokens, ...inAndOut },
    [
      ['requests', 49, 50, 1000],
      ['tokens', 350, 1400, 45_000],
    ],
  ],
  ['a part of a token', { 'x-ratelimit-remaining-tokens': '12.5' }, [['tokens', 12.5, undefined, undefined]]],
  ['a field of another limit', { 'x-ratelimit-remaining-images': '3', 'x-ratelimits': '7' }, []],
  ['nonsense', { 'x-ratelimit-remaining-requests': 'many', 'anthropic-ratelimit-requests-remaining': '-1' }, []],
])('reported limits: %s', (_, fields, found) => {
  setSystemTime(NOW)
  try {
    const lines = Object.entries(fields).map(([name, value]) => `\r\n${name.toUpperCase()}:  ${value}`)
    const bytes = Buffer.from(`HTTP/1.1 200 OK\r\nx-request-id: 1${lines.join('')}\r\ndate: today`)
    for (const headers of [new Headers(fields), new ResponseHead(bytes, 0, bytes.length)]) {
      const limits = reportedLimits(headers)
      const rows: readonly unknown[] = limits.map(({ unit, remaining, limit, resetMs }) => [
        unit,
        remaining,
        limit,
        resetMs,
      ])
      expect(rows).toEqual(found)
    }
  } finally {
    setSystemTime()
  }
})
