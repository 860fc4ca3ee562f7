/**
 * weir in front of a strict simulator at `https://api.openai.com`: each family of models is asked by the API that takes
 * the request, without a rejection. What no table knows is learned once, for all nodes and over a restart.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import net, { type Socket } from 'node:net'
import { join } from 'node:path'
import tls from 'node:tls'
import type { JsonObject } from '../../src/core/json.ts'
import { KEY, until, Weir } from '../process/weir.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { openaiServer } from '../support/openai-server.ts'
import { RedisServer } from '../support/redis.ts'
import { textAnswer } from '../support/speech.ts'
import { portOf, Upstream } from '../support/upstream.ts'
import { ForwardProxy } from '../transport/forward-proxy.ts'

const FOLDER = join(import.meta.dir, '../fixtures/tls')
const pem = (name: string): string => readFileSync(join(FOLDER, name), 'utf8')

type Model = Parameters<typeof openaiServer>[0]
const EFFORT: Model = { needsResponses: 'tools with effort' }
const TOOLS: Model = { needsResponses: 'tools' }
const ALWAYS: Model = { needsResponses: 'tools', refusesNone: true }
const ALONE: Model = { needsResponses: 'everything' }
/** As OpenAI documents them. */
const FAMILIES: Readonly<Record<string, Model>> = {
  'gpt-4.1': { needsResponses: 'nothing', thinks: false },
  ...{ o3: { needsResponses: 'nothing' }, 'gpt-5': { needsResponses: 'nothing' } },
  ...{ 'gpt-5.2-mini': { needsResponses: 'nothing' }, 'gpt-5.4': EFFORT, 'gpt-5.5-2026-04-01': EFFORT },
  ...{ 'gpt-5.6': TOOLS, 'gpt-5.10': TOOLS, 'gpt-6-sol': TOOLS, 'ft:gpt-5.6:acme::id': TOOLS },
  ...{ 'gpt-6-astra': ALWAYS, 'gpt-6.1-sol-2026-10-01': ALWAYS },
  ...{ 'gpt-5.2-pro': ALONE, 'o3-pro': ALONE, 'gpt-5.1-codex-max': ALONE, 'o4-mini-deep-research': ALONE },
}
/** Of no family that is known. */
const UNKNOWN: Readonly<Record<string, Model>> = { 'o7-large': TOOLS, 'o7-huge': ALONE }

const stack = new AsyncDisposableStack()
let upstream: Upstream
let text: string
let env: Readonly<Record<string, string>>
let weir: Weir
let other: Weir

beforeAll(async () => {
  const models = { ...FAMILIES, ...UNKNOWN }
  upstream = stack.use(
    await Upstream.start(
      Object.fromEntries(
        Object.entries(models).map(([name, of]) => [name, openaiServer(of, () => textAnswer('It is warm.'))]),
      ),
    ),
  )
  const server = tls.createServer({ key: pem('leaf.key'), cert: pem('openai.crt') }, (socket) => {
    const link = net.connect(upstream.port)
    for (const side of [socket, link]) side.on('error', () => undefined)
    socket.pipe(link).pipe(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stack.defer(() => void server.close())
  const lead = (socket: Socket, head: string) => {
    if (!head.startsWith('CONNECT api.openai.com:443 ')) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    socket.write('HTTP/1.1 200 OK\r\n\r\n')
    const link = net.connect(portOf(server))
    for (const side of [socket, link]) side.on('error', () => undefined)
    return socket.pipe(link).pipe(socket)
  }
  const proxy = stack.use(await ForwardProxy.start({ answer: lead }))
  env = { HTTPS_PROXY: `http://127.0.0.1:${proxy.port}`, NODE_EXTRA_CA_CERTS: join(FOLDER, 'openai.crt') }
  const redis = stack.use(await RedisServer.start())
  text = JSON.stringify({
    ...{ listen: { port: 0 }, admin: { port: 0 }, ledger: { redis: redis.url }, data_dir: './data' },
    compatibility: { mode: 'native' },
    providers: { openai: { dialect: 'openai', api_key: 'k' } },
    models: Object.keys(models).map((name) => ({ name, targets: [{ provider: 'openai', model: name }] })),
    organizations: [{ id: 'acme', keys: [{ id: 'ci', key: KEY }] }],
  })
  weir = await Weir.ready(text, [], { env })
  other = stack.use(await Weir.ready(text, [], { env }))
})

afterAll(() => stack.disposeAsync())

const SCHEMA = { type: 'object', properties: {} }
const QUESTION = [{ role: 'user', content: 'How warm is Oslo?' }]

const CHAT = '/v1/chat/completions'

/** The body of a request on each path. */
const BODIES: Readonly<Record<string, (effort: string | undefined) => JsonObject>> = {
  [CHAT]: (effort) => ({
    messages: QUESTION,
    tools: [{ type: 'function', function: { name: 'look', parameters: SCHEMA } }],
    ...(effort !== undefined && { reasoning_effort: effort }),
  }),
  '/v1/messages': (effort) => ({
    messages: QUESTION,
    max_tokens: 20_000,
    tools: [{ name: 'look', input_schema: SCHEMA }],
    ...(effort === 'none' && { thinking: { type: 'disabled' } }),
    ...(effort === 'high' && { thinking: { type: 'enabled', budget_tokens: 16_384 } }),
  }),
  '/v1/responses': (effort) => ({
    input: QUESTION,
    tools: [{ type: 'function', name: 'look', parameters: SCHEMA }],
    ...(effort !== undefined && { reasoning: { effort } }),
  }),
}

/** By which API the model is asked for it, one call after the other. */
async function asked(of: Weir, model: string, path: string, body: JsonObject): Promise<readonly string[]> {
  const before = upstream.calls.length
  const request = requestBytes(path, { key: KEY, body: { model, ...body } })
  const answer = await ask(Number(new URL(of.address).port), request)
  expect([model, path, body, answer.status, answer.text.includes('It is warm.')]).toEqual([
    ...[model, path, body, 200, true],
  ])
  return upstream.calls.slice(before).map((call) => call.path)
}

test('every family is asked by the API that takes the request', async () => {
  for (const [model, { needsResponses: needs }] of Object.entries(FAMILIES))
    for (const [path, bodyOf] of Object.entries(BODIES))
      for (const effort of path === CHAT ? [undefined, 'none', 'high'] : ['high']) {
        const isExplicit =
          effort === 'high' || (effort === 'none' && model.startsWith('gpt-6') && !model.includes('6-sol'))
        const byTools =
          needs === 'everything' ||
          (needs === 'tools' && (effort !== 'none' || isExplicit)) ||
          (needs === 'tools with effort' && isExplicit)
        const { tools: _, ...without } = bodyOf(effort)
        const expected = (isByResponses: boolean) => [isByResponses ? '/v1/responses' : CHAT]
        const calls = [await asked(weir, model, path, bodyOf(effort)), await asked(weir, model, path, without)]
        expect([model, path, effort, ...calls]).toEqual([
          ...[model, path, effort, expected(byTools), expected(needs === 'everything')],
        ])
      }
})

test('a model of an unknown family is learned once, for all nodes and over a restart', async () => {
  const withTools = BODIES[CHAT]?.(undefined) ?? {}
  const { tools: _, ...without } = withTools
  const ways = (of: Weir, model: string, body: JsonObject) => asked(of, model, CHAT, body)
  const [chat, responses] = [CHAT, '/v1/responses']
  expect(await ways(weir, 'o7-large', withTools)).toEqual([chat, responses])
  expect(await ways(weir, 'o7-huge', without)).toEqual([chat, responses])
  expect(await ways(weir, 'o7-large', withTools)).toEqual([responses])
  expect(await ways(weir, 'o7-large', without)).toEqual([chat])
  await weir[Symbol.asyncDispose]()
  const learned = join(other.folder, 'data/learned-forms.json')
  await until(
    () =>
      existsSync(learned) && ['o7-large', 'o7-huge'].every((model) => readFileSync(learned, 'utf8').includes(model)),
  )
  expect(await ways(other, 'o7-large', withTools)).toEqual([responses])
  expect(await ways(other, 'o7-huge', withTools)).toEqual([responses])
  await using again = await Weir.ready(text, [], { env })
  expect(await ways(again, 'o7-huge', without)).toEqual([responses])
  expect(await ways(again, 'o7-large', withTools)).toEqual([responses])
})
