/**
 * The law of the one form: whatever a caller sends, every provider receives the same JSON, and the caller the same
 * answer or error, as from an earlier version that parsed the whole body and wrote objects.
 */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { conversationOf } from '../../tools/bench/conversation.ts'
import { property, Random } from '../support/random.ts'
import { bodyOf, long, mutated, USUAL, written } from './large-bodies.ts'
import { type BodyName, earlierOutcomeOf, inOrder, isSameJson, outcomeOf, writtenBack } from './versions.ts'

/**
 * Of each kind for each dialect, and a part of it of bodies with many kilobytes: some 10,000 together. More take
 * minutes: `ONE_FORM_CASES=12000`.
 */
const CASES = Number(process.env['ONE_FORM_CASES'] ?? 1400)

/** Fails with the first difference: the bodies have many kilobytes. */
function compare(name: BodyName, bytes: Uint8Array): void {
  const now = outcomeOf(name, Uint8Array.from(bytes))
  const earlier = earlierOutcomeOf(name, bytes)
  for (let i = 0; i < Math.max(now.length, earlier.length); i++) {
    const [what, one] = now[i] ?? ['nothing', '']
    const [otherwise, other] = earlier[i] ?? ['nothing', '']
    if (what === otherwise && isSameJson(one, other)) continue
    const [shown, wanted] = [one, other].map((text) => (text.startsWith('{') ? inOrder(JSON.parse(text)) : text))
    throw new Error(difference(`${what}: ${shown}`, `${otherwise}: ${wanted}`))
  }
}

function difference(one: string, other: string): string {
  let at = 0
  while (one[at] === other[at]) at++
  const from = Math.max(0, at - 200)
  return `…${one.slice(from, at + 80)}\ninstead of\n…${other.slice(from, at + 80)}`
}

for (const name of ['chat', 'messages', 'responses'] as const) {
  describe(name, () => {
    property('large bodies', CASES / 8, (random) => compare(name, Buffer.from(bodyOf(name, random))))
    property('small bodies', CASES, (random) => compare(name, Buffer.from(bodyOf(name, random, 40))))
    property('damaged bodies', CASES, (random) =>
      compare(name, mutated(Buffer.from(bodyOf(name, random, 200)), random)),
    )
    property('what agents send', CASES / 10, (random) => compare(name, Buffer.from(USUAL[name](random))))
    property('what agents send, damaged', CASES / 5, (random) =>
      compare(name, mutated(Buffer.from(USUAL[name](random)), random)),
    )
  })
}

describe('responses', () => {
  property('a request for a summary', CASES / 20, (random) => compare('compact', Buffer.from(USUAL.responses(random))))
})

/** The members that have the conversation. */
const MEMBERS = ['system', 'instructions', 'messages', 'input', 'tools'] as const

function conversationIn(body: JsonObject | undefined): string {
  return JSON.stringify(MEMBERS.map((member) => body?.[member] ?? null))
}

describe('written back in its own form', () => {
  test.each(['chat', 'messages'] as const)('a conversation of %s is what it was', (name) => {
    const body = { model: 'm', ...conversationOf(name, 20_000) }
    expect(conversationIn(writtenBack(name, Buffer.from(JSON.stringify(body))))).toBe(conversationIn(body))
  })

  // What a reader or a writer normalises (an empty list, a null, a text beside a refusal) has its form after two times.
  describe.each(['chat', 'messages', 'responses'] as const)('%s changes twice at most', (name) => {
    let compared = 0
    property('random bodies', CASES / 4, (random) => {
      const again = (body: JsonObject | undefined) => body && writtenBack(name, Buffer.from(JSON.stringify(body)))
      const once = writtenBack(name, Buffer.from(random.below(2) ? USUAL[name](random) : bodyOf(name, random, 40)))
      if (once === undefined) return
      const twice = again(once)
      compared++
      expect(conversationIn(again(twice))).toBe(conversationIn(twice))
      expect(twice).toBeDefined()
    })
    test('for many bodies', () => expect(compared).toBeGreaterThan(CASES / 20))
  })
})

const FOLDER = join(import.meta.dir, '../fixtures/callers')
const TEXT_NAMES: readonly string[] = ['content', 'text', 'output']

/** A recorded body with long texts in place of its texts, and of what the recorder has cut. */
function lengthened(value: JsonValue, name = ''): JsonValue {
  if (typeof value === 'string') return value.endsWith('…') || TEXT_NAMES.includes(name) ? long : value
  if (isArray(value)) return value.map((item) => lengthened(item))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([own, member]) => [own, lengthened(member ?? null, own)]))
}

describe('recorded agents', () => {
  const files = ['agents', 'requests'].flatMap((folder) =>
    readdirSync(join(FOLDER, folder)).map((file) => `${folder}/${file}`),
  )

  test.each(files)('%s', (file) => {
    const { url, path = url, body: recorded } = JSON.parse(readFileSync(join(FOLDER, file), 'utf8'))
    if (JSON.stringify(recorded).includes('item_reference')) return
    const name: DialectName = path.includes('messages') ? 'messages' : path.includes('responses') ? 'responses' : 'chat'
    compare(name, Buffer.from(JSON.stringify(recorded)))
    for (let seed = 1; seed <= 3; seed++)
      compare(name, Buffer.from(written(lengthened(recorded), new Random(seed), 3000)))
  })
})
