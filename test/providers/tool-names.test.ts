/** Tool names that a provider rejects become legal, unique and stable ones, and are restored in answers. */

import { describe, expect, test } from 'bun:test'
import * as Kind from '../../src/core/entry-kinds.ts'
import { JsonBuilder } from '../../src/core/json-builder.ts'
import { CallInputs } from '../../src/providers/call-arguments.ts'
import { restoreToolName } from '../../src/providers/provider.ts'
import { SentCallIds } from '../../src/providers/sent-call-ids.ts'
import { fitted, NAMES_OF_64, NAMES_OF_128, ToolNames } from '../../src/providers/tool-names.ts'
import { Turns } from '../../src/providers/turns.ts'
import { chatRequest, type Message } from '../support/literal.ts'
import { property } from '../support/random.ts'
import { plainRequest, randomRequest } from './requests.ts'

const tools = (...names: string[]) => plainRequest({ tools: names.map((name) => ({ name, parameters: {} })) })

describe('names', () => {
  test('that are legal are sent unchanged, and nothing is mapped', () => {
    const names = new ToolNames(tools('get_weather', 'x'.repeat(64)), NAMES_OF_64)
    expect(names.sent('get_weather')).toBe('get_weather')
    expect(names.restore).toBeUndefined()
  })

  test('that are illegal keep their legal characters and get a hash', () => {
    const long = 'mcp__server__'.repeat(8)
    expect(fitted(long, NAMES_OF_128)).toBe(long)
    const sent = fitted(long, NAMES_OF_64)
    expect(sent).toMatch(/^mcp__server__.*_[0-9a-f]{10}$/)
    expect(fitted(long, NAMES_OF_64)).toBe(sent)
    expect(fitted(`${long}x`, NAMES_OF_64)).not.toBe(sent)
  })

  test('that would collide stay distinct', () => {
    const sent = fitted('a.b', NAMES_OF_64)
    const names = new ToolNames(tools('a.b', sent), NAMES_OF_64)
    expect(names.sent(sent)).toBe(sent)
    expect(names.sent('a.b')).not.toBe(sent)
    expect(names.restore?.get(names.sent('a.b'))).toBe('a.b')
    expect(names.restore?.has(sent)).toBe(false)
  })

  test('are restored only in the start of a call', () => {
    const map = new Map([['sent', 'own']])
    const start = { type: 'tool-start', index: 0, callId: 'a', name: 'sent' } as const
    expect(restoreToolName(start, map)).toEqual({ ...start, name: 'own' })
    expect(restoreToolName({ ...start, name: 'else' }, map)).toEqual({ ...start, name: 'else' })
    expect(restoreToolName(start, undefined)).toBe(start)
    const text = { type: 'text', text: 'sent' } as const
    expect(restoreToolName(text, map)).toBe(text)
  })

  property('of any request are legal, unique and restorable', 200, (random) => {
    const request = randomRequest(random)
    const names = new ToolNames(chatRequest(request), NAMES_OF_64)
    const own = new Set([
      ...request.tools.map(({ name }) => name),
      ...request.messages
        .flatMap((message) => (message.role === 'assistant' ? message.toolCalls : []))
        .map((c) => c.name),
    ])
    const sent = [...own].map((name) => names.sent(name))
    expect(new Set(sent).size).toBe(own.size)
    for (const name of own) {
      expect(names.sent(name)).toMatch(NAMES_OF_64.legal)
      expect(names.restore?.get(names.sent(name)) ?? names.sent(name)).toBe(name)
    }
  })
})

const answer = (...ids: string[]): Message => ({
  role: 'assistant',
  parts: [],
  toolCalls: ids.map((callId) => ({ callId, name: 'f', json: '{}' })),
})
const result = (callId: string): Message => ({ role: 'tool', callId, parts: [] })

/** The ids of calls and results as they are sent, in order. */
function sentIds(messages: readonly Message[]): string[] {
  const turns = new Turns(plainRequest({ messages }).conversation)
  const { conversation } = turns
  const ids = new SentCallIds(turns)
  const sent: string[] = []
  for (let place = 0; place <= turns.lastPlace; place++) {
    const block = turns.blockAt(place)
    const kind = turns.kindOf(block)
    if (kind !== Kind.CALL_ID && kind !== Kind.RESULT_ID) continue
    const json = new JsonBuilder(conversation.arena, 64)
    ids.write(json, block)
    sent.push(String(json.take()))
  }
  return sent
}

describe('call ids', () => {
  test('pair by turn, although every turn counts from 0', () => {
    const sent = sentIds(Array.from({ length: 3 }, () => [answer('0', '1'), result('1'), result('0')]).flat())
    const called = [0, 4, 8].flatMap((at) => sent.slice(at, at + 2))
    const answered = [0, 4, 8].flatMap((at) => sent.slice(at + 2, at + 4).reverse())
    expect(answered).toEqual(called)
    expect(new Set(called).size).toBe(6)
  })

  test('stay legal if they are long and repeated', () => {
    const sent = sentIds([answer(...Array.from({ length: 1200 }, () => 'i'.repeat(64)))])
    expect(new Set(sent).size).toBe(1200)
    for (const id of sent) expect(id).toMatch(NAMES_OF_64.legal)
  })

  test('without a call are only cleaned', () => {
    expect(sentIds([result('a:b')])).toEqual([fitted('a:b', NAMES_OF_64)])
  })
})

test('arguments keep the order of their keys', () => {
  expect(JSON.stringify(new CallInputs().of('{"b":1,"a":{"d":2,"c":3}}'))).toBe('{"b":1,"a":{"d":2,"c":3}}')
})
