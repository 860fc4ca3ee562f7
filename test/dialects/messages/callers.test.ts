/** Recorded requests of official SDKs and coding agents, and their canonical form. */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CallerError } from '../../../src/core/caller-error.ts'
import { isArray, isObject, type JsonObject } from '../../../src/core/json.ts'
import { refuseForbidden } from '../../../src/dialects/forbidden-fields.ts'
import type { Literal } from '../../support/literal.ts'
import { acceptCount, acceptMessages } from './requests.ts'

const CALLERS = join(import.meta.dir, '../../fixtures/callers')
const refuse = { toolResultImages: 'refuse' } as const

interface Recorded {
  readonly body: JsonObject
}

function recorded(folder: string, prefix: string): ReadonlyMap<string, JsonObject> {
  const names = readdirSync(join(CALLERS, folder)).filter((name) => name.startsWith(prefix))
  return new Map(
    names.map((name) => {
      const { body }: Recorded = JSON.parse(readFileSync(join(CALLERS, folder, name), 'utf8'))
      return [name.slice(prefix.length, -'.json'.length), body]
    }),
  )
}

function bodyOf(bodies: ReadonlyMap<string, JsonObject>, name: string): JsonObject {
  const body = bodies.get(name)
  if (body === undefined) throw new Error(`no recorded request ${name}`)
  return body
}

describe('SDKs in a tool loop of two steps', () => {
  const bodies = recorded('requests', 'messages.')
  const text = (value: string) => ({ type: 'text', text: value }) as const
  const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  const image = { type: 'image', source: { type: 'base64', mediaType: 'image/png', data } } as const
  const first = [
    { role: 'system', parts: [text('You are terse.')] },
    { role: 'user', parts: [text('Weather?'), image] },
  ] as const
  const second = [
    ...first,
    {
      role: 'assistant',
      parts: [text('Let me check.')],
      toolCalls: [
        { callId: 'call_a1', name: 'get_weather', json: '{"city":"Oslo"}' },
        { callId: 'call_b2', name: 'get_weather', json: '{"city":"Rome"}' },
      ],
    },
    { role: 'tool', callId: 'call_a1', parts: [text('{"city":"Oslo","c":4}')] },
    { role: 'tool', callId: 'call_b2', parts: [text('{"city":"Rome","c":4}')] },
  ] as const

  const loops = ['ai6-anthropic', 'ai7-anthropic', 'langchain'].flatMap((sdk) => [`${sdk}-body`, `${sdk}-stream`])
  test.each(loops)('%s', (loop) => {
    const [one, two] = [1, 2].map((step) => acceptMessages(bodyOf(bodies, `${loop}.${step}`), refuse))
    expect(one?.messages).toEqual([...first])
    expect(two?.messages).toEqual([...second])
    for (const request of [one, two]) {
      expect(request).toMatchObject({ model: 'acme-large', maxOutputTokens: 300, stream: loop.endsWith('stream') })
      expect(request?.tools).toHaveLength(1)
      expect(request?.tools[0]).toMatchObject({
        name: 'get_weather',
        description: 'w',
        parameters: { required: ['city'] },
      })
      expect(request?.toolChoice).toEqual(loop.startsWith('ai') ? { mode: 'auto' } : undefined)
      expect(request?.sampling.temperature).toBe(loop.startsWith('ai') ? 0.5 : undefined)
    }
  })

  test('the tool runner starts a thread, and gets `thread_not_found` when it continues it', () => {
    const request = acceptMessages(bodyOf(bodies, 'anthropic1-toolRunner.1'), refuse)
    expect(request.messages).toEqual([
      { role: 'system', parts: [text('You are terse.')] },
      { role: 'user', parts: [text('Weather?')] },
    ])
    expect(() => acceptMessages(bodyOf(bodies, 'anthropic1-toolRunner.2'), refuse)).toThrow(
      expect.objectContaining({
        kind: 'thread_not_found',
        detail: expect.objectContaining({ details: { error_code: 'thread_not_found' } }),
      }),
    )
  })

  test('every recording is tested', () => {
    const looked = [...loops, 'anthropic1-toolRunner'].flatMap((loop) => [`${loop}.1`, `${loop}.2`])
    expect([...bodies.keys()].sort()).toEqual(looked.sort())
  })
})

describe('Claude Code', () => {
  const bodies = recorded('agents', 'claude-code.claude-')
  const accepted = (name: string): Literal => acceptMessages(bodyOf(bodies, name), refuse)
  const working = [
    'agent-003',
    'latest-model-claude-opus-4-8-003',
    'latest-thinking-002',
    'latest-tool-003',
    'latest-websearch-002',
  ]

  test.each([...bodies.keys()])(
    '%s has no forbidden field: `metadata` is allowed, `timeout` stands in schemas alone',
    (name) => {
      expect(() => refuseForbidden(bodyOf(bodies, name), 'accepted')).not.toThrow()
    },
  )

  test.each(working)('%s is accepted, with its marks and all its tools', (name) => {
    const body = bodyOf(bodies, name)
    const request = accepted(name)
    const count = (json: JsonObject | readonly unknown[]) => JSON.stringify(json).split('"cache_control"').length - 1
    const marks = (value: unknown) => JSON.stringify(value).split('"cache":{}').length - 1
    expect(request).toMatchObject({ stream: true, limitsOutput: true, cacheStrict: false })
    expect(request.maxOutputTokens).toBe(Number(body['max_tokens']))
    expect(marks(request.messages) + marks(request.tools)).toBe(count(body))
    expect(request.tools.map((tool) => tool.name)).toEqual(toolNames(body))
    expect(request.messages[0]).toMatchObject({ role: 'system', parts: [{}, { cache: {} }, { cache: {} }] })
  })

  test('a system message between call and next turn becomes a user message; results follow their calls', () => {
    const { messages } = accepted('latest-model-claude-opus-4-8-003')
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user', 'user', 'assistant', 'tool', 'user'])
    expect(messages[3]).toMatchObject({
      parts: [],
      toolCalls: [{ name: 'Bash', json: '{"command":"ls","description":"list"}' }],
    })
    expect(messages[4]).toMatchObject({ callId: 'toolu_mwp92c760011abcdefgh', parts: [{ text: 'marker-7731.txt' }] })
    expect(messages[5]).toMatchObject({ parts: [{ cache: {} }] })
  })

  test('an image that it read: rejected with the path of the block, or passed on after the result', () => {
    const body = bodyOf(bodies, 'latest-read-image-004')
    const failure = failureOf(body)
    expect(failure.message).toBe('Unsupported Anthropic content block')
    expect(failure.detail.param).toBe('messages[3].content[0].content[0].type')
    const passed = acceptMessages(body, { toolResultImages: 'pass' }).messages.slice(-2)
    expect(passed).toMatchObject([
      { role: 'tool', callId: 'toolu_mwp93dt00017abcdefgh', parts: [] },
      { role: 'user', parts: [{ type: 'image', source: { mediaType: 'image/png' }, cache: {} }] },
    ])
  })

  test('a reference to a tool: rejected, after which Claude Code sends all its tools', () => {
    const failure = failureOf(bodyOf(bodies, 'latest-toolsearch-003'))
    expect(failure.message).toBe('Unsupported Anthropic content block')
    expect(failure.detail.param).toBe('messages[3].content[0].content[0].type')
  })

  test('count_tokens without an output limit, with no tools', () => {
    const request = acceptCount(bodyOf(bodies, 'latest-context-010'), refuse)
    expect(request.messages).toEqual([{ role: 'user', parts: [{ type: 'text', text: 'foo' }] }])
  })

  test('every recording is tested', () => {
    const looked = [...working, 'latest-read-image-004', 'latest-toolsearch-003', 'latest-context-010']
    expect([...bodies.keys()].sort()).toEqual(looked.sort())
  })
})

function failureOf(body: JsonObject): CallerError {
  try {
    acceptMessages(body, refuse)
  } catch (error) {
    if (error instanceof CallerError) return error
  }
  throw new Error('the body was not refused')
}

function toolNames(body: JsonObject): string[] {
  const { tools } = body
  return isArray(tools) ? tools.map((tool) => (isObject(tool) ? String(tool['name']) : '')) : []
}
