/**
 * The public edge of the running program, on raw sockets: what no HTTP client would send, and what each client does
 * sometimes. Nothing that a caller sends may end in a 500, reach a provider unless it is right, or disturb another
 * request.
 */

import { afterEach, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { bytesOf, joined } from '../support/bytes.ts'
import { type Answer, ask, Caller, type RequestParts, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { property, type Random } from '../support/random.ts'
import * as does from '../support/scenarios.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'

const CHAT = '/v1/chat/completions'
const MIB = 1024 * 1024
/** Begins like the keys of `weir keys`, and has no checksum. */
const OWN_KEY = 'gwk_chosen-by-hand-01'
const FORBIDDEN = [
  ...['api_key', 'api_base', 'api_version', 'base_url', 'custom_llm_provider', 'fallbacks', 'context_window_fallbacks'],
  ...[
    'content_policy_fallbacks',
    'router_settings_override',
    'num_retries',
    'max_retries',
    'retry_policy',
    'allowed_fails',
  ],
  ...['cooldown_time', 'timeout', 'request_timeout', 'metadata'],
]

const upstream = await lastingUpstream({ m: does.answersText('Hel', 'lo') })
const keys = [
  { id: 'test-key', key: KEY },
  { id: 'own', key: OWN_KEY },
]
const gateway = await lastingGateway({
  providers: { up: upstream.url },
  config: { organizations: [{ id: 'test', keys }] },
})

afterEach(async () => {
  upstream.on('m', does.answersText('Hel', 'lo'))
  // Whatever was sent, the next caller is served.
  expect((await ask(gateway.port, chat())).status).toBe(200)
})

const BODY = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
const chat = (body: RequestParts['body'] = BODY, more: RequestParts = {}) =>
  requestBytes(CHAT, { key: KEY, body, ...more })
const send = (data: string | Uint8Array) => ask(gateway.port, data)

/** Requests that the provider has received since. */
function sinceNow(): () => number {
  const before = upstream.calls.length
  return () => upstream.calls.length - before
}

interface Wrong {
  readonly status: number
  readonly code?: string | null
  readonly param?: string | null
}

/** Expects an error in the Chat shape, with everything that each error has. */
function expectError(answer: Answer, wrong: Wrong): JsonObject {
  expect(answer.status).toBe(wrong.status)
  expect(answer.header('content-type')).toStartWith('application/json')
  expect(answer.header('cache-control')).toBe('no-store')
  expect(answer.header('x-request-id')).toMatch(/^req_/)
  expect(answer.header('request-id')).toBe(answer.header('x-request-id') ?? '')
  for (const name of ['requested-model', 'served-model', 'fallback-count'])
    expect(answer.header(`x-gateway-${name}`)).toBeUndefined()
  const body = answer.json()
  if (!isObject(body) || !isObject(body['error'])) throw new Error(`not the shape of an error: ${answer.text}`)
  const { error } = body
  expect(Object.keys(error)).toEqual(['message', 'type', 'param', 'code'])
  expect(typeof error['message']).toBe('string')
  if (wrong.code !== undefined) expect(error['code']).toBe(wrong.code)
  if (wrong.param !== undefined) expect(error['param']).toBe(wrong.param)
  return error
}

describe('authentication', () => {
  const fields = (...lines: string[]) =>
    `GET /v1/models HTTP/1.1\r\nHost: gateway.test\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`

  test.each([
    ['Bearer', [`Authorization: Bearer ${KEY}`]],
    ['bearer in small letters', [`authorization: bearer ${KEY}`]],
    ['x-api-key', [`x-api-key: ${KEY}`]],
    ['a key of the configuration, whatever it begins with', [`Authorization: Bearer ${OWN_KEY}`]],
  ])('%s is accepted', async (_, lines) => {
    expect((await send(fields(...lines))).status).toBe(200)
  })

  test.each([
    ['none', []],
    ['an unknown key', ['Authorization: Bearer unknown-key-0123456789']],
    ['an empty one', ['Authorization: Bearer ']],
    ['another scheme', [`Authorization: Basic ${KEY}`]],
    ['no scheme', [`Authorization: ${KEY}`]],
    ['a key with more after it', [`Authorization: Bearer ${KEY} x`]],
    ['a beginning of a key', [`Authorization: Bearer ${KEY.slice(0, -1)}`]],
    ['a key with a character too many', [`x-api-key: ${KEY}a`]],
    ['one that is not ASCII', ['x-api-key: schl\u00fcssel']],
    ['one of 10 KiB', [`x-api-key: ${'k'.repeat(10_240)}`]],
  ])('%s is 401', async (_, lines) => {
    const answer = await send(fields(...lines))
    expectError(answer, { status: 401, code: 'invalid_api_key' })
    expect(answer.header('www-authenticate')).toBe('Bearer')
    expect(answer.header('x-should-retry')).toBe('false')
  })

  test('unknown and malformed keys get the same message', async () => {
    const texts = ['Authorization: Bearer unknown-key-0123456789', `Authorization: Basic ${KEY}`, 'x-api-key: a'].map(
      async (line) => expectError(await send(fields(line)), { status: 401 })['message'],
    )
    expect(new Set(await Promise.all(texts)).size).toBe(1)
  })

  test.each([
    ['none', [], /no (?:API )?key/i],
    ['an unknown key', ['Authorization: Bearer unknown-key-0123456789'], /Bearer <API_KEY>/],
    ['a key without its scheme', [`Authorization: ${KEY}`], /without 'Bearer'/],
    ['an unknown key without its scheme', ['Authorization: unknown-key-0123456789'], /without 'Bearer'/],
    ['a scheme without its key', ['Authorization: Bearer'], /Bearer <API_KEY>/],
  ])('the message for %s begins as other programs map it, and shows what to do', async (_, lines, hint) => {
    const message = String(expectError(await send(fields(...lines)), { status: 401 })['message'])
    expect(message).toStartWith('Incorrect API key provided.')
    expect(message).toMatch(hint)
    expect(message).not.toContain(KEY)
  })

  test.each([
    ['both', [`Authorization: Bearer ${KEY}`, `x-api-key: ${KEY}`]],
    ['Authorization twice', [`Authorization: Bearer ${KEY}`, `Authorization: Bearer ${KEY}`]],
    ['x-api-key twice', [`x-api-key: ${KEY}`, `X-API-KEY: ${KEY}`]],
    ['two in one', [`Authorization: Bearer ${KEY}, Bearer ${KEY}`]],
    ['both, of which one is empty', [`Authorization: Bearer ${KEY}`, 'x-api-key:']],
  ])('%s is 400, and the message names the usual cause', async (_, lines) => {
    const { message } = expectError(await send(fields(...lines)), { status: 400, code: 'multiple_credentials' })
    expect(message).toContain('ANTHROPIC_API_KEY')
    expect(message).toContain('ANTHROPIC_AUTH_TOKEN')
  })

  test('is checked before the body, and after path and method', async () => {
    const calls = sinceNow()
    expectError(await send(chat('{', { key: 'wrong' })), { status: 401 })
    expectError(await send(requestBytes('/v1/nowhere')), { status: 404 })
    expectError(await send(requestBytes(CHAT)), { status: 405 })
    const tooLong = requestBytes(CHAT, { method: 'POST', fields: { 'content-length': String(11 * MIB) } })
    expectError(await send(tooLong), { status: 401 })
    expect(calls()).toBe(0)
  })

  test('a flood of bad keys is answered, each with 401', async () => {
    await using caller = await Caller.connect(gateway.port)
    const flood = Array.from({ length: 500 }, (_, at) =>
      requestBytes('/v1/models', { key: `bad-key-${at}-0123456789` }),
    )
    caller.send(joined(flood))
    for (let at = 0; at < flood.length; at++) expect((await caller.answer()).status).toBe(401)
  })
})

describe('the size of a body', () => {
  const content = (bytes: number) => {
    const around = JSON.stringify({ ...BODY, messages: [{ role: 'user', content: '' }] }).length
    return JSON.stringify({ ...BODY, messages: [{ role: 'user', content: 'x'.repeat(bytes - around) }] })
  }
  const chunkedRequest = (body: string) => {
    const pieces = body.match(/[\s\S]{1,65536}/g) ?? []
    const chunks = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join('')
    const head =
      `POST ${CHAT} HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${KEY}\r\n` +
      'Transfer-Encoding: chunked\r\n\r\n'
    return `${head}${chunks}0\r\n\r\n`
  }

  test('10 MiB exactly is taken, declared and chunked', async () => {
    upstream.on('m', does.answersText('ok'))
    const body = content(10 * MIB)
    expect(bytesOf(body).length).toBe(10 * MIB)
    expect((await send(chat(body))).status).toBe(200)
    expect((await send(chunkedRequest(body))).status).toBe(200)
  })

  test('a byte more is 413, with our own body', async () => {
    const calls = sinceNow()
    const body = content(10 * MIB + 1)
    expectError(await send(chat(body)), { status: 413, code: 'request_too_large' })
    expectError(await send(chunkedRequest(body)), { status: 413, code: 'request_too_large' })
    expect(calls()).toBe(0)
  })

  test('a declared length over it is refused before a byte of the body is read', async () => {
    await using caller = await Caller.connect(gateway.port)
    caller.send(requestBytes(CHAT, { method: 'POST', key: KEY, fields: { 'content-length': String(10 * MIB + 1) } }))
    expectError(await caller.answer(), { status: 413, code: 'request_too_large' })
  })

  test('a chunked body is refused as soon as the count passes', async () => {
    await using caller = await Caller.connect(gateway.port)
    const head = { 'transfer-encoding': 'chunked' }
    caller.send(requestBytes(CHAT, { method: 'POST', key: KEY, fields: head }))
    const piece = `${MIB.toString(16)}\r\n${'x'.repeat(MIB)}\r\n`
    for (let sent = 0; sent < 11; sent++) caller.send(piece)
    expectError(await caller.answer(), { status: 413, code: 'request_too_large' })
  })

  test.each([12, 200])('%d MiB are 413 and never the answer of the runtime', async (size) => {
    await using caller = await Caller.connect(gateway.port)
    caller.send(requestBytes(CHAT, { method: 'POST', key: KEY, fields: { 'content-length': String(size * MIB) } }))
    expectError(await caller.answer(), { status: 413, code: 'request_too_large' })
  })
})

describe('the body', () => {
  const wrong: readonly (readonly [name: string, body: string | Uint8Array])[] = [
    ['nothing', ''],
    ['blanks', ' \n '],
    ['not JSON', 'model=m&messages=hi'],
    ['half of one', '{"model":"m"'],
    ['two of them', '{}{}'],
    ['an array', '[]'],
    ['a string', '"m"'],
    ['a number', '1'],
    ['null', 'null'],
    ['a trailing comma', '{"model":"m",}'],
    ['a comment', '{/* */}'],
    ['NaN', '{"temperature":NaN}'],
    ['a raw line break in a string', '{"model":"a\nb"}'],
    ['invalid UTF-8', joined([bytesOf('{"model":"'), Uint8Array.of(0xff, 0xfe), bytesOf('"}')])],
    ['an overlong form', joined([bytesOf('{"model":"'), Uint8Array.of(0xc0, 0xaf), bytesOf('"}')])],
    ['half a character at the end', joined([bytesOf('{"model":"'), Uint8Array.of(0xf0, 0x9f)])],
    ['a byte order mark', `\ufeff${JSON.stringify(BODY)}`],
    ['UTF-16', Uint8Array.from(Buffer.from(JSON.stringify(BODY), 'utf16le'))],
    ['nesting of 129', `{"model":"m","messages":${'['.repeat(128)}${']'.repeat(128)}}`],
    ['nesting of a million', '['.repeat(1_000_000)],
    ['ten megabytes of little objects', `{"a":[${'{"a":{}},'.repeat(1_100_000)}{}]}`],
    ['ten megabytes of ones', `{"a":[${'1,'.repeat(5_000_000)}1]}`],
    ['130,000 members', `{"a":{${Array.from({ length: 130_000 }, (_, at) => `"k${at}":1`).join()}}}`],
  ]
  test.each(wrong)('%s is 400', async (_, body) => {
    const calls = sinceNow()
    expectError(await send(chat(body)), { status: 400, code: null })
    expect(calls()).toBe(0)
  })

  test('may hold as many values as the longest history has', async () => {
    const history = Array.from({ length: 15_000 }, () => ({ role: 'user', content: [{ type: 'text', text: ',:,:' }] }))
    expect((await send(chat({ model: 'm', messages: history }))).status).toBe(200)
  })

  test('is read as JSON whatever its content type', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/json; charset=utf-16',
      'nonsense',
      undefined,
    ])
      expect((await send(chat(BODY, { fields: { 'content-type': type } }))).status).toBe(200)
  })

  test('with a Content-Encoding other than identity is 415', async () => {
    for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'gzip, identity', 'x-unknown']) {
      const body = Uint8Array.from(gzipSync(JSON.stringify(BODY)))
      expectError(await send(chat(body, { fields: { 'content-encoding': encoding } })), { status: 415 })
    }
    expect((await send(chat(BODY, { fields: { 'content-encoding': 'identity' } }))).status).toBe(200)
  })

  test('of two keys of one name, the last counts, for us and for the provider', async () => {
    const at = upstream.calls.length
    const answer = await send(chat(`{"model":"absent","model":"m","messages":${JSON.stringify(BODY.messages)}}`))
    expect([answer.status, answer.header('x-gateway-requested-model')]).toEqual([200, 'm'])
    expect((await upstream.call(undefined, at)).json['model']).toBe('m')
    expectError(await send(chat('{"model":"m","model":"absent","messages":[{"role":"user","content":"x"}]}')), {
      status: 404,
    })
  })

  test('__proto__ and similar names have no effect', async () => {
    const inherited = `{"__proto__":{"model":"m","messages":[]},"constructor":{"prototype":{"stream":true}}}`
    expectError(await send(chat(inherited)), { status: 400, param: 'model' })
    const messages = JSON.stringify(BODY.messages)
    const polluted = `{"__proto__":{"stream":true,"api_key":"x"},"model":"m","messages":${messages}}`
    const answer = await send(chat(polluted))
    expect([answer.status, answer.header('content-type')]).toEqual([200, 'application/json'])
    for (const model of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf'])
      expectError(await send(chat({ ...BODY, model })), { status: 404, code: 'model_not_found' })
  })

  test.each([
    ['a temperature of 1e400', '"temperature":1e400', 400],
    ['a temperature of -1e400', '"temperature":-1e400', 400],
    ['a temperature of -0', '"temperature":-0', 200],
    ['a temperature of 1e-400', '"temperature":1e-400', 200],
    ['a limit of 0', '"max_tokens":0', 400],
    ['a limit of 1.5', '"max_tokens":1.5', 400],
    ['a limit of 1e400', '"max_tokens":1e400', 400],
    ['a limit of 2^53', '"max_tokens":9007199254740993', 200],
    ['a limit that is a string', '"max_tokens":"5"', 400],
    ['null', '"max_tokens":null,"temperature":null,"stream":null,"tools":null', 200],
  ])('%s', async (_, field, status) => {
    const answer = await send(chat(`{"model":"m",${field},"messages":${JSON.stringify(BODY.messages)}}`))
    if (status === 200) expect(answer.status).toBe(200)
    else expectError(answer, { status })
  })

  test('lone surrogates go through as escapes', async () => {
    const at = upstream.calls.length
    const text = '{"model":"m","messages":[{"role":"user","content":"\\ud83d \\ude00"}]}'
    expect((await send(chat(text))).status).toBe(200)
    const { body } = await upstream.call(undefined, at)
    expect(Buffer.from(body).toString('latin1')).toContain('\\ud83d \\ude00')
  })

  test('unknown fields are skipped', async () => {
    const at = upstream.calls.length
    expect((await send(chat({ ...BODY, unknown_field: { deep: [1] }, API_KEY: 'x', Metadata: {} }))).status).toBe(200)
    const { json } = await upstream.call(undefined, at)
    expect(Object.keys(json)).not.toContain('unknown_field')
  })
})

describe('forbidden fields', () => {
  test.each(FORBIDDEN)('%s is 400, whatever its value', async (name) => {
    const calls = sinceNow()
    for (const value of [null, '', 0, {}, 'x']) {
      const { message } = expectError(await send(chat({ ...BODY, [name]: value })), { status: 400 })
      expect(message).toContain(name)
    }
    expect(calls()).toBe(0)
  })

  test('are all named at once, and before missing fields', async () => {
    const body = Object.fromEntries(FORBIDDEN.map((name) => [name, 1]))
    const { message } = expectError(await send(chat(body)), { status: 400 })
    for (const name of FORBIDDEN) expect(message).toContain(name)
  })

  test('are accepted below the top level', async () => {
    const properties = Object.fromEntries(FORBIDDEN.map((name) => [name, { type: 'string' }]))
    const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties } } }
    expect((await send(chat({ ...BODY, tools: [tool] }))).status).toBe(200)
  })
})

test.each([10, 14_000, 15_000, 16_500, 400_000])('a whole answer of some %d bytes has its length', async (length) => {
  upstream.on('m', does.answersText('é'.repeat(length / 2)))
  const answer = await send(chat(BODY))
  expect([answer.end, answer.header('content-length')]).toEqual(['whole', String(answer.body.length)])
  expect(answer.json()).toMatchObject({ choices: [{ message: { content: 'é'.repeat(length / 2) } }] })
})

test('an answer of Responses repeats long instructions and tools, with its length', async () => {
  upstream.on('m', does.answersText('Hello'))
  const text = '"long" \\ instructions\n– é 設 🙂 '
  for (const repeats of [300, 1000]) {
    const instructions = text.repeat(repeats)
    const parameters = { type: 'object', properties: { path: { description: instructions } } }
    const tools = [
      { type: 'function', name: 'f', description: instructions, parameters, strict: null },
      { type: 'function', name: 'g', description: null, parameters: { type: 'object' }, strict: true },
    ]
    const body = { model: 'm', instructions, input: 'hi', tools }
    const answer = await ask(gateway.port, requestBytes('/v1/responses', { key: KEY, body: JSON.stringify(body) }))
    expect(answer.json()).toMatchObject({ instructions, tools, output: [{ content: [{ text: 'Hello' }] }] })
    expect([answer.end, answer.header('content-length')]).toEqual(['whole', String(answer.body.length)])
  }
})

describe('the model name', () => {
  const names = [
    'a\r\nX-Injected: 1',
    'a\u0000b',
    'm\n',
    ' m',
    'm ',
    'M',
    '日本語',
    '\ud800',
    'm'.repeat(20_000),
    '',
    '../m',
    'm;x',
  ]
  test.each(names.map((name) => [JSON.stringify(name).slice(0, 40), name] as const))(
    '%s is refused and reflected in no header',
    async (_, model) => {
      const answer = await send(chat({ ...BODY, model }))
      expectError(answer, { status: model === '' ? 400 : 404 })
      expect(answer.head.fields.map(([name]) => name.toLowerCase())).not.toContain('x-injected')
      expect(answer.head.length).toBeLessThan(2000)
    },
  )

  test.each([[1], [null], [['m']], [{}], [true]])('%p is no name', async (model) => {
    expectError(await send(chat({ ...BODY, model })), { status: 400, param: 'model' })
  })
})

let addresses = 0
/**
 * An address without requests so far: of one address, only 20 requests a second without a valid key have a log line of
 * their own.
 */
function ownAddress(): string {
  return `127.0.1.${++addresses}`
}

describe('paths and methods', () => {
  const paths = [
    ...[
      '/',
      '//v1/models',
      '/v1//models',
      '/v1/models/',
      '/V1/models',
      '/v1/Models',
      '/v1/models;a=b',
      '/v1/models%00',
      '/v1/models%2f',
    ],
    ...[
      '/v1%2fmodels',
      '/%76%31/models',
      '/models',
      '/chat/completions',
      '/v2/models',
      '/v1/models/m',
      '/v1/completions',
    ],
    ...['/metrics', '/healthz', '/readyz', '/docs', '/.env'],
  ]
  test.each(paths)('%s is 404', async (path) => {
    expectError(await send(requestBytes(path, { key: KEY })), { status: 404 })
  })

  test.each(['/v1\\models', '/v1/../v1/models', '/v1/./models', '/v1/x/../models'])(
    '%s is what the runtime makes of it, and asks for a key',
    async (path) => {
      // Bun hands the path over in its normal form: whether it was written so cannot be seen. Nothing is decided by a
      // prefix of it.
      expectError(await send(requestBytes(path)), { status: 401 })
    },
  )

  test('* is refused', async () => {
    const request = `GET * HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${KEY}\r\n\r\n`
    expect(await refusal(request)).toBe('400, closed')
  })

  test('an unknown path of the Messages family is 404 in its own shape', async () => {
    const answer = await send(requestBytes('/anthropic/v1/nowhere', { key: KEY }))
    expect(answer.status).toBe(404)
    expect(answer.json()).toMatchObject({
      type: 'error',
      error: { type: 'not_found_error' },
      request_id: answer.header('request-id'),
    })
  })

  test.each(['/v1/models/m', '/v1/models/vendor/m', '/v1/models/'])('%s names the list', async (path) => {
    for (const method of ['GET', 'DELETE']) {
      const error = expectError(await send(requestBytes(path, { key: KEY, method })), { status: 404 })
      expect(error['message']).toContain('GET /v1/models')
    }
  })

  test('/anthropic/v1/models/m names the list, too', async () => {
    const answer = await send(requestBytes('/anthropic/v1/models/m', { key: KEY }))
    expect([answer.status, answer.text]).toEqual([404, expect.stringContaining('GET /v1/models')])
  })

  test.each([
    CHAT,
    '/v1/responses',
    '/v1/responses/compact',
    '/v1/messages',
    '/anthropic/v1/messages',
    '/v1/messages/count_tokens',
    '/v1/images/generations',
  ])('a form at %s is 400 with an error about forms, whatever it holds', async (path) => {
    const calls = sinceNow()
    for (const type of ['multipart/form-data; boundary=b', 'Multipart/Form-Data', 'multipart/form-data;x']) {
      for (const body of [
        JSON.stringify(BODY),
        '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b--',
      ]) {
        const answer = await send(requestBytes(path, { key: KEY, body, fields: { 'content-type': type } }))
        expect(answer.status).toBe(400)
        const { error } = JSON.parse(answer.text)
        expect(error.message).toMatch(/form.*JSON|JSON.*form/)
      }
    }
    expect(calls()).toBe(0)
    const wrong = requestBytes(path, { key: 'wrong', body: '--b--', fields: { 'content-type': 'multipart/form-data' } })
    expect((await send(wrong)).status).toBe(401)
  })

  describe('the list in the form of Anthropic', () => {
    const list = async (query: string) => await send(requestBytes(`/anthropic/v1/models${query}`, { key: KEY }))
    const page = async (query: string) => JSON.parse((await list(query)).text)
    const idsOf = ({ data }: { data: readonly { id: string }[] }) => data.map(({ id }) => id)

    test('has the models of the other list', async () => {
      const { data } = JSON.parse((await send(requestBytes('/v1/models', { key: KEY }))).text)
      const all = await page('')
      expect(idsOf(all)).toEqual(idsOf({ data }))
      expect(all).toEqual({
        data: idsOf({ data }).map((id) => ({
          ...{ type: 'model', id, display_name: id },
          created_at: '1970-01-01T00:00:00Z',
        })),
        ...{ has_more: false, first_id: data[0].id, last_id: data.at(-1).id },
      })
    })

    test('comes in pages, forwards and backwards', async () => {
      const all = idsOf(await page(''))
      const forwards: string[] = []
      for (let query = '?limit=1'; ; query = `?limit=1&after_id=${encodeURIComponent(forwards.at(-1) as string)}`) {
        const { has_more, last_id, ...rest } = await page(query)
        forwards.push(...idsOf(rest))
        expect(last_id).toBe(forwards.at(-1))
        if (!has_more) break
      }
      expect(forwards).toEqual(all)
      const before = await page(`?limit=1000&before_id=${encodeURIComponent(all.at(-1) as string)}`)
      expect([idsOf(before), before.has_more]).toEqual([all.slice(0, -1), false])
      expect(await page(`?after_id=${encodeURIComponent(all.at(-1) as string)}`)).toEqual({
        ...{ data: [], has_more: false, first_id: null, last_id: null },
      })
    })

    test.each(['0', '1001', 'x', '1.5', '-1', ''])('rejects the limit "%s"', async (limit) => {
      const answer = await list(`?limit=${limit}`)
      expect(answer.status).toBe(400)
      expect(JSON.parse(answer.text)).toMatchObject({ type: 'error', error: { param: 'limit' } })
    })
  })

  test('a query string is ignored', async () => {
    expect((await send(requestBytes('/v1/models?beta=true&a[]=%', { key: KEY }))).status).toBe(200)
    expect((await send(requestBytes(`${CHAT}?x`, { key: KEY, body: BODY }))).status).toBe(200)
    expect((await send(requestBytes('/v1/models?', { key: KEY }))).status).toBe(200)
  })

  test('the absolute form is accepted, its host ignored', async () => {
    expect((await send(requestBytes('http://elsewhere.invalid/v1/models', { key: KEY }))).status).toBe(200)
  })

  test.each([
    ['GET', CHAT, 'POST'],
    ['PUT', CHAT, 'POST'],
    ['PATCH', CHAT, 'POST'],
    ['DELETE', CHAT, 'POST'],
    ['OPTIONS', CHAT, 'POST'],
    ['TRACE', CHAT, 'POST'],
    ['CONNECT', CHAT, 'POST'],
    ['PURGE', CHAT, 'POST'],
    ['POST', '/v1/models', 'GET'],
    ['OPTIONS', '/v1/models', 'GET'],
  ])('%s %s is 405 that allows %s', async (method, path, allow) => {
    const answer = await send(requestBytes(path, { method, key: KEY, fields: { 'content-length': '0' } }))
    expectError(answer, { status: 405 })
    expect(answer.header('allow')).toContain(allow)
  })

  test('an unknown path is 404 whatever the method', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'])
      expectError(await send(requestBytes('/v1/nowhere', { method, fields: { 'content-length': '0' } })), {
        status: 404,
      })
  })

  test.each(['/v1/models', CHAT, '/', '/nowhere'])('HEAD %s answers at once, without a key', async (path) => {
    await using caller = await Caller.connect(gateway.port, ownAddress())
    caller.send(requestBytes(path, { method: 'HEAD' }))
    const head = await caller.until('\r\n\r\n')
    expect(head).toMatch(/^HTTP\/1\.1 200 /)
    const id = /^x-request-id: (req_\w+)\r$/im.exec(head)?.[1]
    expect(head.toLowerCase()).toContain(`\r\nrequest-id: ${id}\r`)
    expect(await gateway.request(id)).toMatchObject({ status: 200, outcome: 'completed', streamed: false })
  })

  test('CONNECT with an authority, and methods that the runtime does not know, are refused', async () => {
    expectError(await send('CONNECT connect.test:443 HTTP/1.1\r\nHost: connect.test:443\r\n\r\n'), { status: 404 })
    // For these Bun ends the connection by itself.
    for (const method of ['BREW', 'get', 'post'])
      expect(await refusal(`${method} ${CHAT} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n`)).toBe('none, closed')
  })
})

/** The status of the answer, or `none`, and whether the connection was closed after it. */
async function refusal(data: string): Promise<string> {
  await using caller = await Caller.connect(gateway.port)
  caller.send(data)
  const status = await caller.answer().then(
    (answer) => String(answer.status),
    () => 'none',
  )
  // An open connection answers once more, which distinguishes the two without a wait.
  caller.send(requestBytes('/nowhere'))
  const open = await caller.answer().then(
    () => true,
    () => false,
  )
  return `${status}, ${open ? 'open' : 'closed'}`
}

describe('broken HTTP', () => {
  const post = (...lines: string[]) => {
    const head = [`POST ${CHAT} HTTP/1.1`, 'Host: gateway.test', `Authorization: Bearer ${KEY}`, ...lines].join('\r\n')
    return `${head}\r\n\r\n`
  }
  const json = JSON.stringify(BODY)
  const size = json.length
  const smuggled: readonly (readonly [name: string, status: number, data: string])[] = [
    ['a length and chunks', 400, `${post(`Content-Length: ${size}`, 'Transfer-Encoding: chunked')}${json}`],
    ['two lengths', 400, `${post(`Content-Length: ${size}`, 'Content-Length: 5')}${json}`],
    ['a length with a plus', 400, `${post(`Content-Length: +${size}`)}${json}`],
    ['a length in hex', 400, `${post('Content-Length: 0x5')}${json}`],
    ['a list of lengths', 400, `${post(`Content-Length: ${size}, ${size}`)}${json}`],
    ['a negative length', 400, `${post('Content-Length: -1')}${json}`],
    ['an unknown transfer coding', 400, `${post('Transfer-Encoding: xchunked')}0\r\n\r\n`],
    ['chunked not last', 400, `${post('Transfer-Encoding: chunked, identity')}0\r\n\r\n`],
    ['chunked twice', 400, `${post('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')}0\r\n\r\n`],
    ['a bad chunk size', 400, `${post('Transfer-Encoding: chunked')}zz\r\n${json}\r\n0\r\n\r\n`],
    ['a blank before the colon', 400, `${post(`Content-Length : ${size}`)}${json}`],
    ['a folded header', 400, `${post('X-Folded: a\r\n b', `Content-Length: ${size}`)}${json}`],
    ['NUL in a header', 400, `${post('X-Nul: a\u0000b', `Content-Length: ${size}`)}${json}`],
    ['no Host', 400, `POST ${CHAT} HTTP/1.1\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: ${size}\r\n\r\n${json}`],
    [
      'bare line feeds',
      505,
      `POST ${CHAT} HTTP/1.1\nHost: h\nAuthorization: Bearer ${KEY}\nContent-Length: ${size}\n\n${json}`,
    ],
    ['a header of 17 KiB', 431, `${post(`X-Long: ${'x'.repeat(17 * 1024)}`, `Content-Length: ${size}`)}${json}`],
    [
      '200 headers',
      431,
      `${post(...Array.from({ length: 200 }, (_, at) => `X-${at}: ${at}`), `Content-Length: ${size}`)}${json}`,
    ],
    ['no request line', 400, '\r\n\r\n\r\n\r\nnonsense\r\n\r\n'],
    ['TLS', 400, '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003\r\n\r\n'],
    ['HTTP/2', 400, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/9.9', 505, `GET /v1/models HTTP/9.9\r\nHost: gateway.test\r\nAuthorization: Bearer ${KEY}\r\n\r\n`],
  ]
  test.each(smuggled)('%s is %p and the end of the connection, and reaches no provider', async (_, status, data) => {
    const calls = sinceNow()
    expect(await refusal(data)).toBe(`${status}, closed`)
    expect(calls()).toBe(0)
  })

  test('a header of 15 KiB passes', async () => {
    expect((await send(`${post(`X-Long: ${'x'.repeat(15 * 1024)}`, `Content-Length: ${size}`)}${json}`)).status).toBe(
      200,
    )
  })

  test.each([
    ...['a/b?c', '[', 'h:99999999', '', 'h h', '日本', 'a@b', '%00', 'a,b', 'a;b', '<x>', 'a:b', "a'b"],
    ...['a\r\nHost: b', 'a\r\nHost: a'],
  ])('Host: %j is 400', async (host) => {
    const calls = sinceNow()
    const head = `POST ${CHAT} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${KEY}\r\n`
    const answer = await ask(gateway.port, `${head}Content-Length: ${size}\r\n\r\n${json}`, ownAddress())
    expectError(answer, { status: 400, code: 'invalid_host' })
    expect(await gateway.request(answer.header('x-request-id'))).toMatchObject({ status: 400, error: 'invalid_host' })
    expect(calls()).toBe(0)
  })

  test('HTTP/1.0 without a Host is 400, in the shape of its path', async () => {
    const head = (path: string) => `GET ${path} HTTP/1.0\r\nAuthorization: Bearer ${KEY}\r\n\r\n`
    expectError(await send(head('/v1/models')), { status: 400, code: 'invalid_host' })
    expectError(await send(head('/?u=http://h/v1/messages')), { status: 400, code: 'invalid_host' })
    const answer = await send(head('/v1/messages'))
    expect([answer.status, answer.json()]).toMatchObject([
      400,
      { type: 'error', error: { type: 'invalid_request_error' } },
    ])
  })

  test.each([
    'h',
    'gw',
    'api',
    'h:1',
    'h:',
    '[::1]',
    '[::1]:80',
    '127.0.0.1:8080',
    'a.very.long.name.test',
    'A_b.test.',
  ])('Host: %s is served', async (host) => {
    const request = requestBytes('/v1/models', { key: KEY, fields: { host } })
    expect((await send(request)).status).toBe(200)
    expectError(await send(requestBytes('/models', { key: KEY, fields: { host } })), { status: 404 })
  })

  test('bytes after a body are never served with the key of the request before them', async () => {
    const calls = sinceNow()
    await using caller = await Caller.connect(gateway.port)
    caller.send(
      `${post(`Content-Length: ${size}`)}${json}` +
        `POST ${CHAT} HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: ${size}\r\n\r\n${json}`,
    )
    const statuses: number[] = []
    // Bun closes a connection on which a request comes while another is being answered.
    for (;;) {
      const answer = await caller.answer().catch(() => undefined)
      if (answer === undefined || statuses.length === 2) break
      statuses.push(answer.status)
      if (statuses.length === 2) break
    }
    expect(['', '200', '200,401']).toContain(statuses.join())
    expect(calls()).toBeLessThanOrEqual(1)
  })

  test('several requests on one connection, one after the other, are answered in order', async () => {
    await using caller = await Caller.connect(gateway.port)
    for (const [bytes, status] of [
      [requestBytes('/v1/models', { key: KEY }), 200],
      [chat(), 200],
      [requestBytes('/nowhere'), 404],
      [chat(), 200],
    ] as const) {
      caller.send(bytes)
      expect((await caller.answer()).status).toBe(status)
    }
  })

  test('Expect: 100-continue is answered, then the request', async () => {
    await using caller = await Caller.connect(gateway.port)
    caller.send(post(`Content-Length: ${size}`, 'Expect: 100-continue'))
    await caller.until('100 Continue')
    caller.send(json)
    expect((await caller.answer()).status).toBe(200)
  })
})

describe('callers that leave', () => {
  test('in the middle of a body: the provider is not called', async () => {
    const calls = sinceNow()
    for (const leave of ['close', 'reset', 'halfClose'] as const) {
      await using caller = await Caller.connect(gateway.port)
      caller.send(requestBytes(CHAT, { method: 'POST', key: KEY, fields: { 'content-length': '100' } }))
      caller.send('{"m')
      await new Promise((resolve) => setImmediate(resolve))
      caller[leave]()
    }
    expect((await send(requestBytes('/v1/models', { key: KEY }))).status).toBe(200)
    expect(calls()).toBe(0)
  })

  const frames = does.chatFrames(['one', ' two'])
  test.each(['close', 'reset', 'halfClose'] as const)(
    'by %s in the middle of a stream: the call to the provider ends, one log line',
    async (leave) => {
      upstream.on('m', does.stalls(frames.slice(0, 2)))
      const at = upstream.calls.length
      await using caller = await Caller.connect(gateway.port)
      caller.send(chat({ ...BODY, stream: true }))
      const id = /x-request-id: (\S+)/i.exec(await caller.until('one'))?.[1]
      caller[leave]()
      const call = await upstream.call(undefined, at)
      await call.aborted
      expect(await gateway.request(id)).toMatchObject({
        outcome: 'caller_left',
        usage: 'estimated',
        status: 200,
        streamed: true,
      })
    },
  )

  test.each([true, false])('before the provider has answered: the call to it ends (streamed: %p)', async (stream) => {
    upstream.on('m', does.silent())
    const at = upstream.calls.length
    const caller = await Caller.connect(gateway.port)
    caller.send(chat({ ...BODY, stream }))
    const call = await upstream.call(undefined, at)
    caller.close()
    await call.aborted
  })

  test('at any moment of a stream: each request has one log line', async () => {
    const marker = await send(chat())
    await gateway.request(marker.header('x-request-id'))
    const lines = () => gateway.lines.filter((line) => line['msg'] === 'request' && line['dialect'] === 'chat')
    const before = lines().length
    const at = upstream.calls.length
    const count = 60
    for (let n = 0; n < count; n++) {
      const caller = await Caller.connect(gateway.port)
      caller.send(chat({ ...BODY, stream: true }))
      const whole = caller.answer().catch(() => undefined)
      await Promise.race([whole, upstream.call(undefined, at + n)])
      for (let turn = 0; turn < n % 12; turn++) await new Promise((resolve) => setImmediate(resolve))
      caller.reset()
    }
    while (lines().length < before + count) await gateway.line(() => lines().length >= before + count)
    await send(requestBytes('/v1/models', { key: KEY }))
    const ids = lines()
      .slice(before)
      .map((line) => line['request_id'])
    expect(new Set(ids).size).toBe(count)
    expect(lines().length).toBe(before + count)
  })
})

describe('a caller that does not read', () => {
  test('slows the provider down, delays no other request, and gets everything once it reads', async () => {
    let sent = 0
    const piece = does.chatFrames(['x'.repeat(8000)], { usage: false })[1] ?? ''
    const [role = ''] = does.chatFrames([])
    const enough = 200 * MIB
    upstream.on(
      'm',
      does.endless([role], piece, (bytes) => {
        sent = bytes
      }),
    )
    await using caller = await Caller.connect(gateway.port)
    caller.pause()
    caller.send(chat({ ...BODY, stream: true }))
    let before = -1
    for (let still = 0; still < 3; still = before === sent && sent > 0 ? still + 1 : 0) {
      before = sent
      await Bun.sleep(100)
    }
    // What the four sockets' buffers of the kernel take, and at most 256 KiB of ours.
    expect(sent).toBeLessThan(enough / 4)
    upstream.on('m', does.answersText('Hel', 'lo'))
    expect((await send(chat())).status).toBe(200)
    caller.resume()
    while (sent < before + 32 * MIB) await Bun.sleep(20)
    caller.reset()
  })
})

describe('any bytes', () => {
  const bytes = chat({ ...BODY, stream: true, tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] })

  function mutate(random: Random): Uint8Array {
    let mutant = Uint8Array.from(bytes)
    for (let edits = random.between(1, 4); edits > 0; edits--) {
      const at = random.below(mutant.length)
      const kind = random.below(4)
      if (kind === 0) mutant[at] = random.below(256)
      else if (kind === 1)
        mutant = joined([mutant.subarray(0, at), mutant.subarray(at + random.between(1, 20))]) as typeof mutant
      else if (kind === 2)
        mutant = joined([mutant.subarray(0, at), mutant.subarray(random.below(at + 1))]) as typeof mutant
      else
        mutant = joined([
          mutant.subarray(0, at),
          bytesOf(random.pick(['\r\n', '\n', '\u0000', ':', '"', '{', '}', '[', ',', '%', ' '])),
          mutant.subarray(at),
        ]) as typeof mutant
    }
    return mutant
  }

  property('no mutant of a request ends in a 5xx of ours or in the end of the program', 300, async (random) => {
    await using caller = await Caller.connect(gateway.port)
    caller.send(mutate(random))
    // A second request ends the wait for bytes that a mutant still expects.
    caller.send(requestBytes('/v1/models', { key: KEY }))
    caller.halfClose()
    const answer = await caller.answer().catch(() => undefined)
    // 501 and 505 are the runtime's, for unknown methods and versions.
    if (answer !== undefined && [500, 502, 503, 504].includes(answer.status))
      throw new Error(`status ${answer.status}: ${answer.text}`)
  })

  /** A body of the right words in wrong places. */
  function randomJson(random: Random, depth: number): unknown {
    const words = ['m', 'user', 'assistant', 'tool', 'function', 'text', 'image_url', 'hi', '', 'auto', 'json_schema']
    const names = [
      'model',
      'messages',
      'role',
      'content',
      'type',
      'text',
      'tools',
      'function',
      'name',
      'parameters',
      'stream',
      'stop',
      'tool_calls',
      'arguments',
      'tool_call_id',
      'image_url',
      'url',
      'tool_choice',
      'response_format',
      'stream_options',
      'max_tokens',
      'temperature',
      'logit_bias',
      '__proto__',
    ]
    const kind = random.below(depth > 4 ? 5 : 8)
    if (kind === 0) return random.chance(0.5) ? null : random.chance(0.5)
    if (kind === 1) return random.pick([0, 1, -1, 1.5, 1e308, -0])
    if (kind < 5) return words[random.below(words.length)]
    if (kind === 5) return random.list(4, () => randomJson(random, depth + 1))
    return Object.fromEntries(random.list(5, () => [names[random.below(names.length)], randomJson(random, depth + 1)]))
  }

  property('no JSON ends in a 500', 500, async (random) => {
    const messages = random.list(3, () => ({
      role: random.pick(['user', 'assistant', 'system', 'tool']),
      content: randomJson(random, 2),
    }))
    const some = randomJson(random, 0)
    const body = {
      ...(isObject(some) ? some : {}),
      model: 'm',
      messages: random.chance(0.7) ? messages : randomJson(random, 1),
    }
    const answer = await send(chat(JSON.stringify(body)))
    if (answer.status !== 200 && answer.status !== 400)
      throw new Error(`status ${answer.status}: ${answer.text}\n${JSON.stringify(body)}`)
  })
})
