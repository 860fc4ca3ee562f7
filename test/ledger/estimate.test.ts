/**
 * Estimates compared with the counts of two real tokenizers (o200k_base, cl100k_base), and encoded bytes, which must
 * never be counted as text.
 */

import { describe, expect, test } from 'bun:test'
import { estimateInput, OutputCount } from '../../src/ledger/estimate.ts'
import counts from '../fixtures/ledger/token-counts.json' with { type: 'json' }
import { chatRequest, type Literal, type Message, type Tool, type UserPart } from '../support/literal.ts'
import { pngBase64 } from './pictures.ts'

function request(messages: readonly Message[], tools: readonly Tool[] = []): Literal {
  return {
    model: 'm',
    stream: false,
    messages,
    tools,
    limitsOutput: false,
    stop: [],
    sampling: {},
    hints: {},
    cacheStrict: false,
  }
}

const estimate = (literal: Literal) => estimateInput(chatRequest(literal))

function user(...parts: readonly UserPart[]): Message {
  return { role: 'user', parts }
}

function ofText(text: string): number {
  return estimate(request([user({ type: 'text', text })]))
}

describe('text', () => {
  for (const { kind, text, o200k_base, cl100k_base } of counts) {
    test(`${kind}: not below the newer tokenizer's count, nor far above the older one's`, () => {
      const tokens = ofText(text)
      expect(tokens).toBeGreaterThanOrEqual(o200k_base)
      expect(tokens).toBeLessThanOrEqual(Math.max(o200k_base * 1.6, cl100k_base * 1.25) + 5)
    })
  }

  test('a long text is sampled, and its estimate matches the sum of its parts', () => {
    const row = counts.find(({ kind }) => kind === 'prose')
    const once = ofText(row?.text ?? '')
    const often = ofText((row?.text ?? '').repeat(500))
    expect(often / once).toBeGreaterThan(450)
    expect(often / once).toBeLessThan(550)
  })

  test('every part of a request counts', () => {
    const plain = request([user({ type: 'text', text: 'Hello' })])
    const tool: Tool = {
      name: 'search',
      description: 'Searches.',
      parameters: { type: 'object', properties: { query: { type: 'string' } } },
    }
    const call: Message = {
      role: 'assistant',
      parts: [],
      toolCalls: [{ callId: 'c', name: 'search', json: '{"query":"weir"}' }],
    }
    const result: Message = { role: 'tool', callId: 'c', parts: [{ type: 'text', text: 'Found it.' }] }
    const system: Message = { role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] }
    const sizes = [
      plain,
      { ...plain, tools: [tool] },
      { ...plain, messages: [...plain.messages, call] },
      { ...plain, messages: [...plain.messages, result] },
      { ...plain, messages: [system, ...plain.messages] },
      { ...plain, sampling: { responseFormat: { type: 'json_object' } } },
    ].map(estimate)
    for (const size of sizes.slice(1)) expect(size).toBeGreaterThan(sizes[0] ?? 0)
  })
})

describe('encoded bytes', () => {
  const data = Buffer.alloc(750_000, 7).toString('base64')

  test('an inline image counts by its pixels, whatever its size in bytes', () => {
    const picture = pngBase64(1024, 1024) + data
    const part: UserPart = { type: 'image', source: { type: 'base64', mediaType: 'image/png', data: picture } }
    const tokens = estimate(request([user(part)]))
    expect(tokens).toBeGreaterThanOrEqual(1398)
    expect(tokens).toBeLessThan(1420)
  })

  test('an image given by URL counts as a large one', () => {
    const tokens = estimate(
      request([user({ type: 'image', source: { type: 'url', url: 'https://example.org/a.png' } })]),
    )
    expect(tokens).toBeGreaterThanOrEqual(1600)
    expect(tokens).toBeLessThan(1620)
  })

  test('documents and audio count one token for sixteen bytes', () => {
    const file = { type: 'file', file: { file_data: `data:application/pdf;base64,${data}` } }
    const sound = { type: 'input_audio', input_audio: { data, format: 'mp3' } }
    for (const json of [file, sound]) {
      const tokens = estimate(request([user({ type: 'native', json })]))
      expect(tokens).toBeGreaterThanOrEqual(data.length / 16)
      expect(tokens).toBeLessThan(data.length / 13)
    }
  })
})

describe('output', () => {
  test('an empty text counts 0, any other at least 1', () => {
    const count = new OutputCount()
    expect(count.tokens).toBe(0)
    count.addText('')
    expect(count.tokens).toBe(0)
    count.addText('a')
    expect(count.tokens).toBe(1)
  })

  test('English in small and in large chunks comes near the real count', () => {
    const row = counts.find(({ kind }) => kind === 'prose')
    for (const size of [3, 5, 12, 80, 5000]) {
      const count = new OutputCount()
      const text = row?.text ?? ''
      for (let i = 0; i < text.length; i += size) count.addText(text.slice(i, i + size))
      expect(count.tokens / (row?.o200k_base ?? 1)).toBeGreaterThan(0.8)
      expect(count.tokens / (row?.o200k_base ?? 1)).toBeLessThan(1.25)
    }
  })
})
