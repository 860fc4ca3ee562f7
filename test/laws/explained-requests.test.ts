/**
 * The law of `weir explain`: the error that it reports is what the caller gets, word for word; if it reports none, a
 * provider is asked. Random configurations and states (limits of the organisation and the key,
 * strict ones, money that is held and spent, keys that cannot be used, models that are denied, targets that rest),
 * chat in two dialects, images and embeddings, both ledgers. `WEIR_SEED` repeats a run.
 */

import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { noNeeds } from '../../src/catalog/capability.ts'
import { AUTO } from '../../src/catalog/catalog.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { providerErrorKinds } from '../../src/core/provider-error.ts'
import type { RedisConfig } from '../../src/core/redis-config.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { type Account, type Ledger, noCharge, type Reservation } from '../../src/ledger/ledger.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { explainRequest } from '../../src/reports/request-explanation.ts'
import { Random, randomSeed } from '../ledger/random.ts'
import { until } from '../ledger/seen.ts'
import { type Answer, ask, requestBytes } from '../support/caller.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { lasting, lastingUpstream } from '../support/served.ts'
import { Serving } from '../support/serving.ts'
import type { Upstream } from '../support/upstream.ts'

/** With Redis each look connects anew. */
const HISTORIES = { embedded: 16, redis: 8 } as const
const STEPS = 16
const NAMES = ['one', 'two', 'three', 'vectors', 'pictures', 'unknown', AUTO] as const
const ORGANIZATIONS = ['a', 'b'] as const
const KEYS = ['x', 'y', 'z'] as const
const COUNTER = { id: 'counter', keys: [{ id: 'counter', key: 'a-key-that-counts-0123456789' }] }
const secretOf = (id: string) => `the-secret-of-${id}-0123456789`

/** What some of the requests must get. */
const FOUND = {
  redis: ['asked', '401 ', '403 model_not_allowed', '429 insufficient_quota', '429 rate_limit_exceeded requests'],
  embedded: [
    ...['asked', '401 ', '403 model_not_allowed', '429 insufficient_quota', '429 rate_limit_exceeded requests'],
    ...['429 rate_limit_exceeded tokens', '429 rate_limit_exceeded concurrent_requests', '50'],
    ...['400 auto_resolution_failed', '502 upstream_failed', '404 model_not_found'],
  ],
} as const

/** What explain reports, or what the caller got. */
interface Outcome {
  readonly status: number
  readonly code: string
  readonly type: string
  readonly message: string
}

const ASKED: Outcome = { status: 200, code: '', type: '', message: '' }

/** What a bucket that refills between both looks at it changes: a wait, or the tokens that it has room for. */
const REFILLS = /(?:(?<=per minute for .+ Try again in )|(?<=With an output limit of at most ))(\d+)/

class History implements AsyncDisposable {
  private readonly serving: Serving
  private readonly tokensOf = new Map<string, number>()
  private readonly held: { readonly reservation: Reservation; readonly account: Account }[] = []
  private made = 0

  constructor(
    private readonly random: Random,
    private readonly ledger: Ledger,
    upstream: Upstream,
    private readonly place: JsonObject,
  ) {
    for (let tries = 0; ; tries++) {
      try {
        this.serving = new Serving(
          { providers: { up: upstream.url }, models: this.models(), config: this.tenants() },
          ledger,
        )
        return
      } catch (error) {
        // Some prices and limits do not go together, and are rejected.
        if (tries === 200) throw error
      }
    }
  }

  private models(): Readonly<Record<string, JsonObject>> {
    const { random } = this
    const price = () => ({ input: random.pick([0, 1, 3]), output: random.pick([0, 2, 10, 60]) })
    const chat = (name: string, others: readonly string[]) => ({
      targets: [1, 2].slice(random.below(2)).map((n) => ({ provider: 'up', model: `${name}-${n}` })),
      ...random.pick<JsonObject>([{ price: price() }, { price: price() }, { price: price() }, {}]),
      ...random.pick<JsonObject>([{}, { context_window: random.pick([1500, 6000, 30_000]) }]),
      ...random.pick<JsonObject>([{ max_output_tokens: random.pick([500, 3000, 20_000]) }, {}]),
      ...(random.oneIn(2) ? { fallbacks: others.filter(() => random.oneIn(2)) } : {}),
      supports: random.pick([['tools'], ['images'], ['tools', 'images']]),
    })
    return {
      one: chat('one', ['two', 'three']),
      two: chat('two', ['three']),
      three: chat('three', ['one']),
      vectors: { targets: [{ provider: 'up', model: 'v' }], price: { input: 50 }, supports: ['embeddings'] },
      pictures: { targets: [{ provider: 'up', model: 'p' }], price: { image: 0.04 }, supports: ['image_generation'] },
    }
  }

  private tenants(): JsonObject {
    const { random } = this
    const rules = () =>
      random.pick<JsonObject>([{}, { models: ['one', 'two', 'v*', 'p*'] }, { rules: [{ deny: ['two'], keys: ['x'] }] }])
    const auto = () => random.pick(['off', 'available', 'available', 'available', 'available', 'mandatory'])
    const organizations = ORGANIZATIONS.map((id) => ({
      ...{ id, auto: auto(), limits: this.limits(), ...rules() },
      keys: KEYS.map((key) => ({
        ...{ id: `${id}-${key}`, key: secretOf(`${id}-${key}`), limits: this.limits() },
        ...random.pick<JsonObject>([
          ...Array<JsonObject>(12).fill({}),
          { disabled: true },
          { expires_at: '2020-01-01' },
          { models: ['one'] },
        ]),
      })),
    }))
    return {
      auto: { candidates: ['one', 'two', 'three'] },
      organizations: [...organizations, COUNTER],
      ...this.place,
    }
  }

  private limits(): JsonObject {
    const { random } = this
    const spend = () => ({
      [random.pick(['day', 'month', 'total'])]: random.below(300_000) / 1_000_000,
      ...(random.oneIn(3) ? { total: random.below(500_000) / 1_000_000 } : {}),
      ...(random.oneIn(3) ? { strict: true } : {}),
    })
    return {
      ...(random.oneIn(4) ? { requests_per_minute: random.below(4) } : {}),
      ...(random.oneIn(7) ? { tokens_per_minute: random.below(9000) } : {}),
      ...(random.oneIn(4) ? { concurrent_requests: random.below(3) } : {}),
      ...(random.oneIn(2) ? { spend: spend() } : {}),
    }
  }

  async run(seen: Map<string, number>): Promise<void> {
    for (let i = 0; i < STEPS; i++) {
      await this.change()
      await this.settled()
      const what = await this.compare()
      seen.set(what, (seen.get(what) ?? 0) + 1)
      await this.serving.idle()
    }
  }

  /** Holds or spends something, or lets a target rest. */
  private async change(): Promise<void> {
    const { random, serving, ledger } = this
    const kind = random.pick(['hold', 'hold', 'settle', 'rest', 'rest'])
    if (kind === 'rest') {
      const name = random.pick(['one', 'two', 'three'])
      for (const n of random.pick([[1], [2], [1, 2]])) {
        serving.service['lasting'].breaker.receive({
          ...{
            provider: 'up',
            model: `${name}-${n}`,
            restMs: 1_000_000,
            rests: random.pick([0, 1, 1, 1]),
            asked: !random.oneIn(3),
          },
          ...{ reason: random.pick(providerErrorKinds), probing: random.oneIn(6) },
        })
      }
    } else if (kind === 'hold') {
      const organization = random.pick(serving.config.organizations.slice(0, ORGANIZATIONS.length))
      const key = random.pick(organization.keys)
      const account = {
        organization: organization.id,
        organizationLimits: organization.limits,
        key: key.id,
        keyLimits: key.limits,
      }
      const cost = random.below(random.pick([20, 60_000, 200_000]))
      const estimate = { inputTokens: random.below(900), outputTokens: 0, costMicroUsd: cost }
      const id = `held-${process.pid}-${this.made++}`
      try {
        this.held.push({ account, reservation: await ledger.reserve(account, { id, estimate, floorMicroUsd: 0 }) })
      } catch {
        // No room.
      }
    } else if (kind === 'settle') {
      for (const { reservation } of this.held.splice(0, 1 + random.below(2))) {
        const share = random.unit()
        const { inputTokens, costMicroUsd } = reservation.held
        const used = { inputTokens, costMicroUsd: Math.floor(costMicroUsd * share), model: 'one', provider: 'up' }
        await ledger.settle(reservation, { ...noCharge('completed'), ...used })
      }
    }
  }

  /** Waits until readers see all that happened. */
  private async settled(): Promise<void> {
    const { ledger } = this
    await this.serving.idle()
    await until(async () => (ledger instanceof EmbeddedLedger ? ledger.isWritten : ledger.health().pending === 0))
  }

  private async compare(): Promise<string> {
    const { random } = this
    const name = random.pick<(typeof NAMES)[number]>([...NAMES, 'one', 'one', 'two', 'two', AUTO])
    const key = `${random.pick(ORGANIZATIONS)}-${random.pick(KEYS)}`
    const asked = { name, text: 'word '.repeat(1 + random.below(random.pick([3, 4000]))), output: this.output() }
    const stated = await this.stated(key, asked)
    const isMessages = !['vectors', 'pictures'].includes(name) && asked.output !== undefined && random.oneIn(3)
    const got = isMessages ? await this.gotOfMessages(key, asked) : await this.got(key, asked)
    const [first, second] = [stated, got].map(({ message }) => Number(REFILLS.exec(message)?.[1] ?? 0))
    // A bucket may have refilled by then.
    if (first !== undefined && first > 0 && first <= 2 && got.status !== stated.status) return 'refilled'
    expect(Math.abs((first ?? 0) - (second ?? 0))).toBeLessThanOrEqual(/ s\.$/.test(stated.message) ? 1 : 40)
    const [one, other] = [stated, got].map((outcome) => ({ ...outcome, message: outcome.message.replace(REFILLS, '') }))
    expect(one).toEqual(isMessages ? { ...stated, ...other, code: stated.code, type: stated.type } : other)
    return stated.status === 200 ? 'asked' : `${stated.status} ${stated.code} ${stated.type}`
  }

  private output(): number | undefined {
    return this.random.pick([undefined, 1, 1 + this.random.below(4000), 50_000])
  }

  private async stated(key: string, { name, text, output }: Asked): Promise<Outcome> {
    const inputTokens = name === 'vectors' ? text.length : await this.tokens(text)
    const resting = this.serving.service.rests()
    const needs = {
      ...noNeeds,
      inputTokens: name === 'pictures' ? 0 : inputTokens,
      maxOutputTokens: name === 'pictures' ? undefined : output,
    }
    const { rejected, asks, lines } = await explainRequest(this.serving.config, { key, model: name, needs, resting })
    expect(asks === null).toBe(rejected !== null)
    if (rejected === null) return ASKED
    expect(lines[1]).toBe(`rejected: ${rejected.status} ${rejected.code}: ${rejected.message}`)
    return rejected
  }

  private async got(key: string, { name, text, output }: Asked): Promise<Outcome> {
    const limit = output === undefined ? {} : { max_tokens: output }
    const [path, body] =
      name === 'vectors'
        ? ['/v1/embeddings', { input: Array.from(text, (_, i) => i) }]
        : name === 'pictures'
          ? ['/v1/images/generations', { prompt: '' }]
          : ['/v1/chat/completions', { messages: [{ role: 'user', content: text }], ...limit }]
    const answer = await this.ask(key, path, { model: name, ...body })
    if (answer.status === 200) return ASKED
    const { error } = JSON.parse(answer.text)
    return { status: answer.status, code: error.code, type: error.type, message: error.message }
  }

  private async gotOfMessages(key: string, { name, text, output = 1 }: Asked): Promise<Outcome> {
    const messages = [{ role: 'user', content: text }]
    const answer = await this.ask(key, '/v1/messages', { model: name, max_tokens: output, messages })
    if (answer.status === 200) return ASKED
    return { ...ASKED, status: answer.status, message: JSON.parse(answer.text).error.message }
  }

  private ask(key: string, path: string, body: JsonObject): Promise<Answer> {
    return ask(this.serving.port, requestBytes(path, { key: secretOf(key), body }))
  }

  /** As weir estimates them: its own count is the answer, because the provider has no counter. */
  private async tokens(text: string): Promise<number> {
    const known = this.tokensOf.get(text)
    if (known !== undefined) return known
    const body = { model: 'one', messages: [{ role: 'user', content: text }] }
    const answer = await ask(
      this.serving.port,
      requestBytes('/v1/messages/count_tokens', { key: COUNTER.keys[0]?.key ?? '', body }),
    )
    const counted: unknown = JSON.parse(answer.text)
    const tokens = isObject(counted) ? Number(counted['input_tokens']) : 0
    expect(tokens).toBeGreaterThan(0)
    this.tokensOf.set(text, tokens)
    return tokens
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.serving[Symbol.asyncDispose]()
  }
}

interface Asked {
  readonly name: (typeof NAMES)[number]
  readonly text: string
  readonly output: number | undefined
}

const redis = lasting(await RedisServer.start())
const upstream = await lastingUpstream()
const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 }
const chat = { ...JSON.parse(chatBody('Hello.')), usage }
const vectors = { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0] }], model: 'v', usage }
upstream.otherwise(json(200, JSON.stringify(chat)))
upstream.on('v', json(200, JSON.stringify(vectors)))
upstream.on('p', json(200, JSON.stringify({ created: 1, data: [{ b64_json: 'aGk=' }] })))

/** Each history begins with an empty Redis. */
async function flush(): Promise<void> {
  const client = new Redis(redis.url)
  await client.flushall()
  client.disconnect()
}

describe.each(['embedded', 'redis'] as const)('the %s ledger', (kind) => {
  test(`${HISTORIES[kind]} histories: explain reports what the caller gets`, async () => {
    const seed = randomSeed(`explained requests, ${kind}`)
    const seen = new Map<string, number>()
    for (let i = 0; i < HISTORIES[kind]; i++) {
      const folder = mkdtempSync(join(tmpdir(), 'weir-explain-'))
      const place: RedisConfig = { kind: 'single', url: redis.url }
      const ledger = kind === 'redis' ? await RedisLedger.open(place, folder, 'refuse') : EmbeddedLedger.open(folder)
      try {
        const where = { data_dir: folder, ...(kind === 'redis' ? { ledger: { redis: redis.url } } : {}) }
        await using history = new History(new Random(seed + i), ledger, upstream, where)
        await history.run(seen)
      } catch (error) {
        throw new Error(`History ${i} of seed ${seed}: ${String(error)}`, { cause: error })
      } finally {
        await ledger.close()
        await flush()
        rmSync(folder, { recursive: true, force: true })
      }
    }
    console.log(
      [...seen]
        .map(([what, count]) => `${what}: ${count}`)
        .sort()
        .join(', '),
    )
    for (const what of FOUND[kind]) expect([...seen.keys()].filter((name) => name.startsWith(what))).not.toEqual([])
  })
})
