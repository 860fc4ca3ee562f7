/** Function tools in all positions, names that providers accept, and calls returned under the caller's own names. */

import { describe, expect, test } from 'bun:test'
import type { StreamEvent } from '../../../src/core/event.ts'
import type { JsonObject } from '../../../src/core/json.ts'
import { checkResponsesStream } from '../../laws/responses-grammar.ts'
import { accept, answered, failureOf, streamed } from './setting.ts'

const fn = (name: string, more: JsonObject = {}): JsonObject => ({ type: 'function', name, ...more })
const space = (name: string, ...tools: JsonObject[]): JsonObject => ({
  type: 'namespace',
  name,
  description: 'd',
  tools,
})
const toolsOf = (tools: JsonObject[], input: JsonObject[] = []) =>
  accept({ input: [{ role: 'user', content: 'x' }, ...input], tools }).request.tools
const namesOf = (tools: JsonObject[], input: JsonObject[] = []) => toolsOf(tools, input).map((tool) => tool.name)

const EMPTY = { type: 'object', properties: {} }

describe('functions', () => {
  test.each([
    [{}, { description: undefined, parameters: EMPTY, strict: undefined }],
    [
      { parameters: null, strict: null, description: null },
      { description: undefined, parameters: EMPTY, strict: undefined },
    ],
    [
      { parameters: { type: 'object', properties: { timeout: { type: 'number' } } }, strict: false, description: 'd' },
      { description: 'd', parameters: { type: 'object', properties: { timeout: { type: 'number' } } }, strict: false },
    ],
  ])('%j', (more, expected) => {
    expect(toolsOf([fn('f', more)])).toEqual([{ name: 'f', ...expected }])
  })

  test('other types are dropped', () => {
    expect(
      namesOf([{ type: 'web_search' }, fn('f'), { type: 'custom', name: 'apply_patch' }, { type: 'tool_search' }]),
    ).toEqual(['f'])
    expect(toolsOf([{ type: 'local_shell' }])).toEqual([])
  })

  test.each([
    [[{ type: 'function' }], 'tools[0].name'],
    [[fn('f'), { name: 'g' }], 'tools[1].type'],
    [[space('n', { type: 'function' })], 'tools[0].tools[0].name'],
    [[{ type: 'namespace', tools: [] }], 'tools[0].name'],
    [[{ type: 'namespace', name: 'n', tools: 3 }], 'tools[0].tools'],
    [[fn('f', { parameters: 'x' })], 'tools[0].parameters'],
  ] as [JsonObject[], string][])('%j is refused', (tools, param) => {
    expect(failureOf(() => toolsOf(tools)).detail.param).toBe(param)
  })

  test('in additional_tools too, the later definition in the place of the earlier', () => {
    const more = { type: 'additional_tools', role: 'developer', tools: [fn('g'), fn('f', { description: 'new' })] }
    const tools = toolsOf([fn('f', { description: 'old' }), fn('h')], [more])
    expect(tools.map(({ name, description }) => [name, description])).toEqual([
      ['f', 'new'],
      ['h', undefined],
      ['g', undefined],
    ])
    expect(
      failureOf(() => toolsOf([], [{ type: 'additional_tools', tools: [{ type: 'function' }] }])).detail.param,
    ).toBe('input[1].tools[0].name')
  })
})

describe('top-level names of namespaced tools', () => {
  test('are legal, unique and the same in every turn', () => {
    const long = 'n'.repeat(80)
    const tools = [
      fn('a__b'),
      space('a', fn('b'), fn('c')),
      space('a__b', fn('c')),
      space('a', fn('b__c')),
      space('mcp.server/x', fn('tool name')),
      space(long, fn('one'), fn('two')),
      space('9', fn('lives')),
      space('日本', fn('語')),
      space('日本', fn('本')),
    ]
    const names = namesOf(tools)
    expect(new Set(names).size).toBe(11)
    for (const name of names) expect(name).toMatch(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/)
    expect(names).toContain('a__c')
    expect(namesOf(tools)).toEqual(names)
    // Other tools change a name only if they conflict with it.
    expect(namesOf([space(long, fn('two')), fn('z')])).toEqual(['z', names[7] ?? ''])
  })

  test('a tool offered twice is one tool', () => {
    expect(namesOf([space('n', fn('f')), space('n', fn('f'))])).toEqual(['n__f'])
  })

  const tools = [fn('n__f'), space('n', fn('f'), fn('g'))]
  const [, lifted = ''] = namesOf(tools)

  test('a call is returned under its own name, with its namespace', () => {
    const events: StreamEvent[] = [
      { type: 'start' },
      ...['n__f', lifted, 'n__g'].flatMap((name, index): StreamEvent[] => [
        { type: 'tool-start', index, callId: `call_${index}`, name },
        { type: 'tool-delta', index, json: '{}' },
      ]),
      { type: 'finish', reason: 'tool-call' },
      { type: 'end' },
    ]
    const exchange = accept({ input: 'x', tools })
    const expected = [
      ['n__f', undefined],
      ['f', 'n'],
      ['g', 'n'],
    ]
    const { output } = answered(exchange, events) as { output: JsonObject[] }
    expect(output.map((item) => [item['name'], item['namespace']])).toEqual(expected)
    const reading = checkResponsesStream(streamed(exchange, events))
    expect(reading.output.map((item) => [item['name'], item['namespace']])).toEqual(expected)
  })

  test('a call in the history is sent under the top-level name, also if the tool is gone', () => {
    const call = (name: string, namespace?: string | null): JsonObject => ({
      type: 'function_call',
      call_id: 'c',
      name,
      namespace,
      arguments: '{}',
    })
    const sent = (item: JsonObject, offered: JsonObject[]) => {
      const [turn] = accept({ input: [item], tools: offered }).request.messages
      return turn?.role === 'assistant' ? turn.toolCalls[0]?.name : undefined
    }
    expect(sent(call('f', 'n'), tools)).toBe(lifted)
    expect(sent(call('n__f'), tools)).toBe('n__f')
    expect(sent(call('g', 'n'), [])).toBe('n__g')
    expect(sent(call('g', null), tools)).toBe('g')
  })
})
