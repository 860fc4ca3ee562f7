import { describe, expect, test } from 'bun:test'
import { Catalog, type CatalogConfig, type Key } from '../../src/catalog/catalog.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import type { Price } from '../../src/core/money.ts'
import { imagesBody } from '../../src/dialects/images/answer.ts'
import { acceptImages } from '../../src/dialects/images/request.ts'
import { COMPLETED, RequestLog } from '../../src/gateway/access-log.ts'
import type { Answer } from '../../src/gateway/answer.ts'
import type { Upstream as GatewayUpstream } from '../../src/gateway/gateway.ts'
import { ImageWork } from '../../src/gateway/image-work.ts'
import { InFlight } from '../../src/gateway/in-flight.ts'
import { Pump } from '../../src/gateway/pump.ts'
import type { RequestLine } from '../../src/gateway/request-line.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { bytesOf } from '../support/bytes.ts'
import { RecordingLedger } from '../support/ledger.ts'
import * as does from '../support/scenarios.ts'
import { type Scenario, Upstream } from '../support/upstream.ts'
import { answerOf, gatewayOf } from './answer-of.ts'

const data = (images: number, more: object = {}) =>
  JSON.stringify({ created: 1, data: Array.from({ length: images }, () => ({ b64_json: 'AA==' })), ...more })
const usage = { input_tokens: 10, output_tokens: 272, total_tokens: 282 }

interface Stage extends AsyncDisposable {
  readonly store: RecordingLedger
  readonly upstream: Upstream
  readonly line: RequestLine | undefined
  /** Called between a provider that broke down and the next. */
  whenPaused(then: () => void): void
  make(body: object, before?: (interrupt: (why: 'caller_left' | 'drained') => void) => void): Promise<Answer>
}

/** The flow in this process: `painter` at the provider models of the scenarios in order, then at one without images. */
async function startStage(price: Price | undefined, scenarios: Readonly<Record<string, Scenario>>): Promise<Stage> {
  const upstream = await Upstream.start(scenarios)
  const store = new RecordingLedger()
  const endpoint = (baseUrl: string, name: string) => ({
    name,
    baseUrl,
    headers: {},
    deadlines: { connectMs: 1000, firstByteMs: { stream: 5000, whole: 5000 }, idleMs: 5000, totalMs: 10_000 },
  })
  const targets = Object.keys(scenarios).map((model) => ({ provider: model === 'chatty' ? 'chatty' : 'up', model }))
  const catalog = Catalog.from(catalogData(price, targets))
  const upstreams = new Map<string, GatewayUpstream>([
    ['up', { provider: openai, endpoint: endpoint(upstream.url, 'up') }],
    ['chatty', { provider: anthropic, endpoint: endpoint(upstream.url, 'chatty') }],
  ])
  const key: Key | undefined = catalog.credentials[0]?.key
  if (key === undefined) throw new Error('no key')
  const routing = { maxAttempts: 3, totalTimeoutMs: 10_000 }
  let paused = () => {}
  const random = () => {
    paused()
    return 0
  }
  const gateway = gatewayOf({ catalog, upstreams, ledger: store, routing, random })
  let line: RequestLine | undefined
  return {
    store,
    upstream,
    whenPaused(then) {
      paused = then
    },
    get line() {
      return line
    },
    async make(body, before) {
      const image = acceptImages(
        'generations',
        bytesOf(JSON.stringify({ model: 'painter', prompt: 'a weir', ...body })),
        { imageUrls: 'public', metadata: 'forbidden' },
      )
      const log = new RequestLog('req_1', {
        write(written) {
          line = written
        },
      })
      const running = new InFlight().add()
      before?.((why) => running.interrupt(why))
      try {
        const answer = await answerOf(gateway, key, new ImageWork(image, imagesBody, log), running, log)
        if (answer.content instanceof Pump) throw new Error('images are not streamed')
        return answer
      } finally {
        log.end(COMPLETED)
      }
    },
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  }
}

function catalogData(price: Price | undefined, targets: CatalogConfig['models'][number]['targets']): CatalogConfig {
  const promptCache = { key: false, explicit: false, ttls: [] }
  const rest = { aliases: [], fallbacks: [], defaultOutputTokens: 4096, promptCache }
  return {
    ownedBy: 'weir',
    models: [{ name: 'painter', targets, price, supports: ['image_generation'], ...rest }],
    organizations: [
      {
        id: 'o',
        rules: [],
        auto: 'off',
        limits: {},
        keys: [{ id: 'k', sha256: '0'.repeat(64), auto: 'off', limits: {}, disabled: false }],
      },
    ],
    auto: { candidates: [] },
  }
}

async function failureOf(promise: Promise<unknown>): Promise<CallerError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof CallerError)) throw error ?? new Error('it succeeded')
  return error
}

describe('what is held and what is charged', () => {
  const byImage: Price = { image: 40_000 }
  const byToken: Price = { input: 5_000_000, output: 40_000_000 }
  const both: Price = { ...byImage, ...byToken }
  const low = { quality: 'low', size: '1024x1024' }
  const rows: readonly (readonly [
    name: string,
    price: Price | undefined,
    body: object,
    answer: string,
    held: number,
    settled: object,
  ])[] = [
    ['one image', byImage, {}, data(1, { usage }), 40_000, { cost: 40_000, images: 1, estimated: false }],
    ['ten', byImage, { n: 10 }, data(10, { usage }), 400_000, { cost: 400_000, images: 10, estimated: false }],
    [
      'fewer than ordered',
      byImage,
      { n: 10 },
      data(2, { usage }),
      400_000,
      { cost: 80_000, images: 2, estimated: false },
    ],
    ['no usage', byImage, {}, data(1), 40_000, { cost: 40_000, images: 1, estimated: true }],
    ['no data', byImage, { n: 2 }, '{"created":1}', 80_000, { cost: 80_000, images: 2, estimated: true }],
    [
      'ten by the token, the dearest there are',
      byToken,
      { n: 10 },
      data(10, { usage }),
      2_496_000,
      { cost: 10_930, images: 10, estimated: false },
    ],
    [
      'usage without data',
      byImage,
      { n: 2 },
      JSON.stringify({ created: 1, usage }),
      80_000,
      { cost: 80_000, images: 2, estimated: true },
    ],
    ['tokens', byToken, low, data(1, { usage }), 10_880, { cost: 10_930, images: 1, estimated: false }],
    ['tokens, both priced', both, low, data(1, { usage }), 40_000, { cost: 10_930, images: 1, estimated: false }],
    [
      'tokens of 0, both priced',
      both,
      low,
      data(1, { usage: { input_tokens: 0, output_tokens: 0 } }),
      40_000,
      { cost: 40_000, images: 1, estimated: true },
    ],
    [
      'nothing made of 0 tokens',
      byToken,
      low,
      data(0, { usage: { input_tokens: 4, output_tokens: 0 } }),
      10_880,
      { cost: 20, images: 0, estimated: false },
    ],
    ['no price', undefined, {}, data(1, { usage }), 0, { cost: 0, images: 1, estimated: false }],
  ]
  test.each(rows)('%s', async (_, price, body, answer, held, settled) => {
    await using stage = await startStage(price, { up: does.json(200, answer) })
    expect((await stage.make(body)).content).toBe(answer)
    // A few words of the prompt are estimated: up to 5 tokens at $5 a million.
    const [hold] = stage.store.holds
    expect((hold?.estimate.costMicroUsd ?? -1) - held).toBeWithin(0, 26)
    const [end, ...more] = stage.store.settlements
    expect({ cost: end?.costMicroUsd, images: end?.images, estimated: end?.estimated }).toEqual(settled as never)
    expect([more.length, end?.outcome, end?.model, end?.provider]).toEqual([0, 'completed', 'painter', 'up'])
    expect(stage.store.reservations).toBe(0)
  })

  test.each([
    ['left out', {}],
    ['cannot have used', { usage: { input_tokens: 1e12, output_tokens: 5e7 } }],
    ['reported as 0', { usage: { input_tokens: 0, output_tokens: 0 } }],
  ])('tokens that the provider %s are estimated, never 0', async (_, more) => {
    await using stage = await startStage(byToken, { up: does.json(200, data(2, more)) })
    await stage.make({ ...low, n: 2 })
    const [end] = stage.store.settlements
    expect(end?.outputTokens).toBe(544)
    expect(end?.costMicroUsd).toBe(stage.store.holds[0]?.estimate.costMicroUsd ?? -1)
    expect(stage.line?.usage).toBe('estimated')
  })
})

describe('candidates', () => {
  test.each([
    ['a 500', does.json(500, '{}'), 'failed'],
    ['not JSON', does.json(200, 'made'), 'broken'],
    ['an array', does.json(200, '[]'), 'broken'],
    ['neither data nor created', does.json(200, '{"id":1}'), 'broken'],
    ['data that is no list', does.json(200, '{"created":1,"data":{}}'), 'broken'],
    ['an error under 200', does.json(200, '{"error":{"message":"busy","type":"overloaded_error"}}'), 'overloaded'],
    ['a short body', does.tooShort(['{']), 'cut'],
    ['our credential refused', does.json(401, '{}'), 'credential'],
    ['more than 32 MiB', does.json(200, '{}', { 'content-length': String(33 * 1024 * 1024) }), 'broken'],
  ])('%s is followed by the next', async (_, first, error) => {
    await using stage = await startStage({ image: 40_000 }, { first, second: does.json(200, data(1)) })
    const answer = await stage.make({})
    expect([answer.servedModel, answer.fallbacks]).toEqual(['painter', 1])
    expect(stage.line?.attempts?.map((attempt) => attempt.error)).toEqual([error, undefined])
    expect((await stage.upstream.call('second')).json).toEqual({ model: 'second', prompt: 'a weir' })
    expect(stage.store.settlements.map(({ costMicroUsd }) => costMicroUsd)).toEqual([40_000])
  })

  test('an order is not sent again, also if its kept connection ends at once', async () => {
    const first = does.inTurn(does.json(200, data(1)), (call) => call.close())
    await using stage = await startStage({ image: 40_000 }, { first, second: does.json(200, data(1)) })
    expect((await stage.make({})).fallbacks).toBe(0)
    expect((await stage.make({})).fallbacks).toBe(1)
    expect(stage.line?.attempts?.map(({ error, cause }) => [error, cause])).toEqual([
      ['unreachable', 'ECONNRESET'],
      [undefined, undefined],
    ])
    expect(stage.upstream.calls.map(({ model }) => model)).toEqual(['first', 'first', 'second'])
  })

  test('a provider without images is passed over, and alone it is a failure of ours', async () => {
    await using stage = await startStage(undefined, { chatty: does.silent(), second: does.json(200, data(1)) })
    expect((await stage.make({})).fallbacks).toBe(1)
    await using alone = await startStage(undefined, { chatty: does.silent() })
    expect((await failureOf(alone.make({}))).kind).toBe('upstream_failed')
    expect(alone.upstream.calls).toEqual([])
  })

  test('the error for a mistake of the caller is returned at once, and costs nothing', async () => {
    const refused = does.json(400, '{"error":{"message":"Your prompt was refused.","code":"moderation_blocked"}}')
    await using stage = await startStage({ image: 1 }, { first: refused, second: does.json(200, data(1)) })
    const failure = await failureOf(stage.make({}))
    expect([failure.kind, failure.code, failure.message]).toEqual([
      'upstream_rejected',
      'moderation_blocked',
      'Your prompt was refused.',
    ])
    expect(stage.upstream.calls).toHaveLength(1)
    expect(stage.store.settlements.map(({ costMicroUsd, outcome }) => [costMicroUsd, outcome])).toEqual([
      [0, 'refused'],
    ])
  })
})

describe('interrupted', () => {
  test.each(['caller_left', 'drained'] as const)('%s: the provider is left, the order is charged', async (why) => {
    await using stage = await startStage({ image: 40_000 }, { up: does.silent() })
    const made = failureOf(
      stage.make({ n: 3 }, (interrupt) => {
        void stage.upstream.call('up').then(() => interrupt(why))
      }),
    )
    expect((await made).kind).toBe('shutting_down')
    await (await stage.upstream.call('up')).aborted
    expect(stage.store.settlements.map((end) => [end.costMicroUsd, end.images, end.outcome])).toEqual([
      [120_000, 3, why],
    ])
    expect(stage.store.settlements[0]?.estimated).toBe(true)
  })

  test('between a provider that failed and the next nothing is charged', async () => {
    await using stage = await startStage({ image: 40_000 }, { first: does.json(500, ''), second: does.silent() })
    const made = failureOf(stage.make({}, (interrupt) => stage.whenPaused(() => interrupt('caller_left'))))
    expect((await made).kind).toBe('shutting_down')
    expect(stage.upstream.calls.map(({ model }) => model)).toEqual(['first'])
    expect(stage.store.settlements.map((end) => [end.costMicroUsd, end.outcome])).toEqual([[0, 'caller_left']])
  })

  test('before a provider was asked nothing is charged', async () => {
    await using stage = await startStage({ image: 40_000 }, { up: does.silent() })
    await failureOf(stage.make({}, (interrupt) => interrupt('caller_left')))
    expect(stage.upstream.calls).toEqual([])
    expect(stage.store.settlements.map((end) => [end.costMicroUsd, end.outcome])).toEqual([[0, 'caller_left']])
  })
})
