/** Recorded requests of official SDKs and Codex: each is accepted and has the meaning that its caller intended. */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isObject, type JsonObject } from '../../../src/core/json.ts'
import { responses } from '../../../src/dialects/responses/responses.ts'
import { LocalItemStore } from '../../../src/items/local-item-store.ts'
import { Encoding } from '../../support/encoding.ts'
import { itemText, storeIn } from '../../support/item-text.ts'
import { type Literal, readBody, type Seen } from '../../support/literal.ts'
import { CALLER, failureOf, rejectionOf, SERVED, saying, sealer } from './setting.ts'

const FIXTURES = join(import.meta.dir, '../../fixtures/callers')
const listed = (folder: string, prefix: string) =>
  readdirSync(join(FIXTURES, folder)).filter((name) => name.startsWith(prefix))

function bodyOf(path: string): JsonObject {
  const recorded: unknown = JSON.parse(readFileSync(join(FIXTURES, path), 'utf8'))
  if (!isObject(recorded) || !isObject(recorded['body'])) throw new Error(`${path} has no body`)
  return recorded['body']
}

const itemStore = storeIn(new LocalItemStore({ ttlSeconds: 60 }))
const dialect = responses({ sealer, itemStore })

async function accepted(body: JsonObject): Promise<Seen> {
  return await readBody(dialect, body, CALLER)
}

/** Roles, texts and calls, one line per message. */
function lines({ messages }: Literal): string[] {
  return messages.map((message) => {
    const text = message.parts.map((part) => (part.type === 'text' ? part.text : '?')).join('+')
    if (message.role === 'tool') return `tool ${message.callId}: ${text}`
    if (message.role !== 'assistant') return `${message.role}: ${text}`
    const calls = message.toolCalls.map((call) => `${call.callId}=${call.name}(${call.json})`)
    return `assistant: ${text} ${calls.join(' ')}`
  })
}

describe('official SDKs', () => {
  // The first answer, to which the Vercel AI SDK refers.
  itemStore.put('acme', [
    itemText({
      id: 'msg_68b0',
      type: 'message',
      status: 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', annotations: [], logprobs: [], text: 'Let me check.' }],
    }),
  ])
  const FIRST = ['system: You are terse.', 'user: Weather?']
  const SECOND = [
    ...FIRST,
    'assistant: Let me check. call_a1=get_weather({"city":"Oslo"}) call_b2=get_weather({"city":"Rome"})',
    'tool call_a1: {"city":"Oslo","c":4}',
    'tool call_b2: {"city":"Rome","c":4}',
  ]

  test.each(listed('requests', 'responses.'))('%s', async (name) => {
    const { request } = await accepted(bodyOf(`requests/${name}`))
    expect(lines(request)).toEqual(name.endsWith('.1.json') ? FIRST : SECOND)
    expect(request.stream).toBe(name.includes('stream'))
    expect(request).toMatchObject({ model: 'acme-large', maxOutputTokens: 300, sampling: { temperature: 0.5 } })
    expect(request.tools.map((tool) => tool.name)).toEqual(['get_weather'])
    expect(request.tools[0]?.parameters).toMatchObject({ type: 'object', required: ['city'] })
    expect(request.toolChoice).toBeUndefined()
  })

  test('the AI SDK gets an error with the remedy if no items are stored', () => {
    const body = bodyOf('requests/responses.ai7-openai-body.2.json')
    const failure = failureOf(() => readBody(responses({ sealer }), body, CALLER))
    expect(failure.detail.param).toBe('input[2].id')
    expect(failure.message).toContain('store: false')
  })
})

describe('Codex', () => {
  const names = listed('agents', 'codex.')

  test.each(names.filter((name) => !name.includes('compact-remote')))('%s', async (name) => {
    const { request } = await accepted(bodyOf(`agents/${name}`))
    expect(request.stream).toBe(true)
    expect(request.limitsOutput).toBe(true)
    expect(request.maxOutputTokens).toBeUndefined()
    expect(request.messages[0]?.role).toBe('system')
    expect(request.tools.length).toBeGreaterThan(5)
    for (const tool of request.tools) expect(tool.name).toMatch(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/)
    expect(new Set(request.tools.map((tool) => tool.name)).size).toBe(request.tools.length)
  })

  test('tools of a namespace become top-level functions; tools that are not functions are dropped', async () => {
    const { request } = await accepted(bodyOf('agents/codex.namespace-001.json'))
    expect(request.tools.map((tool) => tool.name)).toEqual([
      'exec_command',
      'write_stdin',
      'request_user_input',
      'view_image',
      'get_goal',
      'create_goal',
      'update_goal',
      'multi_agent_v1__close_agent',
      'multi_agent_v1__resume_agent',
      'multi_agent_v1__send_input',
      'multi_agent_v1__spawn_agent',
      'multi_agent_v1__wait_agent',
    ])
  })

  test('a call in a namespace has its top-level name in the history, and is returned under its own', async () => {
    const exchange = await accepted(bodyOf('agents/codex.namespace-002.json'))
    expect(lines(exchange.request).slice(-2)).toEqual([
      'assistant:  call_mwp8yi78000fabcdefgh=multi_agent_v1__close_agent({"target":"x"})',
      'tool call_mwp8yi78000fabcdefgh: invalid agen…',
    ])
    const added = Encoding.of(exchange, SERVED).add({
      type: 'tool-start',
      index: 0,
      callId: 'call_1',
      name: 'multi_agent_v1__close_agent',
    })
    expect(added).toContain('"name":"close_agent","namespace":"multi_agent_v1"')
  })

  test('additional_tools: the tools are in the input', async () => {
    const { request } = await accepted(bodyOf('agents/codex.model-gpt-6-sol-001.json'))
    const tools = request.tools.map((tool) => tool.name)
    expect(tools).toContain('functions__wait')
    expect(tools).toContain('clock__sleep')
    expect(tools.some((name) => name.startsWith('collaboration__'))).toBe(true)
    expect(tools).not.toContain('functions__exec')
  })

  test('parallel calls are one turn', async () => {
    const { request } = await accepted(bodyOf('agents/codex.parallel-002.json'))
    expect(request.messages.slice(-3).map((message) => message.role)).toEqual(['assistant', 'tool', 'tool'])
  })

  test('an image in an output is ignored, the rest of the output is kept', async () => {
    const { request } = await accepted(bodyOf('agents/codex.view-image-002.json'))
    expect(request.messages.at(-1)).toEqual({ role: 'tool', callId: 'call_mwp8xm7m000oabcdefgh', parts: [] })
  })

  test('custom tool calls are skipped', async () => {
    const { request } = await accepted(bodyOf('agents/codex.apply-patch-custom-002.json'))
    expect(request.messages.map((message) => message.role)).toEqual(['system', 'system', 'user', 'user'])
  })

  test('an item of another service is rejected; one of ours goes to the start, wherever Codex puts it', async () => {
    const body = bodyOf('agents/codex.compact-remote-003.json')
    expect((await rejectionOf(accepted(body))).detail.param).toBe('input[4].encrypted_content')
    const compacting = await accepted({ model: 'm', input: [{ type: 'compaction_trigger' }] })
    const sse = Encoding.of(compacting, SERVED).addAll(saying('Ran ls.'))
    const content = /"encrypted_content":"([^"]+)"/.exec(sse)?.[1] ?? ''
    const ours = JSON.parse(JSON.stringify(body).replace('SUMMARY: dev…', content))
    const turns = lines((await accepted(ours)).request)
    expect(turns.map((line) => line.split(':')[0])).toEqual(['system', 'system', 'user', 'user', 'user'])
    expect(turns[2]).toContain('Ran ls.')
  })
})
