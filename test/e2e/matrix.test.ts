/** Every dialect of callers with every provider, streamed and not: the answer is the same. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { PROVIDER_DIALECTS } from '../../src/config/provider-dialects.ts'
import type { JsonObject } from '../../src/core/json.ts'
import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { meaningOf } from '../laws/reading.ts'
import { Gateway, KEY, providerEntry } from '../support/gateway.ts'
import { calls, speaks, textAnswer } from '../support/speech.ts'
import { SPEECH_USAGE, type Speech } from '../support/speech-writer.ts'
import { type Call, Upstream } from '../support/upstream.ts'

/** The provider dialects that the third-party simulator speaks. */
const SIMULATED: readonly ProviderDialect[] = ['openai', 'azure', 'anthropic', 'gemini', 'bedrock']
const DIALECTS: readonly DialectName[] = ['chat', 'responses', 'messages']
/** Public names of models: one for each provider dialect, and those with another API of the same provider. */
const MODELS = [...PROVIDER_DIALECTS, 'vertex-claude', 'openai-responses', 'azure-responses'] as const

const HELLO = 'Hello: 日本語, 👩‍👩‍👧‍👦 "quotes"\n\ttabs \u2028 and \\u0041.'
const OSLO = { id: 'call_oslo', name: 'get_weather', json: '{"city":"Oslo","note":"é\\n👩"}' }
const ROME = { id: 'call_rome', name: 'get_weather', json: '{"city":"Rome","deep":[{"n":1.5},null,true]}' }
const NOW = { id: 'call_now', name: 'time-now', json: '{}' }

const SCENES: Readonly<Record<string, Speech>> = {
  text: textAnswer(HELLO),
  'one tool': calls('', OSLO),
  'parallel tools': calls('', OSLO, NOW, ROME),
  'text and tools': calls('One moment. ', OSLO, ROME),
  empty: textAnswer(''),
  length: textAnswer('This goes on and', 'length'),
  filter: textAnswer('I think', 'filter'),
}

/** Each dialect's finish reason. Responses reports `completed`, and Messages has no reason for a filter. */
const FINISH: Readonly<Record<DialectName, Readonly<Record<Speech['finish'], string>>>> = {
  chat: { stop: 'stop', length: 'length', filter: 'content_filter', calls: 'tool_calls' },
  responses: { stop: 'completed', length: 'completed', filter: 'completed', calls: 'completed' },
  messages: { stop: 'end_turn', length: 'max_tokens', filter: 'stop_sequence', calls: 'tool_use' },
}

const PATHS = { chat: '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages' } as const
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const SEEN = 'A red dot.'
const NOT_SEEN = 'There is no picture.'

/** The scene named in the request, which has no other text; with an image, whether it arrived. */
function choose(call: Call): Speech {
  const body = JSON.stringify(call.json)
  if (body.includes('what is in this picture')) return textAnswer(body.includes(PNG) ? SEEN : NOT_SEEN)
  const name = Object.keys(SCENES).findLast((scene) => body.includes(`play ${scene}"`))
  return name === undefined ? textAnswer('no scene') : (SCENES[name] ?? textAnswer('no scene'))
}

const ABLE = { price: { input: 1, output: 10 }, supports: ['tools', 'images'] }

const upstreams = new Map<ProviderDialect, Upstream>()
let mock: LLMock
let gateway: Gateway

/** Entries of the configuration, whose names end with the suffix. */
function providersAt(
  dialects: readonly ProviderDialect[],
  url: (provider: ProviderDialect) => string,
  suffix: string,
): Record<string, JsonObject> {
  const entry = (dialect: ProviderDialect) => providerEntry(dialect, url(dialect))
  return Object.fromEntries(dialects.map((dialect) => [`${dialect}${suffix}`, entry(dialect)]))
}

function startMock(): LLMock {
  const simulator = new LLMock({ host: '127.0.0.1', port: 0, chunkSize: 5 })
  const made = (...some: (typeof OSLO)[]) => some.map(({ id, name, json }) => ({ id, name, arguments: json }))
  simulator.on({ userMessage: 'play text and tools' }, { content: 'One moment. ', toolCalls: made(OSLO, ROME) })
  simulator.on({ userMessage: 'play parallel tools' }, { toolCalls: made(OSLO, NOW, ROME) })
  simulator.on({ userMessage: 'play one tool' }, { toolCalls: made(OSLO) })
  simulator.on({ userMessage: 'play text' }, { content: HELLO })
  simulator.on({ userMessage: 'play empty' }, { content: '' })
  simulator.on({ userMessage: 'play length' }, { content: 'This goes on and', finishReason: 'length' })
  return simulator
}

beforeAll(async () => {
  mock = startMock()
  await mock.start()
  for (const provider of PROVIDER_DIALECTS) {
    const upstream = await Upstream.start()
    upstreams.set(provider, upstream.otherwise(speaks(provider, choose)))
  }
  const path = (provider: ProviderDialect) => (provider === 'openai' ? '/v1' : '')
  const models = [...PROVIDER_DIALECTS, ...SIMULATED.map((name) => `${name}-mock`)]
  gateway = await Gateway.start({
    validated: true,
    providers: {
      ...providersAt(PROVIDER_DIALECTS, (name) => `http://127.0.0.1:${upstreams.get(name)?.port}${path(name)}`, ''),
      ...providersAt(SIMULATED, (name) => `${mock.url}${path(name)}`, '-mock'),
    },
    models: {
      ...Object.fromEntries(models.map((name) => [name, [`${name}/up`]])),
      'vertex-claude': ['vertex/claude-up'],
      'openai-responses': { targets: [{ provider: 'openai', model: 'up', api: 'responses' }], ...ABLE },
      'azure-responses': { targets: [{ provider: 'azure', model: 'up', api: 'responses' }], ...ABLE },
    },
  })
})

afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  for (const upstream of upstreams.values()) await upstream[Symbol.asyncDispose]()
  await mock.stop()
})

const parameters = { type: 'object', properties: { city: { type: 'string' } } }
const TOOLS = ['get_weather', 'time-now']

/** The same question in each dialect: text, an image if the scene has one, two tools. */
function bodyOf(dialect: DialectName, model: string, stream: boolean, words: string, picture: boolean): JsonObject {
  const url = `data:image/png;base64,${PNG}`
  switch (dialect) {
    case 'chat': {
      const content = [{ type: 'text', text: words }, ...(picture ? [{ type: 'image_url', image_url: { url } }] : [])]
      const tools = TOOLS.map((name) => ({ type: 'function', function: { name, parameters } }))
      return {
        model,
        stream,
        messages: [{ role: 'user', content }],
        tools,
        ...(stream && { stream_options: { include_usage: true } }),
      }
    }
    case 'responses': {
      const image = { type: 'input_image', image_url: url, detail: 'auto' }
      const content = [{ type: 'input_text', text: words }, ...(picture ? [image] : [])]
      const tools = TOOLS.map((name) => ({ type: 'function', name, parameters }))
      return { model, stream, input: [{ role: 'user', content }], tools }
    }
    case 'messages': {
      const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } }
      const content = [...(picture ? [image] : []), { type: 'text', text: words }]
      const tools = TOOLS.map((name) => ({ name, input_schema: parameters }))
      return { model, stream, max_tokens: 300, messages: [{ role: 'user', content }], tools }
    }
  }
}

async function ask(dialect: DialectName, model: string, stream: boolean, words: string, picture = false) {
  const body = JSON.stringify(bodyOf(dialect, model, stream, words, picture))
  const headers = { authorization: `Bearer ${KEY}` }
  const response = await fetch(`${gateway.url}${PATHS[dialect]}`, { method: 'POST', headers, body })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return meaningOf(dialect, stream, text)
}

const expected = (dialect: DialectName, { text, calls: made, finish }: Speech) => ({
  text,
  calls: made.map(({ id, name, json }) => ({ id, name, input: JSON.parse(json) })),
  finish: FINISH[dialect][finish],
})

describe.each(DIALECTS)('%s', (dialect) => {
  describe.each(MODELS)('with %s', (provider) => {
    for (const [scene, speech] of Object.entries(SCENES)) {
      test.each([false, true])(`${scene}, streamed: %p`, async (stream) => {
        const answer = await ask(dialect, provider, stream, `play ${scene}`)
        expect(answer).toEqual({ ...expected(dialect, speech), ...SPEECH_USAGE })
      })

      // The simulator does not know the providers' own reasons for a filter.
      if (scene === 'filter' || !SIMULATED.some((name) => name === provider)) continue
      test.each([false, true])(`${scene} of the simulator, streamed: %p`, async (stream) => {
        const { text, calls: made, finish } = await ask(dialect, `${provider}-mock`, stream, `play ${scene}`)
        const wanted = expected(dialect, speech)
        expect({ text, finish }).toEqual({ text: wanted.text, finish: wanted.finish })
        // It makes up ids for some providers.
        expect(made.map(({ name, input }) => ({ name, input }))).toEqual(
          wanted.calls.map(({ name, input }) => ({ name, input })),
        )
      })
    }

    test.each([false, true])('an image, streamed: %p', async (stream) => {
      const answer = await ask(dialect, provider, stream, 'what is in this picture', true)
      // Images in Responses input are ignored.
      expect(answer.text).toBe(dialect === 'responses' ? NOT_SEEN : SEEN)
    })
  })
})
