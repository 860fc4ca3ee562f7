import { describe, expect, test } from 'bun:test'
import { ANSWERS, BURST_TEXTS, burstOf, JSON_TEXT, PACED_TEXT_LENGTH, pacedText } from '../../tools/bench/answers.ts'
import { conversationOf } from '../../tools/bench/conversation.ts'
import { isWhole, textOfAnswer, textOfStream } from '../../tools/bench/dialects.ts'
import { AnswerReader } from '../../tools/bench/http.ts'
import { answerOf, type Dialect, KINDS, modelOf, NATIVE, PROVIDERS, STREAMED } from '../../tools/bench/traffic.ts'

const DIALECTS: readonly Dialect[] = ['chat', 'messages', 'responses', 'gemini', 'bedrock']

test.each(PROVIDERS.map((provider) => [provider] as const))('a whole answer of %s has its text', (provider) => {
  expect(textOfAnswer(NATIVE[provider], ANSWERS[provider].json)).toBe(JSON_TEXT)
})

describe.each(STREAMED.map((provider) => [provider] as const))('the streams of %s', (provider) => {
  const dialect = NATIVE[provider]
  const stream = ANSWERS[provider].first + burstOf(provider, 0) + ANSWERS[provider].last

  test('have the text that a caller must read', () => {
    expect(textOfStream(dialect, stream)).toBe(BURST_TEXTS.burst)
  })

  test('are whole only with their last event', () => {
    expect(isWhole(dialect, stream)).toBe(true)
    expect(isWhole(dialect, stream.slice(0, -1))).toBe(false)
    expect(isWhole(dialect, ANSWERS[provider].first + burstOf(provider, 0))).toBe(false)
  })
})

test('events of OpenAI with obfuscation differ in length, those without do not', () => {
  const lengths = (provider: 'openai' | 'obfuscated') =>
    new Set(Array.from({ length: 64 }, (_, at) => ANSWERS[provider].event('word', at).length)).size
  expect(lengths('openai')).toBe(1)
  expect(lengths('obfuscated')).toBeGreaterThan(8)
})

test('a model selects its answer, in a path and in a body', () => {
  for (const kind of KINDS)
    for (const provider of PROVIDERS) {
      const model = modelOf(kind, provider)
      expect(answerOf(`POST /v1beta/models/${model}:streamGenerateContent HTTP/1.1`)).toEqual({ kind, provider })
      expect(answerOf(`{"model":"${model}","stream":true}`)).toEqual({ kind, provider })
    }
  expect(answerOf('Authorization: Bearer bench-key')).toBeUndefined()
})

test('a paced text has a fixed width', () => {
  expect(pacedText(0)).toHaveLength(PACED_TEXT_LENGTH)
  expect(pacedText(999_999)).toMatch(/^999999 \d{16} $/)
})

describe.each(DIALECTS.map((dialect) => [dialect] as const))('a conversation in %s', (dialect) => {
  const text = JSON.stringify(conversationOf(dialect, 200_000))

  test('is the same each time, and about as large as asked', () => {
    expect(JSON.stringify(conversationOf(dialect, 200_000))).toBe(text)
    expect(Buffer.byteLength(text)).toBeGreaterThan(190_000)
    expect(Buffer.byteLength(text)).toBeLessThan(230_000)
  })

  test('has calls, results, escapes and other scripts than Latin', () => {
    expect(text.match(/call_bench|functionCall/g)?.length).toBeGreaterThan(20)
    for (const part of ['\\n', '\\"', '\\t', '設定', '✅']) expect(text).toContain(part)
  })
})

test('answers are split at every byte boundary', () => {
  const two =
    'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc' +
    'HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n'
  for (let cut = 0; cut <= two.length; cut++) {
    const seen: (string | number)[] = []
    let body = ''
    const reader = new AnswerReader({
      head: (status) => seen.push(status),
      body: (piece) => {
        body += piece.toString()
      },
      end: () => {
        seen.push(body)
        body = ''
      },
    })
    reader.push(Buffer.from(two.slice(0, cut)))
    reader.push(Buffer.from(two.slice(cut)))
    expect([cut, ...seen]).toEqual([cut, 200, 'abc', 404, 'def'])
    expect(reader.inside).toBe(false)
  }
})
