/**
 * Recorded requests of SDKs and coding agents, replayed against the real program: each is answered, and the provider
 * gets what the caller meant. Also other requests of agents: probes, token counting, websockets, two credentials at
 * once.
 */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf } from '../../src/core/json.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { meaningOf } from '../laws/reading.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { lasting, lastingUpstream } from '../support/served.ts'
import { calls, speaks, textAnswer } from '../support/speech.ts'
import type { Speech } from '../support/speech-writer.ts'
import type { Call } from '../support/upstream.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers')
const OSLO = { id: 'call_a1', name: 'get_weather', json: '{"city":"Oslo"}' }
const ROME = { id: 'call_b2', name: 'get_weather', json: '{"city":"Rome"}' }
/** The model names that agents request. Only the second gateway passes images in tool results on. */
const MODELS = ['acme-large', 'claude-stub-1', 'claude-opus-4-8', 'stub-model', 'gpt-5.5', 'gpt-6-sol']

const upstream = await lastingUpstream()
upstream.otherwise(speaks('openai', speechFor))
const models = Object.fromEntries(MODELS.map((name) => [name, [`up/${name}`]]))
const start = (config: JsonObject) =>
  Gateway.start({ providers: { up: upstream.url }, models, config, validated: true })
const gateway = lasting(await start({}))
const passing = lasting(await start({ compatibility: { tool_result_images: 'pass' } }))

/**
 * A model that calls its weather tool twice if there is one and nothing was called yet; else a tool of a namespace;
 * else it answers with text.
 */
function speechFor({ json }: Call): Speech {
  const names = toolNames(json)
  if (JSON.stringify(json['messages']).includes('"tool_calls"')) return textAnswer('Done.')
  if (names.includes('get_weather')) return calls('Let me check.', OSLO, ROME)
  const lifted = names.find((name) => name.includes('__'))
  return lifted === undefined ? textAnswer('Done.') : calls('', { id: 'call_ns', name: lifted, json: '{"target":"x"}' })
}

const objects = (value: unknown): readonly JsonObject[] => (isArray(value) ? value.filter(isObject) : [])
const toolNames = (body: JsonObject) =>
  objects(body['tools']).map((tool) => String(isObject(tool['function']) ? tool['function']['name'] : ''))

interface Recorded {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonObject
}

function recorded(file: string): Recorded {
  const { url, path = url, headers = {}, body } = JSON.parse(readFileSync(join(FOLDER, file), 'utf8'))
  return { path, headers, body }
}

/** Sends a recorded request with our key in place of its own; `auth` is for requests without one. */
async function replay({ path, headers, body }: Recorded, to = gateway, auth: 'bearer' | 'x-api-key' = 'bearer') {
  const own = headers['x-api-key'] === undefined && headers['authorization'] === undefined ? auth : undefined
  const sent = new Headers(headers)
  if (sent.has('x-api-key') || own === 'x-api-key') sent.set('x-api-key', KEY)
  if (sent.has('authorization') || own === 'bearer') sent.set('authorization', `Bearer ${KEY}`)
  const response = await fetch(`${to.url}${path}`, { method: 'POST', headers: sent, body: JSON.stringify(body) })
  return { response, text: await response.text() }
}

const dialectOf = (path: string): DialectName =>
  path.includes('/messages') ? 'messages' : path.endsWith('/responses') ? 'responses' : 'chat'

/** Replays a request and reads its answer; throws if the status is not 200. */
async function answered(
  request: Recorded,
  to = gateway,
  auth?: 'bearer' | 'x-api-key',
): Promise<ReturnType<typeof meaningOf>> {
  const { response, text } = await replay(request, to, auth)
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  const asked = request.body['stream_options']
  const includeUsage = isObject(asked) && asked['include_usage'] === true
  return meaningOf(dialectOf(request.path), request.body['stream'] === true, text, includeUsage)
}

/** The messages of the provider's last request, one per line. */
function lines(): string[] {
  return objects(upstream.calls.at(-1)?.json['messages']).map((message) => {
    const { content } = message
    const text = isArray(content)
      ? objects(content)
          .map((part) => part['text'] ?? `<${part['type']}>`)
          .join('')
      : content
    const made = objects(message['tool_calls']).map(({ id, function: called }) => `${id}=${callJson(called)}`)
    return `${[message['role'], message['tool_call_id']].filter(Boolean).join(' ')}: ${[text ?? '', ...made].join(' ')}`
  })
}

/** Its members in one order: a call may be sent as its caller wrote it. */
function callJson(called: JsonValue | undefined): string {
  const { name, arguments: json } = objectOf(called) ?? {}
  return JSON.stringify({ name, arguments: json })
}

const called = ({ id, name, json }: typeof OSLO) => `${id}=${JSON.stringify({ name, arguments: json })}`

describe('SDKs in a tool loop of two steps', () => {
  const names = readdirSync(join(FOLDER, 'requests')).map((file) => file.replace('.json', ''))
  const loops = [...new Set(names.map((name) => name.replace(/\.[12]$/, '')))]

  test('52 loops are recorded', () => expect(names).toHaveLength(52))

  const withoutThreads = loops.filter((loop) => !loop.includes('toolRunner'))
  test.each(withoutThreads)('%s', async (loop) => {
    const first = recorded(`requests/${loop}.1.json`)
    const second = recorded(`requests/${loop}.2.json`)
    const dialect = dialectOf(first.path)
    const { text, calls: made, finish } = await answered(first)
    expect({ text, made: made.map(({ id, input }) => ({ id, input })) }).toEqual({
      text: 'Let me check.',
      made: [
        { id: 'call_a1', input: { city: 'Oslo' } },
        { id: 'call_b2', input: { city: 'Rome' } },
      ],
    })
    expect(finish).toBe({ chat: 'tool_calls', messages: 'tool_use', responses: 'completed' }[dialect])
    const seesPicture = JSON.stringify(first.body).includes('iVBOR') && dialect !== 'responses'
    const opening = ['system: You are terse.', `user: Weather?${seesPicture ? '<image_url>' : ''}`]
    expect(lines()).toEqual(opening)

    const refers = JSON.stringify(second.body).includes('item_reference')
    const body = refers ? await withRealReference(first, second.body) : second.body
    expect(await answered({ ...second, body })).toMatchObject({ text: 'Done.', calls: [] })
    const city = (name: string) => (loop.includes('runTools') ? '{"c":4}' : `{"city":"${name}","c":4}`)
    expect(lines()).toEqual([
      ...opening,
      `assistant: Let me check. ${called(OSLO)} ${called(ROME)}`,
      `tool call_a1: ${city('Oslo')}`,
      `tool call_b2: ${city('Rome')}`,
    ])
  })

  /** The second body, with its reference replaced by the id of the text in our answer to the first. */
  async function withRealReference(first: Recorded, body: JsonObject): Promise<JsonObject> {
    const { text } = await replay(first)
    const id = /msg_[A-Za-z0-9_-]+/.exec(text.slice(text.indexOf('"msg_')))?.[0] ?? ''
    return JSON.parse(JSON.stringify(body).replaceAll('msg_68b0', id))
  }

  test('a reference to an unknown item: 400 with advice', async () => {
    const { response, text } = await replay(recorded('requests/responses.ai7-openai-stream.2.json'))
    expect(response.status).toBe(400)
    expect(JSON.parse(text)).toMatchObject({
      error: { param: 'input[2].id', message: expect.stringContaining('store: false') },
    })
  })

  test('the tool runner begins a thread, and gets an error when it continues it', async () => {
    expect(await answered(recorded('requests/messages.anthropic1-toolRunner.1.json'))).toMatchObject({
      text: 'Let me check.',
      finish: 'tool_use',
    })
    const { response, text } = await replay(recorded('requests/messages.anthropic1-toolRunner.2.json'))
    expect(response.status).toBe(404)
    expect(JSON.parse(text)).toMatchObject({
      type: 'error',
      error: { type: 'not_found_error', details: { error_code: 'thread_not_found' } },
    })
  })
})

describe('Claude Code', () => {
  const read = (name: string) => recorded(`agents/claude-code.claude-${name}.json`)
  const working = [
    'agent-003',
    'latest-model-claude-opus-4-8-003',
    'latest-thinking-002',
    'latest-tool-003',
    'latest-websearch-002',
  ]

  test.each(working)('%s, with a key in either header', async (name) => {
    for (const auth of ['bearer', 'x-api-key'] as const) {
      const request = read(name)
      expect(await answered(request, gateway, auth)).toMatchObject({ text: 'Done.', finish: 'end_turn' })
      const sent = upstream.calls.at(-1)?.json ?? {}
      // Its limit exceeds the model's, and is lowered to it.
      expect(sent['max_tokens'] ?? sent['max_completion_tokens']).toBe(10_000)
      expect(toolNames(sent)).toEqual(objects(request.body['tools']).map((tool) => String(tool['name'])))
      for (const key of ['metadata', 'thinking', 'context_management', 'output_config', 'thread'])
        expect(sent).not.toHaveProperty(key)
    }
  })

  test('a system message between a call’s result and the next turn keeps its place', async () => {
    await answered(read('latest-model-claude-opus-4-8-003'))
    expect(lines().map((line) => line.split(':')[0])).toEqual([
      'system',
      'user',
      'user',
      'assistant',
      'tool toolu_mwp92c760011abcdefgh',
      'user',
    ])
  })

  test('an image that it read: 400 that names the place, or passed on', async () => {
    const { response, text } = await replay(read('latest-read-image-004'))
    expect(response.status).toBe(400)
    expect(JSON.parse(text)).toMatchObject({
      type: 'error',
      error: { message: 'Unsupported Anthropic content block', param: 'messages[3].content[0].content[0].type' },
    })
    expect(await answered(read('latest-read-image-004'), passing)).toMatchObject({ text: 'Done.' })
    expect(lines().at(-1)).toBe('user: <image_url>')
  })

  test('a reference to a tool: 400, after which it sends all its tools', async () => {
    const { response, text } = await replay(read('latest-toolsearch-003'))
    expect(response.status).toBe(400)
    expect(text).toContain('Unsupported Anthropic content block')
  })

  test('counts the tokens of its context, on both prefixes', async () => {
    const request = read('latest-context-010')
    for (const path of [request.path, '/v1/messages/count_tokens']) {
      const { response, text } = await replay({ ...request, path }, gateway, 'x-api-key')
      expect(response.status).toBe(200)
      const body: unknown = JSON.parse(text)
      expect(body).toEqual({ input_tokens: expect.any(Number) })
    }
  })

  test('every recorded request is tested', () => {
    const files = readdirSync(join(FOLDER, 'agents')).filter((file) => file.startsWith('claude-code.'))
    const looked = [...working, 'latest-read-image-004', 'latest-toolsearch-003', 'latest-context-010']
    expect(files.sort()).toEqual(looked.map((name) => `claude-code.claude-${name}.json`).sort())
  })
})

describe('Codex', () => {
  const files = readdirSync(join(FOLDER, 'agents')).filter((file) => file.startsWith('codex.'))

  test.each(files.filter((file) => !file.includes('compact-remote')))('%s', async (file) => {
    const request = recorded(`agents/${file}`)
    const { text, calls: made } = await answered(request)
    const sent = upstream.calls.at(-1)?.json ?? {}
    expect(sent['max_tokens'] ?? sent['max_completion_tokens']).toBe(4096)
    const inNamespaces = namespacesOf(request.body)
    const asked = JSON.stringify(sent['messages']).includes('"tool_calls"')
    if (inNamespaces.size === 0 || asked) expect({ text, made }).toEqual({ text: 'Done.', made: [] })
    for (const { name } of made) expect(inNamespaces).toContain(name)
    expect(made.length > 0).toBe(inNamespaces.size > 0 && !asked)
  })

  /** The functions in a request's namespaces, as `namespace/name`. */
  function namespacesOf({ tools, input }: JsonObject): ReadonlySet<string> {
    const added = objects(input).flatMap((item) => (item['type'] === 'additional_tools' ? objects(item['tools']) : []))
    const spaces = [...objects(tools), ...added].filter((tool) => tool['type'] === 'namespace')
    return new Set(
      spaces.flatMap(({ name, tools: inner }) =>
        objects(inner).flatMap((tool) => (tool['type'] === 'function' ? [`${name}/${tool['name']}`] : [])),
      ),
    )
  }

  test('some have tools in namespaces, in both forms', () => {
    const sizes = files.map((file) => namespacesOf(recorded(`agents/${file}`).body).size)
    expect(sizes.filter((size) => size > 0).length).toBeGreaterThan(2)
  })

  test('parallel calls are one turn, followed by their outputs', async () => {
    await answered(recorded('agents/codex.parallel-002.json'))
    expect(
      lines()
        .slice(-3)
        .map((line) => line.split(':')[0]),
    ).toEqual(['assistant', 'tool call_mwp8yhuk0008abcdefgh', 'tool call_mwp8yhuk000aabcdefgh'])
  })

  test('a compaction of another service is rejected; our own, in the same place, opens the conversation', async () => {
    const request = recorded('agents/codex.compact-remote-003.json')
    const { response, text } = await replay(request)
    expect(response.status).toBe(400)
    expect(JSON.parse(text)).toMatchObject({ error: { param: 'input[4].encrypted_content' } })
    const history = recorded('agents/codex.drv-003.json')
    const input = [...objects(history.body['input']), { type: 'compaction_trigger' }]
    const compacted = await replay({ ...history, body: { ...history.body, input } })
    const content = /"encrypted_content":"([^"]+)"/.exec(compacted.text)?.[1] ?? ''
    const ours: JsonObject = JSON.parse(JSON.stringify(request.body).replace('SUMMARY: dev…', content))
    expect(await answered({ ...request, body: ours })).toMatchObject({ finish: 'completed' })
    const summary = lines().findIndex((line) => line.includes('<conversation_summary>\nDone.'))
    expect(summary).toBe(lines().findIndex((line) => line.startsWith('user')))
    expect(summary).toBeGreaterThan(-1)
  })

  test('a websocket at a path that has none is rejected with 426', async () => {
    const fields = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    }
    const answer = await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, fields }))
    expect(answer.status).toBe(426)
    expect(answer.json()).toMatchObject({ error: { type: 'invalid_request_error' } })
    // Nobody has to act on it.
    expect((await gateway.request(answer.header('x-request-id')))['level']).toBe('debug')
  })

  test('an unknown model gets the error code that ends its retries', async () => {
    const request = recorded('agents/codex.drv-001.json')
    const { response, text } = await replay({ ...request, body: { ...request.body, model: 'nothing' } })
    expect(response.status).toBe(404)
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'model_not_found' } })
  })
})

describe('other requests of agents', () => {
  test.each(['/anthropic/api/hello', '/anthropic', '/', '/v1/responses', '/anthropic/v1/messages'])(
    'HEAD %s is answered at once, without a key',
    async (path) => {
      const response = await fetch(`${gateway.url}${path}`, { method: 'HEAD' })
      expect(response.status).toBe(200)
      expect(await response.text()).toBe('')
    },
  )

  test.each(['/v1/models/acme-large', '/v1/unknown'])('GET %s is a 404 in JSON', async (path) => {
    const response = await fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${KEY}` } })
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ error: { message: expect.any(String) } })
  })

  test.each([
    '/v1/chat/completions',
    '/v1/responses',
    '/v1/messages',
    '/anthropic/v1/messages?beta=true',
    '/anthropic/v1/messages/count_tokens?beta=true',
  ])('%s: a wrong key is not retried, two keys are reported', async (path) => {
    const post = (headers: Readonly<Record<string, string>>) =>
      fetch(`${gateway.url}${path}`, { method: 'POST', headers, body: '{}' })
    for (const headers of [
      { authorization: 'Bearer nothing' },
      { 'x-api-key': 'nothing' },
      { authorization: 'x' },
      {},
    ]) {
      const response = await post(headers)
      expect(response.status).toBe(401)
      expect(response.headers.get('x-should-retry')).toBe('false')
      expect(response.headers.get('www-authenticate')).toBe('Bearer')
      await response.body?.cancel()
    }
    const both = await post({ authorization: `Bearer ${KEY}`, 'x-api-key': KEY })
    expect(both.status).toBe(400)
    const text = await both.text()
    expect(text).toMatch(/ANTHROPIC_API_KEY.*ANTHROPIC_AUTH_TOKEN/)
    // Claude Code would say 'Invalid API key' instead.
    expect(text).not.toMatch(/x-api-key/i)
  })

  test.each([
    ['messages', '/anthropic/v1/messages', { model: 'stub-model', messages: [{ role: 'user', content: 'hi' }] }],
    ['responses', '/v1/responses', { model: 'stub-model', input: 'hi' }],
    ['chat', '/v1/chat/completions', { model: 'stub-model', messages: [{ role: 'user', content: 'hi' }] }],
  ] as const)('a key in either header works on %s', async (_, path, body) => {
    for (const auth of ['bearer', 'x-api-key'] as const) {
      expect(await answered({ path, headers: {}, body }, gateway, auth)).toMatchObject({ text: 'Done.' })
    }
  })
})
