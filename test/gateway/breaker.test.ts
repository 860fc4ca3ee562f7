/** Every move of a target between well, resting and being probed; the clock is the test's. */

import { describe, expect, test } from 'bun:test'
import { ProviderError, type ProviderErrorDetail, type ProviderErrorKind } from '../../src/core/provider-error.ts'
import { Breaker, type Rest } from '../../src/gateway/breaker.ts'
import type { Permit } from '../../src/gateway/permit.ts'
import { ProbeLeases } from '../../src/process/ipc/probe-lease.ts'
import { property, type Random } from '../support/random.ts'

const A = { provider: 'p', model: 'a' }
const B = { provider: 'p', model: 'b' }

const fault = (kind: ProviderErrorKind, detail: ProviderErrorDetail = {}) =>
  new ProviderError(kind, 'what it did', detail)
const rateLimited = (retryAfterMs: number | undefined) => fault('rate_limited', { status: 429, retryAfterMs })

class Clock {
  ms = 0
  readonly now = (): number => this.ms
}

/**
 * A breaker that is played by words: `ok` and `fail` are calls that end so, an error kind fails with it, `429/7` is a
 * 429 that asks for a rest of 7 s, `empty/7` an answer whose rate limit has nothing left for 7 s, `+500` lets 500 ms
 * pass, `leave` releases its permit, `ask` keeps it, `!` before a word calls in spite of a rest.
 */
class Story {
  readonly clock = new Clock()
  readonly sent: Rest[] = []
  readonly breaker = new Breaker(this.clock.now, (rest) => this.sent.push(rest))
  readonly open: Permit[] = []

  play(words: string): this {
    for (const word of words.split(/\s+/).filter(Boolean)) this.step(word)
    return this
  }

  private step(word: string): void {
    const times = /^(.+)\*(\d+)$/.exec(word)
    if (times !== null) {
      for (let i = 0; i < Number(times[2]); i++) this.step(times[1] ?? '')
      return
    }
    if (word.startsWith('+')) {
      this.clock.ms += Number(word.slice(1))
      return
    }
    const permit = word.startsWith('!') ? this.breaker.enterAnyway(A) : this.breaker.enter(A)
    if (permit === undefined) throw new Error(`"${word}": the target rests`)
    const what = word.replace('!', '')
    if (what === 'ask') this.open.push(permit)
    else if (what === 'leave') permit.release()
    else if (what === 'ok') permit.succeeded()
    else if (what.startsWith('empty/')) permit.succeeded(Number(what.slice('empty/'.length)) * 1000)
    else permit.failed(responseError(what))
  }

  /**
   * `well`, `probe` (the next call is the probe), `probing`, or `rests MS` (with `asked` if the provider asked for it).
   */
  get state(): string {
    const rest = this.breaker.restOf(A)
    if (rest === undefined) return 'well'
    if (rest.probing) return 'probing'
    if (rest.restMs === 0) return 'probe'
    return rest.asked ? `rests ${rest.restMs} asked` : `rests ${rest.restMs}`
  }
}

function responseError(word: string): ProviderError {
  const asked = /^429\/(\d+)$/.exec(word)
  if (asked !== null) return rateLimited(Number(asked[1]) * 1000)
  const kinds: Readonly<Record<string, ProviderErrorKind>> = {
    fail: 'failed',
    '429': 'rate_limited',
    timeout: 'timeout',
    cut: 'cut',
    rejected: 'rejected',
    too_large: 'too_large',
    credential: 'credential',
  }
  const kind = kinds[word]
  if (kind === undefined) throw new Error(`no such word: ${word}`)
  return fault(kind)
}

describe('states', () => {
  test.each([
    // What does not make it rest.
    ['', 'well'],
    ['ok', 'well'],
    ['fail fail', 'well'],
    ['fail fail ok fail fail', 'well'],
    ['429 429', 'well'],
    ['429/0', 'well'],
    ['rejected*50', 'well'],
    ['too_large*50', 'well'],
    ['leave*50', 'well'],
    ['fail fail rejected', 'well'],
    // Three in a row, whatever they are and however far apart.
    ['fail*3', 'rests 1000'],
    ['fail timeout cut', 'rests 1000'],
    ['429*3', 'rests 1000'],
    ['fail +60000 fail +60000 fail', 'rests 1000'],
    ['fail fail rejected fail', 'rests 1000'],
    ['fail fail leave fail', 'rests 1000'],
    // Half of the last 20, once there were 20.
    ['ok*10 fail fail ok fail fail ok fail fail ok fail fail', 'well'],
    ['ok*8 fail ok fail fail ok fail fail ok fail fail ok fail', 'well'],
    ['ok*5 fail fail ok fail fail ok fail fail ok fail fail ok fail ok fail', 'rests 1000'],
    ['ok*6 fail fail ok fail fail ok fail fail ok fail fail ok fail', 'well'],
    ['ok*100 fail fail ok fail fail ok fail fail ok fail fail ok fail', 'well'],
    ['ok*100 fail fail ok fail fail ok fail fail ok fail fail ok fail ok fail', 'rests 1000'],
    // What a 429 asks for.
    ['429/7', 'rests 7000 asked'],
    ['429/60', 'rests 60000 asked'],
    ['429/3600', 'rests 60000 asked'],
    ['fail fail 429/5', 'rests 5000 asked'],
    // A limit with nothing left.
    ['empty/7', 'rests 7000'],
    ['empty/3600', 'rests 60000'],
    ['fail fail empty/7 +7000 ok fail fail', 'well'],
    ['empty/7 +7000', 'probe'],
    ['empty/7 +7000 ok', 'well'],
    ['empty/7 +7000 empty/3', 'rests 3000'],
    ['fail*3 +1000 empty/2 +2000 fail', 'rests 2000'],
    ['empty/7 !ok', 'well'],
    // Our credential.
    ['credential', 'rests 30000'],
    // Time passes.
    ['fail*3 +999', 'rests 1'],
    ['fail*3 +1000', 'probe'],
    ['429/7 +7000', 'probe'],
    // The probe.
    ['fail*3 +1000 ask', 'probing'],
    ['fail*3 +1000 ok', 'well'],
    ['fail*3 +1000 fail', 'rests 2000'],
    ['fail*3 +1000 leave', 'probe'],
    ['fail*3 +1000 rejected', 'probe'],
    ['fail*3 +1000 ok fail fail', 'well'],
    ['429/7 +7000 fail', 'rests 2000'],
    ['credential +30000 credential', 'rests 30000'],
    // It grows to 30 s, and begins anew after a success.
    ['fail*3 +1000 fail +2000 fail', 'rests 4000'],
    ['fail*3 +1000 fail +2000 fail +4000 fail +8000 fail', 'rests 16000'],
    ['fail*3 +1000 fail +2000 fail +4000 fail +8000 fail +16000 fail', 'rests 30000'],
    ['fail*3 +1000 fail +2000 fail +4000 fail +8000 fail +16000 fail +30000 fail', 'rests 30000'],
    ['fail*3 +1000 fail +2000 ok fail*3', 'rests 1000'],
    // Called in spite of its rest.
    ['fail*3 !ok', 'well'],
    ['fail*3 !fail', 'rests 1000'],
    ['fail*3 +500 !fail*10', 'rests 500'],
    ['fail*3 !429/9', 'rests 9000 asked'],
    ['429/9 !429/3', 'rests 9000 asked'],
    ['429/9 !ok', 'well'],
    ['fail*3 +1000 ask !ok', 'well'],
  ])('%s: %s', (words, expected) => expect(new Story().play(words).state).toBe(expected))

  test('while it rests, and while it is probed, no other request may call it', () => {
    const story = new Story().play('fail*3')
    expect(story.breaker.enter(A)).toBeUndefined()
    story.play('+1000 ask')
    expect(story.breaker.enter(A)).toBeUndefined()
    story.open[0]?.release()
    expect(story.breaker.enter(A)).toBeDefined()
  })

  test('targets are independent', () => {
    const { breaker } = new Story().play('fail*3')
    expect([breaker.isHealthy(A), breaker.isHealthy(B)]).toEqual([false, true])
    expect(breaker.rests().map(({ model }) => model)).toEqual(['a'])
  })

  test('targets that a new configuration lacks are dropped', () => {
    const { breaker } = new Story().play('fail*3')
    breaker.keep(() => true)
    expect(breaker.isHealthy(A)).toBe(false)
    breaker.keep((target) => target.model === 'b')
    expect(breaker.isHealthy(A)).toBe(true)
  })
})

describe('requests that were begun before a rest', () => {
  test('are no sign of the health after it', () => {
    const story = new Story().play('ask*9 fail*3')
    for (const permit of story.open.slice(0, 4)) permit.failed(fault('failed'))
    expect(story.state).toBe('rests 1000')
    story.open[4]?.succeeded()
    expect(story.state).toBe('rests 1000')
    story.play('+1000')
    story.open[5]?.failed(fault('failed'))
    expect(story.state).toBe('probe')
    story.play('ok')
    for (const permit of story.open.slice(6)) permit.failed(fault('failed'))
    expect(story.state).toBe('well')
  })

  test('count if they report for how long', () => {
    const story = new Story().play('ask fail*3')
    story.open[0]?.failed(rateLimited(20_000))
    expect(story.state).toBe('rests 20000 asked')
  })

  test('a stream that was opened and then cut is a failure after a success', () => {
    const story = new Story().play('ask*10')
    for (const permit of story.open) {
      permit.succeeded()
      expect(story.state).toBe('well')
      permit.failed(fault('cut'))
    }
    expect(story.state).toStartWith('rests')
  })
})

describe('streams that break off after their first content', () => {
  /** Each begins after the one before has ended; `+`: it comes whole, `-`: it breaks off, `~`: its caller leaves. */
  const streams = (story: Story, ends: string) => {
    for (const end of ends) {
      const permit = story.breaker.enterAnyway(A)
      permit.succeeded()
      if (end === '+') permit.completed(true)
      else if (end === '~') permit.release()
      else permit.failed(fault('cut'))
      if (story.state.startsWith('rests')) story.clock.ms += 30_000
    }
  }
  test.each([
    ['-', 'well', 0],
    ['--', 'well', 0],
    ['---', 'well', 0],
    ['----', 'probe', 1],
    ['-------', 'probe', 4],
    ['--~~~--', 'probe', 1],
    ['----~', 'probe', 1],
    ['----+', 'well', 0],
    ['-+--+-+--+-+-', 'well', 0],
    ['---+---+', 'well', 0],
    ['----+---', 'well', 0],
  ])('%s: %s', (ends, state, rests) => {
    const story = new Story()
    streams(story, ends)
    expect([story.state, story.breaker.restOf(A)?.rests ?? 0]).toEqual([state, rests])
  })

  test('are one cut if all began before the first broke off: the next first content counts', () => {
    const story = new Story().play('ask*100')
    for (const permit of story.open) permit.succeeded()
    for (const permit of story.open) permit.failed(fault('cut'))
    expect(story.state).toBe('rests 1000')
    expect(story.play('+1000 ok').state).toBe('well')
  })

  test('are no outage if others of the same time come whole', () => {
    const story = new Story().play('ask*20')
    const [first, second, third, ...others] = story.open
    for (const permit of story.open) permit.succeeded()
    first?.failed(fault('cut'))
    second?.failed(fault('cut'))
    third?.completed(true)
    for (const permit of others) permit.completed(true)
    expect(story.state).toBe('well')
  })

  test('leave a call that answers whole as good as any', () => {
    const story = new Story()
    streams(story, '--')
    const whole = story.breaker.enterAnyway(A)
    whole.succeeded()
    whole.completed(false)
    streams(story, '---')
    expect(story.state).toBe('well')
  })

  test('count in every worker, and so does the whole answer after them', () => {
    const clock = new Clock()
    const one: Breaker = new Breaker(clock.now, (rest) => other.receive(rest))
    const other: Breaker = new Breaker(clock.now, (rest) => one.receive(rest))
    for (let stream = 0; stream < 4; stream++) {
      const permit = one.enterAnyway(A)
      permit.succeeded()
      permit.failed(fault('cut'))
    }
    clock.ms = 1000
    const probe = other.enter(A)
    probe?.succeeded()
    expect([one.isHealthy(A), other.isHealthy(A)]).toEqual([false, false])
    probe?.completed(true)
    expect([one.isHealthy(A), other.isHealthy(A)]).toEqual([true, true])
    const next = one.enter(A)
    next?.succeeded()
    next?.failed(fault('cut'))
    expect(one.isHealthy(A)).toBe(true)
  })
})

describe('other workers', () => {
  /** Two breakers on one clock that receive each other's changes at once. */
  function pair() {
    const clock = new Clock()
    const one: Breaker = new Breaker(clock.now, (rest) => other.receive(rest))
    const other: Breaker = new Breaker(clock.now, (rest) => one.receive(rest))
    return { clock, one, other }
  }
  const failThrice = (breaker: Breaker) => {
    for (let i = 0; i < 3; i++) breaker.enter(A)?.failed(fault('failed'))
  }

  /** Its first rest is over, and it has asked whether it may probe the target. */
  const claiming = () => {
    const clock = new Clock()
    const answer = Promise.withResolvers<boolean>()
    const breaker = new Breaker(clock.now, undefined, () => answer.promise)
    failThrice(breaker)
    const rest = breaker.restOf(A)
    clock.ms += 1000
    return { breaker, answer, rest, asking: breaker.enterByClaim(A) }
  }

  test('receive a rest, its probe and its end', () => {
    const { clock, one, other } = pair()
    failThrice(one)
    expect(other.enter(A)).toBeUndefined()
    clock.ms += 1000
    const probe = other.enter(A)
    expect(probe).toBeDefined()
    expect(one.enter(A)).toBeUndefined()
    probe?.succeeded()
    expect([one.isHealthy(A), other.isHealthy(A)]).toEqual([true, true])
  })

  test('continue the growth of a rest that another began', () => {
    const { clock, one, other } = pair()
    failThrice(one)
    clock.ms += 1000
    other.enter(A)?.failed(fault('failed'))
    expect(one.restOf(A)).toMatchObject({ restMs: 2000, rests: 2, reason: 'failed' })
  })

  test('probe themselves if the one that probed died', () => {
    const { clock, one, other } = pair()
    failThrice(one)
    clock.ms += 1000
    expect(one.enter(A)).toBeDefined()
    clock.ms += 4999
    expect(other.enter(A)).toBeUndefined()
    clock.ms += 1
    expect(other.enter(A)).toBeDefined()
  })

  test('may be called at once if a probe showed nothing', () => {
    const { clock, one, other } = pair()
    failThrice(one)
    clock.ms += 1000
    one.enter(A)?.release()
    expect(other.enter(A)).toBeDefined()
  })

  test('of several that ask in the same instant, the one that is granted it is the probe', async () => {
    const clock = new Clock()
    const breakers: Breaker[] = []
    const supervisor = new Breaker(clock.now)
    const probes = new ProbeLeases(supervisor)
    for (const worker of [0, 1, 2]) {
      const send = (rest: Rest) => {
        probes.hear(rest)
        for (const [other, breaker] of breakers.entries()) if (other !== worker) breaker.receive(rest)
      }
      breakers.push(new Breaker(clock.now, send, (target) => Promise.resolve(probes.grant(worker, target))))
    }
    const [one] = breakers
    if (one === undefined) throw new Error('there is no worker')
    const permits = () => Promise.all(breakers.map((breaker) => breaker.enter(A) ?? breaker.enterByClaim(A)))
    const granted = async () => (await permits()).filter((permit) => permit !== undefined)
    failThrice(one)
    expect(await granted()).toEqual([])
    clock.ms += 1000
    const [probe, ...others] = await granted()
    expect([probe === undefined, others.length]).toEqual([false, 0])
    // However long it takes: others probe only after it has reported, or is gone.
    clock.ms += 60_000
    expect(await granted()).toEqual([])
    probe?.failed(fault('failed'))
    expect(await granted()).toEqual([])
    clock.ms += 2000
    const [second] = await granted()
    second?.release()
    const [third] = await granted()
    third?.succeeded()
    expect(await granted()).toHaveLength(3)
  })

  test('a worker that learns during its claim that the target is well needs no grant', async () => {
    const { breaker, answer, rest, asking } = claiming()
    expect(await breaker.enterByClaim(A)).toBeUndefined()
    if (rest !== undefined) breaker.receive({ ...rest, rests: 0, restMs: 0 })
    answer.resolve(false)
    expect(await asking).toBeDefined()
    expect(breaker.isHealthy(A)).toBe(true)
  })

  test('one that learns during its claim of another rest does not call the target', async () => {
    const { breaker, answer, rest, asking } = claiming()
    if (rest !== undefined) breaker.receive({ ...rest, rests: 2, restMs: 2000 })
    answer.resolve(true)
    expect(await asking).toBeUndefined()
    expect(breaker.restOf(A)).toMatchObject({ restMs: 2000, probing: false })
  })

  test('report that a target is being probed elsewhere, as long as they do not call it', () => {
    const { clock, one, other } = pair()
    failThrice(one)
    clock.ms += 1000
    const probe = one.enter(A)
    expect(other.restOf(A)).toMatchObject({ probing: true, restMs: 5000 })
    clock.ms += 5000
    expect(other.restOf(A)).toMatchObject({ probing: false, restMs: 0 })
    probe?.failed(fault('failed'))
    expect(other.restOf(A)).toMatchObject({ probing: false, restMs: 2000 })
  })

  test.each(['well', 'ill'])('that probe at the same time may both find it %s', (found) => {
    const [mine, theirs]: [Rest[], Rest[]] = [[], []]
    const clock = new Clock()
    const one = new Breaker(clock.now, (rest) => mine.push(rest))
    const other = new Breaker(clock.now, (rest) => theirs.push(rest))
    const deliver = () => {
      for (const rest of mine.splice(0)) other.receive(rest)
      for (const rest of theirs.splice(0)) one.receive(rest)
    }
    failThrice(one)
    deliver()
    clock.ms += 1000
    const probes = [one.enter(A), other.enter(A)]
    deliver()
    for (const probe of probes) found === 'well' ? probe?.succeeded() : probe?.failed(fault('failed'))
    deliver()
    expect([one.isHealthy(A), other.isHealthy(A)]).toEqual([found === 'well', found === 'well'])
    if (found === 'well') return
    expect([one.restOf(A)?.restMs, other.restOf(A)?.restMs]).toEqual([2000, 2000])
    clock.ms += 2000
    expect(one.enter(A)).toBeDefined()
  })
})

property('no target rests longer than a minute, is probed by two at once, or rests for ever', 300, (random) => {
  const clock = new Clock()
  const breaker = new Breaker(clock.now)
  const probes = new Set<Permit>()
  for (let step = 0; step < 200; step++) {
    clock.ms += random.below(3000)
    const wasWell = breaker.isHealthy(A)
    const permit = breaker.enter(A)
    const rest = breaker.restOf(A)
    if (rest !== undefined) expect(rest.restMs).toBeLessThanOrEqual(60_000)
    if (permit === undefined) {
      expect(wasWell).toBe(false)
    } else {
      if (!wasWell) {
        expect(probes.size).toBe(0)
        probes.add(permit)
      }
      if (wasWell || random.chance(0.7)) {
        end(permit, random)
        probes.delete(permit)
      }
    }
    for (const open of random.chance(0.2) ? [...probes] : []) {
      end(open, random)
      probes.delete(open)
    }
  }
  for (const open of probes) open.release()
  clock.ms += 60_000
  breaker.enter(A)?.succeeded()
  expect(breaker.isHealthy(A)).toBe(true)
})

function end(permit: Permit, random: Random): void {
  const how: ProviderErrorKind | 'well' | 'left' | 'asked' = random.pick([
    'well',
    'well',
    'left',
    'asked',
    'failed',
    'timeout',
    'rejected',
    'credential',
    'cut',
  ])
  if (how === 'well') permit.succeeded()
  else if (how === 'asked') permit.failed(rateLimited(random.below(120_000)))
  else if (how !== 'left') permit.failed(fault(how))
  permit.release()
}
