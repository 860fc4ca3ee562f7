/**
 * Numbers that a double cannot hold keep their text, in whatever dialect a tool call arrives and leaves: ids of rows
 * and of messages are often beyond 2^53, and a tool that gets another id acts on something else.
 */

import { describe, expect, test } from 'bun:test'
import { PROVIDER_DIALECTS } from '../../src/config/provider-dialects.ts'
import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { DIALECTS } from '../providers/dialects.ts'
import { textOf } from '../support/bytes.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY, providerEntry } from '../support/gateway.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { calls } from '../support/speech.ts'
import type { Call, Upstream } from '../support/upstream.ts'

const DIGITS = '12345678901234567890'
const SCHEMA_DIGITS = '-9223372036854775809'
const NUMBERS = '[1e400,-0,0.12345678901234567890,1e-400]'
/** Stand for numbers until a body is written, because a parsed body would lose them. */
const STAND_IN = 1122334455
const SCHEMA_STAND_IN = 5544332211
const NUMBERS_STAND_IN = 6677889900
const ARGUMENTS = `{"row":${STAND_IN},"of":[{"table":7}],"sizes":${NUMBERS_STAND_IN}}`
const PATHS = { chat: '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages' } as const

const withDigits = (json: string) =>
  json
    .replaceAll(String(STAND_IN), DIGITS)
    .replaceAll(String(SCHEMA_STAND_IN), SCHEMA_DIGITS)
    .replaceAll(String(NUMBERS_STAND_IN), NUMBERS)

const upstreams = new Map<ProviderDialect, Upstream>()
const asked: string[] = []

/** Calls a tool, whole or in a stream whose arguments are not in pieces, as providers with arguments as objects do. */
function callsTool(dialect: ProviderDialect): (call: Call) => Promise<void> {
  return async (call) => {
    asked.push(textOf(call.body))
    const { writer: usual, writerFor } = DIALECTS[dialect]
    const writer = writerFor?.(call) ?? usual
    const speech = calls('', { id: 'call_1', name: 'read', json: ARGUMENTS })
    if (!writer.streams(call)) return call.answer(200, withDigits(JSON.stringify(writer.whole(speech))))
    await call.head200({ 'content-type': writer.streamType })
    for (const piece of writer.streamed(speech)) await call.chunk(typeof piece === 'string' ? withDigits(piece) : piece)
    await call.end()
  }
}

for (const dialect of PROVIDER_DIALECTS) upstreams.set(dialect, (await lastingUpstream()).otherwise(callsTool(dialect)))
const entry = (dialect: ProviderDialect) => providerEntry(dialect, `http://127.0.0.1:${upstreams.get(dialect)?.port}`)
const gateway = await lastingGateway({
  validated: true,
  providers: Object.fromEntries(PROVIDER_DIALECTS.map((dialect) => [dialect, entry(dialect)])),
  models: {
    ...Object.fromEntries(PROVIDER_DIALECTS.map((dialect) => [dialect, [`${dialect}/up`]])),
    'vertex-claude': ['vertex/claude-up'],
  },
})

const parameters = { type: 'object', properties: { row: { type: 'integer', minimum: SCHEMA_STAND_IN } } }

/** An earlier call, its result and a tool, as JSON text; large, so that parts of it stay unparsed, or small. */
function bodyOf(dialect: DialectName, model: string, stream: boolean, words: string): string {
  const common = { model, stream }
  const id = 'call_0'
  switch (dialect) {
    case 'chat': {
      const call = { id, type: 'function', function: { name: 'read', arguments: ARGUMENTS } }
      const messages = [
        { role: 'user', content: words },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: id, content: 'none' },
      ]
      return JSON.stringify({
        ...common,
        messages,
        tools: [{ type: 'function', function: { name: 'read', parameters } }],
      })
    }
    case 'responses': {
      const input = [
        { role: 'user', content: words },
        { type: 'function_call', call_id: id, name: 'read', arguments: ARGUMENTS },
        { type: 'function_call_output', call_id: id, output: 'none' },
      ]
      return JSON.stringify({ ...common, input, tools: [{ type: 'function', name: 'read', parameters }] })
    }
    case 'messages': {
      const messages = [
        { role: 'user', content: words },
        { role: 'assistant', content: [{ type: 'tool_use', id, name: 'read', input: JSON.parse(ARGUMENTS) }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'none' }] },
      ]
      return JSON.stringify({
        ...common,
        max_tokens: 300,
        messages,
        tools: [{ name: 'read', input_schema: parameters }],
      })
    }
  }
}

describe.each(['chat', 'responses', 'messages'] as const)('%s', (dialect) => {
  describe.each([...PROVIDER_DIALECTS, 'vertex-claude'])('with %s', (model) => {
    test.each(['small', 'large'] as const)('a %s history, a schema and a whole answer', async (size) => {
      const words = size === 'small' ? 'Hi' : 'words and words '.repeat(6000)
      asked.length = 0
      const bytes = requestBytes(PATHS[dialect], { key: KEY, body: withDigits(bodyOf(dialect, model, false, words)) })
      const answer = await ask(gateway.port, bytes)
      expect([answer.status, answer.end]).toEqual([200, 'whole'])
      expect(answer.text).toContain(DIGITS)
      expect(answer.text).toContain(NUMBERS)
      const [sent] = asked
      expect(sent).toContain(DIGITS)
      expect(sent).toContain(NUMBERS)
      expect(sent).toContain(SCHEMA_DIGITS)
    })
  })

  test.each(['gemini', 'vertex'])('a stream of %s, whose arguments are objects', async (model) => {
    const bytes = requestBytes(PATHS[dialect], { key: KEY, body: bodyOf(dialect, model, true, 'Hi') })
    const answer = await ask(gateway.port, bytes)
    expect([answer.status, answer.end]).toEqual([200, 'whole'])
    expect(answer.text).toContain(DIGITS)
    expect(answer.text).toContain(NUMBERS)
  })
})

test('a limit beyond 2^53 is still lowered to that of the model', async () => {
  const body = `{"model":"openai","max_tokens":${DIGITS},"messages":[{"role":"user","content":"Hi"}]}`
  const answer = await ask(gateway.port, requestBytes(PATHS.chat, { key: KEY, body }))
  expect(answer.status).toBe(200)
})

test('an integer in place of an object is rejected, with however many digits', async () => {
  const call = { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'read', input: STAND_IN }] }
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'x' }] }
  const user = { role: 'user', content: 'Hi' }
  const body = JSON.stringify({ model: 'anthropic', max_tokens: 300, messages: [user, call, result] })
  const answer = await ask(gateway.port, requestBytes(PATHS.messages, { key: KEY, body: withDigits(body) }))
  expect(answer.status).toBe(400)
  expect(answer.text).toContain("'messages[1].content[0].input'")
})
