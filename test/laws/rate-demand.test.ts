/**
 * The law of rate limits under constant excess demand: callers that always have a request waiting get at least 90 % of
 * every rate limit, and never more than all of it plus one full bucket, however long answers run and however much more
 * they held than they used. It does not depend on how a store counts: it adds up what callers got. Virtual time;
 * `WEIR_SEED` repeats a run.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Limits } from '../../src/core/limits.ts'
import { type Account, noCharge } from '../../src/ledger/ledger.ts'
import { Random, randomSeed } from '../ledger/random.ts'
import { START_MS, type Subject, subjects } from '../ledger/subject.ts'

const DEMANDS = Number(process.env['WEIR_LAW_DEMANDS'] ?? 12)
/** How often a waiting caller tries again. */
const POLL_MS = 500
const MINUTE_MS = 60_000
/** Lets as many requests run as the limit allows: each generation of answers returns more than the one before. */
const WARM_UP_ANSWERS = 30

interface Demand {
  /** On average: an answer takes 50 % to 150 % of it. */
  readonly answerMs: number
  readonly heldTokens: number
  readonly usedTokens: number
  readonly limits: Limits
  /** True if the limits are the key's own, and not the organisation's. */
  readonly ofKey: boolean
  readonly callers: number
}

interface Running {
  readonly endsMs: number
  readonly id: string
  readonly admittedMs: number
}

/** What callers were granted. */
interface Had {
  requests: number
  tokens: number
}

/** Callers with the same demand. An answer's usage counts when the answer ends. */
class Callers {
  private readonly running: Running[] = []
  private readonly account: Account
  private made = 0
  readonly had: Had = { requests: 0, tokens: 0 }

  constructor(
    private readonly subject: Subject,
    private readonly demand: Demand,
    private readonly random: Random,
  ) {
    const none: Limits = {}
    this.account = {
      organization: 'acme',
      key: 'ci',
      organizationLimits: demand.ofKey ? none : demand.limits,
      keyLimits: demand.ofKey ? demand.limits : none,
    }
  }

  async until(endMs: number): Promise<Had> {
    const { clock } = this.subject
    for (;;) {
      await this.settle()
      while (this.running.length < this.demand.callers && (await this.ask()));
      const next = Math.min(clock.now + POLL_MS, this.running[0]?.endsMs ?? endMs, endMs)
      if (next >= endMs && clock.now >= endMs) return { ...this.had }
      clock.now = Math.max(next, clock.now)
      clock.witness = clock.now
    }
  }

  private async settle(): Promise<void> {
    for (let first = this.running[0]; first !== undefined; first = this.running[0]) {
      if (first.endsMs > this.subject.clock.now) return
      this.running.shift()
      const { usedTokens } = this.demand
      const charge = { ...noCharge('completed'), outputTokens: usedTokens, model: 'm' }
      const { id, admittedMs } = first
      await this.subject.store.settle({ id, account: this.account, admittedMs }, charge)
      this.had.requests += 1
      this.had.tokens += usedTokens
    }
  }

  private async ask(): Promise<boolean> {
    const { heldTokens, answerMs } = this.demand
    const id = `r${this.made++}`
    const estimate = { inputTokens: 0, outputTokens: heldTokens, costMicroUsd: 0 }
    const reply = await this.subject.store.reserve(this.account, { id, estimate, floorMicroUsd: 0 })
    if (reply.outcome !== 'granted') return false
    const admittedMs = this.subject.clock.now
    const endsMs = admittedMs + Math.max(1, Math.round(answerMs * (0.5 + this.random.unit())))
    const place = this.running.findLastIndex((one) => one.endsMs <= endsMs) + 1
    this.running.splice(place, 0, { id, endsMs, admittedMs })
    return true
  }
}

/**
 * 20 callers with answers of 400 tokens that take 2 s. A bug once left them a fraction of 60,000 tokens a minute,
 * because each held 4,096 output tokens.
 */
const CALLERS_OF_TWO_SECONDS: Demand = {
  ...{ answerMs: 2000, heldTokens: 4196, usedTokens: 400, callers: 20, ofKey: false },
  limits: { tokensPerMinute: 60_000 },
}

/** A random demand with twice as many callers as could use the whole limit. */
function drawn(random: Random): Demand {
  const answerMs = Math.round(100 * 300 ** random.unit())
  const heldTokens = 500 + random.below(8000)
  const usedTokens = Math.max(1, Math.round(heldTokens * random.pick([0.1, 0.25, 0.5, 0.9, 1, 1.2])))
  const perMinute = heldTokens * (3 + random.below(60))
  const byTokens = perMinute / usedTokens
  const requestsPerMinute = random.maybe(Math.max(5, Math.round(byTokens * random.pick([0.3, 0.9, 2]))))
  const aMinute = Math.min(byTokens, requestsPerMinute ?? Number.POSITIVE_INFINITY)
  return {
    ...{ answerMs, heldTokens, usedTokens, ofKey: random.oneIn(2) },
    limits: { tokensPerMinute: perMinute, requestsPerMinute },
    callers: 2 + Math.ceil((2 * aMinute * (answerMs + POLL_MS)) / MINUTE_MS),
  }
}

async function check(subject: Subject, demand: Demand, random: Random): Promise<void> {
  await subject.reset()
  subject.clock.now = START_MS
  subject.clock.witness = START_MS
  const callers = new Callers(subject, demand, random)
  const warmMs = START_MS + MINUTE_MS + WARM_UP_ANSWERS * demand.answerMs
  const before = await callers.until(warmMs)
  const minutes = 5 + (5 * demand.answerMs) / MINUTE_MS
  const after = await callers.until(warmMs + minutes * MINUTE_MS)
  const { requestsPerMinute, tokensPerMinute } = demand.limits
  const shares = [
    ['requests', requestsPerMinute],
    ['tokens', tokensPerMinute],
  ] as const
  const had = shares.map(([name, limit]) =>
    limit === undefined ? 0 : (after[name] - before[name]) / (limit * minutes),
  )
  // Only the tighter of the two limits can be used fully.
  expect(Math.max(...had)).toBeGreaterThanOrEqual(0.9)
  const all = (subject.clock.now - START_MS) / MINUTE_MS
  // Usage beyond what an answer held cannot be refused, because it has happened.
  const beyond = demand.callers * Math.max(0, demand.usedTokens - demand.heldTokens)
  const most = (name: keyof Had, limit = Number.POSITIVE_INFINITY) =>
    limit * (all + 1) + (name === 'tokens' ? beyond : 0)
  for (const [name, limit] of shares) expect(after[name]).toBeLessThanOrEqual(most(name, limit))
}

for (const subject of subjects()) {
  describe(`the store in ${subject.name}, under constant excess demand`, () => {
    beforeAll(() => subject.open())
    afterAll(() => subject.close())

    test('20 callers whose answers take 2 s get 90 % of 60,000 tokens a minute, and at most all of it', () =>
      check(subject, CALLERS_OF_TWO_SECONDS, new Random(1)))

    test(`${DEMANDS} random demands, answers of 0.1 to 30 s`, async () => {
      const seed = randomSeed(`demand, ${subject.name}`)
      for (let i = 0; i < DEMANDS; i++) {
        const random = new Random(seed + i)
        const demand = drawn(random)
        try {
          await check(subject, demand, random)
        } catch (error) {
          throw new Error(`Demand ${i} of seed ${seed}, ${JSON.stringify(demand)}: ${String(error)}`, { cause: error })
        }
      }
    })
  })
}
