/**
 * A caller that leaves shortly before the usage comes: the provider's answer is read on for a moment, and what the
 * provider reports is charged, in every dialect and with every provider.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { RunningRequest } from '../../src/gateway/in-flight.ts'
import { DIALECTS } from '../providers/dialects.ts'
import { Caller, requestBytes } from '../support/caller.ts'
import { KEY, providerEntry } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { textAnswer } from '../support/speech.ts'
import { SPEECH_USAGE } from '../support/speech-writer.ts'
import { type Scenario, Upstream } from '../support/upstream.ts'

const HELLO = 'Hello there, this is an answer of some words that came before the caller left.'
const PROVIDERS = ['openai', 'azure', 'anthropic', 'bedrock'] as const
const messages = [{ role: 'user', content: 'hi' }]
const CALLERS: Readonly<Record<string, readonly [path: string, body: JsonObject]>> = {
  chat: ['/v1/chat/completions', { messages }],
  responses: ['/v1/responses', { input: 'hi' }],
  messages: ['/v1/messages', { messages, max_tokens: 4000 }],
}

/** Resolves once a caller of this process has been found to have left. */
let noticed = Promise.withResolvers<void>()
const interrupt = RunningRequest.prototype.interrupt
RunningRequest.prototype.interrupt = function (why) {
  interrupt.call(this, why)
  if (why === 'caller_left') noticed.resolve()
}

let upstream: Upstream
let weir: Serving

/** Before the part of an answer that a caller does not wait for. */
function left(): Promise<void> {
  noticed = Promise.withResolvers()
  return noticed.promise
}

/** All but the last `kept` pieces, and these once the caller has left. */
function lateBy(pieces: readonly (string | Uint8Array)[], kept: number, then: Scenario = () => {}): Scenario {
  return does.waits(pieces.slice(0, pieces.length - kept), left(), async (call) => {
    for (const piece of pieces.slice(pieces.length - kept)) await call.chunk(piece)
    await then(call)
  })
}

beforeAll(async () => {
  upstream = await Upstream.start()
  const entry = (dialect: (typeof PROVIDERS)[number]) =>
    providerEntry(dialect, `http://127.0.0.1:${upstream.port}${dialect === 'openai' ? '/v1' : ''}`)
  const image = {
    targets: [{ provider: 'openai', model: 'i' }],
    price: { image: 0.04 },
    supports: ['image_generation'],
  }
  const embedding = { targets: [{ provider: 'openai', model: 'e' }], price: { input: 1 }, supports: ['embeddings'] }
  weir = new Serving({
    providers: Object.fromEntries(PROVIDERS.map((dialect) => [dialect, entry(dialect)])),
    models: { ...Object.fromEntries(PROVIDERS.map((name) => [name, [`${name}/${name}`]])), i: image, e: embedding },
  })
})

afterAll(async () => {
  RunningRequest.prototype.interrupt = interrupt
  await weir[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

/** The log line of a caller that leaves once `seen` has resolved. */
async function leaves(
  path: string,
  body: JsonObject,
  does: Scenario,
  seen: (caller: Caller) => Promise<unknown>,
): Promise<JsonObject> {
  upstream.otherwise(does)
  const before = weir.lines.length
  await using caller = await Caller.connect(weir.port)
  caller.send(requestBytes(path, { key: KEY, body }))
  await seen(caller)
  caller.close()
  await weir.idle()
  const lines = weir.lines.slice(before).filter(({ msg }) => msg === 'request')
  expect(lines.length).toBe(1)
  expect(weir.ledger.wrong).toEqual([])
  return lines[0] ?? {}
}

/** Resolves once the provider has the request. */
function asked(): () => Promise<unknown> {
  const before = upstream.calls.length
  return () => upstream.call(undefined, before)
}

const reported = {
  outcome: 'caller_left',
  usage: 'provider',
  input_tokens: SPEECH_USAGE.input,
  output_tokens: SPEECH_USAGE.output,
}

describe.each(Object.entries(CALLERS))('a caller of %s', (_, [path, body]) => {
  describe.each(PROVIDERS)('of %s', (provider) => {
    const { writer } = DIALECTS[provider]
    const frames = writer.streamed(textAnswer(HELLO))
    const fields = { 'content-type': writer.streamType }
    const streamed = { ...body, model: provider, stream: true }

    /** The head of the stream has another type than that of `waits`. */
    const typed =
      (scenario: Scenario): Scenario =>
      (call) => {
        const { head200 } = call
        call.head200 = (more) => head200.call(call, { ...fields, ...more })
        return scenario(call)
      }

    test('that leaves a stream pays what the provider reports then', async () => {
      const line = await leaves(path, streamed, typed(lateBy(frames, 3, (call) => call.end())), (caller) =>
        caller.until('Hello'),
      )
      expect(line).toMatchObject({ ...reported, status: 200, streamed: true })
    })

    test('also if it leaves before the stream begins', async () => {
      const line = await leaves(path, streamed, typed(lateBy(frames, frames.length, (call) => call.end())), asked())
      expect(line).toMatchObject({ ...reported, status: 499 })
    })

    test('also if the whole answer comes then', async () => {
      const answer = JSON.stringify(writer.whole(textAnswer(HELLO)))
      const late: Scenario = async (call) => {
        await left()
        await call.answer(200, answer)
      }
      expect(await leaves(path, { ...body, model: provider }, late, asked())).toMatchObject({
        ...reported,
        status: 499,
      })
      // A provider may answer whole although a stream was asked for.
      if (provider !== 'bedrock')
        expect(await leaves(path, streamed, late, asked())).toMatchObject({ ...reported, status: 499 })
    })
  })
})

const OPENAI = { ...CALLERS['chat']?.[1], model: 'openai' }
const [CHAT] = CALLERS['chat'] ?? ['']
const STREAM = { ...OPENAI, stream: true }
const frames = DIALECTS.openai.writer.streamed(textAnswer(HELLO))
const until = (caller: Caller) => caller.until('Hello')

test('the connection serves the next request', async () => {
  await leaves(
    CHAT,
    STREAM,
    lateBy(frames, 3, (call) => call.end()),
    until,
  )
  const { connections } = upstream
  await leaves(
    CHAT,
    STREAM,
    lateBy(frames, 3, (call) => call.end()),
    until,
  )
  expect(upstream.connections).toBe(connections)
})

test('the usage counts without the end of the stream', async () => {
  // Neither the final marker nor the end of the bytes comes: the call is ended.
  const before = upstream.calls.length
  const line = await leaves(CHAT, STREAM, lateBy(frames.slice(0, -1), 1), until)
  expect(line).toMatchObject(reported)
  await (await upstream.call(undefined, before)).aborted
})

test.each(PROVIDERS)('nor without it of a stream that %s sends for a whole answer', async (provider) => {
  const { writer } = DIALECTS[provider]
  const pieces = writer.streamed(textAnswer(HELLO))
  const scenario: Scenario = async (call) => {
    await call.head200({ 'content-type': writer.streamType })
    for (const piece of pieces.slice(0, -1)) await call.chunk(piece)
    await left()
    for (const piece of pieces.slice(-1)) await call.chunk(piece)
  }
  const line = await leaves(CHAT, { ...OPENAI, model: provider }, scenario, asked())
  expect(line).toMatchObject(reported)
})

test('images and embeddings are charged as reported', async () => {
  const usage = { prompt_tokens: 21, total_tokens: 21 }
  const late =
    (body: JsonObject): Scenario =>
    async (call) => {
      await left()
      await call.answer(200, JSON.stringify(body))
    }
  const image = { model: 'i', prompt: 'A weir', n: 4, size: '1024x1024' }
  const made = { created: 1, data: [{ b64_json: 'AAAA' }, { b64_json: 'AAAA' }] }
  expect(await leaves('/v1/images/generations', image, late(made), asked())).toMatchObject({
    outcome: 'caller_left',
    cost_micro_usd: 80_000,
  })
  const vectors = { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.5] }], model: 'e', usage }
  const embed = { model: 'e', input: 'one two three' }
  expect(await leaves('/v1/embeddings', embed, late(vectors), asked())).toMatchObject({
    outcome: 'caller_left',
    usage: 'provider',
    input_tokens: 21,
  })
})

test('the end of the process ends it at once', async () => {
  upstream.otherwise(lateBy(frames, 3))
  const at = upstream.calls.length
  await using caller = await Caller.connect(weir.port)
  caller.send(requestBytes(CHAT, { key: KEY, body: STREAM }))
  await caller.until('Hello')
  const leaving = left()
  caller.close()
  await leaving
  expect(weir.service.state.inFlight.size).toBe(1)
  weir.service.state.inFlight.cut('drained')
  await weir.service.state.inFlight.idle()
  expect(weir.lines.at(-1)).toMatchObject({ outcome: 'caller_left', usage: 'estimated' })
  await (await upstream.call(undefined, at)).aborted
})
