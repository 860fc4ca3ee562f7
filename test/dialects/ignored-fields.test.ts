/** Which fields a request's log line names because they have no effect, and which values request nothing. */

import { describe, expect, test } from 'bun:test'
import type { JsonObject, JsonValue } from '../../src/core/json.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { ignoredFields } from '../../src/dialects/ignored-fields.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { property } from '../support/random.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { Upstream } from '../support/upstream.ts'

/** Per dialect: a path, values that would have an effect elsewhere, and values that request nothing. */
const ROWS: Readonly<Record<DialectName, readonly (readonly [string, readonly JsonValue[], readonly JsonValue[]])[]>> =
  {
    chat: [
      ['n', [2, 128], [1, 0]],
      ['store', [true], [false]],
      ['modalities', [['text', 'audio'], ['audio']], [['text'], []]],
      ['audio', [{ voice: 'alloy', format: 'wav' }], [{}]],
      ['prediction', [{ type: 'content', content: 'x' }], [{}]],
      ['web_search_options', [{}, { search_context_size: 'low' }], []],
      ['moderation', [{ model: 'm' }], [{}]],
      ['functions', [[{ name: 'f' }]], [[]]],
      ['function_call', ['none', { name: 'f' }], ['auto']],
    ],
    responses: [
      ['reasoning', [{ effort: 'low' }, { summary: 'auto' }], [{}, { effort: null, summary: null }]],
      [
        'text.format',
        [{ type: 'json_object' }, { type: 'json_schema', name: 'n', schema: {} }],
        [{ type: 'text' }, {}],
      ],
      ['text.verbosity', ['low', 'high'], ['medium']],
      ['truncation', ['auto'], ['disabled']],
      ['parallel_tool_calls', [false], [true]],
      ['user', ['u-1'], ['']],
      [
        'tool_choice',
        [
          { type: 'function', name: 'f' },
          { type: 'allowed_tools', tools: [] },
        ],
        ['auto', 'none', 'required'],
      ],
      ['previous_response_id', ['resp_1'], ['']],
      ['conversation', ['conv_1', { id: 'conv_1' }], []],
      ['background', [true], [false]],
      ['prompt', [{ id: 'p' }], [{}]],
      ['include', [['reasoning.encrypted_content']], [[]]],
      ['context_management', [[{ type: 'compaction' }]], [[]]],
      ['max_tool_calls', [3], []],
      ['top_logprobs', [5], [0]],
      ['safety_identifier', ['s'], ['']],
      ['prompt_cache_options', [{ ttl: '30m' }], [{}]],
      ['stop', ['END', ['END']], [[], '']],
    ],
    messages: [
      ['top_k', [5], []],
      ['thinking', [{ type: 'enabled', budget_tokens: 1024 }, { type: 'adaptive' }], [{ type: 'disabled' }]],
      ['metadata', [{ user_id: 'u' }], [{}, { user_id: null }]],
      [
        'output_config',
        [{ effort: 'low' }, { effort: 'high', format: { type: 'json_schema' } }],
        [{}, { effort: 'high' }, { effort: null }],
      ],
      ['output_format', [{ type: 'json_schema' }], [{}]],
      ['context_management', [{ edits: [{ type: 'clear_tool_uses_20250919' }] }], [{}, { edits: [] }, { edits: null }]],
      ['container', ['c', { id: 'c' }], ['']],
      ['mcp_servers', [[{ type: 'url' }]], [[]]],
      ['speed', ['fast'], ['standard']],
      ['inference_geo', ['us'], ['']],
      ['thread', [{ type: 'create' }], [{}]],
    ],
  }

const bodyWith = (path: string, value: JsonValue): JsonObject => {
  const [field = '', member] = path.split('.')
  return { [field]: member === undefined ? value : { [member]: value } }
}

describe.each(['chat', 'responses', 'messages'] as const)('%s', (dialect) => {
  test.each(ROWS[dialect])('%s', (path, named, silent) => {
    for (const value of named)
      expect({ value, ignored: ignoredFields(dialect, bodyWith(path, value)) }).toEqual({ value, ignored: [path] })
    for (const value of [...silent, null])
      expect({ value, ignored: ignoredFields(dialect, bodyWith(path, value)) }).toEqual({ value, ignored: [] })
  })

  test('fields with an effect and unknown fields are not named', () => {
    const body: JsonObject = { model: 'm', stream: true, temperature: 1, tools: [], unknown: { deep: 1 }, __proto__: 1 }
    expect(ignoredFields(dialect, body)).toEqual([])
  })
})

property('whatever a body holds, only names of the list come out, each once', 200, (random) => {
  const dialect = random.pick(['chat', 'responses', 'messages'] as const)
  const known = ROWS[dialect].map(([path]) => path)
  const fields = known.flatMap((path) => path.split('.')[0] ?? [])
  const names: readonly [string, ...string[]] = ['x', 'toString', 'constructor', ...fields]
  const values: readonly [JsonValue, ...JsonValue[]] = [
    null,
    0,
    1,
    '',
    'x',
    true,
    false,
    [],
    [null],
    {},
    { type: null },
    { a: [] },
    ['x', {}],
  ]
  const body = Object.fromEntries(random.list(20, () => [random.pick(names), random.pick(values)]))
  const ignored = ignoredFields(dialect, body)
  expect(ignored.filter((path) => !known.includes(path))).toEqual([])
  expect(new Set(ignored).size).toBe(ignored.length)
})

test('the log line of a request names them once, and only if there are any', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('hi') })
  await using serving = new Serving({ providers: { up: upstream.url } })
  const line = async (path: string, body: JsonObject) => {
    const answer = await ask(serving.port, requestBytes(path, { key: KEY, body: { model: 'm', ...body } }))
    expect(answer.status).toBe(200)
    return await serving.lineOf(answer.header('x-request-id'))
  }
  const messages = [{ role: 'user', content: 'hi' }]
  const structured = { input: 'hi', text: { format: { type: 'json_object' } }, reasoning: { effort: 'low' } }
  expect((await line('/v1/responses', structured))['ignored']).toEqual(['reasoning', 'text.format'])
  expect((await line('/v1/messages', { messages, output_config: { effort: 'low' }, stream: true }))['ignored']).toEqual(
    ['output_config'],
  )
  expect((await line('/v1/chat/completions', { messages, n: 2 }))['ignored']).toEqual(['n'])
  expect(await line('/v1/responses', { input: 'hi', text: {}, reasoning: null })).not.toHaveProperty('ignored')
})
