/** The wait that a provider's headers ask for. */

import { expect, setSystemTime, test } from 'bun:test'
import { rateLimitedMs, retryAfterMs } from '../../src/providers/retry-after.ts'

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
