/** The simulated provider of the chaos run, on raw TCP: it never fails, and records what it served and at what cost. */

import { textOf } from '../../test/support/bytes.ts'
import { Random } from '../../test/support/random.ts'
import { type Call, Upstream } from '../../test/support/upstream.ts'

/** Dollars per million tokens, which is micro-dollars per token. */
export const PRICE = { input: 3, output: 15 } as const

/** The answer of one request, drawn from its number so that a run can be repeated. */
interface Plan {
  readonly inputTokens: number
  readonly pieces: number
  readonly gapMs: number
}

export interface Served {
  readonly costMicroUsd: number
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
    const [, mark = '', number = '0'] = [...textOf(call.body).matchAll(/\b([a-z]+-(\d+))-mark\b/g)].at(-1) ?? []
    const plan = planOf(this.seed + Number(number))
    const served = this.served.get(mark) ?? {
      costMicroUsd: plan.inputTokens * PRICE.input + plan.pieces * PRICE.output,
      calls: 0,
      whole: false,
    }
    served.calls++
    this.served.set(mark, served)
    const isWhole = call.json['stream'] === true ? await stream(call, plan) : await whole(call, plan)
    served.whole ||= isWhole
  }
}

function planOf(seed: number): Plan {
  const random = new Random(seed)
  const isLong = random.below(LONG_ONE_IN) === 0
  return {
    inputTokens: random.between(5, 50),
    pieces: isLong ? 32 : random.between(1, 12),
    gapMs: isLong ? 500 : random.between(0, 30),
  }
}

function usageOf({ inputTokens, pieces }: Plan): object {
  return { prompt_tokens: inputTokens, completion_tokens: pieces, total_tokens: inputTokens + pieces }
}

async function whole(call: Call, plan: Plan): Promise<boolean> {
  // As slow as the stream, but below the timeout of a caller.
  await Bun.sleep(Math.min(1000, plan.pieces * plan.gapMs))
  if (!call.open) return false
  const message = { role: 'assistant', content: 'word '.repeat(plan.pieces) }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  await call.answer(200, JSON.stringify({ ...chunk('chat.completion'), choices, usage: usageOf(plan) }))
  return true
}

async function stream(call: Call, plan: Plan): Promise<boolean> {
  await call.head200()
  const delta = (fields: object, finish_reason: string | null = null) =>
    frame({ choices: [{ index: 0, delta: fields, finish_reason }] })
  await call.chunk(delta({ role: 'assistant', content: '' }))
  for (let i = 0; i < plan.pieces; i++) {
    await Bun.sleep(plan.gapMs)
    if (!(await call.chunk(delta({ content: 'word ' })))) return false
  }
  await call.chunk(`${delta({}, 'stop')}${frame({ choices: [], usage: usageOf(plan) })}data: [DONE]\n\n`)
  await call.end()
  return call.open
}

function frame(more: object): string {
  return `data: ${JSON.stringify({ ...chunk('chat.completion.chunk'), ...more })}\n\n`
}

function chunk(object: string): object {
  return { id: 'chatcmpl-up', object, created: 1, model: 'up' }
}
