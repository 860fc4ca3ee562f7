/**
 * The law of the output limit that a refusal for money names: at that moment a request with that very limit is
 * admitted, one with a token more is not, and if none is named, no limit below the request's own is. Random prices,
 * models, limits and states, both ledgers; `WEIR_SEED` repeats a run.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { noNeeds } from '../../src/catalog/capability.ts'
import { AUTO, Catalog, type Key } from '../../src/catalog/catalog.ts'
import { resolve } from '../../src/catalog/resolve.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { chatQuote, largestOutput } from '../../src/gateway/chat-quote.ts'
import { estimateOf } from '../../src/gateway/quote.ts'
import { accountOf } from '../../src/gateway/request-budgets.ts'
import { noCharge } from '../../src/ledger/ledger.ts'
import { reservationOf } from '../../src/ledger/refusal.ts'
import { Random, randomSeed } from '../ledger/random.ts'
import { type Subject, subjects } from '../ledger/subject.ts'
import { checked } from '../support/admin.ts'

const HISTORIES = 60
const STEPS = 25
const KEY = 'a-key-of-the-law-0123456789'
const HINT = / With an output limit of at most (\d+) tokens? it passes now\.$/

class History {
  private readonly catalog: Catalog
  private readonly key: Key
  private made = 0

  constructor(
    private readonly subject: Subject,
    private readonly random: Random,
  ) {
    const config = checked({ providers: { up: 'http://127.0.0.1:1' }, models: this.models(), config: this.tenants() })
    this.catalog = Catalog.from(config)
    const [credential] = this.catalog.credentials
    if (credential === undefined) throw new Error('the configuration has a key')
    this.key = credential.key
  }

  private models(): Readonly<Record<string, JsonObject>> {
    const { random } = this
    const model = (name: string) => ({
      targets: [{ provider: 'up', model: name }],
      price: { input: random.pick([0, 1, 3]), output: random.pick([0, 0.07, 2, 10, 60]) },
      max_output_tokens: random.pick([500, 3000, 20_000]),
      ...random.pick<JsonObject>([{}, { context_window: random.pick([1500, 6000, 30_000]) }]),
      ...random.pick<JsonObject>([{}, { default_output_tokens: 300 }]),
    })
    return { one: model('one'), two: model('two'), three: model('three') }
  }

  private tenants(): JsonObject {
    const { random } = this
    const limits = (): JsonObject => ({
      ...random.pick<JsonObject>([{}, { requests_per_minute: 1 + random.below(40) }]),
      ...random.pick<JsonObject>([{}, { tokens_per_minute: 1000 + random.below(60_000) }]),
      ...random.pick<JsonObject>([{}, { concurrent_requests: 1 + random.below(6) }]),
      ...random.pick<JsonObject>([{}, { spend: this.spend() }, { spend: this.spend() }]),
    })
    const keys = [{ id: 'ci', key: KEY, limits: limits() }]
    return {
      auto: { candidates: ['one', 'two', 'three'] },
      organizations: [{ id: 'a', auto: 'available', limits: limits(), keys }],
    }
  }

  private spend(): JsonObject {
    const amount = () => this.random.below(200_000) / 1_000_000
    const windows = this.random.pick([['day'], ['month'], ['day', 'total']])
    return {
      ...Object.fromEntries(windows.map((window) => [window, amount()])),
      ...(this.random.oneIn(3) ? { strict: true } : {}),
    }
  }

  async run(seen: Map<string, number>): Promise<void> {
    await this.subject.reset()
    for (let i = 0; i < STEPS; i++) {
      if (this.random.oneIn(3)) this.subject.clock.now += this.random.below(20_000)
      this.subject.clock.witness = this.subject.clock.now
      const asked = this.request()
      const what = await this.ask(asked)
      if (what === undefined) continue
      seen.set(what, (seen.get(what) ?? 0) + 1)
    }
  }

  private request() {
    const { random } = this
    return {
      name: random.pick(['one', 'one', 'two', AUTO]),
      inputTokens: random.below(random.pick([10, 2000, 20_000])),
      limitsOutput: random.oneIn(2),
      maxOutputTokens: random.pick([undefined, 1, random.below(300) + 1, random.below(9000) + 1, 1_000_000]),
    }
  }

  /** Asks as a caller would, and tries what the refusal advises. */
  private async ask(asked: ReturnType<History['request']>): Promise<string | undefined> {
    const message = await this.attempt(asked, asked.maxOutputTokens, true)
    if (message === undefined || message === '') return message
    const named = Number(HINT.exec(message)?.[1] ?? 0)
    const own = asked.maxOutputTokens ?? Number.POSITIVE_INFINITY
    expect(named).toBeLessThan(own)
    if (named > 0) {
      expect(await this.attempt(asked, named, false)).toBe('')
      if (named + 1 < own && asked.name !== AUTO) expect(await this.attempt(asked, named + 1, false)).not.toBe('')
      return asked.name === AUTO ? 'named for auto' : 'named'
    }
    for (const limit of [1, 2, 40, 299, 300, 1000, this.random.below(4096) + 1].filter((limit) => limit < own))
      expect(await this.attempt(asked, limit, false)).not.toBe('')
    return 'none'
  }

  /** The message of a refusal for money; '' if it was admitted, undefined if it was refused for another cause. */
  private async attempt(
    asked: ReturnType<History['request']>,
    maxOutputTokens: number | undefined,
    isFirst: boolean,
  ): Promise<string | undefined> {
    const { catalog, key, subject, random } = this
    const { name, inputTokens, limitsOutput } = asked
    const needs = { ...noNeeds, inputTokens, limitsOutput, maxOutputTokens }
    try {
      const model = resolve(catalog, key, { name, kind: 'chat', needs }).candidates[0]?.model
      if (model === undefined) throw new Error('a resolution without candidates')
      const quote = chatQuote(key, model, needs)
      const id = `r${this.made++}`
      const hold = {
        ...{ id, estimate: estimateOf(quote, 0), floorMicroUsd: 0 },
        choice: {
          largestOutput: (room: Parameters<typeof largestOutput>[1]) =>
            largestOutput({ priced: () => ({}), catalog, key, name, needs, model }, room),
        },
      }
      const account = accountOf(key)
      const reply = await subject.store.reserve(account, hold)
      const admission = reservationOf(account, hold, reply, subject.clock.now)
      if (!isFirst) await subject.store.cancel(account, id)
      else if (random.oneIn(2)) {
        const { inputTokens, outputTokens, costMicroUsd } = hold.estimate
        const share = random.unit()
        const outputs = Math.floor(share * outputTokens)
        const used = { inputTokens, outputTokens: outputs, costMicroUsd: Math.floor(share * costMicroUsd) }
        await subject.store.settle(admission, { ...noCharge('completed'), ...used, model: 'm' })
      }
      return ''
    } catch (error) {
      if (error instanceof CallerError) return error.kind === 'quota_exhausted' ? error.message : undefined
      throw error
    }
  }
}

for (const subject of subjects()) {
  describe(`the store in ${subject.name}`, () => {
    beforeAll(() => subject.open())
    afterAll(() => subject.close())

    test(`${HISTORIES} histories: the limit that is named passes, and one token more does not`, async () => {
      const seed = randomSeed(`largest output, ${subject.name}`)
      const seen = new Map<string, number>()
      for (let i = 0; i < HISTORIES; i++) {
        try {
          await new History(subject, new Random(seed + i)).run(seen)
        } catch (error) {
          throw new Error(`History ${i} of seed ${seed}: ${String(error)}`, { cause: error })
        }
      }
      console.log([...seen].map(([what, count]) => `${what || 'admitted'} ${count}`).join(', '))
      for (const what of ['named', 'named for auto', 'none', '']) expect(seen.get(what) ?? 0).toBeGreaterThan(10)
    })
  })
}
