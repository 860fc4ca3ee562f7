/**
 * The image endpoints of the running program: the official SDK and bare bytes on one side, a provider of bare TCP on
 * the other.
 */

import { describe, expect, test } from 'bun:test'
import net from 'node:net'
import { gzipSync } from 'node:zlib'
import OpenAI, { toFile as toFile7 } from 'openai'
import OpenAI6, { toFile as toFile6 } from 'openai-6'
import type { JsonObject } from '../../src/core/json.ts'
import { bytesOf, joined, textOf } from '../support/bytes.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { childrenOf, ownResidentBytes } from '../support/process-table.ts'
import * as does from '../support/scenarios.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { thrownBy } from '../support/thrown.ts'
import { type Call, portOf } from '../support/upstream.ts'

const BODY_BYTES_MAX = 10 * 1024 * 1024
const PNG = bytesOf('\x89PNG\r\n\x1a\n--not-a-boundary\r\n')
const USAGE = {
  input_tokens: 10,
  output_tokens: 272,
  total_tokens: 282,
  input_tokens_details: { text_tokens: 10, image_tokens: 0 },
}
/** As a provider writes it: another order and spacing than we would. */
const DATA = '[{"b64_json":"iVBORw0KGgo="}]'
const MADE = `{ "created": 1763650000,\n "size":"1024x1024", "data":${DATA}, "usage":${JSON.stringify(USAGE)} }`

const up = await lastingUpstream({
  'image-1': does.json(200, MADE),
  'image-2': does.json(200, MADE),
  down: does.json(500, '{"error":{"message":"no"}}'),
  picky: does.json(
    400,
    '{"error":{"message":"Invalid size at 10.0.0.1.","type":"invalid_request_error","code":"invalid_value"}}',
  ),
  busy: does.json(429, '{}', { 'retry-after': '7' }),
  page: does.json(200, '<html></html>', { 'content-type': 'text/html' }),
  empty: does.json(200, '{"created":1,"data":[]}'),
  bare: does.json(200, '{"created":1}'),
})
// A form names no model in JSON.
const formModel = (call: Call) => /name="model"\r\n\r\n(.*)\r\n/.exec(textOf(call.body))?.[1]
up.otherwise((call) => (formModel(call) === 'down' ? call.answer(500, '{}') : call.answer(200, MADE)))
const targets = (...models: readonly string[]) => models.map((model) => ({ provider: 'up', model }))
const image = (more: JsonObject) => ({ price: { image: 0.04 }, supports: ['image_generation'], ...more })
const azure = {
  dialect: 'azure',
  base_url: `http://127.0.0.1:${up.port}`,
  api_key: 'azure-key',
  api_version: '2025-04-01',
}
const gateway = await lastingGateway({
  providers: { up: up.url, azure },
  models: {
    chatty: ['up/chatty'],
    painter: image({ aliases: ['brush'], targets: targets('image-1') }),
    exact: image({ targets: targets('image-1'), price: { input: 5, output: 40 } }),
    falling: image({ targets: targets('down', 'image-2'), fallbacks: ['painter'] }),
    'falling-far': image({ targets: targets('down'), fallbacks: ['painter'] }),
    broken: image({ targets: targets('down', 'page') }),
    picky: image({ targets: targets('picky') }),
    sparing: image({ targets: targets('empty', 'bare', 'image-2') }),
    empty: image({ targets: targets('empty') }),
    busy: image({ targets: targets('busy') }),
    cloudy: image({ targets: [{ provider: 'azure', model: 'my deployment' }] }),
  },
})

const last = (): Call => {
  const call = up.calls.at(-1)
  if (call === undefined) throw new Error('the provider was not asked')
  return call
}
const post = (path: string, body: string | Uint8Array | object, fields: Record<string, string | undefined> = {}) =>
  ask(gateway.port, requestBytes(path, { key: KEY, body, fields }))
const generate = (body: object) => post('/v1/images/generations', body)
const form = (body: string | Uint8Array, type = 'multipart/form-data; boundary=b') =>
  post('/v1/images/edits', body, { 'content-type': type })
const field = (name: string, value: string) =>
  `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
const fields = (more = '') => `${field('model', 'painter')}${field('prompt', 'a weir')}${more}--b--\r\n`

function errorOf(answer: Answer): unknown {
  const body = answer.json() as { error: { code: string; param: string | null; message: string } }
  return [answer.status, body.error.code, body.error.param]
}

/** What a provider reads of a form: fields as text, files as their name, type and bytes. */
async function readForm(call: Call): Promise<readonly (readonly unknown[])[]> {
  const headers = { 'content-type': call.header('content-type') ?? '' }
  const read = await new Request('http://a', { method: 'POST', headers, body: Uint8Array.from(call.body) }).formData()
  return Promise.all(
    [...read].map(async ([name, value]) =>
      typeof value === 'string'
        ? [name, value]
        : [name, value.name, value.type, new Uint8Array(await value.arrayBuffer())],
    ),
  )
}

// What is used here is the same in both majors, but each brings types of its own.
const MAJORS: readonly (readonly [name: string, Sdk: typeof OpenAI, toFile: typeof toFile7])[] = [
  ['newest', OpenAI, toFile7],
  ['the major before', OpenAI6 as unknown as typeof OpenAI, toFile6],
]

describe.each(MAJORS)('the official SDK, %s', (_, Sdk, toFile) => {
  const client = () => new Sdk({ apiKey: KEY, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

  test('generates', async () => {
    const { data, response } = await client()
      .images.generate({ model: 'brush', prompt: 'a weir', n: 2, size: '1024x1024', response_format: 'b64_json' })
      .withResponse()
    expect(data.data?.[0]?.b64_json).toBe('iVBORw0KGgo=')
    expect(data.usage).toEqual(USAGE)
    expect(response.headers.get('x-gateway-requested-model')).toBe('brush')
    expect(response.headers.get('x-gateway-served-model')).toBe('painter')
    expect(response.headers.get('x-gateway-fallback-count')).toBe('0')
    expect(last().path).toBe('/v1/images/generations')
    expect(last().header('authorization')).toBe('Bearer provider-key-of-up')
    expect(last().json).toEqual({
      model: 'image-1',
      prompt: 'a weir',
      n: 2,
      size: '1024x1024',
      response_format: 'b64_json',
    })
  })

  test('edits one image', async () => {
    const image = await toFile(PNG, 'dam.png', { type: 'image/png' })
    const made = await client().images.edit({ model: 'painter', prompt: 'höher', image, n: 2, quality: 'low' })
    expect(made.created).toBe(1763650000)
    expect(last().path).toBe('/v1/images/edits')
    expect(last().header('content-length')).toBe(String(last().body.length))
    expect(await readForm(last())).toEqual([
      ['model', 'image-1'],
      ['prompt', 'höher'],
      ['image', 'dam.png', 'image/png', PNG],
      ['n', '2'],
      ['quality', 'low'],
    ])
  })

  test('edits several images with a mask', async () => {
    const files = await Promise.all(['a.png', 'bü.png'].map((name) => toFile(PNG, name, { type: 'image/png' })))
    const mask = await toFile(PNG, 'mask.png', { type: 'image/png' })
    await client().images.edit({ model: 'painter', prompt: 'both', image: files, mask })
    const sent = await readForm(last())
    expect(sent.slice(0, 2)).toEqual([
      ['model', 'image-1'],
      ['prompt', 'both'],
    ])
    // The SDK decides the order of the files.
    expect(sent.slice(2).sort((one, other) => String(one[1]).localeCompare(String(other[1])))).toEqual([
      ['image[]', 'a.png', 'image/png', PNG],
      ['image[]', 'bü.png', 'image/png', PNG],
      ['mask', 'mask.png', 'image/png', PNG],
    ])
  })

  test('streams: the provider makes whole images, the SDK sees them completed', async () => {
    const stream = await client().images.generate({ model: 'painter', prompt: 'a', stream: true, partial_images: 2 })
    const events = await Array.fromAsync(stream)
    expect(events).toEqual([
      {
        type: 'image_generation.completed',
        b64_json: 'iVBORw0KGgo=',
        created_at: 1763650000,
        size: '1024x1024',
        usage: USAGE,
      } as never,
    ])
    expect(last().json).toEqual({ model: 'image-1', prompt: 'a' })
    const image = await toFile(PNG, 'dam.png')
    const edits = await Array.fromAsync(
      await client().images.edit({ model: 'painter', prompt: 'a', image, stream: true }),
    )
    expect(edits.map(({ type }) => type)).toEqual(['image_edit.completed'])
    expect((await readForm(last())).map(([name]) => name)).toEqual(['model', 'prompt', 'image'])
  })

  test('never streams nothing: an answer without images is an error', async () => {
    const stream = await client().images.generate({ model: 'sparing', prompt: 'a', stream: true })
    expect((await Array.fromAsync(stream)).map((event) => event.type)).toEqual(['image_generation.completed'])
    const error = await thrownBy(client().images.generate({ model: 'empty', prompt: 'a', stream: true }))
    expect(error).toMatchObject({ status: 502, code: 'upstream_failed' })
    expect(await client().images.generate({ model: 'empty', prompt: 'a' })).toMatchObject({ data: [] })
  })

  test.each([
    ['picky', Sdk.BadRequestError],
    ['busy', Sdk.RateLimitError],
    ['broken', Sdk.InternalServerError],
    ['nobody', Sdk.NotFoundError],
  ])('%s: throws the matching class', async (model, kind) => {
    const thrown: unknown = await client()
      .images.generate({ model, prompt: 'a' })
      .catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(kind)
  })
})

describe('answers', () => {
  test('are the provider’s bytes', async () => {
    for (const answer of [
      await generate({ model: 'painter', prompt: 'a' }),
      await post('/v1/images/edits', {
        model: 'painter',
        prompt: 'a',
        images: [{ image_url: 'data:image/png;base64,AA==' }],
      }),
      await form(fields()),
    ]) {
      expect([answer.status, answer.text, answer.header('content-type')]).toEqual([200, MADE, 'application/json'])
    }
  })

  test('edits in JSON are sent in JSON', async () => {
    const images = [{ image_url: 'data:image/png;base64,AA==' }]
    await post('/v1/images/edits', { model: 'painter', prompt: 'a', images, input_fidelity: 'high', stream: null })
    expect(last().path).toBe('/v1/images/edits')
    expect(last().json).toEqual({ model: 'image-1', prompt: 'a', images, input_fidelity: 'high' })
  })

  test('fall back, with the form sent to each candidate', async () => {
    const before = up.calls.length
    const body = joined([bytesOf(field('prompt', 'a')), bytesOf(field('model', 'falling')), bytesOf('--b--')])
    const answer = await form(body)
    expect([answer.status, answer.header('x-gateway-fallback-count')]).toEqual([200, '1'])
    expect(await Promise.all(up.calls.slice(before).map(readForm))).toEqual([
      [
        ['model', 'down'],
        ['prompt', 'a'],
      ],
      [
        ['model', 'image-2'],
        ['prompt', 'a'],
      ],
    ])
    const far = await generate({ model: 'falling-far', prompt: 'a' })
    expect([far.header('x-gateway-served-model'), far.header('x-gateway-fallback-count')]).toEqual(['painter', '1'])
  })

  test('at Azure the deployment is in the path, and the key in its own header', async () => {
    await generate({ model: 'cloudy', prompt: 'a' })
    expect(last().path).toBe('/openai/deployments/my%20deployment/images/generations?api-version=2025-04-01')
    expect([last().header('api-key'), last().header('authorization')]).toEqual(['azure-key', undefined])
    const file = '--b\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\nPNG\r\n'
    await form(`${field('model', 'cloudy')}${field('prompt', 'a')}${file}--b--`)
    expect(last().path).toBe('/openai/deployments/my%20deployment/images/edits?api-version=2025-04-01')
  })
})

describe('the log line', () => {
  test('shows what was charged, by the image and by the token', async () => {
    const line = async (body: object) => {
      const { header } = await generate(body)
      return gateway.request(header('x-request-id'))
    }
    expect(await line({ model: 'painter', prompt: 'a' })).toMatchObject({
      dialect: 'images',
      requested_model: 'painter',
      served_model: 'painter',
      provider: 'up',
      fallbacks: 0,
      status: 200,
      streamed: false,
      input_tokens: 10,
      output_tokens: 272,
      usage: 'provider',
      cost_micro_usd: 40_000,
      outcome: 'completed',
    })
    expect(await line({ model: 'exact', prompt: 'a' })).toMatchObject({ cost_micro_usd: 50 + 10_880 })
    expect(await line({ model: 'painter', prompt: 'a', stream: true })).toMatchObject({ streamed: true, status: 200 })
    expect(await line({ model: 'painter', prompt: 'a', n: 0 })).toMatchObject({
      outcome: 'refused',
      error: 'invalid_value',
    })
  })

  test('a caller that leaves ends the provider’s work, and pays', async () => {
    const scenario = does.silent()
    up.on('image-2', scenario)
    const before = up.calls.filter((call) => call.model === 'image-2').length
    await using caller = await Caller.connect(gateway.port)
    caller.send(requestBytes('/v1/images/generations', { key: KEY, body: { model: 'falling', prompt: 'a', n: 2 } }))
    await up.call('image-2', before)
    caller.close()
    await last().aborted
    up.on('image-2', does.json(200, MADE))
    const line = await gateway.line(({ outcome, dialect }) => outcome === 'caller_left' && dialect === 'images')
    expect(line).toMatchObject({ served_model: 'falling', provider: 'up', cost_micro_usd: 80_000, usage: 'estimated' })
  })
})

describe('rejections', () => {
  const rows: readonly (readonly [name: string, ask: () => Promise<Answer>, expected: readonly unknown[]])[] = [
    ['a chat model here', () => generate({ model: 'chatty', prompt: 'a' }), [400, 'model_not_supported', 'model']],
    [
      'an image model there',
      () => post('/v1/chat/completions', { model: 'painter', messages: [{ role: 'user', content: 'a' }] }),
      [400, 'model_not_supported', 'model'],
    ],
    ['an unknown model', () => generate({ model: 'nobody', prompt: 'a' }), [404, 'model_not_found', 'model']],
    ['auto', () => generate({ model: 'auto', prompt: 'a' }), [404, 'model_not_found', 'model']],
    ['no prompt', () => generate({ model: 'painter' }), [400, 'missing_required_parameter', 'prompt']],
    ['no JSON', () => post('/v1/images/edits', '{'), [400, null, null]],
    [
      'a forbidden field',
      () => generate({ model: 'painter', prompt: 'a', base_url: 'x' }),
      [400, 'forbidden_field', 'base_url'],
    ],
    ['a forbidden form field', () => form(fields(field('metadata', '{}'))), [400, 'forbidden_field', 'metadata']],
    [
      'a form without a model',
      () => form(`${field('prompt', 'a')}--b--`),
      [400, 'missing_required_parameter', 'model'],
    ],
    ['a form that is cut', () => form(fields().slice(0, -8)), [400, null, null]],
    ['a form without a boundary', () => form(fields(), 'multipart/form-data'), [400, null, null]],
    [
      'a form for generations',
      () => post('/v1/images/generations', fields(), { 'content-type': 'multipart/form-data; boundary=b' }),
      [400, 'unsupported_content_type', null],
    ],
    [
      'a compressed body',
      () => post('/v1/images/edits', gzipSync(fields()), { 'content-encoding': 'gzip' }),
      [415, 'unsupported_content_encoding', null],
    ],
    ['what the provider refuses', () => generate({ model: 'picky', prompt: 'a' }), [400, 'invalid_value', null]],
    ['a busy provider', () => generate({ model: 'busy', prompt: 'a' }), [429, 'upstream_rate_limited', null]],
    ['no valid answer anywhere', () => generate({ model: 'broken', prompt: 'a' }), [502, 'upstream_failed', null]],
  ]
  test.each(rows)('%s', async (_, send, expected) => {
    const answer = await send()
    expect(errorOf(answer)).toEqual([...expected])
    expect(answer.header('cache-control')).toBe('no-store')
    expect(answer.text).not.toContain('10.0.0.1')
  })

  test('another method, and HEAD', async () => {
    const answer = await ask(gateway.port, requestBytes('/v1/images/edits', { key: KEY }))
    expect([answer.status, answer.header('allow')]).toEqual([405, 'POST'])
  })
})

describe('the cap of 10 MiB counts the whole form', () => {
  const head = bytesOf(`${field('model', 'painter')}--b\r\ncontent-disposition: form-data; name="prompt"\r\n\r\n`)
  const tail = bytesOf('\r\n--b--\r\n')
  const sized = (bytes: number) => joined([head, new Uint8Array(bytes - head.length - tail.length).fill(0x61), tail])
  const type = { 'content-type': 'multipart/form-data; boundary=b' }

  test('declared', async () => {
    expect((await form(sized(BODY_BYTES_MAX))).status).toBe(200)
    await using caller = await Caller.connect(gateway.port)
    const declared = { ...type, 'content-length': String(BODY_BYTES_MAX + 1) }
    caller.send(requestBytes('/v1/images/edits', { key: KEY, body: head, fields: declared }))
    expect(errorOf(await caller.answer())).toEqual([413, 'request_too_large', null])
  })

  test('in chunks', async () => {
    const chunked = (body: Uint8Array) => {
      const fields = { ...type, 'content-length': undefined, 'transfer-encoding': 'chunked' }
      const head = requestBytes('/v1/images/edits', { method: 'POST', key: KEY, fields })
      const size = bytesOf(`${body.length.toString(16)}\r\n`)
      return ask(gateway.port, joined([head, size, body, bytesOf('\r\n0\r\n\r\n')]))
    }
    expect((await chunked(sized(BODY_BYTES_MAX))).status).toBe(200)
    expect(errorOf(await chunked(sized(BODY_BYTES_MAX + 1)))).toEqual([413, 'request_too_large', null])
  })
})

test('an answer that comes before the provider has read the form counts; the next request gets its own', async () => {
  const answers = [
    'HTTP/1.1 400 Bad Request\r\ncontent-length: 47\r\n\r\n{"error":{"message":"No.","code":"no_such_no"}}',
    `HTTP/1.1 200 OK\r\ncontent-length: ${MADE.length}\r\n\r\n${MADE}`,
  ]
  const server = net.createServer((socket) => {
    socket.once('data', () => {
      // If the form were read after all, the connection could carry the next request, too.
      socket.pause()
      socket.write(answers.shift() ?? '')
    })
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  await using early = await Gateway.start({
    providers: { early: `http://127.0.0.1:${portOf(server)}/v1` },
    models: { painter: { targets: [{ provider: 'early', model: 'm' }], supports: ['image_generation'] } },
  })
  const send = (more: string) =>
    ask(
      early.port,
      requestBytes('/v1/images/edits', {
        key: KEY,
        body: fields(more),
        fields: { 'content-type': 'multipart/form-data; boundary=b' },
      }),
    )
  expect((await send(field('image', 'x'.repeat(9_000_000)))).status).toBe(400)
  expect((await send('')).text).toBe(MADE)
  server.close()
})

test('an upload is held once: eight at a time, all waiting for the provider', async () => {
  const uploads = 8
  const size = 9.9 * 1024 * 1024
  const held = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  let whole = 0
  const server = net.createServer((socket) => {
    let bytes = 0
    socket.on('error', () => {})
    socket.on('data', async (data) => {
      bytes += data.length
      if (bytes < size || bytes - data.length >= size) return
      if (++whole === uploads) held.resolve()
      if (whole > 1) await release.promise
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${MADE.length}\r\nconnection: close\r\n\r\n${MADE}`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  await using big = await Gateway.start({
    providers: { slow: `http://127.0.0.1:${portOf(server)}/v1` },
    models: { painter: { targets: [{ provider: 'slow', model: 'm' }], supports: ['image_generation'] } },
    config: { listen: { host: '127.0.0.1', port: 0, organization_body_bytes: uploads * 10 * 1024 * 1024 } },
  })
  const file = '--b\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n'
  const content = new Uint8Array(size).fill(0x80)
  const body = joined([bytesOf(file), content, bytesOf(`\r\n${fields()}`)])
  const request = requestBytes('/v1/images/edits', {
    key: KEY,
    body,
    fields: { 'content-type': 'multipart/form-data; boundary=b' },
  })
  // The first small one warms the program up.
  await ask(big.port, requestBytes('/v1/models', { key: KEY }))
  const before = memoryOf(big)
  const first = ask(big.port, request)
  expect((await first).status).toBe(200)
  const answers = Array.from({ length: uploads - 1 }, () => ask(big.port, request))
  await held.promise
  const grown = memoryOf(big) - before
  release.resolve()
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array.from(answers, () => 200))
  console.log(`${uploads - 1} uploads of 9.9 MiB held: ${(grown / size / (uploads - 1)).toFixed(2)} times their size`)
  expect(grown).toBeLessThan(1.75 * size * (uploads - 1))
  server.close()
})

/** Resident bytes of the only worker. */
function memoryOf(program: Gateway): number {
  return ownResidentBytes(childrenOf(program.pid)[0] ?? 0)
}
