/** The state of a target over several workers, and which models are down because of it. */

import { expect, test } from 'bun:test'
import { downModels } from '../../src/admin/down-models.ts'
import { ProviderError, type ProviderErrorDetail, type ProviderErrorKind } from '../../src/core/provider-error.ts'
import { Breaker, type Rest, type TargetTimes } from '../../src/gateway/breaker.ts'
import { TargetStates } from '../../src/gateway/target-states.ts'
import { checked } from '../support/admin.ts'
import { property, type Random } from '../support/random.ts'

const A = { provider: 'a', model: 'gpt-5-mini' }
const B = { provider: 'b', model: 'other' }
const START = Date.parse('2026-11-23T07:35:00Z')

/** Workers that share what they learn of rests, and the supervisor, which hears of calls later. */
class Node {
  ms = 0
  readonly supervisor = new Breaker(() => this.ms)
  readonly states = new TargetStates(this.supervisor, () => START + this.ms)
  readonly workers: Breaker[]

  constructor(count = 1) {
    this.workers = Array.from({ length: count }, (_, at) => {
      const send = (rest: Rest) => this.share(rest, at)
      return new Breaker(
        () => this.ms,
        send,
        undefined,
        undefined,
        () => START + this.ms,
      )
    })
  }

  call(how: 'ok' | ProviderErrorKind, { target = A, worker = 0, detail = {} as ProviderErrorDetail } = {}): this {
    const permit = this.workers[worker]?.enterAnyway(target)
    if (how === 'ok') permit?.succeeded()
    else permit?.failed(new ProviderError(how, 'what it did', detail))
    return this
  }

  /** The workers post what they know. */
  post(): this {
    this.workers.forEach((worker, at) => {
      for (const times of worker.takeTimes()) this.states.hear(times, at)
    })
    return this
  }

  stateOf(target = A) {
    return this.states.stateOf(target)
  }

  down(models: Readonly<Record<string, readonly string[]>>) {
    const config = checked({ providers: { a: 'http://127.0.0.1:9/v1', b: 'http://127.0.0.1:9/v1' }, models })
    return downModels(config, (target) => this.stateOf(target), START + this.ms)
  }

  private share(rest: Rest, from: number): void {
    this.supervisor.receive(rest)
    this.states.hearRest(rest)
    this.workers.forEach((worker, at) => {
      if (at !== from) worker.receive(rest)
    })
  }
}

test('a target goes through its states', () => {
  const node = new Node()
  expect(node.stateOf().state).toBe('unknown')
  expect(node.call('ok').post().stateOf().state).toBe('healthy')
  expect(node.call('failed').post().stateOf()).toMatchObject({ state: 'failing', failing: { reason: 'failed' } })
  expect(node.call('ok').post().stateOf()).toMatchObject({ state: 'healthy', failing: undefined })
  for (let turn = 0; turn < 3; turn++) node.call('failed', { detail: { status: 500 } })
  // A rest is known before the calls are.
  expect(node.stateOf()).toMatchObject({ state: 'resting', isDown: false, failing: { status: 500 } })
  expect(node.post().stateOf()).toMatchObject({ state: 'resting', isDown: true })
  node.ms = 1000
  expect(node.stateOf().state).toBe('probing')
  expect(node.call('ok').stateOf()).toMatchObject({ state: 'healthy', isDown: false })
  expect(node.post().stateOf().state).toBe('healthy')
})

test('a caller who is wrong shows nothing of a target', () => {
  expect(new Node().call('rejected').call('too_large').post().stateOf().state).toBe('unknown')
})

test.each<[string, readonly (readonly [ProviderErrorKind, ProviderErrorDetail])[], boolean]>([
  [
    'two failures',
    [
      ['failed', {}],
      ['failed', {}],
    ],
    false,
  ],
  [
    'three',
    [
      ['failed', {}],
      ['timeout', {}],
      ['unreachable', {}],
    ],
    true,
  ],
  ['a credential', [['credential', { status: 401 }]], true],
  ['no credit', [['credit_exhausted', { status: 402 }]], true],
  ['a limit of some seconds', [['rate_limited', { status: 429, retryAfterMs: 5000 }]], false],
  [
    'three limits at once',
    [
      ['rate_limited', {}],
      ['rate_limited', {}],
      ['rate_limited', {}],
    ],
    false,
  ],
])('%s: down or not', (_, calls, isDown) => {
  const node = new Node()
  for (const [kind, detail] of calls) node.call(kind, { detail })
  expect(node.post().stateOf().isDown).toBe(isDown)
})

test('one that is still limited after its rest is down, and an exhausted limit never', () => {
  const node = new Node()
  const detail = { status: 429, retryAfterMs: 5000 }
  node.call('rate_limited', { detail })
  node.ms = 6000
  expect(node.call('rate_limited', { detail }).post().stateOf().isDown).toBe(true)
  const other = new Node()
  for (let turn = 0; turn < 5; turn++) other.workers[0]?.enterAnyway(A).succeeded(1000)
  expect(other.post().stateOf()).toMatchObject({ state: 'resting', isDown: false, failing: undefined })
})

test('failures of several workers count together, although none of them rests its target', () => {
  const node = new Node(4)
  const down = { 'gpt-5-mini': ['a/gpt-5-mini'] }
  for (const worker of [0, 1]) node.call('failed', { worker, detail: { status: 500 } })
  expect(node.post().down(down)).toEqual([])
  for (const worker of [2, 3, 0, 1, 2, 3]) node.call('failed', { worker, detail: { status: 500 } })
  expect(node.post().stateOf()).toMatchObject({ state: 'failing', rest: undefined, isDown: true })
  expect(node.down(down)).toMatchObject([
    { message: 'gpt-5-mini is down: its only target a/gpt-5-mini answers 500 since 07:35.' },
  ])
  node.ms = 1
  expect(node.call('ok', { worker: 2 }).post().stateOf()).toMatchObject({ state: 'healthy', isDown: false })
})

test('failures of several workers make a target rest once the answers of that time are reported', () => {
  const node = new Node(6)
  const states = new TargetStates(
    node.supervisor,
    () => START + node.ms,
    () => 1000,
  )
  const post = () => {
    node.workers.forEach((breaker, at) => {
      if (at !== 2 || node.ms > 500) for (const times of breaker.takeTimes()) states.hear(times, at)
    })
  }
  const failBy = (...workers: readonly number[]) => {
    for (const worker of workers) node.call('failed', { worker, detail: { status: 500 } })
    post()
  }
  failBy(0, 1, 3)
  expect([states.dueRests(), states.stateOf(A).isDown]).toEqual([[], false])
  node.ms = 1
  // It is known later than the failures after it.
  node.call('ok', { worker: 2 })
  node.ms = 2
  failBy(0, 1)
  node.ms = 2000
  post()
  expect(states.dueRests()).toEqual([])
  // Requests go on: what has begun is judged nevertheless.
  for (const worker of [3, 4, 5]) {
    failBy(worker)
    node.ms += 500
  }
  const rest = {
    reason: 'failed',
    status: 500,
    restMs: 1000,
    rests: 1,
    asked: false,
    failures: 3,
    probing: false,
  } as const
  expect(states.dueRests()).toMatchObject([{ ...A, ...rest }])
  expect(states.stateOf(A)).toMatchObject({ state: 'failing', isDown: true })
  node.supervisor.receive({ ...A, ...rest })
  expect(states.stateOf(A)).toMatchObject({ state: 'resting', isDown: true })
  expect(states.dueRests()).toEqual([])
})

test('a target that rests after three failures in one worker is not down if it answered another one', () => {
  const node = new Node(2)
  for (let turn = 0; turn < 3; turn++) {
    node.ms += 1
    node.call('failed', { worker: 0 })
    node.ms += 1
    if (turn < 2) node.call('ok', { worker: 1 })
  }
  expect(node.post().stateOf()).toMatchObject({ state: 'resting', isDown: false, failing: { reason: 'failed' } })
})

test('calls are counted, and not the time in which nothing calls', () => {
  const node = new Node()
  for (let turn = 0; turn < 3; turn++) node.call('failed')
  node.ms = 3_600_000
  const { failing } = node.post().stateOf()
  expect((failing?.lastMs ?? 0) - (failing?.sinceMs ?? 0)).toBeLessThan(1000)
  const later = node.call('failed').post().stateOf().failing
  expect((later?.lastMs ?? 0) - (later?.sinceMs ?? 0)).toBeWithin(3_599_000, 3_600_001)
})

test('a model is down if no target of it can answer; the sentence has each with its reason', () => {
  const node = new Node()
  const only = { 'gpt-5-mini': ['a/gpt-5-mini'] }
  const both = { 'gpt-5-mini': ['a/gpt-5-mini', 'b/other'] }
  expect(node.down(only)).toEqual([])
  for (let turn = 0; turn < 3; turn++) node.call('failed', { detail: { status: 500 } })
  node.ms = 60_000
  expect(node.post().down(only)).toMatchObject([
    {
      model: 'gpt-5-mini',
      sinceMs: START,
      message: 'gpt-5-mini is down: its only target a/gpt-5-mini answers 500 since 07:35.',
    },
  ])
  expect(node.down(both)).toEqual([])
  const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
  for (let turn = 0; turn < 3; turn++) node.call('unreachable', { target: B, detail: { cause } })
  node.ms += 86_400_000
  expect(
    node
      .post()
      .down(both)
      .map(({ message }) => message),
  ).toEqual([
    'gpt-5-mini is down: none of its 2 targets can answer: a/gpt-5-mini answers 500 since 2026-11-23 07:35; ' +
      'b/other cannot be reached (ECONNREFUSED) since 2026-11-23 07:36.',
  ])
  expect(node.call('ok', { target: B }).down(both)).toEqual([])
})

test.each<[ProviderErrorKind, ProviderErrorDetail, string]>([
  ['credential', { status: 401 }, 'rejects our credential (401)'],
  ['credit_exhausted', { status: 429 }, 'has no credit left in our account (429)'],
  ['timeout', { timeout: 'first_byte' }, 'does not answer in time (first_byte_timeout)'],
  ['timeout', { status: 504 }, 'answers 504'],
  ['overloaded', { status: 529 }, 'answers 529'],
  ['overloaded', {}, 'is overloaded'],
  ['broken', { status: 200 }, 'gives no valid answer'],
  ['broken', { status: 502 }, 'gives no valid answer (502)'],
])('%s %p: %s', (kind, detail, words) => {
  const node = new Node()
  for (let turn = 0; turn < 3; turn++) node.call(kind, { detail })
  const [found] = node.post().down({ m: ['a/gpt-5-mini'] })
  expect(found?.message).toBe(`m is down: its only target a/gpt-5-mini ${words} since 07:35.`)
})

/** `-`: a stream breaks off, `+`: one comes whole, `w`: a whole answer comes; each begins after the one before. */
function play(node: Node, calls: string, workers = 1): Node {
  for (const [at, how] of [...calls].entries()) {
    node.ms += 1000
    const permit = node.workers[at % workers]?.enterAnyway(A)
    node.ms += 1000
    permit?.succeeded()
    if (how === '-') permit?.failed(new ProviderError('cut', 'the connection ended'))
    else permit?.completed(how === '+')
    node.post()
  }
  return node
}

test.each([
  ['-w-w-', true],
  ['w-w-w-', true],
  ['--w-', true],
  ['wwwwwwwwwwwwwww-wwwwwwwwwwwwwwwwwwwww-wwwwwwwwwwwwwwwwwwwwwwww-wwwwwwwww', true],
  ['-w-w', false],
  ['-w-w+-', false],
  ['-w-w-+', false],
  ['+-w-w-w+-w-w', false],
  ['-w-w-+w-w-w-', true],
])('streams that break off while whole answers work: %s', (calls, isDown) => {
  for (const workers of [1, 2, 3]) {
    const node = play(new Node(workers), calls, workers)
    expect([workers, node.stateOf().isDown]).toEqual([workers, isDown])
    const [found] = node.down({ m: ['a/gpt-5-mini'] })
    const message = 'm is down for streams: its only target a/gpt-5-mini breaks its streams off since 07:35.'
    expect(found?.message).toBe(isDown ? message : undefined)
    // It goes on answering what works: no rest is due.
    expect([node.stateOf().rest, node.states.dueRests()]).toEqual([undefined, []])
    if (isDown) expect(node.stateOf().state).toBe('failing')
    expect(play(node, '+').stateOf()).toMatchObject({ state: 'healthy', isDown: false, failing: undefined })
  }
})

test('streams of all workers that a restart of the provider breaks off together are one', () => {
  const node = new Node(4)
  const open = node.workers.map((worker) => worker.enterAnyway(A))
  node.ms = 1000
  for (const permit of open) permit.succeeded()
  for (const permit of open) {
    node.ms += 1
    permit.failed(new ProviderError('cut', 'the connection ended'))
  }
  expect(play(node, 'w').stateOf()).toMatchObject({ state: 'healthy', isDown: false })
  expect(play(node, '-w-').stateOf().isDown).toBe(true)
})

test('three streams break off before a whole one of another worker is reported: it is not reported too early', () => {
  const node = new Node(2)
  const states = new TargetStates(
    node.supervisor,
    () => START + node.ms,
    () => 1000,
  )
  const post = (at: number) => {
    for (const times of node.workers[at]?.takeTimes() ?? []) states.hear(times, at)
  }
  play(node, '-w-w-w-').post()
  for (const worker of node.workers) worker.takeTimes()
  play(node, '+', 2)
  const late = node.workers[0]?.takeTimes() ?? []
  const cut = (worker: number) => {
    const permit = node.workers[worker]?.enterAnyway(A)
    permit?.succeeded()
    permit?.failed(new ProviderError('cut', 'the connection ended'))
    node.ms += 10
  }
  for (let turn = 0; turn < 3; turn++) cut(1)
  const whole = node.workers[1]?.enterAnyway(A)
  whole?.succeeded()
  whole?.completed(false)
  const back = node.workers[0]?.enterAnyway(A)
  back?.succeeded()
  back?.completed(true)
  post(1)
  expect(states.stateOf(A).isDown).toBe(false)
  for (const times of late) states.hear(times, 0)
  post(0)
  node.ms += 5000
  expect(states.stateOf(A)).toMatchObject({ state: 'healthy', isDown: false })
})

/**
 * Workers call a target at random, and their posts arrive late, those of different workers in any order. The model is
 * the list of all calls: the last one decides, unless the target rests, and those since the last answer whether it is
 * down.
 */
property('random calls of several workers: the last calls decide', 200, (random: Random) => {
  const node = new Node(random.between(1, 4))
  const late = node.workers.map((): TargetTimes[] => [])
  const hear = (worker: number) => {
    const times = late[worker]?.shift()
    if (times !== undefined) node.states.hear(times, worker)
  }
  let failures = 0
  let last: 'ok' | 'failed' | undefined
  let since: number | undefined
  for (let step = 0; step < 60; step++) {
    node.ms += random.between(1, random.chance(0.1) ? 40_000 : 200)
    const worker = random.below(node.workers.length)
    const breaker = node.workers[worker]
    if (breaker !== undefined && random.chance(0.8)) {
      last = random.chance(0.6) ? 'ok' : 'failed'
      failures = last === 'ok' ? 0 : failures + 1
      since = last === 'ok' ? undefined : (since ?? START + node.ms)
      node.call(last, { worker })
    }
    if (breaker !== undefined && random.chance(0.3)) late[worker]?.push(...breaker.takeTimes())
    while (random.chance(0.5)) hear(random.below(late.length))
  }
  late.forEach((posts, worker) => {
    while (posts.length > 0) hear(worker)
  })
  const { state, rest, failing, isDown } = node.post().stateOf()
  // After a rest, two failures are enough.
  if (failures !== 2) expect(isDown).toBe(failures >= 3)
  expect(failing === undefined).toBe(last !== 'failed')
  if (last === 'failed') expect(failing?.lastMs).toBeWithin(START, START + node.ms + 1)
  if (rest !== undefined) expect(state).toBe(rest.restMs === 0 ? 'probing' : 'resting')
  else expect(state).toBe(last === undefined ? 'unknown' : last === 'ok' ? 'healthy' : 'failing')
  if (last === 'failed') expect(Math.abs((failing?.sinceMs ?? 0) - (since ?? 0))).toBeLessThan(1000)
})
