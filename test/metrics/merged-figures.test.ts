/** The sums over workers: they survive each of them, and are bounded. */

import { expect, test } from 'bun:test'
import { KEYS_MAX, OTHER } from '../../src/metrics/families.ts'
import type { FiguresPost } from '../../src/metrics/figures-post.ts'
import { MergedFigures } from '../../src/metrics/merged-figures.ts'
import { TimeCounts } from '../../src/metrics/time-counts.ts'
import { property } from '../support/random.ts'

const GAUGES = {
  ...{ inFlight: 3, streams: 1, sockets: 7, socketStateBytes: 10 },
  ...{ outboxPending: 2, loopLagSeconds: 0.5 },
}
const NOTHING: FiguresPost = { counters: {}, histograms: {}, gauges: GAUGES, errors: [] }
const REQUESTS = ['chat', 'm', 'acme', '200', 'completed', '']

function requests(...series: readonly (readonly [labels: readonly string[], added: number])[]): FiguresPost {
  return { ...NOTHING, counters: { weir_requests_total: series } }
}

test('what an ended worker counted stays, and what it was doing does not', () => {
  const merged = new MergedFigures()
  merged.add(requests([REQUESTS, 2]), 1)
  merged.add(requests([REQUESTS, 3]), 2)
  expect(merged.gauges()).toEqual({
    ...{ inFlight: 6, streams: 2, sockets: 14, socketStateBytes: 20 },
    ...{ outboxPending: 4, loopLagSeconds: 0.5 },
  })
  merged.gone(1)
  // Its last message may arrive after its end.
  merged.add(requests([REQUESTS, 1]))
  expect(merged.gauges()).toEqual(GAUGES)
  expect(merged.totals().requests).toBe(6)
  expect([...merged.counterSeries('weir_requests_total')]).toEqual([{ labels: REQUESTS, value: 6 }])
})

test('series of another version are ignored', () => {
  const merged = new MergedFigures()
  merged.add({
    ...NOTHING,
    counters: { weir_later_total: [[['a'], 1]], weir_requests_total: [[['chat', 'm'], 1]] },
    histograms: { weir_overhead_seconds: [[[], [1, 2], 3]], weir_later_seconds: [[[], [1], 1]] },
  })
  expect(merged.totals().requests).toBe(0)
  expect([...merged.histogramSeries('weir_overhead_seconds')]).toEqual([])
})

test('errors are 5xx, answers that broke off and 429 of all providers; limited ones are 429 of weir', () => {
  const merged = new MergedFigures()
  const ended = (status: string, outcome: string, error = '') => [['chat', '', '', status, outcome, error], 1] as const
  merged.add(
    requests(
      ended('200', 'completed'),
      ended('200', 'provider_cut'),
      ended('200', 'timed_out'),
      ended('200', 'caller_left'),
      ended('400', 'refused'),
      ended('429', 'refused', 'rate_limit_exceeded'),
      ended('429', 'refused', 'upstream_rate_limited'),
      ended('502', 'refused'),
      ended('504', 'timed_out'),
    ),
  )
  expect(merged.totals()).toMatchObject({ requests: 9, errors: 5, limited: 1 })
})

test('keys beyond the bound share one series, however many workers report them', () => {
  const merged = new MergedFigures()
  for (let i = 0; i < KEYS_MAX + 5; i++) merged.add(requests([[...REQUESTS, `k${i}`], 1]))
  const series = [...merged.counterSeries('weir_requests_total')]
  expect(series).toHaveLength(KEYS_MAX + 1)
  expect(series.at(-1)).toEqual({ labels: [...REQUESTS, OTHER], value: 5 })
})

test('a reading does not change afterwards', () => {
  const merged = new MergedFigures()
  const first = merged.totals()
  const counts = new TimeCounts(first.firstToken.bounds)
  counts.observe(0.2)
  merged.add({
    ...NOTHING,
    histograms: { weir_time_to_first_token_seconds: [[['chat', 'm'], counts.counts, counts.sum]] },
  })
  expect(first.firstToken.count).toBe(0)
  expect(merged.totals().firstToken.minus(first.firstToken).count).toBe(1)
})

const BOUNDS = [0.1, 0.2, 0.5, 1]

property('a quantile lies in the bucket of the time with that rank', 500, (random) => {
  const times = Array.from({ length: random.between(1, 50) }, () => random.below(1500) / 1000).sort((a, b) => a - b)
  const counts = new TimeCounts(BOUNDS)
  for (const time of times) counts.observe(time)
  const share = random.between(1, 100) / 100
  const exact = times[Math.ceil(share * times.length) - 1] ?? 0
  const quantile = counts.quantileSeconds(share) ?? Number.NaN
  const above = BOUNDS.find((bound) => exact <= bound) ?? 1
  const below = exact > 1 ? 1 : (BOUNDS.findLast((bound) => exact > bound) ?? 0)
  expect(quantile).toBeGreaterThanOrEqual(below)
  expect(quantile).toBeLessThanOrEqual(above)
})

test('without times there is no quantile', () => {
  expect(new TimeCounts(BOUNDS).quantileSeconds(0.5)).toBeUndefined()
})
