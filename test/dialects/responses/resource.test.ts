/** The members of a resource that streams share are those of each stream's own request. */

import { expect, test } from 'bun:test'
import { Arena } from '../../../src/core/arena.ts'
import * as Kind from '../../../src/core/entry-kinds.ts'
import { ToolList } from '../../../src/core/tool-list.ts'
import { COMPLETED, type Echo, Resource } from '../../../src/dialects/responses/resource.ts'
import { answerText } from '../../support/bytes.ts'

const INSTRUCTIONS = '"Be brief.\u2028"'
const TOOL = '{"name":"look","parameters":{}}'
const body = Buffer.from(INSTRUCTIONS + TOOL)
const arena = new Arena(body)
const from = Buffer.byteLength(INSTRUCTIONS)
const noTools = new ToolList(arena, new Int32Array(0), 'responses')
const oneTool = new ToolList(
  arena,
  Int32Array.of(Kind.NAME, from + 9, from + 13, Kind.INPUT, from + 28, from + 30),
  'responses',
)

const plain: Echo = {
  arena,
  instructionsFrom: 0,
  instructionsTo: 0,
  toolsFrom: 0,
  toolsTo: 0,
  takesFree: false,
  tools: noTools,
  previousResponseId: null,
  maxOutputTokens: null,
  temperature: 1,
  topP: 1,
  toolChoice: 'auto',
  promptCacheKey: null,
  serviceTier: 'default',
  truncation: 'disabled',
  textFormat: '{"type":"text"}',
  reasoning: '{"effort":null,"summary":null}',
}
/** Each changes one field; together they change all. */
const changes: readonly Partial<Echo>[] = [
  { instructionsTo: from },
  { tools: oneTool },
  { previousResponseId: 'resp_1' },
  { maxOutputTokens: 7 },
  { temperature: 0.5 },
  { topP: 0.25 },
  { toolChoice: 'none' },
  { promptCacheKey: 'cache-1' },
  { serviceTier: 'flex' },
  { truncation: 'auto' },
  { textFormat: '{"type":"json_object"}' },
  { reasoning: '{"effort":"low","summary":null}' },
]

const served = { model: 'm', createdAt: 1_763_650_000 }

/** What a stream repeats of its request, beside what a whole answer does, which is made anew each time. */
function bothOf(echo: Echo, model = 'm') {
  const resource = new Resource({ ...served, model }, echo)
  const whole = JSON.parse(answerText(resource.whole('', {}, COMPLETED)))
  const line = resource.inProgressLine()
  expect(line).not.toMatch(/[\u0085\u2028\u2029]/)
  const { status: _, completed_at: __, usage: ___, ...streamed } = JSON.parse(line)
  return { streamed, expected: Object.fromEntries(Object.keys(streamed).map((name) => [name, whole[name]])) }
}

test('a stream after one that differs in one field has its own', () => {
  const bytes = ['arena', 'instructionsFrom', 'toolsFrom', 'toolsTo', 'takesFree']
  const fields = Object.keys(plain).filter((name) => !bytes.includes(name))
  expect(changes.flatMap(Object.keys)).toEqual(fields)
  for (const change of changes) {
    const before = bothOf(plain).streamed
    const { streamed, expected } = bothOf({ ...plain, ...change })
    expect(streamed).toEqual(expected)
    expect({ ...streamed, id: before.id }).not.toEqual(before)
  }
  expect(bothOf(plain, 'other').streamed.model).toBe('other')
})

test('long instructions and tools that come again are those of the request, whichever came before', () => {
  const echoes = ['a', 'b'].flatMap((letter) => {
    const instructions = JSON.stringify(`${letter.repeat(3000)}\u2028`)
    const tools = JSON.stringify([{ name: 'look', parameters: { of: `${letter.repeat(3000)}` } }])
    const bytes = Buffer.from(instructions + tools)
    const long = new Arena(bytes)
    const toolsFrom = Buffer.byteLength(instructions)
    const [name, schema] = [toolsFrom + tools.indexOf('look'), toolsFrom + tools.indexOf('{"of"')]
    const entries = Int32Array.of(Kind.NAME, name, name + 4, Kind.INPUT, schema, bytes.length - 2)
    const spans = { instructionsTo: toolsFrom, toolsFrom, toolsTo: bytes.length }
    const both = { ...plain, arena: long, ...spans, tools: new ToolList(long, entries, 'responses') }
    return [both, { ...both, instructionsTo: 0 }, { ...both, tools: noTools, takesFree: true }]
  })
  for (const echo of [...echoes, ...echoes]) {
    const { streamed, expected } = bothOf(echo)
    expect(streamed).toEqual(expected)
  }
})
