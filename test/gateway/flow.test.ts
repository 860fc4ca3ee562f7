/** The flow over work that the test makes: when the next candidate is called, and that each request is settled once. */

import { describe, expect, test } from 'bun:test'
import { noNeeds } from '../../src/catalog/capability.ts'
import type { Candidate } from '../../src/catalog/resolve.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { RequestLog } from '../../src/gateway/access-log.ts'
import type { Answer } from '../../src/gateway/answer.ts'
import type { Upstream } from '../../src/gateway/gateway.ts'
import { InFlight, type RunningRequest } from '../../src/gateway/in-flight.ts'
import { ProviderCall, type ProviderCallListener } from '../../src/gateway/provider-call.ts'
import type { Work } from '../../src/gateway/work.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { catalog, keyOf, model } from '../catalog/fixture.ts'
import { RecordingLedger } from '../support/ledger.ts'
import { answerOf, gatewayOf } from './answer-of.ts'

const HOUR = 3_600_000
const deadlines = { connectMs: 1000, firstByteMs: { stream: 1000, whole: 1000 }, idleMs: 1000, totalMs: 1000 }
const upstream: Upstream = {
  provider: openai,
  endpoint: { name: 'p', baseUrl: 'http://p.test', headers: {}, deadlines },
}
const targets = ['a', 'b'].map((name) => ({ provider: 'p', model: name }))
const config = catalog({ models: [model('m', { targets })] })

/** A call that is not sent anywhere: it does what the test does for its target. */
class MadeCall extends ProviderCall {
  aborted = false

  constructor(
    candidate: Candidate,
    private readonly does: (target: string) => Promise<string>,
  ) {
    super(candidate, upstream, { url: 'http://p.test', headers: {}, body: '' }, false, HOUR)
  }

  override send(listener: ProviderCallListener): void {
    this.does(this.candidate.target.model).then(
      (answer) => listener.began(answer),
      (error: unknown) => listener.failed(error),
    )
  }

  override interrupt(): void {
    this.abort()
  }

  override wasSent(): boolean {
    return true
  }

  override abort(): void {
    this.aborted = true
  }

  protected answered(): void {}

  used() {
    return { usage: { input: 3, output: 5 }, estimated: true }
  }

  bill() {
    const { model: of, target } = this.candidate
    return { model: of.name, provider: target.provider, price: of.price, counted: this.used() }
  }
}

class MadeWork implements Work {
  readonly kind = 'chat'
  readonly model = 'm'
  readonly needs = noNeeds
  readonly calls: MadeCall[] = []

  constructor(private readonly does: (target: string) => Promise<string>) {}

  estimate(): void {}

  conversationWith(): string {
    return 'conversation'
  }

  order(candidates: readonly Candidate[]): readonly Candidate[] {
    return candidates
  }

  quote() {
    return { model: 'm', inputTokens: 3, maxOutputTokens: 10, price: undefined }
  }

  ask(candidate: Candidate): MadeCall {
    const call = new MadeCall(candidate, this.does)
    this.calls.push(call)
    return call
  }
}

interface Ran {
  readonly answer: Promise<Answer>
  readonly ledger: RecordingLedger
  readonly work: MadeWork
  readonly running: RunningRequest
}

/**
 * Runs a request whose candidates `a` and `b` do what `does` does. `totalTimeoutMs`: how long candidates may be called.
 */
function run(does: (target: string) => Promise<string>, random = 0, totalTimeoutMs = HOUR): Ran {
  const ledger = new RecordingLedger()
  const gateway = gatewayOf({
    catalog: config,
    ledger,
    upstreams: new Map([['p', upstream]]),
    routing: { maxAttempts: 3, totalTimeoutMs },
    random: () => random,
  })
  const work = new MadeWork(does)
  const running = new InFlight().add()
  const answer = answerOf(gateway, keyOf(config), work, running, new RequestLog('req_1', { write() {} }))
  return { answer, ledger, work, running }
}

/** Milliseconds from the failure of the first candidate to the call of the second. */
async function waited(error: ProviderError, random: number, totalTimeoutMs: number): Promise<number> {
  let failedMs = 0
  let calledMs = 0
  const does = async (target: string) => {
    if (target === 'b') {
      calledMs = performance.now()
      return 'answer'
    }
    failedMs = performance.now()
    throw error
  }
  const answer = await run(does, random, totalTimeoutMs).answer
  expect([answer.content, answer.fallbacks]).toEqual(['answer', 1])
  return calledMs - failedMs
}

describe('the next candidate', () => {
  test.each([500, 502, 503, 504, 529])('is called after a random delay if the last one answered %i', async (status) => {
    const error = new ProviderError(status === 504 ? 'timeout' : 'failed', 'x', { status })
    expect(await waited(error, 0.6, HOUR)).toBeGreaterThanOrEqual(59)
  })

  test.each([
    ['cannot be reached', new ProviderError('unreachable', 'x')],
    ['is rate limited', new ProviderError('rate_limited', 'x', { status: 429 })],
    ['rejects our credential', new ProviderError('credential', 'x', { status: 401 })],
    ['cuts its stream', new ProviderError('cut', 'x', { status: 200 })],
  ])('is called at once if the last one %s', async (_, error) => {
    // A delay that would never end.
    expect(await waited(error, HOUR, HOUR)).toBeLessThan(HOUR)
  })

  test('is called at once if the delay would exceed the time of the request', async () => {
    expect(await waited(new ProviderError('failed', 'x', { status: 500 }), HOUR, 60_000)).toBeLessThan(HOUR)
  })
})

describe('a request is settled once', () => {
  const failed = new ProviderError('failed', 'x', { status: 500 })
  const rejected = new ProviderError('rejected', 'x', { status: 400 })
  const rows: readonly (readonly [
    what: string,
    does: (target: string, running: () => RunningRequest) => Promise<string>,
    error: string | undefined,
    outcome: string,
    tokens: number,
    calls: number,
  ])[] = [
    ['an answer', async () => 'x', undefined, 'completed', 5, 1],
    ['the second candidate answers', async (target) => orThrow(target === 'a', failed), undefined, 'completed', 5, 2],
    ['all fail', async () => orThrow(true, failed), 'upstream_failed', 'refused', 0, 2],
    ["the caller's mistake", async () => orThrow(true, rejected), 'upstream_rejected', 'refused', 0, 1],
    ['an error of our own', async () => orThrow(true, new RangeError('x')), 'RangeError', 'refused', 0, 1],
    [
      'the caller leaves during a call',
      async (_, running) => {
        running().interrupt('caller_left')
        throw failed
      },
      'shutting_down',
      'caller_left',
      5,
      1,
    ],
    [
      'the process ends during a call, and an error of our own follows',
      async (_, running) => {
        running().interrupt('drained')
        throw new RangeError('x')
      },
      'shutting_down',
      'drained',
      5,
      1,
    ],
  ]
  test.each(rows)('%s', async (_, does, error, outcome, tokens, calls) => {
    const ran: Ran = run((target) => does(target, () => ran.running))
    expect(await ran.answer.then(() => undefined, nameOf)).toBe(error)
    expect(ran.ledger.settlements).toMatchObject([{ outcome, outputTokens: tokens }])
    expect([ran.ledger.reservations, ran.work.calls.length]).toEqual([0, calls])
    // A call that gave no answer is not left open.
    const answered = error === undefined ? 1 : 0
    expect(ran.work.calls.filter(({ aborted }) => aborted).length).toBe(calls - answered)
  })

  function orThrow(fails: boolean, error: Error): string {
    if (fails) throw error
    return 'x'
  }

  function nameOf(error: unknown): string {
    if (error instanceof CallerError) return error.kind
    return error instanceof Error ? error.name : String(error)
  }
})
