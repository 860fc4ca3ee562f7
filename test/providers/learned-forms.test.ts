/**
 * What adapters learn of a target from a rejection: the request is written in another way, and all later ones are once
 * that is kept.
 */

import { describe, expect, test } from 'bun:test'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import * as Kind from '../../src/core/entry-kinds.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { acceptChat, UNPARSED } from '../../src/dialects/chat/request.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Learned, Provider } from '../../src/providers/provider.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { type Literal, type Message, requestIn } from '../support/literal.ts'
import { list, objectOf, sentText } from './conformance.ts'
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

interface Case {
  readonly at: Endpoint
  readonly model?: string
  readonly request?: ChatRequest
  readonly sentMs?: number
  readonly organization?: string
}

function learned(provider: Provider, error: ProviderError, { at, model = 'm', ...rest }: Case): Learned | undefined {
  const { request = plainRequest(), sentMs = performance.now(), organization = 'acme' } = rest
  return provider.learn?.({
    error,
    target: { endpoint: at, model },
    request,
    organization,
    sentMs,
  })
}

function learn(provider: Provider, error: ProviderError, of: Case): Learned {
  const found = learned(provider, error, of)
  if (found === undefined) throw new Error('nothing was learned')
  return found
}

/** A call with a signature, which gets an id of ours. */
/** A request whose calls have signatures of their own. */
function signed(request: ChatRequest): ChatRequest {
  const { conversation } = request
  const isCall = (entry: number) => conversation.kindAt(entry) === Kind.CALL_ID
  const known = (entry: number) => (isCall(entry) ? '"c2lnbmVk"' : undefined)
  return { ...request, thoughts: { form: 'gemini', before: () => [], with: known } }
}

describe.each([
  ['Gemini', gemini, endpoint(), 'gemini-flash-latest'],
  ['Vertex AI', vertexGemini, endpoint(), 'endpoints/7'],
] as const)('%s, of a model whose name does not show that it wants signatures', (_, provider, at, model) => {
  const requestOf = (ids: readonly string[]) =>
    plainRequest({ messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hi' }] }, ...turn(...ids)] })
  const signatures = (by: Provider, ids: readonly string[], request = requestOf(ids)) => {
    const { contents } = objectOf(by.request(request, { endpoint: at, model }).body)
    const parts = list(contents)
      .filter(isObject)
      .flatMap(({ parts }) => list(parts).filter(isObject))
    return parts.filter((part) => 'functionCall' in part).map((part) => part['thoughtSignature'])
  }

  test('the rejected request gets the replacement, and later ones once that is kept', () => {
    expect(signatures(provider, ['a', 'b'])).toEqual([undefined, undefined])
    const learned = learn(provider, MISSING, { at, model, request: requestOf(['a', 'b']) })
    expect(signatures(learned.provider, ['a', 'b'])).toEqual([DUMMY, undefined])
    expect(signatures(provider, ['a', 'b'])).toEqual([undefined, undefined])
    learned.keep()
    expect(signatures(provider, ['a', 'b'])).toEqual([DUMMY, undefined])
  })

  test('a signature that is rejected is replaced in that request alone', () => {
    const request = signed(requestOf(['a']))
    const learned = learn(provider, CORRUPTED, { at, model, request })
    expect(signatures(learned.provider, ['a'], request)).toEqual([DUMMY])
    learned.keep()
    expect(signatures(provider, ['a'], request)).toEqual(['c2lnbmVk'])
  })
})

test('Messages: turns with calls get empty thinking at a server that wants it, short and long', () => {
  const at = endpoint()
  const dialect = messages({ toolResultImages: 'refuse' })
  const requestOf = (length: number) => {
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
    return requestIn(dialect, body)
  }
  const sent = (by: Provider, length: number) => {
    const { messages: turns } = objectOf(by.request(requestOf(length), { endpoint: at, model: 'm' }).body)
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
  const learned = learn(anthropic, error, { at, request: requestOf(1) })
  for (const length of [1, 20_000]) {
    expect(sent(anthropic, length)).toEqual(without)
    expect(sent(learned.provider, length)).toEqual(thoughtful)
  }
  learned.keep()
  for (const length of [1, 20_000]) expect(sent(anthropic, length)).toEqual(thoughtful)
  const rejection = {
    error,
    target: { endpoint: at, model: 'm' },
    request: requestOf(1),
    organization: 'acme',
    sentMs: 0,
  }
  expect(vertexClaude.learn?.(rejection)).toBeUndefined()
})

describe('Chat Completions', () => {
  const history: Message[] = [{ role: 'user', parts: [{ type: 'text', text: 'Hi' }] }, ...turn('a', 'b'), ...turn('c')]
  const request = plainRequest({ messages: history })
  const calls = (by: Provider, at: Endpoint) => {
    const sent = objectOf(by.request(request, { endpoint: at, model: 'm' }).body)
    const answers = list(sent['messages']).filter(isObject)
    return answers.flatMap(({ tool_calls: made }) => list(made).filter(isObject).map(extra))
  }
  const extra = ({ extra_content: content }: JsonObject) => content

  test('the first call of each answer gets a signature at an endpoint of Gemini that misses it', () => {
    const at = endpoint()
    const signed = { google: { thought_signature: DUMMY } }
    const learned = learn(openai, MISSING, { at, request })
    expect(calls(learned.provider, at)).toEqual([signed, undefined, signed])
    expect(calls(openai, at)).toEqual([undefined, undefined, undefined])
    learned.keep()
    expect(calls(openai, at)).toEqual([signed, undefined, signed])
  })

  test('two lessons add up, whichever was learned first', () => {
    const at = endpoint()
    const limit = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    const request = plainRequest({ stream: true, maxOutputTokens: 9 })
    const of = { at, request }
    const lessons = [learn(openai, rejected(limit), of), learn(openai, rejected('stream_options?'), of)]
    for (const { keep } of lessons) keep()
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
    expect(learned(openai, error, { at, request })).toBeUndefined()
  })
})

const STREAM = plainRequest({ stream: true, maxOutputTokens: 9 })
const OPTIONS = 'Unrecognized request argument supplied: stream_options'

test('a server that rejects one thing after the other gets a request with both changes, and keeps both', () => {
  const at = endpoint()
  const limit = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
  const first = learn(openai, rejected(limit), { at, request: STREAM })
  const second = learn(first.provider, rejected(OPTIONS), { at, request: STREAM })
  const target = { endpoint: at, model: 'm' }
  const sent = (by: Provider) => objectOf(by.request(STREAM, target).body)
  const both = { model: 'm', messages: expect.anything(), max_completion_tokens: 9, stream: true }
  expect(sent(second.provider)).toEqual(both)
  expect([second.first, second.field]).toEqual([first, 'stream_options'])
  expect(learned(first.provider, rejected(limit), { at, request: STREAM })).toBeUndefined()
  expect([first.keep(), second.keep()]).toEqual(['for ten minutes', 'for ten minutes'])
  expect(sent(openai)).toEqual(both)
})

describe('an error that rejects a field', () => {
  const LIMIT = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
  const history = [...turn('a'), { role: 'user', parts: [{ type: 'text', text: 'Hi' }] } as const]
  test.each([
    ['stream_options', OPTIONS],
    ['stream_options', "Unknown parameter: 'stream_options'."],
    ['stream_options', "Unknown parameter: 'stream_options.include_usage'."],
    ['stream_options', "Additional properties are not allowed ('stream_options' was unexpected)"],
    ['stream_options', 'json: unknown field "stream_options"'],
    ['stream_options', "property 'stream_options' is unsupported"],
    ['stream_options', 'Invalid JSON payload received. Unknown name "stream_options": Cannot find field.'],
    ['stream_options', 'stream_options: Extra inputs are not permitted'],
    ['stream_options', '1 validation error for ChatCompletionRequest\nstream_options\n  Extra inputs'],
    ['stream_options', "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs'}]"],
    ['stream_options', 'The parameter `stream_options` is not supported by this model.'],
    ['max_completion_tokens', `Unsupported parameter: ${LIMIT}`],
    ['max_completion_tokens', LIMIT],
    ['reasoning_content', 'The `reasoning_content` in the thinking mode must be passed back to the API.'],
    ['reasoning_content', 'Missing `reasoning_content` field in the assistant message at message index 2.'],
    ['reasoning_content', 'thinking is enabled but reasoning_content is missing in assistant tool call message'],
    ['reasoning_content', 'Param Incorrect: The reasoning_content in the thinking mode must be passed back.'],
    ['thought_signature', 'Function call is missing a thought_signature in functionCall parts.'],
    [
      'thought_signature',
      'Unable to submit request because function call `default_api:f` in the 2. content block is missing a ' +
        '`thought_signature`.',
    ],
    ['thought_signature', 'Thought signature is not valid'],
  ])('%s: %s', (field, message) => {
    const request = plainRequest({ stream: true, maxOutputTokens: 9, messages: history })
    expect(learned(openai, rejected(message), { at: endpoint(), request })?.field).toBe(field)
  })

  test('by its `param` alone', () => {
    const error = new ProviderError('rejected', 'Not known here.', { status: 400, param: 'stream_options' })
    expect(learned(openai, error, { at: endpoint(), request: STREAM })?.field).toBe('stream_options')
  })

  test.each([
    "Invalid value: 'stream_options.evil.com'.",
    'Failed to download the image from https://evil.test/stream_options',
    'Failed to parse the image: stream_options is not supported',
    'Invalid messages[0].content: stream_options-x',
    'The content was flagged: Unknown parameter: stream_options',
    'Timeout while reading: reasoning_content',
    "Error: the user wrote 'max_tokens' is not supported, use 'max_completion_tokens'",
  ])('is not one that quotes what somebody wrote: %s', (message) => {
    const request = plainRequest({ stream: true, maxOutputTokens: 9, messages: history })
    expect(learned(openai, rejected(message), { at: endpoint(), request })).toBeUndefined()
  })
})

describe('nothing is kept of a rejection whose words the caller wrote', () => {
  const text = (words: string): Message => ({ role: 'user', parts: [{ type: 'text', text: words }] })
  const escaped = (words: string, slashes: string) =>
    [...words].map((letter) => `${slashes}u00${letter.charCodeAt(0).toString(16)}`).join('')
  const withWords: readonly [string, (words: string) => Partial<Literal>][] = [
    ['a text', (words) => ({ messages: [text(`What is ${words}?`), ...turn('a'), text('Hi')] })],
    ['a text in capitals', (words) => ({ messages: [text(words.toUpperCase()), ...turn('a'), text('Hi')] })],
    [
      'a name',
      (words) => ({ tools: [{ name: words, parameters: { type: 'object' } }], messages: [...turn('a'), text('Hi')] }),
    ],
    [
      'a schema',
      (words) => ({
        tools: [{ name: 'f', parameters: { type: 'object', properties: { [words]: {} } } }],
        messages: [...turn('a'), text('Hi')],
      }),
    ],
    ['the user', (words) => ({ hints: { user: words }, messages: [...turn('a'), text('Hi')] })],
    [
      'escaped arguments',
      (words) => ({
        messages: [
          {
            role: 'assistant',
            parts: [],
            toolCalls: [{ callId: 'a', name: 'f', json: `{"${escaped(words, '\\')}":1}` }],
          },
          { role: 'tool', callId: 'a', parts: [{ type: 'text', text: 'done' }] },
          text('Hi'),
        ],
      }),
    ],
    ['a text of escapes', (words) => ({ messages: [text(escaped(words, '\\\\')), ...turn('a'), text('Hi')] })],
  ]
  const rejections = [
    [`Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'.`, 'max_completion_tokens'],
    ['The `reasoning_content` must be passed back.', 'reasoning_content'],
    ['Function call is missing a thought_signature.', 'thought_signature'],
  ] as const
  for (const [where, wordsIn] of withWords) {
    test.each(rejections)(`in ${where}: %s`, (message, words) => {
      const at = endpoint()
      const request = plainRequest({ stream: true, maxOutputTokens: 9, ...wordsIn(words) })
      const { keep, provider } = learn(openai, rejected(message), { at, request })
      const target = { endpoint: at, model: 'm' }
      const sent = (by: Provider) => sentText(by.request(request, target).body)
      const before = sent(openai)
      // Only this request is written in another way.
      expect(sent(provider)).not.toBe(before)
      expect(keep()).toBeUndefined()
      expect(sent(openai)).toBe(before)
    })

    test(`in ${where}: the usage is not given up even for its request`, () => {
      const request = plainRequest({ stream: true, ...wordsIn('stream_options') })
      expect(learned(openai, rejected(OPTIONS), { at: endpoint(), request })).toBeUndefined()
    })
  }

  test('a request that was not parsed', () => {
    const body = (content: string) =>
      `{"model":"m","stream":true,"messages":[{"role":"user","content":"${content}${'x'.repeat(20_000)}"}]}`
    const requestOf = (content: string) => {
      return acceptChat(readRequestBody(Buffer.from(body(content)), UNPARSED), { imageUrls: 'public' }).request
    }
    const at = endpoint()
    expect(learned(openai, rejected(OPTIONS), { at, request: requestOf('') })?.field).toBe('stream_options')
    for (const words of ['stream_options', escaped('stream_options', '\\'), escaped('stream_options', '\\\\')])
      expect(learned(openai, rejected(OPTIONS), { at, request: requestOf(words) })).toBeUndefined()
  })
})

test('a request that would be the same to the byte is not sent again', () => {
  const at = endpoint()
  for (const message of [
    OPTIONS,
    "'max_tokens' is not supported. Use 'max_completion_tokens'.",
    '`reasoning_content`?',
  ])
    expect(learned(openai, rejected(message), { at, request: plainRequest() })).toBeUndefined()
  expect(learned(gemini, MISSING, { at, request: plainRequest() })).toBeUndefined()
})

test('a usage that a target has reported is never given up', () => {
  const at = endpoint()
  openai.reportedUsage?.({ endpoint: at, model: 'm' })
  expect(learned(openai, rejected(OPTIONS), { at, request: STREAM })).toBeUndefined()
  expect(learned(openai, rejected(OPTIONS), { at, model: 'other', request: STREAM })?.field).toBe('stream_options')
})

test('what was rejected in its new form is not learned again', () => {
  const of = { at: endpoint(), request: STREAM }
  learn(openai, rejected(OPTIONS), of).keep()
  expect(learned(openai, rejected(OPTIONS), of)).toBeUndefined()
  // A request that was on its way before.
  expect(learned(openai, rejected(OPTIONS), { ...of, sentMs: 0 })?.field).toBe('stream_options')
})
