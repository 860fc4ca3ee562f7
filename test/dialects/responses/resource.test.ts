/** The members of a resource that streams share are those of each stream's own request. */

import { expect, test } from 'bun:test'
import { type Echo, Resource } from '../../../src/dialects/responses/resource.ts'

const plain: Echo = {
  instructions: 'null',
  maxOutputTokens: null,
  temperature: 1,
  topP: 1,
  toolChoice: 'auto',
  tools: '[]',
  promptCacheKey: null,
  serviceTier: 'default',
  truncation: 'disabled',
}
/** Each changes one field; together they change all. */
const changes: readonly Partial<Echo>[] = [
  { instructions: '"Be brief.\u2028"' },
  { maxOutputTokens: 7 },
  { temperature: 0.5 },
  { topP: 0.25 },
  { toolChoice: 'none' },
  { tools: '[{"type":"function","name":"look"}]' },
  { promptCacheKey: 'cache-1' },
  { serviceTier: 'flex' },
  { truncation: 'auto' },
]

const served = { model: 'm', createdAt: 1_763_650_000 }

/** What a stream repeats of its request, beside what a whole answer does, which is made anew each time. */
function bothOf(echo: Echo, model = 'm') {
  const resource = new Resource({ ...served, model }, echo)
  const line = resource.inProgressLine()
  expect(line).not.toMatch(/[\u0085\u2028\u2029]/)
  const whole = JSON.parse(resource.completed('', {}))
  const { status: _, completed_at: __, usage: ___, ...streamed } = JSON.parse(line)
  return { streamed, expected: Object.fromEntries(Object.keys(streamed).map((name) => [name, whole[name]])) }
}

test('a stream after one that differs in one field has its own', () => {
  expect(changes.flatMap(Object.keys)).toEqual(Object.keys(plain))
  for (const change of changes) {
    const before = bothOf(plain).streamed
    const { streamed, expected } = bothOf({ ...plain, ...change })
    expect(streamed).toEqual(expected)
    expect({ ...streamed, id: before.id }).not.toEqual(before)
  }
  expect(bothOf(plain, 'other').streamed.model).toBe('other')
})
