/** The simulated provider of the chaos run, on raw TCP: it never fails, and records what it served and at what cost. */

import { textOf } from '../../test/support/bytes.ts'
import { Random } from '../../test/support/random.ts'
import { type Call, Upstream } from '../../test/support/upstream.ts'

/** The longest input at the short prices. */
const SHORT_TOKENS_MAX = 2000

/** Dollars per million tokens, which is micro-dollars per token. */
export const PRICE = {
  ...{ input: 3, output: 15 },
  above: [{ input_tokens: SHORT_TOKENS_MAX, input: 6, output: 22.5 }],
  tiers: { priority: { input: 5, output: 20 }, flex: { factor: 0.5 } },
  tier_aliases: { fast: 'priority' },
} as const

/**
 * What follows from the price, by hand: for a tokens of input and one of output, at each tier and length. The prices
 * of `priority` grow with the length as those of the model.
 */
const DUE: Readonly<Record<Tier, Readonly<Record<'short' | 'long', readonly [input: number, output: number]>>>> = {
  default: { short: [3, 15], long: [6, 22.5] },
  priority: { short: [5, 20], long: [10, 30] },
  flex: { short: [1.5, 7.5], long: [3, 11.25] },
}

type Tier = 'default' | 'priority' | 'flex'

/** What callers ask for, and what they get; `priority` is now and then served as `default`. */
const TIERS: Readonly<Record<string, Tier>> = { fast: 'priority', priority: 'priority', flex: 'flex' }
const LOWERED_ONE_IN = 4
export const TIER_NAMES = ['fast', 'priority', 'flex', 'default', 'auto'] as const

/** About so many tokens of text that makes an input long. */
export const LONG_TEXT = ' and so on'.repeat(1000)

/** The answer of one request, drawn from its number so that a run can be repeated. */
interface Plan {
  readonly inputTokens: number
  readonly pieces: number
  readonly gapMs: number
  readonly isLowered: boolean
}

export interface Served {
  readonly costMicroUsd: number
  readonly tier: Tier
  readonly isLong: boolean
  calls: number
  /** True once the last byte was written to the socket. */
  whole: boolean
}

/** One stream in this many runs long enough for its reservation to be extended. */
const LONG_ONE_IN = 50

export class Provider implements AsyncDisposable {
  /** By the mark in the text of a request; by the last one of a conversation. */
  readonly served = new Map<string, Served>()

  private constructor(
    private readonly upstream: Upstream,
    private readonly seed: number,
  ) {
    upstream.otherwise((call) => {
      // Recorded requests are not used and would fill the memory.
      upstream.calls.length = 0
      return this.serve(call)
    })
  }

  static async start(seed: number): Promise<Provider> {
    return new Provider(await Upstream.start(), seed)
  }

  get url(): string {
    return this.upstream.url
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.upstream[Symbol.asyncDispose]()
  }

  private async serve(call: Call): Promise<void> {
    const marks = [...textOf(call.body).matchAll(/\b([a-z]+-(\d+))-mark\b( and so on)?/g)]
    const [, mark = '', number = '0', long] = marks.at(-1) ?? []
    const plan = planOf(this.seed + Number(number), long !== undefined)
    const tier = tierOf(call, plan)
    const isLong = plan.inputTokens > SHORT_TOKENS_MAX
    const fresh = { costMicroUsd: costOf(plan, tier), tier, isLong, calls: 0, whole: false }
    const served = this.served.get(mark) ?? fresh
    served.calls++
    this.served.set(mark, served)
    const isWhole = call.json['stream'] === true ? await stream(call, plan, tier) : await whole(call, plan, tier)
    served.whole ||= isWhole
  }
}

function planOf(seed: number, isLongInput: boolean): Plan {
  const random = new Random(seed)
  const isLong = random.below(LONG_ONE_IN) === 0
  return {
    inputTokens: isLongInput ? random.between(SHORT_TOKENS_MAX + 1, 3000) : random.between(5, 50),
    pieces: isLong ? 32 : random.between(1, 12),
    gapMs: isLong ? 500 : random.between(0, 30),
    isLowered: random.below(LOWERED_ONE_IN) === 0,
  }
}

function tierOf({ json }: Call, { isLowered }: Plan): Tier {
  const tier = TIERS[String(json['service_tier'])] ?? 'default'
  return tier === 'priority' && isLowered ? 'default' : tier
}

function costOf({ inputTokens, pieces }: Plan, tier: Tier): number {
  const [input, output] = DUE[tier][inputTokens > SHORT_TOKENS_MAX ? 'long' : 'short']
  return Math.ceil(inputTokens * input + pieces * output)
}

function usageOf({ inputTokens, pieces }: Plan): object {
  return { prompt_tokens: inputTokens, completion_tokens: pieces, total_tokens: inputTokens + pieces }
}

async function whole(call: Call, plan: Plan, service_tier: Tier): Promise<boolean> {
  // As slow as the stream, but below the timeout of a caller.
  await Bun.sleep(Math.min(1000, plan.pieces * plan.gapMs))
  if (!call.open) return false
  const message = { role: 'assistant', content: 'word '.repeat(plan.pieces) }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  await call.answer(200, JSON.stringify({ ...chunk('chat.completion'), choices, service_tier, usage: usageOf(plan) }))
  return true
}

async function stream(call: Call, plan: Plan, service_tier: Tier): Promise<boolean> {
  await call.head200()
  const delta = (fields: object, finish_reason: string | null = null) =>
    frame({ choices: [{ index: 0, delta: fields, finish_reason }], service_tier })
  await call.chunk(delta({ role: 'assistant', content: '' }))
  for (let i = 0; i < plan.pieces; i++) {
    await Bun.sleep(plan.gapMs)
    if (!(await call.chunk(delta({ content: 'word ' })))) return false
  }
  await call.chunk(`${delta({}, 'stop')}${frame({ choices: [], service_tier, usage: usageOf(plan) })}data: [DONE]\n\n`)
  await call.end()
  return call.open
}

function frame(more: object): string {
  return `data: ${JSON.stringify({ ...chunk('chat.completion.chunk'), ...more })}\n\n`
}

function chunk(object: string): object {
  return { id: 'chatcmpl-up', object, created: 1, model: 'up' }
}
