/** `spread: weighted`: shares, agreement of nodes, and which conversations move when a target rests or is added. */

import { describe, expect, test } from 'bun:test'
import type { Candidate } from '../../src/catalog/resolve.ts'
import { Affinity, ConversationKey } from '../../src/gateway/affinity.ts'
import { spread } from '../../src/gateway/spread.ts'
import { catalog, chat, model } from '../catalog/fixture.ts'

const CONVERSATIONS = 10_000
const WEIGHTS = { a: 5, b: 3, c: 2 }

function candidatesOf(weights: Readonly<Record<string, number>>, ...others: readonly string[]): readonly Candidate[] {
  const targets = Object.keys(weights).map((name) => ({ provider: 'p', model: name }))
  const models = [
    model('m', { targets, weights: Object.values(weights) }),
    ...others.map((name) =>
      model(name, { targets: [name, `${name}2`].map((each) => ({ provider: 'q', model: each })) }),
    ),
  ]
  return catalog({ models }).models.flatMap((each) => each.targets.map((target) => ({ model: each, target })))
}

const orderOf = (candidates: readonly Candidate[], conversation: string): readonly string[] =>
  spread(candidates, { conversationWith: (name) => `${conversation}/${name}` }).map(({ target }) => target.model)

const conversations = Array.from({ length: CONVERSATIONS }, (_, index) => `conversation ${index}`)

function shares(orders: readonly (readonly string[])[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const [first = ''] of orders) counts[first] = (counts[first] ?? 0) + 1
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count / orders.length]))
}

describe('weights', () => {
  const orders = conversations.map((each) => orderOf(candidatesOf(WEIGHTS), each))

  test('shares are within 3 points of the weights', () => {
    const found = shares(orders)
    for (const [name, weight] of Object.entries(WEIGHTS))
      expect(Math.abs((found[name] ?? 0) - weight / 10)).toBeLessThan(0.03)
  })

  test('the others follow by weight, too', () => {
    const found = shares(orders.filter(([first]) => first === 'a').map((order) => order.slice(1)))
    expect(Math.abs((found['b'] ?? 0) - 3 / 5)).toBeLessThan(0.03)
  })

  test('every node computes the same order', () => {
    const again = conversations.map((each) => orderOf(candidatesOf(WEIGHTS), each))
    expect(again).toEqual(orders)
    // Nodes of different versions serve the same conversations during an upgrade: the hash never changes.
    expect(
      orders
        .slice(0, 12)
        .map(([first]) => first)
        .join(''),
    ).toBe('bbcbcabbcaca')
  })

  test('a target that is gone moves only its own conversations, each to its next target', () => {
    const { a, b } = WEIGHTS
    for (const [index, conversation] of conversations.entries())
      expect(orderOf(candidatesOf({ a, b }), conversation)).toEqual(
        (orders[index] ?? []).filter((name) => name !== 'c'),
      )
  })

  test('a target that is added takes conversations, and moves no other', () => {
    for (const [index, conversation] of conversations.slice(0, 1000).entries()) {
      const [first] = orderOf(candidatesOf({ ...WEIGHTS, d: 4 }), conversation)
      if (first !== 'd') expect(first).toBe(orders[index]?.[0])
    }
  })

  test('weight 0 comes last', () => {
    for (const conversation of conversations.slice(0, 1000))
      expect(orderOf(candidatesOf({ a: 0, b: 3, c: 2 }), conversation).at(-1)).toBe('a')
  })
})

test('models keep their order, and models without weights are not touched', () => {
  const all = candidatesOf(WEIGHTS, 'x', 'y')
  const order = orderOf(all, 'conversation 3')
  expect([...order.slice(0, 3)].sort()).toEqual(['a', 'b', 'c'])
  expect(order.slice(3)).toEqual(['x', 'x2', 'y', 'y2'])
  const unweighted = all.slice(3)
  const untold = {
    conversationWith(): string {
      throw new Error('no conversation is named without need')
    },
  }
  expect(spread(unweighted, untold)).toBe(unweighted)
})

test('a conversation goes back to its target after another one has served it', () => {
  const candidates = candidatesOf(WEIGHTS)
  const places = new Affinity()
  const user = { role: 'user', parts: [{ type: 'text', text: 'hi' }] } as const
  const answer = { role: 'assistant', parts: [{ type: 'text', text: 'yes' }], toolCalls: [] } as const
  const conversation = new ConversationKey('o', chat({ messages: [user, answer, user] }))
  const [, second] = candidates
  if (second === undefined) throw new Error('there is no second target')
  places.served(second, conversation)
  expect(places.size).toBe(0)
  expect(places.order(candidates, conversation, { isHealthy: () => true })).toEqual(candidates)
})
