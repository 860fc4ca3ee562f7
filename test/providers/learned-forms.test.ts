/**
 * What adapters learn of a target from a rejection: the request is written in another way, and all later ones are once
 * that is kept.
 */

import { describe, expect, test } from 'bun:test'
import type { Message } from '../../src/core/chat-request.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Learned, Provider } from '../../src/providers/provider.ts'
import { parseBody } from '../../src/wire/body.ts'
import { readLargeBody } from '../../src/wire/long-text-body.ts'
import { list, objectOf } from './conformance.ts'
import { endpoint, plainRequest } from './requests.ts'

const DUMMY = 'skip_thought_signature_validator'
const call = (callId: string) => ({ callId, name: 'f', json: '{}' })
const turn = (...ids: readonly string[]): Message[] => [
  { role: 'assistant', parts: [], toolCalls: ids.map(call) },
  ...ids.map((callId): Message => ({ role: 'tool', callId, parts: [{ type: 'text', text: 'done' }] })),
]
const rejected = (message: string) => new ProviderError('rejected', message, { status: 400 })
const MISSING = rejected('Function call is missing a thought_signature in functionCall parts.')
const CORRUPTED = rejected('Corrupted thought signature.')

function learn(provider: Provider, error: ProviderError, at: Endpoint, model: string): Learned {
  const learned = provider.learn?.(error, { endpoint: at, model })
  if (learned === undefined) throw new Error('nothing was learned')
  return learned
}

/** A call with a signature, which gets an id of ours. */
function signedCall(provider: Provider): string {
  const part = { functionCall: { name: 'f', args: {} }, thoughtSignature: 'c2lnbmVk' }
  const events = provider.events({ candidates: [{ content: { parts: [part] }, finishReason: 'STOP' }] })
  return events.flatMap((event) => (event.type === 'tool-start' ? [event.callId] : []))[0] ?? ''
}

describe.each([
  ['Gemini', gemini, endpoint(), 'gemini-flash-latest'],
  ['Vertex AI', vertexGemini, endpoint(), 'endpoints/7'],
] as const)('%s, of a model whose name does not show that it wants signatures', (_, provider, at, model) => {
  const signatures = (by: Provider, ids: readonly string[]) => {
    const history: Message[] = [{ role: 'user', parts: [{ type: 'text', text: 'Hi' }] }, ...turn(...ids)]
    const { contents } = objectOf(by.request(plainRequest({ messages: history }), { endpoint: at, model }).body)
    const parts = list(contents)
      .filter(isObject)
      .flatMap(({ parts }) => list(parts).filter(isObject))
    return parts.filter((part) => 'functionCall' in part).map((part) => part['thoughtSignature'])
  }

  test('the rejected request gets the replacement, and later ones once that is kept', () => {
    expect(signatures(provider, ['a', 'b'])).toEqual([undefined, undefined])
    const learned = learn(provider, MISSING, at, model)
    expect(signatures(learned.provider, ['a', 'b'])).toEqual([DUMMY, undefined])
    expect(signatures(provider, ['a', 'b'])).toEqual([undefined, undefined])
    learned.keep()
    expect(signatures(provider, ['a', 'b'])).toEqual([DUMMY, undefined])
  })

  test('a signature that is rejected is replaced in that request alone', () => {
    const signed = signedCall(provider)
    const learned = learn(provider, CORRUPTED, at, model)
    expect(signatures(learned.provider, [signed])).toEqual([DUMMY])
    learned.keep()
    expect(signatures(provider, [signed])).toEqual(['c2lnbmVk'])
  })
})

test('Messages: turns with calls get empty thinking at a server that wants it, short and long', () => {
  const at = endpoint()
  const dialect = messages({ toolResultImages: 'refuse' })
  const sent = (by: Provider, length: number) => {
    const use = { type: 'tool_use', id: 'a', name: 'f', input: {} }
    const body = {
      model: 'm',
      messages: [
        { role: 'user', content: 'x'.repeat(length) },
        { role: 'assistant', content: [{ type: 'text', text: 'Wait.' }, use] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'done' }] },
        { role: 'assistant', content: 'Done.' },
        { role: 'user', content: 'Thanks.' },
      ],
      tools: [{ name: 'f', input_schema: { type: 'object' } }],
    }
    const bytes = Buffer.from(JSON.stringify(body))
    const { json, longTexts } = readLargeBody(bytes, dialect.largeBody) ?? { json: parseBody(bytes) }
    const exchange = dialect.accept(json, { organization: 'acme' }, longTexts)
    if (exchange instanceof Promise) throw new Error('nothing has to be looked up')
    const { messages: turns } = objectOf(by.request(exchange.request, { endpoint: at, model: 'm' }).body)
    return list(turns)
      .filter(isObject)
      .map(({ content }) =>
        list(content)
          .filter(isObject)
          .map(({ type }) => type),
      )
  }
  const without = [['text'], ['text', 'tool_use'], ['tool_result'], ['text'], ['text']]
  const thoughtful = [['text'], ['thinking', 'text', 'tool_use'], ['tool_result'], ['text'], ['text']]
  const error = rejected('The `content[].thinking` in the thinking mode must be passed back to the API.')
  const learned = learn(anthropic, error, at, 'm')
  for (const length of [1, 20_000]) {
    expect(sent(anthropic, length)).toEqual(without)
    expect(sent(learned.provider, length)).toEqual(thoughtful)
  }
  learned.keep()
  for (const length of [1, 20_000]) expect(sent(anthropic, length)).toEqual(thoughtful)
  expect(vertexClaude.learn).toBeUndefined()
})

describe('Chat Completions', () => {
  const history: Message[] = [{ role: 'user', parts: [{ type: 'text', text: 'Hi' }] }, ...turn('a', 'b'), ...turn('c')]
  const calls = (by: Provider, at: Endpoint) => {
    const sent = objectOf(by.request(plainRequest({ messages: history }), { endpoint: at, model: 'm' }).body)
    const answers = list(sent['messages']).filter(isObject)
    return answers.flatMap(({ tool_calls: made }) => list(made).filter(isObject).map(extra))
  }
  const extra = ({ extra_content: content }: JsonObject) => content

  test('the first call of each answer gets a signature at an endpoint of Gemini that misses it', () => {
    const at = endpoint()
    const signed = { google: { thought_signature: DUMMY } }
    const learned = learn(openai, MISSING, at, 'm')
    expect(calls(learned.provider, at)).toEqual([signed, undefined, signed])
    expect(calls(openai, at)).toEqual([undefined, undefined, undefined])
    learned.keep()
    expect(calls(openai, at)).toEqual([signed, undefined, signed])
  })

  test('two lessons add up, whichever was learned first', () => {
    const at = endpoint()
    const limit = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    const lessons = [learn(openai, rejected(limit), at, 'm'), learn(openai, rejected('stream_options?'), at, 'm')]
    for (const { keep } of lessons) keep()
    const request = plainRequest({ stream: true, maxOutputTokens: 9 })
    const sent = objectOf(openai.request(request, { endpoint: at, model: 'm' }).body)
    expect(sent).toMatchObject({ max_completion_tokens: 9, stream: true })
    expect(Object.keys(sent)).not.toContain('stream_options')
  })

  test.each([
    ['another message', rejected('Too many tools.')],
    ['an error of another kind', new ProviderError('failed', 'stream_options')],
    ['a server that is written to in its own way', rejected('reasoning_content is missing')],
  ])('%s teaches nothing', (_, error) => {
    const at = endpoint({ baseUrl: 'https://api.mistral.ai/v1' })
    expect(openai.learn?.(error, { endpoint: at, model: 'm' })).toBeUndefined()
  })
})
