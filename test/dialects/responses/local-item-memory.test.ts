/** Items that were sent and are referred to: what is remembered, for whom, for how long and how much of it. */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../../src/core/caller-error.ts'
import type { StreamEvent } from '../../../src/core/event.ts'
import type { JsonObject } from '../../../src/core/json.ts'
import { type ItemMemory, LocalItemMemory } from '../../../src/dialects/responses/local-item-memory.ts'
import { responses } from '../../../src/dialects/responses/responses.ts'
import { checkResponsesStream } from '../../laws/responses-grammar.ts'
import { Encoding } from '../../support/encoding.ts'
import { property } from '../../support/random.ts'
import { accept, answered, CALLER, failureOf, SERVED, saying, sealer, streamed } from './setting.ts'

const ref = (id: unknown): JsonObject => ({ type: 'item_reference', id: id as string })
const user = { role: 'user', content: 'x' }
const events: StreamEvent[] = [
  { type: 'start' },
  { type: 'text', text: 'Let me ' },
  { type: 'text', text: 'check.' },
  { type: 'tool-start', index: 0, callId: 'call_1', name: 'f' },
  { type: 'tool-delta', index: 0, json: '{"a":1}' },
  { type: 'finish', reason: 'tool-call' },
  { type: 'end' },
]

function outputOf(how: string, organization = 'acme'): readonly JsonObject[] {
  const exchange = accept({ input: 'x' }, organization)
  if (how === 'streamed') return checkResponsesStream(streamed(exchange, events)).output
  return (answered(exchange, events) as { output: JsonObject[] }).output
}

describe.each(['streamed', 'whole'])('%s', (how) => {
  test('message and call are put in place of their references', () => {
    const items = outputOf(how)
    const result = { type: 'function_call_output', call_id: 'call_1', output: 'ok' }
    const referring = accept({ input: [user, ...items.map((item) => ref(item['id'])), result] })
    const sending = accept({ input: [user, ...items, result] })
    expect(referring.request).toEqual(sending.request)
    expect(referring.request.messages.map((message) => message.role)).toEqual(['user', 'assistant', 'tool'])
  })

  test.each([
    ['other', 'acme'],
    ['acme', 'other'],
  ])('what %s was sent %s does not find', (owner, asker) => {
    const [message] = outputOf(how, owner)
    const failure = failureOf(() => accept({ input: [user, ref(message?.['id'])] }, asker))
    expect(failure.row.status).toBe(400)
    expect(failure.detail.param).toBe('input[1].id')
    expect(failure.message).toContain('store: false')
  })
})

test('nothing is remembered of an answer that has no end', () => {
  const sse = Encoding.of(accept({ input: 'x' }), SERVED).addAll(events.slice(0, -1))
  const id = /"id":"(msg_[^"]+)"/.exec(sse)?.[1]
  expect(id).toBeDefined()
  expect(failureOf(() => accept({ input: [ref(id)] })).failure).toBe('invalid_field')
})

test('a reference without a type, as the official schema allows it', () => {
  const [message] = outputOf('whole')
  expect(accept({ input: [user, { id: message?.['id'] }] }).request.messages).toHaveLength(2)
})

test.each([[undefined], [null], [''], [7]])('an id of %p is refused', (id) => {
  expect(failureOf(() => accept({ input: [{ type: 'item_reference', id: id as never }] })).detail.param).toBe(
    'input[0].id',
  )
})

describe('a memory that takes its time', () => {
  const slow = (found: JsonObject | undefined): ItemMemory => ({
    recall: () => Promise.resolve(found),
    remember: () => {},
  })
  const body = { model: 'm', input: [user, ref('msg_1')] }

  test('is waited for', async () => {
    const memory = slow({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'yes' }],
    })
    const exchange = responses({ sealer, memory }).accept(body, CALLER)
    expect(exchange).toBeInstanceOf(Promise)
    expect((await exchange).request.messages).toHaveLength(2)
  })

  test('rejects where nothing is found', async () => {
    const exchange = responses({ sealer, memory: slow(undefined) }).accept(body, CALLER)
    expect(exchange).rejects.toBeInstanceOf(CallerError)
  })

  test('is not asked where nothing is referred to', () => {
    const exchange = responses({ sealer, memory: slow(undefined) }).accept({ model: 'm', input: [user] }, CALLER)
    expect(exchange).not.toBeInstanceOf(Promise)
  })
})

test('without a memory every reference is refused', () => {
  const without = responses({ sealer })
  const [message] = outputOf('whole')
  expect(failureOf(() => without.accept({ model: 'm', input: [ref(message?.['id'])] }, CALLER)).failure).toBe(
    'invalid_field',
  )
})

test('short references may not stand for more than a body may hold', () => {
  const [message] = (answered(accept({ input: 'x' }), saying('x'.repeat(100_000))) as { output: JsonObject[] }).output
  const many = (count: number) => ({ input: Array.from({ length: count }, () => ref(message?.['id'])) })
  expect(accept(many(90)).request.messages).toHaveLength(90)
  expect(failureOf(() => accept(many(110))).row.status).toBe(413)
  const different = Array.from({ length: 5000 }, (_, n) => ref(`msg_${n}`))
  expect(failureOf(() => accept({ input: different })).detail.param).toBe('input')
})

describe('in process', () => {
  const item = (id: string, length = 10): JsonObject => ({ id, type: 'message', text: 'x'.repeat(length) })
  const memory = (options: { ttlSeconds?: number; bytesMax?: number; nowMs?: () => number } = {}) =>
    new LocalItemMemory({ sealer, ttlSeconds: 60, ...options })

  test('items live as long as they should', () => {
    let nowMs = 0
    const kept = memory({ nowMs: () => nowMs })
    kept.remember('acme', [item('a')])
    nowMs = 59_999
    expect(kept.recall('acme', 'a')).toEqual(item('a'))
    nowMs = 60_000
    expect(kept.recall('acme', 'a')).toBeUndefined()
  })

  test('0 seconds: nothing is kept', () => {
    const kept = memory({ ttlSeconds: 0 })
    kept.remember('acme', [item('a')])
    expect(kept.recall('acme', 'a')).toBeUndefined()
  })

  test('the oldest make room for new ones', () => {
    const kept = memory({ bytesMax: 10_000 })
    for (const id of ['a', 'b', 'c']) kept.remember('acme', [item(id, 3000)])
    expect(['a', 'b', 'c'].map((id) => kept.recall('acme', id) !== undefined)).toEqual([false, true, true])
  })

  test('of many small ones the youngest are kept, nearly as many as there is room for', () => {
    const kept = memory({ bytesMax: 100_000 })
    const ids = Array.from({ length: 1000 }, (_, n) => `item_${n}`)
    for (const id of ids) kept.remember('acme', [item(id, 150)])
    const found = ids.filter((id) => kept.recall('acme', id) !== undefined)
    expect(found).toEqual(ids.slice(-found.length))
    const bytes = found.length * (JSON.stringify(item('item_999', 150)).length + 300)
    expect(bytes).toBeGreaterThan(80_000)
    expect(bytes).toBeLessThan(110_000)
  })

  test('one that is larger than all of it is not kept, and the others stay', () => {
    const kept = memory({ bytesMax: 10_000 })
    kept.remember('acme', [item('a', 3000), item('b', 20_000)])
    expect(['a', 'b'].map((id) => kept.recall('acme', id) !== undefined)).toEqual([true, false])
  })

  test('what has expired makes room, and room is given back in full', () => {
    let nowMs = 0
    const kept = memory({ bytesMax: 10_000, nowMs: () => nowMs })
    for (let round = 0; round < 50; round++) {
      kept.remember('acme', [item(`a${round}`, 3000), item(`b${round}`, 3000)])
      expect(kept.recall('acme', `a${round}`)).toBeDefined()
      expect(kept.recall('acme', `b${round}`)).toBeDefined()
      nowMs += 60_000
    }
  })

  test('an id that is sent again is kept once, as it was sent last', () => {
    const kept = memory({ bytesMax: 8000 })
    for (const length of [2999, 3000]) kept.remember('acme', [item('a', length)])
    kept.remember('acme', [item('b', 3000)])
    expect(kept.recall('acme', 'a')).toEqual(item('a', 3000))
    expect(kept.recall('acme', 'b')).toBeDefined()
  })

  test('an organization that fills the memory takes nothing from one that holds no more than an even share', () => {
    const kept = memory({ bytesMax: 200_000 })
    const ids = Array.from({ length: 8 }, (_, n) => `mine_${n}`)
    kept.remember(
      'quiet',
      ids.map((id) => item(id, 3000)),
    )
    for (let n = 0; n < 1000; n++) kept.remember(`loud${n % 3}`, [item(`theirs_${n}`, 3000)])
    expect(ids.filter((id) => kept.recall('quiet', id) === undefined)).toEqual([])
    expect(kept.recall('loud0', 'theirs_999')).toBeDefined()
  })
})

property('remembered items: bounded, and nobody below an even share forgets for another', 60, (random) => {
  const bytesMax = random.between(20_000, 400_000)
  let nowMs = 0
  const kept = new LocalItemMemory({ sealer, ttlSeconds: 60, bytesMax, nowMs: () => nowMs })
  const organizations = Array.from({ length: random.between(1, 6) }, (_, n) => `org${n}`)
  const sizes = new Map<string, number>()
  const alive = new Map<string, string[]>()
  for (let step = 0; step < 300; step++) {
    // All of it within the time that items live: nothing is lost by expiring.
    nowMs += random.below(150)
    const organization = random.pick(['org0', ...organizations])
    const id = `item_${step}`
    const length = random.below(random.chance(0.1) ? Math.floor(bytesMax / 4) : 3000)
    sizes.set(id, length + 450)
    kept.remember(organization, [{ id, text: 'x'.repeat(length) }])
    if (kept.recall(organization, id) !== undefined) {
      alive.set(organization, [...(alive.get(organization) ?? []), id])
    }
    expect(kept.heldBytes).toBeLessThanOrEqual(bytesMax)
    for (const [owner, items] of alive) {
      const still = items.filter((one) => kept.recall(owner, one) !== undefined)
      const lost = items.length - still.length
      // Besides its items an organization holds what is unused of its segments: of the newest, a sixteenth of all at most.
      const heldBefore = items.reduce((sum, one) => sum + (sizes.get(one) ?? 0), 0)
      if (owner !== organization && lost > 0)
        expect(heldBefore * 2 + 6144 + bytesMax / 16).toBeGreaterThan(bytesMax / organizations.length)
      alive.set(owner, still)
    }
  }
})
