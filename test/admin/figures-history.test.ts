/** Figures of the last seconds and of the last hour, from sums that only grow. */

import { expect, test } from 'bun:test'
import { FiguresHistory } from '../../src/admin/figures-history.ts'
import { TargetHistory } from '../../src/admin/target-rows.ts'
import { MergedFigures } from '../../src/metrics/merged-figures.ts'

interface Ended {
  readonly status?: number
  readonly outcome?: string
  readonly count?: number
}

function world() {
  const sums = new MergedFigures()
  let nowMs = Date.parse('2026-11-21T12:00:00Z')
  const post = (counters: Parameters<MergedFigures['add']>[0]['counters'], more = {}) =>
    sums.add(
      {
        counters,
        histograms: {},
        gauges: { inFlight: 3, streams: 2, sockets: 0, socketStateBytes: 0, outboxPending: 0, loopLagSeconds: 0 },
        errors: [],
        ...more,
      },
      1,
    )
  return {
    sums,
    clock: () => nowMs,
    pass: (seconds: number) => {
      nowMs += seconds * 1000
    },
    post,
    end: ({ status = 200, outcome = 'completed', count = 1 }: Ended) =>
      post({ weir_requests_total: [[['chat', 'm', 'acme', String(status), outcome, ''], count]] }),
    history: () =>
      new FiguresHistory(
        () => ({ ...sums.gauges(), totals: sums.totals() }),
        () => nowMs,
      ),
  }
}

test('nothing has happened: rates are 0, shares are unknown', () => {
  const { history, pass } = world()
  const figures = history()
  pass(5)
  expect(figures.now()).toMatchObject({
    requests_per_second: 0,
    error_share: null,
    limited_share: null,
    time_to_first_token_p50_ms: null,
    tokens_per_second: 0,
  })
})

test('a rate is over the last 10 s, a share over the last minute', () => {
  const { history, pass, end } = world()
  const figures = history()
  end({ status: 500, count: 10 })
  for (let second = 0; second < 30; second++) {
    pass(1)
    figures.now()
  }
  end({ count: 30 })
  pass(1)
  expect(figures.now()).toMatchObject({ requests_per_second: 3, error_share: 0.25, in_flight: 3, open_streams: 2 })
  for (let second = 0; second < 70; second++) {
    pass(1)
    figures.now()
  }
  expect(figures.now()).toMatchObject({ requests_per_second: 0, error_share: null })
})

test('without listeners, readings are 10 s apart, and a rate is that of the time between', () => {
  const { history, pass, end } = world()
  const figures = history()
  for (let step = 0; step < 3; step++) {
    end({ count: 50 })
    pass(10)
    figures.step()
  }
  pass(4)
  expect(figures.now().requests_per_second).toBeCloseTo(50 / 14, 2)
})

test('refusals are no errors; a broken answer is one; 429 is counted apart', () => {
  const { history, pass, end } = world()
  const figures = history()
  end({ count: 6 })
  end({ status: 400, outcome: 'refused' })
  end({ status: 429, outcome: 'refused' })
  end({ outcome: 'provider_cut' })
  end({ status: 502, outcome: 'refused' })
  pass(1)
  expect(figures.now()).toMatchObject({ error_share: 0.2, limited_share: 0.1 })
})

test('an hour of points is kept, one for each 10 s', () => {
  const { history, pass, end } = world()
  const figures = history()
  for (let step = 1; step <= 400; step++) {
    end({ count: step })
    pass(10)
    figures.step()
  }
  const points = figures.points()
  expect(points).toHaveLength(360)
  expect(points.map((point) => point.requests_per_second).slice(0, 2)).toEqual([4.1, 4.2])
  expect(points.at(-1)).toMatchObject({ requests_per_second: 40, at: '2026-11-21T13:06:40.000Z' })
})

test('the figures of a target are those of the last 15 minutes', () => {
  const { sums, clock, pass, post } = world()
  const target = { provider: 'up', model: 'a' }
  const attempt = (result: string, count: number) =>
    post(
      { weir_attempts_total: [[['up', 'a', result], count]] },
      {
        histograms: {
          weir_target_first_byte_seconds: [
            [['up', 'a'], Array.from({ length: 17 }, (_, i) => (i === 8 ? count : 0)), 0],
          ],
        },
      },
    )
  attempt('answered', 1000)
  const history = new TargetHistory(() => sums.targets(), clock)
  for (let minute = 0; minute < 20; minute++) {
    attempt('answered', 9)
    attempt('timeout', 1)
    attempt('caller_left', 5)
    pass(60)
    history.step()
  }
  const figures = history.figures()(target)
  expect(figures).toMatchObject({ attempts: 15 * 15, judged: 150, answered: 135 })
  // All times are in the bucket from 0.1 to 0.25 s.
  expect(figures?.firstByteP50).toBeCloseTo(0.175, 3)
  expect(history.figures()({ provider: 'up', model: 'b' })).toBeUndefined()
})
