/**
 * Which target a conversation stays with: the order of candidates, what distinguishes conversations, and that nothing
 * grows.
 */

import { describe, expect, test } from 'bun:test'
import type { Candidate } from '../../src/catalog/resolve.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import { Affinity, ConversationKey, type Place } from '../../src/gateway/affinity.ts'
import { RouteHeader } from '../../src/gateway/attempt-record.ts'
import { catalog, chat, model } from '../catalog/fixture.ts'
import type { Literal } from '../support/literal.ts'

const targets = (...names: readonly string[]) => names.map((name) => ({ provider: 'p', model: name }))
const of = catalog({
  models: [model('m', { targets: targets('a', 'b', 'c') }), model('n', { targets: targets('x', 'y') })],
})
const candidates: readonly Candidate[] = of.models.flatMap((each) =>
  each.targets.map((target) => ({ model: each, target })),
)
const names = (list: readonly Candidate[]) => list.map(({ target }) => target.model).join(' ')
const candidate = (name: string): Candidate => {
  const found = candidates.find(({ target }) => target.model === name)
  if (found === undefined) throw new Error(`there is no ${name}`)
  return found
}
const user = (text: string) => ({ role: 'user', parts: [{ type: 'text', text }] }) as const
const system = (text: string) => ({ role: 'system', parts: [{ type: 'text', text }] }) as const
const assistant = { role: 'assistant', parts: [{ type: 'text', text: 'yes' }], toolCalls: [] } as const
const goesOn = (changes: Partial<Literal> = {}) => chat({ messages: [user('hi'), assistant, user('more')], ...changes })
const well = { isHealthy: () => true }

function affinity(send?: (place: Place) => void) {
  const clock = { ms: 0 }
  return { clock, places: new Affinity(() => clock.ms, send) }
}

describe('order', () => {
  const talk = new ConversationKey('o', goesOn())

  test('the target that served goes before its equals; other models and other conversations keep theirs', () => {
    const { places } = affinity()
    expect(names(places.order(candidates, talk, well))).toBe('a b c x y')
    places.served(candidate('b'), talk)
    expect(names(places.order(candidates, talk, well))).toBe('b a c x y')
    expect(names(places.order(candidates, new ConversationKey('other', goesOn()), well))).toBe('a b c x y')
    places.served(candidate('y'), talk)
    expect(names(places.order(candidates, talk, well))).toBe('b a c y x')
  })

  test('a target that is not well loses its place for good', () => {
    const { places } = affinity()
    places.served(candidate('b'), talk)
    expect(names(places.order(candidates, talk, { isHealthy: ({ model }) => model !== 'b' }))).toBe('a b c x y')
    expect(names(places.order(candidates, talk, well))).toBe('a b c x y')
  })

  test('so does one after five minutes of silence, and one that the first target has taken over from', () => {
    const { clock, places } = affinity()
    places.served(candidate('c'), talk)
    clock.ms += 299_999
    expect(names(places.order(candidates, talk, well))).toBe('c a b x y')
    clock.ms += 1
    expect(names(places.order(candidates, talk, well))).toBe('a b c x y')
    places.served(candidate('c'), talk)
    places.served(candidate('a'), talk)
    expect([names(places.order(candidates, talk, well)), places.size]).toEqual(['a b c x y', 0])
  })

  test('a target that the configuration no longer has is no place any more', () => {
    const { places } = affinity()
    places.served(candidate('b'), talk)
    const fewer = candidates.filter(({ target }) => target.model !== 'b')
    expect(names(places.order(fewer, talk, well))).toBe('a c x y')
  })

  test('the newest ten thousand conversations are stored', () => {
    const { places } = affinity()
    for (let i = 0; i < 10_100; i++) places.served(candidate('b'), new ConversationKey(`o${i}`, goesOn()))
    expect(places.size).toBe(10_000)
    expect(names(places.order(candidates, new ConversationKey('o99', goesOn()), well))).toBe('a b c x y')
    expect(names(places.order(candidates, new ConversationKey('o100', goesOn()), well))).toBe('b a c x y')
  })
})

describe('conversations', () => {
  const tool = { name: 'f', parameters: {} }
  const image = {
    role: 'user',
    parts: [{ type: 'image', source: { type: 'base64', mediaType: 'image/png', data: 'AA' } }],
  } as const
  const base = goesOn({ messages: [system('terse'), user('hi'), assistant] })
  test.each<[string, ChatRequest, boolean]>([
    ['later turns', goesOn({ messages: [system('terse'), user('hi'), assistant, user('and?'), assistant] }), true],
    ['another sampling', { ...base, sampling: { temperature: 1 } }, true],
    ['another system text', goesOn({ messages: [system('wordy'), user('hi'), assistant] }), false],
    ['another first message', goesOn({ messages: [system('terse'), user('ho'), assistant] }), false],
    [
      'the same text, divided differently',
      goesOn({ messages: [system('ter'), system('se'), user('hi'), assistant] }),
      false,
    ],
    ['tools', { ...base, tools: chat({ tools: [tool] }).tools }, false],
    ['a picture', goesOn({ messages: [system('terse'), image, assistant] }), false],
    ['a key', { ...base, hints: { promptCacheKey: 'k' } }, false],
  ])('%s', (_, request, same) => {
    expect(new ConversationKey('o', request).of('m') === new ConversationKey('o', base).of('m')).toBe(same)
  })

  test('with a cache key only the key and the organization count', () => {
    const keyed = (text: string, organization = 'o') =>
      new ConversationKey(organization, chat({ messages: [user(text)], hints: { promptCacheKey: 'k' } })).of('m')
    expect(keyed('one')).toBe(keyed('two'))
    expect(keyed('one')).not.toBe(keyed('one', 'other'))
  })
})

test('other workers receive a place when it is new, now and then while it lasts, and when it is left', () => {
  const sent: Place[] = []
  const { clock, places } = affinity((place) => sent.push(place))
  const talk = new ConversationKey('o', goesOn())
  for (let i = 0; i < 7; i++) {
    places.served(candidate('b'), talk)
    clock.ms += 10_000
  }
  expect(sent.map(({ target }) => target?.model)).toEqual(['b', 'b'])
  places.served(candidate('a'), talk)
  expect(sent.at(-1)?.target).toBeUndefined()
  const other = affinity().places
  for (const place of sent.slice(0, 2)) other.receive(place)
  expect(names(other.order(candidates, talk, well))).toBe('b a c x y')
  other.receive({ conversation: talk.of('m'), target: undefined })
  expect(other.size).toBe(0)
})

test('the route header is short printable ASCII', () => {
  const route = new RouteHeader()
  route.add(candidate('a'), 'resting')
  route.add(candidate('x'), 'answered')
  expect(route.text([])).toBe('m@p=resting, n@p=answered')
  const excluded = Array.from({ length: 200 }, () => ({
    model: of.models[0] ?? candidate('a').model,
    reason: 'hät\r\nno tools',
  }))
  const text = route.text(excluded)
  expect(text).toStartWith('m@p=resting, n@p=answered; excluded: m (h?t??no tools), m (')
  expect([text.length, /^[\x20-\x7e]*$/.test(text)]).toEqual([1024, true])
})
