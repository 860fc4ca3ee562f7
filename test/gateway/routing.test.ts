/**
 * Which candidates are called for a request, in which order, and which are not: rests, limits, automatic selection,
 * conversations that stay.
 */

import { describe, expect, spyOn, test } from 'bun:test'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { adapters, Serving } from '../support/serving.ts'
import { type Call, type Scenario, Upstream } from '../support/upstream.ts'

const price = { input: 1, output: 10 }
const key = { id: 'test-key', key: KEY }

/** One provider whose models are scenarios, and public models by their targets or entries. */
async function stage(
  scenarios: Readonly<Record<string, Scenario>>,
  models: Readonly<Record<string, readonly string[] | JsonObject>>,
  config: JsonObject = {},
) {
  const upstream = await Upstream.start(scenarios)
  const serving = new Serving({
    providers: { up: upstream.url },
    models,
    config: { organizations: [{ id: 'test', auto: 'auto' in config ? 'available' : 'off', keys: [key] }], ...config },
  })
  return {
    upstream,
    serving,
    ask: (model: string, body: JsonObject = {}, to: Serving = serving): Promise<Answer> =>
      ask(to.port, bytes(model, body)),
    /** The provider's models that were called since the last read, in order. */
    asked: () => upstream.calls.splice(0).map((call) => call.model),
    async [Symbol.asyncDispose]() {
      await serving[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
      expect(serving.ledger.wrong).toEqual([])
    },
  }
}

function bytes(model: string, body: JsonObject = {}): Uint8Array {
  return requestBytes('/v1/chat/completions', { key: KEY, body: { model, messages: hi, ...body } })
}

const objects = (value: unknown) => (isArray(value) ? value.filter(isObject) : [])
const hi = [{ role: 'user', content: 'hi' }]
const targets = (...names: readonly string[]) => names.map((model) => ({ provider: 'up', model }))
const statusOf = (answer: Answer) => [answer.status, answer.header('x-gateway-fallback-count')]
const busy = does.json(503, '')
const rateLimited = (ms: number) => does.json(429, '', { 'retry-after-ms': String(ms) })

describe('attempts', () => {
  test('go through targets, then fallbacks, three at most', async () => {
    await using on = await stage(
      { a: busy, b: busy, c: does.answersText('c'), d: does.answersText('d') },
      {
        few: { targets: targets('a'), fallbacks: ['others'], price },
        many: { targets: targets('a', 'b', 'a2', 'c'), price },
        others: { targets: targets('b', 'c', 'd'), price },
      },
    )
    const answer = await on.ask('few')
    expect([...statusOf(answer), answer.header('x-gateway-served-model'), answer.json()]).toMatchObject([
      200,
      '2',
      'others',
      { model: 'others', choices: [{ message: { content: 'c' } }] },
    ])
    expect(on.asked()).toEqual(['a', 'b', 'c'])
    expect((await on.ask('many')).status).toBe(502)
    expect(on.asked()).toEqual(['a', 'b', 'a2'])
  })

  test('a fallback that does not cache is sent no marks of a Responses request', async () => {
    const explicit = { explicit: true, ttls: ['5m', '1h'] }
    await using on = await stage(
      { a: busy, b: does.answersText('b') },
      {
        cached: { targets: targets('a'), fallbacks: ['plain'], price, prompt_cache: explicit },
        plain: { targets: targets('b'), price },
      },
    )
    const part = (ttl?: string) => ({ type: 'input_text', text: 'hi', cache_control: { type: 'ephemeral', ttl } })
    const send = (model: string, ttl?: string) => {
      const body = { model, input: [{ role: 'user', content: [part(ttl)] }] }
      return ask(on.serving.port, requestBytes('/v1/responses', { key: KEY, body }))
    }
    for (const ttl of [undefined, '1h']) {
      const answer = await send('cached', ttl)
      expect([...statusOf(answer), answer.header('x-gateway-served-model')]).toEqual([200, '1', 'plain'])
    }
    const [first, second] = on.upstream.calls
    expect(JSON.stringify(first?.json)).toContain('cache_control')
    expect(JSON.stringify(second?.json)).not.toContain('cache_control')
    // Requested by its own name, the same model rejects them.
    expect((await send('plain')).status).toBe(400)
  })

  test('go on after a stream that breaks off after a finish, if a chat caller has seen nothing of it', async () => {
    const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
    const finished = [
      event('message_start', { message: { usage: { input_tokens: 1, output_tokens: 0 } } }),
      event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 0 } }),
    ]
    await using upstream = await Upstream.start({ cut: does.withoutLastChunk(finished), ok: does.answersText('ok') })
    await using serving = new Serving({
      providers: { claude: { dialect: 'anthropic', base_url: `http://127.0.0.1:${upstream.port}` }, up: upstream.url },
      models: { alone: ['claude/cut'], both: ['claude/cut', 'up/ok'] },
    })
    const alone = await ask(serving.port, bytes('alone', { stream: true }))
    expect([alone.status, alone.end, alone.json()]).toMatchObject([
      502,
      'whole',
      { error: { code: 'upstream_failed' } },
    ])
    expect(await serving.lineOf(alone.header('x-request-id'))).not.toHaveProperty('cost_micro_usd')
    const both = await ask(serving.port, bytes('both', { stream: true }))
    expect([...statusOf(both), both.end]).toEqual([200, '1', 'whole'])
    expect(both.text).toContain('"content":"ok"')
  })

  test('share one deadline', async () => {
    await using on = await stage(
      { a: does.silent(), b: does.silent(), c: does.answersText('c') },
      { m: ['up/a', 'up/b', 'up/c'] },
      { routing: { max_attempts: 3, total_timeout_ms: 1000 } },
    )
    const answer = await on.ask('m')
    expect([answer.status, on.asked()]).toEqual([504, ['a']])
  })

  test('skip a provider whose API cannot express the request, as long as there is another', async () => {
    const image = { type: 'image_url', image_url: { url: 'https://pictures.example.com/a.png' } }
    await using upstream = await Upstream.start({ a: does.answersText('a'), b: busy })
    const bedrock = {
      dialect: 'bedrock',
      base_url: upstream.url,
      region: 'r',
      access_key_id: 'i',
      secret_access_key: 's',
    }
    await using serving = new Serving({
      providers: { up: upstream.url, bedrock },
      models: { both: ['bedrock/x', 'up/a'], alone: ['bedrock/x'], last: ['bedrock/x', 'up/b', 'up/a', 'up/c'] },
      config: { routing: { max_attempts: 2 } },
    })
    const send = (model: string, part: unknown = image) => {
      const body = { model, messages: [{ role: 'user', content: [part] }] }
      return ask(serving.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
    }
    expect(statusOf(await send('both'))).toEqual([200, '1'])
    const alone = await send('alone')
    expect([alone.status, alone.text.includes('by address')]).toEqual([400, true])
    const deaf = await send('alone', { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } })
    expect([deaf.status, deaf.text.includes('input_audio')]).toEqual([400, true])
    expect(upstream.calls.map(({ model }) => model)).toEqual(['a'])
    // It was not called, so it is none of the two attempts.
    expect([...statusOf(await send('last')), ...upstream.calls.map(({ model }) => model)]).toEqual([
      200,
      '2',
      'a',
      'b',
      'a',
    ])
    expect(serving.service.rests()).toEqual([])
  })

  test('that failed leave nothing open, and are not charged to a caller that leaves before the next', async () => {
    // The longest wait before the next candidate.
    using _drawn = spyOn(Math, 'random').mockReturnValue(0.999)
    await using on = await stage({ a: busy, b: does.answersText('b') }, { m: ['up/a', 'up/b'] })
    for (let i = 0; i < 2; i++) await on.ask('m')
    const caller = await Caller.connect(on.serving.port)
    caller.send(bytes('m'))
    // From the third failure on, the next candidate is waited for.
    while (on.serving.peerUpdates.every(({ about }) => about !== 'rest')) await new Promise(setImmediate)
    caller.reset()
    await on.serving.idle()
    const line = on.serving.lines.findLast(({ msg }) => msg === 'request')
    expect(line).toMatchObject({ outcome: 'caller_left', attempts: [{ model: 'a', error: 'overloaded' }] })
    expect(line).not.toHaveProperty('cost_micro_usd')
    expect(on.asked()).toEqual(['a', 'b', 'a', 'b', 'a'])
  })

  test.each([
    ['an error', does.stalls([...does.chatFrames(['Hi']).slice(0, 2), 'data: {"error":{"message":"x"}}\n\n'])],
    ['nonsense', does.stalls([...does.chatFrames(['Hi']).slice(0, 2), 'data: nonsense\n\n'])],
  ])('that stream %s to a caller that wants a whole answer are closed', async (_, scenario) => {
    await using on = await stage({ a: scenario, b: does.answersText('b') }, { m: ['up/a', 'up/b'] })
    expect(statusOf(await on.ask('m'))).toEqual([200, '1'])
    expect((await (await on.upstream.call('a')).aborted).by).toBe('gateway')
  })

  test('the error for a caller’s mistake is returned at once, and no target rests for it', async () => {
    await using on = await stage(
      { a: does.json(400, '{"error":{"message":"no"}}'), b: does.answersText('b') },
      { m: ['up/a', 'up/b'] },
    )
    for (let i = 0; i < 30; i++) expect((await on.ask('m')).status).toBe(400)
    expect(new Set(on.asked())).toEqual(new Set(['a']))
    expect(on.serving.peerUpdates).toEqual([])
  })
})

describe('a server that rejects how weir wrote a request', () => {
  const WANTS_OTHER =
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
  const rejection = JSON.stringify({
    error: { message: WANTS_OTHER, type: 'invalid_request_error', param: 'max_tokens', code: 'unsupported_parameter' },
  })
  const limits = (upstream: Upstream) =>
    upstream.calls.splice(0).map(({ path, json }) => [path, json['max_tokens'], json['max_completion_tokens']])
  const rejectsMaxTokens =
    (reject: Scenario): Scenario =>
    (call) =>
      'max_tokens' in call.json ? reject(call) : does.answersText('hello')(call)

  test.each([
    ['azure', does.json(400, rejection)],
    ['azure', does.stream([`data: ${rejection}\n\n`])],
    ['openai', does.json(400, rejection)],
  ] as const)('is asked again at once with max_completion_tokens, and from then on (%s)', async (dialect, reject) => {
    await using upstream = await Upstream.start()
    upstream.otherwise(rejectsMaxTokens(reject))
    const provider = { dialect, base_url: upstream.url, api_key: 'k', ...(dialect === 'azure' && { api_version: 'v' }) }
    const target = { provider: 'up', model: 'my-deployment' }
    await using serving = new Serving({
      providers: { up: provider },
      models: { m: { targets: [target, { provider: 'up', model: 'other' }], price } },
      config: { routing: { max_attempts: 1 } },
    })
    const path = dialect === 'azure' ? '/v1/chat/completions?api-version=v' : '/v1/chat/completions'
    const asking = (stream: boolean) => ask(serving.port, bytes('m', { max_tokens: 9, stream }))
    const [first, second] = [await asking(true), await asking(false)]
    expect([first, second].map(statusOf)).toEqual([
      [200, '0'],
      [200, '0'],
    ])
    expect(limits(upstream)).toEqual([
      [path, 9, undefined],
      [path, undefined, 9],
      [path, undefined, 9],
    ])
    // Sent twice, and one attempt.
    expect((await serving.lineOf(first.header('x-request-id')))['attempts']).toBeUndefined()
    expect(serving.ledger.wrong).toEqual([])
  })

  test('is asked again without stream_options if it does not know them, and the usage is our own count', async () => {
    const rejection = '{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs"}]}'
    await using on = await stage(
      {
        a: (call) =>
          'stream_options' in call.json
            ? does.json(422, rejection)(call)
            : does.stream(does.chatFrames(['hello'], { usage: false }))(call),
      },
      { m: ['up/a'] },
    )
    const answer = await on.ask('m', { stream: true })
    expect([answer.status, answer.end]).toEqual([200, 'whole'])
    expect((await on.ask('m', { stream: true, tools: [{ type: 'function', function: { name: 'f' } }] })).status).toBe(
      200,
    )
    expect(on.upstream.calls.map(({ json }) => 'stream_options' in json)).toEqual([true, false, false])
    expect(on.serving.lines.filter(({ event }) => event === 'target.form_learned')).toMatchObject([
      { provider: 'up', model: 'a', field: 'stream_options', kept: 'for ten minutes', seen: expect.any(String) },
    ])
    expect(await on.serving.lineOf(answer.header('x-request-id'))).toMatchObject({ usage: 'estimated' })
  })

  describe('that rejects one field after the other', () => {
    const rejects = (wrong: readonly string[], call: Call) =>
      does.json(400, JSON.stringify({ error: { message: `Unknown parameter: '${wrong[0]}'.`, param: wrong[0] } }))(call)
    const strict: Scenario = (call) => {
      if ('max_tokens' in call.json) return does.json(400, rejection)(call)
      if ('stream_options' in call.json) return rejects(['stream_options'], call)
      return does.stream(does.chatFrames(['hello']))(call)
    }

    test('is asked up to three times for one caller, and once from then on', async () => {
      await using on = await stage({ a: strict }, { m: ['up/a'] })
      const asking = () => on.ask('m', { stream: true, max_tokens: 9 })
      const [first, second] = [await asking(), await asking()]
      expect([first.status, second.status, on.upstream.calls.length]).toEqual([200, 200, 4])
      const learned = on.serving.lines.filter(({ event }) => event === 'target.form_learned')
      expect(learned).toMatchObject([{ field: 'max_completion_tokens' }, { field: 'stream_options' }])
      expect(on.serving.ledger.wrong).toEqual([])
    })

    test("a third rejection is the caller's, and nothing is learned of it", async () => {
      const a: Scenario = (call) =>
        'max_tokens' in call.json || 'stream_options' in call.json ? strict(call) : rejects(['tools'], call)
      await using on = await stage({ a }, { m: ['up/a'] })
      const answer = await on.ask('m', { stream: true, max_tokens: 9 })
      expect([answer.status, on.upstream.calls.length]).toEqual([400, 3])
      expect(on.serving.lines.filter(({ event }) => event === 'target.form_learned')).toEqual([])
    })

    test('a usage that it reports without being asked for it does not bring the field back', async () => {
      await using on = await stage({ a: strict }, { m: ['up/a'] })
      for (let i = 0; i < 4; i++) expect((await on.ask('m', { stream: true })).status).toBe(200)
      expect(on.upstream.calls.map(({ json }) => 'stream_options' in json)).toEqual([true, false, false, false, false])
    })
  })

  test('is asked again by every request that was on its way when the first of them learned it', async () => {
    const reached = Promise.withResolvers<void>()
    const rejects: Scenario = async (call) => {
      if (upstream.calls.length === 2) reached.resolve()
      await reached.promise
      return does.json(400, rejection)(call)
    }
    await using upstream = await Upstream.start()
    upstream.otherwise(rejectsMaxTokens(rejects))
    await using serving = new Serving({ providers: { up: upstream.url }, models: { m: ['up/my-deployment'] } })
    const asking = () => ask(serving.port, bytes('m', { max_tokens: 9 }))
    expect((await Promise.all([asking(), asking()])).map(statusOf)).toEqual([
      [200, '0'],
      [200, '0'],
    ])
    expect(limits(upstream)).toHaveLength(4)
  })

  test.each([
    ['DeepSeek', { message: 'The `reasoning_content` in the thinking mode must be passed back to the API.' }],
    [
      'Xiaomi',
      { message: 'Param Incorrect', param: 'The reasoning_content in the thinking mode must be passed back.' },
    ],
  ])(
    'is asked again with blank thoughts if it wants them back, however long the conversation (%s)',
    async (_, error) => {
      const answers = (call: Call) => objects(call.json['messages']).filter(({ role }) => role === 'assistant')
      const thoughts = (call: Call) => answers(call).map(({ reasoning_content: thought }) => thought)
      const deepseek: Scenario = (call) =>
        thoughts(call).includes(undefined)
          ? does.json(400, JSON.stringify({ error }))(call)
          : does.answersText('hello')(call)
      await using upstream = await Upstream.start()
      upstream.otherwise(deepseek)
      await using serving = new Serving({
        providers: {
          up: upstream.url,
          azure: { dialect: 'azure', base_url: upstream.url, api_key: 'k', api_version: 'v' },
        },
        models: { openai: ['up/a'], azure: ['azure/a'] },
      })
      const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
      for (const model of ['openai', 'azure'])
        for (const length of [1, 20_000]) {
          const messages = [
            { role: 'user', content: 'x'.repeat(length) },
            { role: 'assistant', content: 'Wait.', tool_calls: [call] },
            { role: 'tool', tool_call_id: 'c', content: 'done' },
            { role: 'assistant', content: 'Done.' },
            { role: 'user', content: 'Thanks.' },
          ]
          expect((await ask(serving.port, bytes(model, { messages }))).status).toBe(200)
        }
      const missing = [undefined, undefined]
      expect(upstream.calls.map(thoughts)).toEqual([missing, [' ', ' '], [' ', ' '], missing, [' ', ' '], [' ', ' ']])
    },
  )

  test('changes its requests for all only if no caller can have written the error', async () => {
    const lies = { say: true }
    await using on = await stage(
      {
        a: (call) => {
          const [first] = objects(call.json['messages'])
          const quoted = String(first?.['content'])
          // It answers the same request a moment later.
          if (!lies.say) return does.stream(does.chatFrames(['hello']))(call)
          lies.say = false
          const message = `Unrecognized request argument supplied: ${quoted}`
          return does.json(400, JSON.stringify({ error: { message } }))(call)
        },
      },
      { m: ['up/a'] },
    )
    const streams = (content: string) => ({ stream: true, messages: [{ role: 'user', content }] })
    for (const content of ['stream_options', 'stream_options.evil.test', '"stream_options": {"include_usage": true}']) {
      lies.say = true
      expect((await on.ask('m', streams(content))).status).toBe(400)
      expect((await on.ask('m', streams('Hi'))).status).toBe(200)
    }
    expect(on.upstream.calls.every(({ json }) => 'stream_options' in json)).toBe(true)
    expect(on.serving.lines.filter(({ event }) => event === 'target.form_learned')).toEqual([])
  })

  test('does not lose the usage that it has reported, whatever it rejects', async () => {
    const rejection = '{"error":{"message":"Unknown parameter: \'stream_options\'.","param":"stream_options"}}'
    const scenario = does.inTurn(does.stream(does.chatFrames(['hello'])), does.json(400, rejection))
    await using on = await stage({ a: scenario }, { m: ['up/a'] })
    expect((await on.ask('m', { stream: true })).status).toBe(200)
    expect((await on.ask('m', { stream: true })).status).toBe(400)
    expect(on.asked()).toEqual(['a', 'a'])
  })

  test('and rejects it again shows that the mistake is the caller’s: its words change nothing for others', async () => {
    await using on = await stage(
      {
        a: (call) => {
          const effort = call.json['reasoning_effort']
          if (effort === undefined) return does.answersText('hello')(call)
          return does.json(400, JSON.stringify({ error: { message: `Invalid value: '${String(effort)}'.` } }))(call)
        },
      },
      { m: ['up/a'] },
    )
    const words = [
      'stream_options',
      'reasoning_content',
      "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    ]
    for (const word of words) {
      const { status, text } = await on.ask('m', { reasoning_effort: word })
      expect([status, JSON.parse(text).error.message]).toEqual([400, `Invalid value: '${word}'.`])
      expect(on.asked()).toEqual(['a'])
    }
    await on.ask('m', {
      stream: true,
      max_tokens: 9,
      messages: [...hi, { role: 'assistant', content: 'Hello' }, ...hi],
    })
    expect(on.upstream.calls.at(-1)?.json).toEqual({
      model: 'a',
      messages: [...hi, { role: 'assistant', content: 'Hello' }, ...hi],
      max_tokens: 9,
      stream: true,
      stream_options: { include_usage: true },
    })
  })
})

describe('resting', () => {
  test('after three failures in a row the next candidate is called at once, and counted', async () => {
    await using on = await stage({ a: busy, b: does.answersText('b') }, { m: ['up/a', 'up/b'] })
    for (let i = 0; i < 3; i++) expect(statusOf(await on.ask('m', { stream: i === 1 }))).toEqual([200, '1'])
    expect(on.asked()).toEqual(['a', 'b', 'a', 'b', 'a', 'b'])
    const answer = await on.ask('m')
    expect([...statusOf(answer), on.asked()]).toEqual([200, '1', ['b']])
    expect(await on.serving.lineOf(answer.header('x-request-id'))).toMatchObject({ fallbacks: 1 })
    expect(on.serving.lines).toContainEqual(
      expect.objectContaining({
        event: 'target.open',
        provider: 'up',
        model: 'a',
        reason: 'overloaded',
        rest_ms: 1000,
      }),
    )
  })

  test('a 429 rests as long as it asks for; then one request probes it', async () => {
    await using on = await stage(
      { a: does.inTurn(rateLimited(300), does.answersText('a')), b: does.answersText('b') },
      { m: ['up/a', 'up/b'] },
    )
    expect(statusOf(await on.ask('m'))).toEqual([200, '1'])
    expect(statusOf(await on.ask('m'))).toEqual([200, '1'])
    expect(on.asked()).toEqual(['a', 'b', 'b'])
    while (on.serving.service.rests().some(({ restMs }) => restMs > 0)) await on.ask('m')
    on.asked()
    expect(statusOf(await on.ask('m'))).toEqual([200, '0'])
    expect(on.asked()).toEqual(['a'])
    expect(on.serving.service.rests()).toEqual([])
  })

  test('while one request probes it, the others go elsewhere; that its caller leaves decides nothing', async () => {
    await using on = await stage(
      { a: does.inTurn(rateLimited(50), does.silent(), does.answersText('a')), b: does.answersText('b') },
      { m: ['up/a', 'up/b'] },
    )
    await on.ask('m')
    while (on.serving.service.rests().some(({ restMs }) => restMs > 0)) await new Promise(setImmediate)
    on.asked()
    await using caller = await Caller.connect(on.serving.port)
    caller.send(bytes('m'))
    const call = await on.upstream.call('a')
    expect(statusOf(await on.ask('m'))).toEqual([200, '1'])
    expect(on.serving.service.rests()).toMatchObject([{ model: 'a', probing: true }])
    caller.close()
    await call.aborted
    await on.serving.idle()
    expect(on.serving.service.rests()).toMatchObject([{ model: 'a', probing: false, restMs: 0 }])
    expect(statusOf(await on.ask('m'))).toEqual([200, '0'])
  })

  test('all asked for a rest: none is called, and the caller learns when to retry', async () => {
    await using on = await stage({ a: rateLimited(20_000), b: rateLimited(9000) }, { m: ['up/a', 'up/b'] })
    for (const asked of [['a', 'b'], []]) {
      const answer = await on.ask('m')
      expect([answer.status, answer.json()]).toMatchObject([429, { error: { code: 'upstream_rate_limited' } }])
      expect(Number(answer.header('retry-after'))).toBeOneOf([8, 9])
      expect(on.asked()).toEqual(asked)
    }
  })

  test('all rest after failures: the one that ends first is called all the same', async () => {
    await using on = await stage(
      { a: does.inTurn(busy, busy, busy, does.answersText('a')), b: rateLimited(20_000) },
      { m: ['up/a', 'up/b'] },
    )
    for (let i = 0; i < 3; i++) expect((await on.ask('m')).status).toBe(503)
    expect(on.asked()).toEqual(['a', 'b', 'a', 'a'])
    expect(statusOf(await on.ask('m'))).toEqual([200, '0'])
    expect(on.asked()).toEqual(['a'])
  })

  test('of two that rest the one that ends first is called, and the other is counted', async () => {
    const twice = does.inTurn(busy, busy, busy, does.answersText('b'))
    await using on = await stage({ a: busy, b: twice }, { m: ['up/a', 'up/b'], onlyA: ['up/a'], onlyB: ['up/b'] })
    for (const name of ['onlyB', 'onlyB', 'onlyB', 'onlyA', 'onlyA', 'onlyA']) await on.ask(name)
    on.asked()
    expect([...statusOf(await on.ask('m')), on.asked()]).toEqual([200, '1', ['b']])
  })

  test('one that rests after failures is not rate limited: 503, whatever the other answers', async () => {
    await using on = await stage({ a: busy, b: does.json(429, '') }, { m: ['up/a', 'up/b'], onlyA: ['up/a'] })
    for (let i = 0; i < 3; i++) await on.ask('onlyA')
    on.asked()
    expect([(await on.ask('m')).status, on.asked()]).toEqual([503, ['b']])
  })

  test('without credit at its provider a target rests for a minute, and a request without another fails', async () => {
    const quota = JSON.stringify({ error: { message: 'You exceeded your quota.', code: 'insufficient_quota' } })
    await using on = await stage(
      { a: does.json(429, quota), b: does.answersText('b') },
      { m: ['up/a', 'up/b'], alone: ['up/a'] },
      { auto: { candidates: ['alone'] } },
    )
    expect([...statusOf(await on.ask('m')), on.asked()]).toEqual([200, '1', ['a', 'b']])
    const [rest] = on.serving.service.rests()
    expect(rest).toMatchObject({ model: 'a', reason: 'credit_exhausted', status: 429, asked: false })
    expect(rest?.restMs).toBeWithin(50_000, 60_001)
    expect([...statusOf(await on.ask('m')), on.asked()]).toEqual([200, '1', ['b']])
    for (const model of ['alone', 'auto']) {
      const answer = await on.ask(model)
      expect([answer.status, answer.json()]).toMatchObject([502, { error: { code: 'upstream_failed' } }])
      expect(answer.text).not.toMatch(/quota|credit/)
    }
    const logged = on.serving.lines.filter(({ event }) => event === 'provider.credit_exhausted')
    expect(logged).toMatchObject([
      { provider: 'up', model: 'a', provider_code: 'insufficient_quota', provider_message: 'You exceeded your quota.' },
    ])
  })

  test('one cause, one answer: a target that always fails in the same way gives it also while it rests', async () => {
    const ways: Readonly<Record<string, Scenario>> = {
      limited: does.json(429, ''),
      'limited-for': does.json(429, '', { 'retry-after': '20' }),
      busy,
      broken: does.json(500, ''),
      credential: does.json(401, ''),
      credit: does.json(402, ''),
      nonsense: does.json(200, '<html>'),
      silent: does.silent(),
      resets: (call) => call.close(),
    }
    const names = Object.keys(ways)
    const lists = [...names.map((one) => [one]), ...names.flatMap((one) => names.map((other) => [one, other]))]
    // Each public model has targets of its own: none rests because of another model.
    const own = (list: readonly string[]) => list.map((way, place) => `${way}.${place}.${list.join('.')}`)
    const scenarios = lists.flatMap((list) =>
      own(list).map((name, at) => [name, ways[list[at] ?? ''] ?? busy] as const),
    )
    const upstream = await Upstream.start(Object.fromEntries(scenarios))
    const entry = { dialect: 'openai', base_url: upstream.url, api_key: 'k' }
    // Only the one that is silent is called in haste: the others may take their time on a busy machine.
    const placeOf = (model: string) => ({ provider: model.startsWith('silent') ? 'hasty' : 'up', model })
    await using serving = new Serving({
      providers: { up: entry, hasty: { ...entry, first_byte_timeout_ms: 50 } },
      models: Object.fromEntries(lists.map((list) => [list.join('+'), { targets: own(list).map(placeOf), price }])),
    })
    const answersOf = async (list: readonly string[]) => {
      const answers: string[] = []
      for (let turn = 0; turn < 6; turn++) {
        const answer = await ask(serving.port, bytes(list.join('+')))
        const { error } = Object(answer.json())
        answers.push(`${answer.status} ${error.code}`)
      }
      return [list.join('+'), [...new Set(answers)]] as const
    }
    const found = Object.fromEntries(await Promise.all(lists.map(answersOf)))
    expect(Object.entries(found).filter(([, answers]) => answers.length !== 1)).toEqual([])
    expect(names.map((name) => [name, found[name]?.[0]])).toEqual([
      ['limited', '429 upstream_rate_limited'],
      ['limited-for', '429 upstream_rate_limited'],
      ['busy', '503 overloaded'],
      ['broken', '502 upstream_failed'],
      ['credential', '502 upstream_failed'],
      ['credit', '502 upstream_failed'],
      ['nonsense', '502 upstream_failed'],
      ['silent', '504 upstream_timeout'],
      ['resets', '502 upstream_failed'],
    ])
    await upstream[Symbol.asyncDispose]()
  })

  test('a candidate that had only the rest of the time has not failed', async () => {
    const up = await Upstream.start({ a: does.silent(), b: does.silent() })
    const entry = { dialect: 'openai', base_url: up.url, api_key: 'k' }
    // Seconds are left for the second, so that it is called on a busy machine, too.
    await using serving = new Serving({
      providers: {
        up: { ...entry, first_byte_timeout_ms: 200 },
        patient: { ...entry, first_byte_timeout_ms: 20_000 },
      },
      models: { m: ['up/a', 'patient/b'] },
      config: { routing: { max_attempts: 3, total_timeout_ms: 5000 } },
    })
    const answers = await Promise.all([1, 2, 3].map(() => ask(serving.port, bytes('m'))))
    expect(answers.map(({ status }) => status)).toEqual([504, 504, 504])
    expect(up.calls.map(({ model }) => model).sort()).toEqual(['a', 'a', 'a', 'b', 'b', 'b'])
    expect(serving.service.rests()).toMatchObject([{ model: 'a', reason: 'timeout' }])
    await up[Symbol.asyncDispose]()
  })

  test('one rests after failures, the other asked for a rest: 503', async () => {
    await using on = await stage({ a: busy, b: rateLimited(20_000) }, { m: ['up/a', 'up/b'] })
    const answer = await on.ask('m')
    expect([answer.status, answer.header('retry-after')]).toEqual([503, '20'])
  })

  test('streams that break off after they began make a target rest, too', async () => {
    const broken = does.stream(does.chatFrames(['Hi']).slice(0, 2))
    await using on = await stage({ a: broken }, { m: ['up/a'] })
    for (let i = 0; i < 4; i++) expect((await on.ask('m', { stream: true })).end).toBe('cut')
    await on.serving.idle()
    expect(on.serving.service.rests()).toMatchObject([{ model: 'a', reason: 'cut' }])
  })

  test('a provider that rejects our credential rests, and the operator gets one log line per rest', async () => {
    await using on = await stage({ a: does.json(401, '{"error":{"message":"bad key"}}') }, { m: ['up/a'] })
    for (let i = 0; i < 5; i++) {
      const answer = await on.ask('m')
      expect([answer.status, answer.text.includes('bad key')]).toEqual([502, false])
    }
    const alarms = on.serving.lines.filter(({ level }) => level === 'error')
    expect(alarms).toMatchObject([{ event: 'provider.credential_rejected', provider: 'up', model: 'a' }])
  })

  test('a new configuration of the same provider leaves it resting; another key wakes it', async () => {
    await using on = await stage({ a: rateLimited(20_000) }, { m: ['up/a'] })
    await on.ask('m')
    const { service, config } = on.serving
    service.prepare({ ...config, ownedBy: 'other' }, adapters)
    service.commit()
    expect(service.rests()).toHaveLength(1)
    service.prepare(
      { ...config, providers: config.providers.map((provider) => ({ ...provider, apiKey: 'new' })) },
      adapters,
    )
    service.commit()
    expect(service.rests()).toEqual([])
  })

  test('what other workers found out counts here', async () => {
    await using on = await stage({ a: does.answersText('a'), b: does.answersText('b') }, { m: ['up/a', 'up/b'] })
    const rest = { provider: 'up', model: 'a', restMs: 20_000, rests: 1, asked: true, reason: 'rate_limited' } as const
    on.serving.service.apply({ about: 'rest', rest: { ...rest, probing: false } })
    expect(statusOf(await on.ask('m'))).toEqual([200, '1'])
    on.serving.service.apply({ about: 'rest', rest: { ...rest, restMs: 0, rests: 0, probing: false } })
    expect(statusOf(await on.ask('m'))).toEqual([200, '0'])
  })

  test('a target that another worker probes is called if there is no other: its rest is over', async () => {
    await using on = await stage({ a: does.answersText('a') }, { m: ['up/a'] })
    const rest = { provider: 'up', model: 'a', restMs: 5000, rests: 1, asked: true, reason: 'rate_limited' } as const
    on.serving.service.apply({ about: 'rest', rest: { ...rest, probing: true } })
    expect(statusOf(await on.ask('m'))).toEqual([200, '0'])
  })
})

describe('what a candidate may cost', () => {
  const models = {
    cheap: { targets: targets('a'), fallbacks: ['dear', 'cheaper'], price, max_output_tokens: 1000 },
    dear: { targets: targets('b'), price: { input: 10, output: 100 }, max_output_tokens: 1000 },
    cheaper: { targets: targets('c'), price: { input: 0.5, output: 5 }, max_output_tokens: 1000 },
  }
  const scenarios = { a: does.json(500, ''), b: does.answersText('b'), c: does.answersText('c') }

  test('the price of a dearer one is reserved before it is called', async () => {
    await using on = await stage(scenarios, models)
    const answer = await on.ask('cheap', { max_tokens: 100 })
    expect([...statusOf(answer), answer.header('x-gateway-served-model')]).toEqual([200, '1', 'dear'])
    expect(on.serving.ledger.reserved[0]?.estimate.costMicroUsd).toBeLessThan(1100)
    expect(on.serving.ledger.wanted[0]?.costMicroUsd).toBeGreaterThanOrEqual(10_000)
  })

  test('a dearer one is skipped if a limit does not allow it', async () => {
    await using on = await stage(scenarios, models)
    on.serving.ledger.costMax = 5000
    const answer = await on.ask('cheap', { max_tokens: 100, stream: true })
    expect([...statusOf(answer), answer.header('x-gateway-served-model')]).toEqual([200, '2', 'cheaper'])
    expect(on.asked()).toEqual(['a', 'c'])
    expect(await on.serving.lineOf(answer.header('x-request-id'))).toMatchObject({ cost_micro_usd: 10 })
  })
})

describe('automatic selection', () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
  const models = {
    small: { targets: targets('a'), price, context_window: 100, supports: [] },
    tools: { targets: targets('b'), price, supports: ['tools'] },
    all: { targets: targets('c'), price, supports: ['tools', 'images'] },
  }
  const config = {
    auto: { candidates: ['small', 'tools', 'all'] },
    listen: { host: '127.0.0.1', port: 0, explain_header: true },
  }
  const scenarios = { a: does.answersText('a'), b: does.answersText('b'), c: does.answersText('c') }
  const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }
  const earlier = [{ role: 'user', content: [image] }, { role: 'assistant', content: 'nice' }, ...hi]

  test.each<[string, JsonObject, string, string]>([
    ['nothing', { max_tokens: 10 }, 'small', 'small@up=answered'],
    ['tools', { tools: [tool], max_tokens: 10 }, 'tools', 'tools@up=answered; excluded: small (takes no tools)'],
    [
      'an image long ago',
      { messages: earlier, max_tokens: 10 },
      'all',
      'all@up=answered; excluded: small (takes no images), tools (takes no images)',
    ],
  ])('by what the request needs: %s', async (_, body, served, route) => {
    await using on = await stage(scenarios, models, config)
    const answer = await on.ask('auto', body)
    expect([...statusOf(answer), answer.header('x-gateway-served-model')]).toEqual([200, '0', served])
    expect(answer.header('x-gateway-requested-model')).toBe('auto')
    expect(answer.header('x-gateway-route')).toBe(route)
  })

  test('a resting one is skipped and counted, and the header shows it', async () => {
    await using on = await stage({ ...scenarios, a: rateLimited(20_000) }, models, config)
    expect((await on.ask('auto', { max_tokens: 10, stream: true })).header('x-gateway-route')).toBe(
      'small@up=rate_limited, tools@up=answered',
    )
    const answer = await on.ask('auto', { max_tokens: 10 })
    expect([...statusOf(answer), answer.header('x-gateway-route')]).toEqual([
      200,
      '1',
      'small@up=resting, tools@up=answered',
    ])
  })

  test('all that are left rest: 503 with the shortest wait, and none is called', async () => {
    const down = { a: does.json(500, ''), b: rateLimited(20_000), c: does.json(500, '') }
    await using on = await stage(down, models, { ...config, routing: { max_attempts: 1 } })
    // Three failures in a row each, or a rest that the provider asked for.
    while ((await on.ask('small')).status === 502 && on.serving.service.rests().length < 1) on.asked()
    expect((await on.ask('tools')).status).toBe(429)
    while ((await on.ask('all')).status === 502 && on.serving.service.rests().length < 3) on.asked()
    on.asked()
    const answer = await on.ask('auto', { max_tokens: 10 })
    expect([answer.status, answer.json()]).toMatchObject([503, { error: { code: 'overloaded' } }])
    expect(Number(answer.header('retry-after'))).toBeGreaterThanOrEqual(1)
    expect(on.asked()).toEqual([])
    // By its own name a model is called in spite of its rest, unless its provider asked for the rest.
    expect((await on.ask('small')).status).toBe(502)
    expect(on.asked()).toEqual(['a'])
  })

  test('all that are left rest because their providers asked for it: 503 as well, not 429', async () => {
    const limited = { a: rateLimited(20_000), b: rateLimited(20_000), c: rateLimited(20_000) }
    await using on = await stage(limited, models, config)
    expect((await on.ask('auto', { max_tokens: 10 })).status).toBe(429)
    const answer = await on.ask('auto', { max_tokens: 10 })
    expect([answer.status, answer.json()]).toMatchObject([503, { error: { code: 'overloaded' } }])
    expect(Number(answer.header('retry-after'))).toBeGreaterThanOrEqual(15)
  })

  test('without explain_header there is no header', async () => {
    await using on = await stage(scenarios, models, { auto: config.auto })
    expect((await on.ask('auto', { max_tokens: 10 })).header('x-gateway-route')).toBeUndefined()
  })
})

describe('a target with nothing left of its rate limit', () => {
  const headers = { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '30s' }
  const last = does.json(200, does.chatBody('a'), headers)
  const lastStream = does.stream(does.chatFrames(['a']), headers)

  test.each([
    ['whole', last, {}],
    ['streamed', lastStream, { stream: true }],
  ])('is passed over until its reset, before it refuses a request (%s)', async (_, scenario, body) => {
    await using on = await stage({ a: scenario, b: does.answersText('b') }, { m: ['up/a', 'up/b'] })
    expect(statusOf(await on.ask('m', body))).toEqual([200, '0'])
    expect(statusOf(await on.ask('m', body))).toEqual([200, '1'])
    expect(on.asked()).toEqual(['a', 'b'])
    expect(on.serving.service.rests()).toMatchObject([{ model: 'a', reason: 'rate_limited', asked: false }])
  })

  test('is called all the same if there is no other, or if the others have nothing left for longer', async () => {
    const longer = does.json(200, does.chatBody('b'), { ...headers, 'x-ratelimit-reset-requests': '50s' })
    await using on = await stage({ a: last, b: longer }, { m: ['up/a', 'up/b'], alone: ['up/a'] })
    for (let i = 0; i < 2; i++) expect(statusOf(await on.ask('alone'))).toEqual([200, '0'])
    expect(on.serving.service.rests()).toEqual([])
    for (let i = 0; i < 3; i++) expect((await on.ask('m')).status).toBe(200)
    expect(on.asked()).toEqual(['a', 'a', 'a', 'b', 'a'])
  })
})

describe('spread: weighted', () => {
  const spreadOver = (scenarios: Readonly<Record<string, Scenario>>) =>
    stage(scenarios, {
      m: { spread: 'weighted', targets: Object.keys(scenarios).map((model) => ({ provider: 'up', model })), price },
    })
  const talk = (text: string, more: readonly JsonObject[] = []) => ({
    messages: [{ role: 'user', content: text }, ...more],
  })
  const goesOn = [
    { role: 'assistant', content: 'yes' },
    { role: 'user', content: 'more' },
  ]

  test('spreads conversations over the targets, and keeps their turns together', async () => {
    await using on = await spreadOver({ a: does.answersText('a'), b: does.answersText('b') })
    const firsts: (string | undefined)[] = []
    for (let n = 0; n < 16; n++) {
      expect(statusOf(await on.ask('m', talk(`conversation ${n}`)))).toEqual([200, '0'])
      const [first] = on.asked()
      firsts.push(first)
      await on.ask('m', talk(`conversation ${n}`, goesOn))
      await on.ask('m', { ...talk(`conversation ${n}`, [...goesOn, ...goesOn]), stream: true })
      expect(on.asked()).toEqual([first ?? '', first ?? ''])
    }
    expect(new Set(firsts)).toEqual(new Set(['a', 'b']))
  })

  test('a long conversation, whose messages are not parsed, stays with its target', async () => {
    await using on = await spreadOver({ a: does.answersText('a'), b: does.answersText('b'), c: does.answersText('c') })
    const long = [{ role: 'assistant', content: 'x'.repeat(100_000) }, ...goesOn]
    for (let n = 0; n < 8; n++) {
      await on.ask('m', talk(`conversation ${n}`))
      await on.ask('m', talk(`conversation ${n}`, long))
      const [first, second] = on.asked()
      expect(second).toBe(first)
    }
  })

  test('a target that fails gives its conversations to the others and gets them back', async () => {
    await using on = await spreadOver({
      a: does.inTurn(rateLimited(50), does.answersText('a')),
      b: does.answersText('b'),
    })
    const mine = async (): Promise<string> => {
      for (let n = 0; ; n++) {
        const { messages } = talk(`conversation ${n}`)
        expect((await on.ask('m', { messages })).status).toBe(200)
        const asked = on.asked()
        if (asked[0] !== 'a') continue
        expect(asked).toEqual(['a', 'b'])
        return `conversation ${n}`
      }
    }
    const text = await mine()
    while (on.serving.service.rests().some(({ restMs }) => restMs > 0)) await new Promise(setImmediate)
    expect(statusOf(await on.ask('m', talk(text, goesOn)))).toEqual([200, '0'])
    expect(on.asked()).toEqual(['a'])
  })
})

describe('conversations', () => {
  const turn = (first: string, more = 0): JsonObject => ({
    messages: [
      { role: 'system', content: 'You are terse.' },
      { role: 'user', content: first },
      ...Array.from({ length: more }, (_, n) => ({ role: n % 2 === 0 ? 'assistant' : 'user', content: `turn ${n}` })),
    ],
  })
  const twoTargets = () =>
    stage(
      {
        a: does.inTurn(rateLimited(200), does.answersText('a')),
        b: does.inTurn(
          does.answersText('b'),
          does.answersText('b'),
          does.answersText('b'),
          busy,
          does.answersText('b'),
        ),
      },
      { m: ['up/a', 'up/b'] },
    )
  const awake = async (serving: Serving) => {
    while (serving.service.rests().some(({ restMs }) => restMs > 0)) await new Promise(setImmediate)
  }

  test('stay with the target that served them, others use the first; an unhealthy one loses its place', async () => {
    await using on = await twoTargets()
    expect(statusOf(await on.ask('m', turn('one')))).toEqual([200, '1'])
    await awake(on.serving)
    expect(statusOf(await on.ask('m', turn('two')))).toEqual([200, '0'])
    // The first target is available, and skipped all the same.
    expect(statusOf(await on.ask('m', turn('one', 2)))).toEqual([200, '1'])
    expect(statusOf(await on.ask('m', { ...turn('one', 4), stream: true }))).toEqual([200, '1'])
    expect(on.asked()).toEqual(['a', 'b', 'a', 'b', 'b'])
    // It fails once: the turn goes to the first target, and so do those that follow.
    expect(statusOf(await on.ask('m', turn('one', 6)))).toEqual([200, '1'])
    expect(statusOf(await on.ask('m', turn('one', 8)))).toEqual([200, '0'])
    expect(on.asked()).toEqual(['b', 'a', 'a'])
  })

  test('that start over with the same text start at the first target', async () => {
    await using on = await twoTargets()
    await on.ask('m', turn('one'))
    await awake(on.serving)
    expect(statusOf(await on.ask('m', turn('one')))).toEqual([200, '0'])
  })

  test('are distinguished by prompt_cache_key if there is one', async () => {
    await using on = await twoTargets()
    await on.ask('m', { ...turn('one'), prompt_cache_key: 'mine' })
    await awake(on.serving)
    await on.ask('m', { ...turn('something else'), prompt_cache_key: 'mine' })
    await on.ask('m', { ...turn('one'), prompt_cache_key: 'yours' })
    expect(on.asked()).toEqual(['a', 'b', 'b', 'a'])
  })

  test('are sent to other workers as a hash', async () => {
    await using on = await twoTargets()
    await on.ask('m', turn('a secret beginning'))
    const places = on.serving.peerUpdates.filter(({ about }) => about === 'place')
    expect(places).toMatchObject([{ place: { target: { provider: 'up', model: 'b' } } }])
    expect(JSON.stringify(places)).not.toContain('secret')
    await using other = new Serving({ providers: { up: on.upstream.url }, models: { m: ['up/a', 'up/b'] } })
    for (const news of places) other.service.apply(news)
    on.asked()
    expect(statusOf(await on.ask('m', turn('a secret beginning', 2), other))).toEqual([200, '1'])
    expect(on.asked()).toEqual(['b'])
  })
})
