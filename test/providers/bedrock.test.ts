/** Bedrock's own rules: its signature, its binary framing, its blocks and its exceptions. */

import { describe, expect, test } from 'bun:test'
import { createHash, createHmac } from 'node:crypto'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { ProviderError, type ProviderErrorKind } from '../../src/core/provider-error.ts'
import type { AwsKeys } from '../../src/providers/aws-credentials.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import type { Target, UpstreamRequest } from '../../src/providers/provider.ts'
import { FRAME_CHARS_MAX } from '../../src/wire/frames.ts'
import { chatRequest, type Literal, type Message } from '../support/literal.ts'
import { objectOf, sentText } from './conformance.ts'
import { streamed } from './outcome.ts'
import { endpoint, plainLiteral, plainRequest } from './requests.ts'
import { bedrockRules } from './rules.ts'

const MODEL = 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0'
const TARGET: Target = {
  endpoint: endpoint({ baseUrl: 'https://bedrock-runtime.eu-west-1.amazonaws.com' }),
  model: MODEL,
}

async function bodyOf(more: Partial<Literal>, model = MODEL): Promise<JsonObject> {
  const request = plainLiteral(more)
  const body = objectOf(bedrock.request(chatRequest(request), { ...TARGET, model }).body)
  bedrockRules(body, request)
  return body
}

const user = (text: string, more: object = {}): Message => ({ role: 'user', parts: [{ type: 'text', text, ...more }] })
const calls = (...ids: string[]): Message => ({
  role: 'assistant',
  parts: [{ type: 'text', text: 'One moment.' }],
  toolCalls: ids.map((callId) => ({ callId, name: 'f', json: '{"a":1}' })),
})
const result = (callId: string, text: string, isError?: boolean): Message => ({
  role: 'tool',
  callId,
  parts: [{ type: 'text', text }],
  isError,
})
const TOOL = { name: 'f', parameters: { type: 'object' } }

function contentOf(body: JsonObject, turn: number): JsonValue | undefined {
  const message = Array.isArray(body['messages']) ? body['messages'][turn] : undefined
  return isObject(message) ? message['content'] : undefined
}

describe('a request to Bedrock', () => {
  test.each([
    [MODEL, true, 'eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream'],
    [
      'arn:aws:bedrock:eu-west-1:123456789012:inference-profile/x',
      false,
      'arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2Fx/converse',
    ],
  ])('for %s, streamed: %p, goes to …/model/%s', async (model, stream, path) => {
    const sent = bedrock.request(plainRequest({ stream }), { ...TARGET, model })
    expect(sent.url).toBe(`https://bedrock-runtime.eu-west-1.amazonaws.com/model/${path}`)
    expect(sent.headers).toEqual({ 'content-type': 'application/json', authorization: 'Bearer secret-key' })
  })

  test('has its blocks, with cache points after the marked ones', async () => {
    const body = await bodyOf({
      messages: [
        { role: 'system', parts: [{ type: 'text', text: 's', cache: { ttl: '1h' } }] },
        user('Hi'),
        calls('x', 'y'),
        { role: 'tool', callId: 'x', parts: [{ type: 'text', text: '1', cache: {} }] },
        result('y', ' ', true),
        user('next', { cache: { ttl: '5m' } }),
      ],
      tools: [{ ...TOOL, description: '', cache: { ttl: '1h' } }],
      toolChoice: { mode: 'required' },
      maxOutputTokens: 9,
      stop: ['END', ' '],
      sampling: { temperature: 1.5, topP: 0.1 },
    })
    const hour = { cachePoint: { type: 'default', ttl: '1h' } }
    expect(body).toEqual({
      system: [{ text: 's' }, hour],
      toolConfig: {
        tools: [{ toolSpec: { name: 'f', inputSchema: { json: { type: 'object' } } } }, hour],
        toolChoice: { any: {} },
      },
      messages: [
        { role: 'user', content: [{ text: 'Hi' }] },
        {
          role: 'assistant',
          content: [
            { text: 'One moment.' },
            { toolUse: { toolUseId: 'x', name: 'f', input: { a: 1 } } },
            { toolUse: { toolUseId: 'y', name: 'f', input: { a: 1 } } },
          ],
        },
        {
          role: 'user',
          content: [
            { toolResult: { toolUseId: 'x', content: [{ text: '1' }] } },
            { cachePoint: { type: 'default' } },
            { toolResult: { toolUseId: 'y', content: [{ text: '(no output)' }], status: 'error' } },
            { text: 'next' },
            { cachePoint: { type: 'default', ttl: '5m' } },
          ],
        },
      ],
      inferenceConfig: { maxTokens: 9, temperature: 1, stopSequences: ['END'] },
    })
  })

  test('for other models keeps temperature, top_p and every stop sequence', async () => {
    const more = { stop: ['\n'], sampling: { temperature: 0.5, topP: 0.1 } }
    expect((await bodyOf(more, 'meta.llama3-70b'))['inferenceConfig']).toEqual({
      temperature: 0.5,
      topP: 0.1,
      stopSequences: ['\n'],
    })
  })

  test.each<[Partial<Literal>]>([[{ tools: [] }], [{ tools: [TOOL], toolChoice: { mode: 'none' } }]])(
    'that offers no tools describes earlier calls in text: %j',
    async (more) => {
      const body = await bodyOf({ messages: [user('Hi'), calls('x'), result('x', '1', true), user('so?')], ...more })
      expect(contentOf(body, 1)).toEqual([{ text: 'One moment.' }, { text: '[called f with {"a":1}]' }])
      expect(contentOf(body, 2)).toEqual([{ text: '[error: 1]' }, { text: 'so?' }])
    },
  )

  test('takes images only as data', async () => {
    const image = (source: object) =>
      plainRequest({ messages: [{ role: 'user', parts: [{ type: 'image', source }] } as Message] })
    const { body } = bedrock.request(image({ type: 'base64', mediaType: 'image/jpg', data: 'aGk=' }), TARGET)
    expect(sentText(body)).toContain('{"image":{"format":"jpeg","source":{"bytes":"aGk="}}}')
    const address = image({ type: 'url', url: 'https://x/y.png' })
    expect(await kindOf(async () => bedrock.request(address, TARGET))).toBe('rejected')
  })
})

const REGION = 'eu-west-1'

describe('a signature', () => {
  const KEYS = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCY' }
  const signed = async (keys: AwsKeys, model: string, baseUrl: string) => {
    const request = bedrock.request(plainRequest({ messages: [user('é日本')] }), {
      endpoint: endpoint({ baseUrl, apiKey: undefined, aws: { region: REGION, keys }, headers: { 'x-operator': 'o' } }),
      model,
    })
    return { ...request, headers: (await request.sign?.()) ?? {} }
  }

  test.each([
    ['https://bedrock-runtime.eu-west-1.amazonaws.com', MODEL],
    ['http://127.0.0.1:4010/prefix', 'arn:aws:bedrock:eu-west-1:123456789012:inference-profile/x y~z'],
  ])('equals the one that the service computes: %s, %s', async (baseUrl, model) => {
    for (const keys of [KEYS, { ...KEYS, sessionToken: 'token+/=' }]) {
      const sent = await signed(keys, model, baseUrl)
      expect(sent.headers['authorization']).toContain('Credential=AKIDEXAMPLE/')
      expect(signatureIn(sent)).toBe(signatureOf(sent, keys.secretAccessKey))
      expect(sent.headers['x-amz-security-token']).toBe('sessionToken' in keys ? keys.sessionToken : undefined)
      expect(sent.headers['x-operator']).toBe('o')
      expect(sent.headers).not.toHaveProperty('host')
    }
  })

  test('equals it for the lists of models, whose addresses have a query', async () => {
    const up = endpoint({ baseUrl: 'https://b.test', apiKey: undefined, aws: { region: REGION, keys: KEYS } })
    const [models, profiles] = bedrock.models?.requests(up, ['']) ?? []
    const next = profiles?.next?.({ nextToken: "a+/=!'() *" })
    for (const list of [models, profiles, next]) {
      if (list === undefined) throw new Error('a list is missing')
      const sent = { ...list, headers: (await list.sign?.()) ?? {} }
      expect(signatureIn(sent)).toBe(signatureOf(sent, KEYS.secretAccessKey))
    }
  })

  test('depends on the secret', async () => {
    const sent = await signed(KEYS, MODEL, 'https://x')
    expect(signatureIn(sent)).not.toBe(signatureOf(sent, 'other'))
  })
})

function signatureIn(sent: UpstreamRequest): string {
  return /Signature=([0-9a-f]{64})$/.exec(sent.headers['authorization'] ?? '')?.[1] ?? ''
}

/** Signature Version 4 as AWS documents it, computed from the request as it is sent. */
function signatureOf(sent: UpstreamRequest, secret: string): string {
  const url = new URL(sent.url)
  const names = /SignedHeaders=([^,]+)/.exec(sent.headers['authorization'] ?? '')?.[1]?.split(';') ?? []
  for (const name of ['host', 'x-amz-date', 'content-type']) expect(names).toContain(name)
  const headers = names.map((name) => `${name}:${name === 'host' ? url.host : sent.headers[name]}\n`).join('')
  const strict = (text: string) =>
    encodeURIComponent(text).replace(/[!'()*]/g, (unit) => `%${unit.charCodeAt(0).toString(16).toUpperCase()}`)
  const path = url.pathname.split('/').map(strict).join('/')
  const sha = (text: string) => createHash('sha256').update(text).digest('hex')
  const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()
  const query = [...url.searchParams].map(([name, value]) => `${strict(name)}=${strict(value)}`).sort()
  const canonical = [
    sent.method ?? 'POST',
    path,
    query.join('&'),
    headers,
    names.join(';'),
    sha(sentText(sent.body)),
  ].join('\n')
  const date = sent.headers['x-amz-date'] ?? ''
  const day = date.slice(0, 8)
  const scope = `${day}/${REGION}/bedrock/aws4_request`
  const key = [day, REGION, 'bedrock', 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${secret}`)
  return hmac(Buffer.from(key), ['AWS4-HMAC-SHA256', date, scope, sha(canonical)].join('\n')).toString('hex')
}

const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : new TextDecoder().decode(bytes)),
  (text) => new TextEncoder().encode(text),
)

function message(headers: Readonly<Record<string, string>>, payload: string): Uint8Array {
  const values = Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }] as const)
  return codec.encode({ headers: Object.fromEntries(values), body: new TextEncoder().encode(payload) })
}

function event(type: string, payload: object): Uint8Array {
  return message({ ':message-type': 'event', ':event-type': type }, JSON.stringify(payload))
}

describe('the framing', () => {
  const frames = (bytes: Uint8Array[]): string[] => {
    const seen: string[] = []
    const framer = bedrock.framer()
    const sink = (name: string, data: string) => seen.push(`${name} ${data}`)
    for (const piece of bytes) framer.push(piece, sink)
    framer.close(sink)
    return seen
  }

  test('names events, exceptions and errors', () => {
    const exception = { ':message-type': 'exception', ':exception-type': 'throttlingException' }
    const error = { ':message-type': 'error', ':error-code': 'InternalFailure', ':error-message': 'oh' }
    expect(frames([event('a', { x: 1 }), message(exception, '{}'), message(error, '')])).toEqual([
      'a {"x":1}',
      'exception:throttlingException {}',
      'exception:InternalFailure {"message":"oh"}',
    ])
  })

  test('rejects a message that is too long (by its first bytes), too short, damaged, or of unknown type', async () => {
    const long = new Uint8Array([0, 0x7f, 0xff, 0xff])
    expect(await kindOf(() => frames([long]))).toBe('broken')
    const allowed = new Uint8Array(4)
    new DataView(allowed.buffer).setUint32(0, FRAME_CHARS_MAX)
    expect(await kindOf(() => frames([allowed]))).toBe('cut')
    expect(await kindOf(() => frames([new Uint8Array([0, 0, 0, 15])]))).toBe('broken')
    expect(await kindOf(() => frames([message({ ':message-type': 'other' }, '')]))).toBe('broken')
    const good = event('a', { x: 1 })
    for (let at = 4; at < good.length; at++) {
      const bad = Uint8Array.from(good)
      bad[at] = (bad[at] ?? 0) ^ 1
      expect({ at, kind: await kindOf(() => frames([bad])) }).toEqual({ at, kind: 'broken' })
    }
  })

  test('accepts a message of 1 MiB, byte by byte too', () => {
    const text = 'é'.repeat(512 * 1024 - 50)
    const bytes = event('a', { text })
    const pieces = Array.from({ length: Math.ceil(bytes.length / 1000) }, (_, i) =>
      bytes.subarray(i * 1000, i * 1000 + 1000),
    )
    expect(frames(pieces)).toEqual([`a ${JSON.stringify({ text })}`])
  })
})

describe('an answer of Bedrock', () => {
  const STOP = event('messageStop', { stopReason: 'end_turn' })
  const delta = (index: number, more: object) => event('contentBlockDelta', { contentBlockIndex: index, delta: more })

  test('is complete after messageStop and a clean end, and ignores what follows metadata', () => {
    expect(streamed(bedrock, [delta(0, { text: 'Hi' }), STOP])).toMatchObject({ text: 'Hi', ended: true, usage: {} })
    const usage = event('metadata', { usage: { inputTokens: 1, outputTokens: 2 } })
    const late = event('metadata', { usage: { inputTokens: 9, outputTokens: 9 } })
    expect(streamed(bedrock, [delta(0, { text: 'Hi' }), STOP, usage, late]).usage).toMatchObject({
      input: 1,
      output: 2,
    })
    expect(streamed(bedrock, [delta(0, { text: 'Hi' }), usage]).errorKind).toBe('cut')
  })

  test('drops reasoning and unknown events, and gives a call without deltas {}', () => {
    const answer = streamed(bedrock, [
      delta(0, { reasoningContent: { text: 'hm' } }),
      event('newEvent', { x: 1 }),
      event('contentBlockStart', { contentBlockIndex: 1, start: { toolUse: { toolUseId: 't', name: 'f' } } }),
      event('contentBlockStop', { contentBlockIndex: 1 }),
      STOP,
    ])
    expect(answer).toMatchObject({ text: '', calls: [{ id: 't', name: 'f', json: '{}' }], reason: 'tool-call' })
  })

  test.each([
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['guardrail_intervened', 'content-filter'],
    ['content_filtered', 'content-filter'],
    ['stop_sequence', 'stop'],
    ['something new', 'stop'],
  ] as const)('that stops with %s finishes with %s', (stopReason, reason) => {
    expect(streamed(bedrock, [event('messageStop', { stopReason })]).reason).toBe(reason)
  })

  test('counts cache reads and writes as input', () => {
    const usage = {
      inputTokens: 5,
      outputTokens: 7,
      totalTokens: 2112,
      cacheReadInputTokens: 2000,
      cacheWriteInputTokens: 100,
      cacheDetails: [
        { ttl: '1h', inputTokens: 40 },
        { ttl: '5m', inputTokens: 60 },
      ],
    }
    expect(streamed(bedrock, [STOP, event('metadata', { usage })]).usage).toMatchObject({
      input: 2105,
      cachedInput: 2000,
      cacheWrite5m: 60,
      cacheWrite1h: 40,
      output: 7,
    })
  })

  test('may come whole', () => {
    const content = [{ text: 'Hi' }, { toolUse: { toolUseId: 't', name: 'f', input: { a: 1 } } }]
    const events = bedrock.events({
      output: { message: { role: 'assistant', content } },
      stopReason: 'tool_use',
      usage: { inputTokens: 1, outputTokens: 2 },
    })
    expect(events).toEqual([
      { type: 'start' },
      { type: 'text', text: 'Hi' },
      { type: 'tool-start', index: 0, callId: 't', name: 'f' },
      { type: 'tool-delta', index: 0, json: '{"a":1}' },
      { type: 'finish', reason: 'tool-call' },
      { type: 'usage', usage: expect.objectContaining({ input: 1, output: 2 }) },
      { type: 'end' },
    ])
    expect(() => bedrock.events({ message: 'no' })).toThrow(ProviderError)
  })

  test.each<[string, ProviderErrorKind]>([
    ['throttlingException', 'rate_limited'],
    ['validationException', 'rejected'],
    ['modelStreamErrorException', 'failed'],
    ['internalServerException', 'failed'],
    ['serviceUnavailableException', 'overloaded'],
    ['modelTimeoutException', 'timeout'],
    ['neverSeenException', 'failed'],
  ])('that ends early with %s is %s', (type, kind) => {
    const bytes = message({ ':message-type': 'exception', ':exception-type': type }, '{"message":"Too many tokens"}')
    expect(streamed(bedrock, [delta(0, { text: 'Hi' }), bytes])).toMatchObject({
      text: 'Hi',
      ended: false,
      errorKind: kind,
    })
  })

  test.each<[number, string, string, ProviderErrorKind, string | undefined]>([
    [400, 'ValidationException', 'Input is too long for requested model.', 'rejected', 'context_length_exceeded'],
    [400, 'ValidationException', 'The provided model identifier is invalid.', 'failed', undefined],
    [400, 'ExpiredTokenException', 'expired', 'credential', undefined],
    [403, 'AccessDeniedException', 'no access to the model', 'credential', undefined],
    [404, 'ResourceNotFoundException', 'no such model', 'failed', undefined],
    [429, 'ThrottlingException:http://internal.amazon.com/', 'Too many tokens', 'rate_limited', undefined],
    [429, 'ModelNotReadyException', 'warming up', 'overloaded', undefined],
    [408, 'ModelTimeoutException', 'slow', 'timeout', undefined],
    [503, '', '', 'overloaded', undefined],
  ])('under status %p with %s (%s) means %s', (status, type, words, kind, code) => {
    const error = bedrock.responseError(
      status,
      new Headers({ 'x-amzn-errortype': type }),
      JSON.stringify({ message: words }),
    )
    expect([error.kind, error.detail.code]).toEqual([kind, code])
  })
})

async function kindOf(run: () => unknown): Promise<string> {
  try {
    await run()
  } catch (error) {
    if (error instanceof ProviderError) return error.kind
    throw error
  }
  return 'none'
}
