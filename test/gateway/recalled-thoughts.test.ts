/** Which answers of a history are looked up, and how much is found. */

import { expect, test } from 'bun:test'
import type { ThoughtStore } from '../../src/core/thoughts.ts'
import { RecalledThoughts } from '../../src/gateway/recalled-thoughts.ts'
import { type KeptThoughts, ThoughtKeeper } from '../../src/gateway/thought-keeper.ts'
import { LocalItemStore } from '../../src/items/local-item-store.ts'
import { recalledThoughts } from '../../src/items/thought-stores.ts'
import { ResponsesDecoder } from '../../src/providers/openai/responses-events.ts'
import { plainRequest } from '../providers/requests.ts'
import type { Message } from '../support/literal.ts'

const callId = (at: number) => `call_0123456789abcdefghij${at}`

function lookedUp(answers: number): readonly string[] {
  const messages = Array.from({ length: answers }, (_, at): Message[] => [
    { role: 'assistant', parts: [], toolCalls: [{ callId: callId(at), name: 'f', json: '{}' }] },
    { role: 'tool', callId: callId(at), parts: [{ type: 'text', text: 'x' }], isError: undefined },
  ]).flat()
  let keys: readonly string[] = []
  const store: ThoughtStore = {
    get(_, asked) {
      keys = asked
      return []
    },
    put: () => undefined,
  }
  const question: Message = { role: 'user', parts: [{ type: 'text', text: 'Go.' }] }
  void RecalledThoughts.find(store, 'o', plainRequest({ messages: [question, ...messages] }).conversation)
  return keys
}

test('the first answer that is looked up stays the same over 64 turns, for the prompt cache of the provider', () => {
  const firsts = new Map<string | undefined, number>()
  for (let answers = 1; answers <= 300; answers++) {
    const keys = lookedUp(answers)
    expect(keys.length).toBeGreaterThanOrEqual(Math.min(answers, 64))
    expect(keys.length).toBeLessThan(128)
    firsts.set(keys[0], (firsts.get(keys[0]) ?? 0) + 1)
  }
  expect([...firsts.values()]).toEqual([127, 64, 64, 45])
})

test('each message of an answer keeps its own phase', () => {
  const decoder = new ResponsesDecoder()
  const kept: KeptThoughts[] = []
  const keeper = new ThoughtKeeper('responses', (thoughts) => void kept.push(thoughts))
  const read = (type: string, more: object = {}) => {
    for (const event of decoder.decode(type, JSON.stringify({ type, ...more }))) keeper.event(event)
  }
  read('response.created', { response: {} })
  for (const [output_index, phase] of ['commentary', 'final_answer'].entries()) {
    const item = { id: `msg_${output_index}`, type: 'message', role: 'assistant', content: [], phase }
    read('response.output_item.added', { output_index, item })
    read('response.output_text.delta', { output_index, content_index: 0, item_id: item.id, delta: 'So.' })
    const content = [{ type: 'output_text', text: 'So.' }]
    read('response.output_item.done', { output_index, item: { ...item, content } })
  }
  read('response.completed', { response: { status: 'completed', output: [] } })
  expect(kept[0]?.thoughts.map(({ json, left }) => [json, left])).toEqual([
    ['"commentary"', undefined],
    ['"final_answer"', 3],
  ])
})

test('one look-up finds no more than some megabytes, of the last answers', () => {
  const items = new LocalItemStore({ ttlSeconds: 60, bytesMax: 64 * 1024 * 1024 })
  const ids = Array.from({ length: 40 }, (_, at) => `thought:${at}`)
  for (const id of ids) items.put('o', [{ id, json: 'x'.repeat(1_000_000) }])
  const found = JSON.parse(recalledThoughts(items, 'o', ids.join('\n')))
  expect(found.map((text: string | null) => text?.length ?? 0)).toEqual([
    ...Array.from({ length: 31 }, () => 0),
    ...Array.from({ length: 9 }, () => 1_000_000),
  ])
})
