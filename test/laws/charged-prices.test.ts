/**
 * Prices of tiers and lengths through whole requests and both ledgers: random models, answers, fallbacks and budgets
 * against the model of prices that shares nothing with the code. Each charge is that of its own row, no more is charged
 * than was held, and no strict budget is passed.
 */

import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LedgerPlace, openUsageLog } from '../../src/assembly/open-ledger.ts'
import { type JsonObject, numberOf, objectOf, stringOf } from '../../src/core/json.ts'
import { Later } from '../../src/core/later.ts'
import type { Account, Charge, Estimate, Hold, Ledger, Reservation } from '../../src/ledger/ledger.ts'
import { Random, randomSeed } from '../ledger/random.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { openLedger } from '../support/open-ledger.ts'
import { RedisServer } from '../support/redis.ts'
import { stream } from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { type Call, Upstream } from '../support/upstream.ts'
import { BASE, type FilePrice, naiveCost, randomPrice, rowOf, TIERS } from './naive-prices.ts'

const MODELS = 6
const REQUESTS = 160
const AT_ONCE = 4
const OUTPUT_MAX = 600
/** Dollars of the organisations with small budgets. */
const SMALL = 0.2

const OWNERS = {
  free: {},
  limited: { spend: { total: 1_000_000 } },
  strict: { spend: { total: SMALL, strict: true } },
  cut: { spend: { total: SMALL, strict: true, on_exhausted: 'cut' } },
}
type Owner = keyof typeof OWNERS
const STRICT = { strict: true, cut: true }
const OTHERS = [...TIERS, 'fast', 'unheard-of']

/** What the provider does with one request; the caller sends it in its text. */
interface Order {
  readonly id: number
  /** So many targets fail before one answers. */
  readonly failures: number
  /** The tier that the answer names: that which it was asked for (`same`), none, or another one. */
  readonly tier: string | null
  readonly input: number
  readonly cached: number
  readonly output: number
}

/** Records what a ledger holds and charges for each request. */
class RecordedLedger implements Ledger {
  readonly held = new Map<string, number>()
  readonly charges = new Map<string, Charge>()

  constructor(private readonly ledger: Ledger) {}

  reserve(account: Account, hold: Hold): Reservation | Later<Reservation> {
    const reserved = this.ledger.reserve(account, hold)
    const note = (reservation: Reservation): Reservation => {
      this.held.set(reservation.id, reservation.held.costMicroUsd)
      return reservation
    }
    return reserved instanceof Later ? reserved.map(note) : note(reserved)
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): boolean | Later<boolean> {
    const extended = this.ledger.extend(reservation, soFar, wanted)
    const note = (isGranted: boolean): boolean => {
      const held = this.held.get(reservation.id) ?? 0
      if (isGranted) this.held.set(reservation.id, Math.max(held, wanted.costMicroUsd))
      return isGranted
    }
    return extended instanceof Later ? extended.map(note) : note(extended)
  }

  settle(reservation: Reservation, charge: Charge): ReturnType<Ledger['settle']> {
    this.charges.set(reservation.id, charge)
    return this.ledger.settle(reservation, charge)
  }

  health(): ReturnType<Ledger['health']> {
    return this.ledger.health()
  }

  askHealth(): ReturnType<Ledger['askHealth']> {
    return this.ledger.askHealth()
  }

  close(): Promise<void> {
    return this.ledger.close()
  }
}

/** What a provider was asked for, and what it reported, by the order's id; the last one counts. */
interface Served {
  readonly asked: string | undefined
  readonly named: string | undefined
  readonly input: number
  readonly cached: number
  readonly output: number
}

class Provider {
  readonly served = new Map<number, Served>()
  private readonly calls = new Map<number, number>()

  answer(call: Call): void | Promise<void> {
    const order = orderIn(call.json)
    const calls = (this.calls.get(order.id) ?? 0) + 1
    this.calls.set(order.id, calls)
    if (calls <= order.failures) return call.answer(500, '{}')
    const asked = stringOf(call.json['service_tier'])
    const named = order.tier === 'same' ? (asked ?? 'default') : (order.tier ?? undefined)
    const limit = numberOf(call.json['max_completion_tokens'] ?? call.json['max_tokens']) ?? OUTPUT_MAX
    const { input, cached } = order
    const output = Math.min(order.output, limit)
    this.served.set(order.id, { asked, named, input, cached, output })
    const usage = {
      ...{ prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
      prompt_tokens_details: { cached_tokens: cached },
    }
    const head = { id: 'c', created: 1, model: 'up', ...(named !== undefined && { service_tier: named }) }
    const message = { role: 'assistant', content: 'word '.repeat(Math.max(1, output)) }
    const choice = (more: object) => ({ choices: [{ index: 0, ...more }] })
    if (call.json['stream'] !== true)
      return call.answer(
        200,
        JSON.stringify({ ...head, object: 'chat.completion', ...choice({ message, finish_reason: 'stop' }), usage }),
      )
    const chunk = (more: object) => `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...more })}\n\n`
    return stream([
      chunk(choice({ delta: message, finish_reason: null })),
      chunk(choice({ delta: {}, finish_reason: 'stop' })),
      `${chunk({ choices: [], usage })}data: [DONE]\n\n`,
    ])(call)
  }
}

function orderIn({ messages }: JsonObject): Order {
  const [message] = Array.isArray(messages) ? messages : []
  const content = stringOf(objectOf(message)?.['content']) ?? ''
  return JSON.parse(content.slice(0, content.indexOf('}') + 1))
}

const keyOf = (id: Owner) => `key-of-${id}-0123456789`

/** Prices so low that a small budget pays for some dozens of requests, and whose lengths requests reach. */
function modelsOf(random: Random): readonly FilePrice[] {
  return Array.from({ length: MODELS }, () => {
    const price = randomPrice(random)
    const shorter = (rows: FilePrice['above']) =>
      rows?.map((row) => ({ ...row, input_tokens: Math.max(100, Math.floor(row.input_tokens / 200)) }))
    const tiers = Object.entries(price.tiers ?? {}).map(([name, tier]) => [
      name,
      tier.factor !== undefined || tier.above === undefined ? tier : { ...tier, above: shorter(tier.above) },
    ])
    return {
      ...price,
      above: shorter(price.above),
      ...(tiers.length > 0 && { tiers: Object.fromEntries(tiers) }),
    }
  })
}

const isBase = (tier: string | undefined) => tier === undefined || tier === 'auto' || BASE.includes(tier)

function isPriced(price: FilePrice | undefined, tier: string | undefined): boolean {
  if (tier === undefined || isBase(tier) || tier === 'flex') return true
  return price?.tiers?.[price.tier_aliases?.[tier] ?? tier] !== undefined
}

async function run(place: LedgerPlace, random: Random): Promise<void> {
  const prices = modelsOf(random)
  const provider = new Provider()
  const names = prices.map((_, index) => `m${index}`)
  await using upstream = await Upstream.start(
    Object.fromEntries(names.map((name) => [name, (call: Call) => provider.answer(call)])),
  )
  const ledger = new RecordedLedger(await openLedger(place))
  const serving = new Serving(
    {
      providers: Object.fromEntries(
        names.map((name) => [name, { dialect: 'openai', base_url: upstream.url, api_key: 'x' }]),
      ),
      models: Object.fromEntries(
        names.map((name, index) => [
          name,
          {
            ...{ targets: [{ provider: name, model: name }], price: prices[index] as unknown as JsonObject },
            ...{ max_output_tokens: OUTPUT_MAX, fallbacks: names.slice(index + 1, index + 3) },
          },
        ]),
      ),
      config: {
        organizations: Object.entries(OWNERS).map(([id, limits]) => ({
          ...{ id, limits, keys: [{ id, key: keyOf(id as Owner) }] },
        })),
      },
    },
    ledger,
  )
  const spent = new Map<string, number>()
  const refused = new Set<string>()
  let answered = 0
  const seed = random.bits()
  const one = async (id: number) => {
    const random = new Random(seed + id)
    const owner = random.pick(Object.keys(OWNERS)) as Owner
    const index = random.below(MODELS)
    const words = random.pick([5, 200, 700, 1500])
    // Many take nearly all of what is held for them.
    const isFull = random.oneIn(2)
    const input = isFull ? Math.floor(words * 0.7) : random.below(Math.ceil(words * 0.7))
    const tier = random.pick([undefined, undefined, 'auto', 'default', 'fast', ...TIERS])
    const order: Order = {
      ...{ id, failures: random.oneIn(6) ? 1 + random.below(2) : 0, input: input + 1 },
      // Toward a strict budget the provider keeps to the tier that it is asked for.
      tier: random.pick(['same', 'same', null, 'default', owner in STRICT ? 'same' : random.pick(OTHERS)]),
      ...{ cached: isFull ? 0 : random.below(input + 1), output: isFull ? OUTPUT_MAX : 1 + random.below(OUTPUT_MAX) },
    }
    const body = {
      ...{ model: `m${index}`, stream: random.oneIn(2), max_tokens: OUTPUT_MAX },
      messages: [{ role: 'user', content: `${JSON.stringify(order)}${' word'.repeat(words)}` }],
      ...(tier === undefined ? {} : { service_tier: tier }),
    }
    const answer = await ask(serving.port, requestBytes('/v1/chat/completions', { key: keyOf(owner), body }))
    const isUnpriced = owner !== 'free' && !isPriced(prices[index], tier)
    const seen = `${owner} m${index} ${tier} ${JSON.stringify(order)} ${JSON.stringify(prices)}`
    expect([answer.text.includes('unpriced_service_tier'), seen]).toEqual([isUnpriced, seen])
    const requestId = answer.header('x-request-id') ?? ''
    const served = provider.served.get(id)
    if (answer.status !== 200) {
      // No budget, or no target that does not rest.
      if (isUnpriced) return
      expect([429, 502, 503]).toContain(answer.status)
      if (answer.status === 429) refused.add(owner)
      return
    }
    if (served === undefined) throw new Error('an answer without a provider')
    await serving.lineOf(requestId)
    const charge = ledger.charges.get(requestId)
    const price = prices[Number(charge?.model.slice(1))]
    if (charge === undefined || price === undefined) throw new Error('an answer that is not charged')
    const { asked, named, input: reported, cached, output } = served
    const wanted = asked === undefined || asked === 'auto' ? price.default_tier : asked
    const usage = { input: reported, cachedInput: cached, output }
    const cost = (row: string | undefined) => naiveCost(rowOf(price, row, reported), usage)
    const expected = named === undefined || named === 'auto' ? Math.max(cost(undefined), cost(wanted)) : cost(named)
    expect([charge.costMicroUsd, seen]).toEqual([expected, seen])
    const isKept = isBase(named) || named === wanted || (price.tier_aliases?.[wanted ?? ''] ?? wanted) === named
    if (isKept) expect([charge.costMicroUsd <= (ledger.held.get(requestId) ?? 0), seen]).toEqual([true, seen])
    spent.set(owner, (spent.get(owner) ?? 0) + expected)
    answered++
  }
  let next = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < REQUESTS) await one(next++)
    }),
  )
  await serving.idle()
  await serving[Symbol.asyncDispose]()
  await ledger.close()
  expect(answered).toBeGreaterThan(REQUESTS / 4)
  const usage = await openUsageLog(place)
  const sums = new Map<string, number>()
  for (const { organization, costMicroUsd } of await usage.read({ sinceDay: 0, untilDay: 1_000_000 }))
    sums.set(organization, (sums.get(organization) ?? 0) + costMicroUsd)
  await usage.close()
  expect([...sums].sort()).toEqual([...spent].sort())
  // The budgets are reached, and not passed.
  expect([...refused].sort()).toEqual(Object.keys(STRICT).sort())
  for (const owner of refused) expect(sums.get(owner) ?? 0).toBeLessThanOrEqual(SMALL * 1_000_000)
}

describe('what is charged through', () => {
  const closing: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const close of closing.splice(0)) await close()
  })

  test.each(['embedded', 'redis'] as const)('the %s ledger is the price of its own row', async (kind) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'weir-prices-'))
    closing.push(() => rm(dataDir, { recursive: true, force: true }))
    const random = new Random(randomSeed(`charged prices, ${kind}`))
    if (kind === 'embedded') return run({ ledger: { kind }, ledgerUnreachable: 'refuse', dataDir }, random)
    const server = await RedisServer.start()
    closing.push(() => server[Symbol.asyncDispose]())
    const redis = { kind: 'single' as const, url: server.url, timeoutMs: 5000 }
    await run({ ledger: { kind, redis }, ledgerUnreachable: 'refuse', dataDir }, random)
  })
})
