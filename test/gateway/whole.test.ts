/** Answers that are not streamed, in all the shapes in which providers give them; and the other way round. */

import { describe, expect, test } from 'bun:test'
import * as does from '../support/scenarios.ts'
import type { Scenario } from '../support/upstream.ts'
import { lastingStage, STREAM, seen } from './stage.ts'

const MIB = 1024 * 1024
const body = does.chatBody('Hello')
const half = body.slice(0, -20)
const sse = { 'content-type': 'text/event-stream' }

/** A body in chunks, without a length. */
function chunked(text: string, fields: Readonly<Record<string, string>> = {}, size = 7): Scenario {
  return async (call) => {
    await call.head200({ 'content-type': 'application/json', ...fields })
    for (let at = 0; at < text.length; at += size) await call.chunk(text.slice(at, at + size))
    await call.end()
  }
}

/** A body that its end alone delimits. */
function delimited(text: string): Scenario {
  return async (call) => {
    await call.status(200, { 'content-type': 'application/json', connection: 'close' })
    await call.write(text)
    call.whole()
    call.close()
  }
}

function declared(text: string, length: number): Scenario {
  return async (call) => {
    await call.status(200, { 'content-type': 'application/json', 'content-length': String(length) })
    await call.write(text)
    call.close()
  }
}

/** A good answer of so many bytes and some. */
const padded = (bytes: number) => JSON.stringify({ padding: ' '.repeat(bytes), ...JSON.parse(body) })
const [role = '', ...frames] = does.chatFrames(['Hel', 'lo'])

const good: readonly (readonly [name: string, scenario: Scenario])[] = [
  ['json', does.json(200, body)],
  ['json-charset', does.json(200, body, { 'content-type': 'application/json; charset=utf-8' })],
  ['chunked', chunked(body)],
  ['delimited', delimited(body)],
  ['gzip', does.gzipped(body)],
  ['sse', does.stream([role, ...frames])],
  ['sse-byte-by-byte', does.byteByByte([role, ...frames])],
  ['sse-no-done', does.stream([role, ...frames.slice(0, -1)])],
  ['big', does.json(200, padded(30 * MIB))],
]

const bad: readonly (readonly [name: string, scenario: Scenario])[] = [
  ['html', does.json(200, '<html>', { 'content-type': 'text/html' })],
  ['no-type', does.raw(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`)],
  ['empty', does.json(200, '')],
  ['no-content', does.raw('HTTP/1.1 204 No Content\r\n\r\n')],
  ['null', does.json(200, 'null')],
  ['array', does.json(200, '[]')],
  ['no-choices', does.json(200, '{"choices":[]}')],
  ['error-in-200', does.json(200, '{"error":{"message":"x","type":"server_error"}}')],
  ['half', chunked(half)],
  ['half-delimited', delimited(half)],
  ['half-declared', declared(half, body.length)],
  ['reset', does.resets([half])],
  ['broken-gzip', does.json(200, body, { 'content-encoding': 'gzip' })],
  ['sse-cut', does.withoutLastChunk([role, ...frames.slice(0, 2)])],
  ['sse-clean-end', does.stream([role, ...frames.slice(0, 2)])],
  ['sse-error', does.stream([role, ...frames.slice(0, 2), 'data: {"error":{"message":"x"}}\n\n'])],
  ['sse-as-json', does.json(200, frames.join(''))],
  ['json-as-sse', does.json(200, body, sse)],
  ['too-big-declared', does.json(200, padded(32 * MIB))],
  ['too-big-chunked', chunked(padded(32 * MIB), {}, 4 * MIB)],
  ['bomb', does.gzipped(padded(40 * MIB))],
]

/** Around the size up to which an answer goes out in one write with its head; umlauts take two bytes. */
const lengths = [6 * 1024, 13 * 1024, 15 * 1024, 500 * 1024]
const umlauts = (length: number) => `${'\u00fc'.repeat(length / 2)}.`
const long = lengths.flatMap((length): [string, Scenario][] => [
  [`whole-${length}`, does.json(200, does.chatBody(umlauts(length)))],
  [`streamed-${length}`, does.stream(does.chatFrames(['short', umlauts(length)]))],
])

const followed = bad.map(([name, scenario]) => [`${name}-2`, [scenario, does.answersText('second')]] as const)
const stage = await lastingStage({ ...Object.fromEntries([...good, ...bad, ...long]), ...Object.fromEntries(followed) })

describe('a whole answer from', () => {
  test.each(good)('%s', async (name) => {
    const answer = await stage.ask(name)
    expect(answer.status).toBe(200)
    expect(answer.header('content-type')).toBe('application/json')
    for (const field of ['content-encoding', 'transfer-encoding']) expect(answer.header(field)).toBeUndefined()
    const sentAsStream = name.startsWith('sse')
    expect(answer.json()).toMatchObject({
      ...{ object: 'chat.completion', model: name },
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 9, completion_tokens: sentAsStream ? 2 : 3 },
    })
    expect(await stage.lineOf(answer)).toMatchObject({
      ...{ status: 200, streamed: false, outcome: 'completed', usage: 'provider', fallbacks: 0, input_tokens: 9 },
      cost_micro_usd: sentAsStream ? 29 : 39,
    })
  })

  test.each(good)('%s, streamed', async (name) => {
    const answer = await stage.ask(name, { ...STREAM, stream_options: { include_usage: true } })
    expect(answer.header('content-type')).toStartWith('text/event-stream')
    expect(seen(answer.text)).toEqual({ text: 'Hello', finish: 'stop', done: true })
    expect(answer.text).toContain('"prompt_tokens":9')
    expect(await stage.lineOf(answer)).toMatchObject({
      status: 200,
      streamed: true,
      outcome: 'completed',
      usage: 'provider',
    })
  })
})

describe('an answer of any length is whole', () => {
  test.each(lengths)('%d bytes of text', async (length) => {
    const answer = await stage.ask(`whole-${length}`)
    expect([answer.status, answer.end, answer.header('content-type')]).toEqual([200, 'whole', 'application/json'])
    expect(answer.json()).toMatchObject({ choices: [{ message: { content: umlauts(length) } }] })
  })

  test.each(lengths)('%d bytes of text, streamed', async (length) => {
    const answer = await stage.ask(`streamed-${length}`, STREAM)
    expect(answer.end).toBe('whole')
    expect(seen(answer.text)).toEqual({ text: `short${umlauts(length)}`, finish: 'stop', done: true })
  })
})

describe('no answer is', () => {
  test.each(bad)('%s', async (name) => {
    const answer = await stage.ask(name)
    expect([answer.status, answer.json()]).toMatchObject([502, { error: { code: 'upstream_failed' } }])
    const line = await stage.lineOf(answer)
    expect(line).toMatchObject({ status: 502, outcome: 'refused', error: 'upstream_failed' })
    expect(line).not.toHaveProperty('cost_micro_usd')
  })

  test.each(bad)('%s: the next candidate answers', async (name) => {
    const answer = await stage.ask(`${name}-2`)
    expect([answer.status, answer.header('x-gateway-fallback-count')]).toEqual([200, '1'])
    expect(answer.json()).toMatchObject({ choices: [{ message: { content: 'second' } }] })
  })
})

test('no answer above is logged as more than a request', () => {
  expect(stage.gateway.lines.filter(({ level }) => level !== 'info')).toEqual([])
})
