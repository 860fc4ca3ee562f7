/** What Vertex AI gets: addresses, the bodies of both APIs, and token counts. */

import { describe, expect, test } from 'bun:test'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import type { Provider, Target } from '../../src/providers/provider.ts'
import { isClaudeOnVertex } from '../../src/providers/vertex-address.ts'
import type { UserPart } from '../support/literal.ts'
import { objectOf } from './conformance.ts'
import { endpoint, plainRequest } from './requests.ts'

const place = { baseUrl: 'https://v.test', project: 'project-1', location: 'global' }
const at = (model: string): Target => ({ endpoint: endpoint(place), model })
const LOCATION = 'https://v.test/v1/projects/project-1/locations/global'
const GOOGLE = `${LOCATION}/publishers/google/models`
const ANTHROPIC = `${LOCATION}/publishers/anthropic/models`

test.each([
  ['gemini-2.5-flash', false],
  ['publishers/google/models/gemini-2.5-flash', false],
  ['endpoints/123', false],
  ['claude-sonnet-4-5@20250929', true],
  ['publishers/anthropic/models/claude-opus-4-6', true],
  ['publishers/google/models/claude', false],
])('%s is Claude: %p', (model, isClaude) => {
  expect(isClaudeOnVertex(model)).toBe(isClaude)
})

test.each<[Provider, string, boolean, string]>([
  [vertexGemini, 'gemini-2.5-flash', false, `${GOOGLE}/gemini-2.5-flash:generateContent`],
  [vertexGemini, 'gemini-2.5-flash', true, `${GOOGLE}/gemini-2.5-flash:streamGenerateContent?alt=sse`],
  [vertexGemini, 'publishers/google/models/gemini-3-pro', false, `${GOOGLE}/gemini-3-pro:generateContent`],
  [vertexGemini, 'endpoints/123', false, `${LOCATION}/endpoints/123:generateContent`],
  [vertexClaude, 'claude-sonnet-4-5@20250929', false, `${ANTHROPIC}/claude-sonnet-4-5@20250929:rawPredict`],
  [vertexClaude, 'claude-opus-4-6', true, `${ANTHROPIC}/claude-opus-4-6:streamRawPredict`],
  [vertexClaude, 'publishers/anthropic/models/claude-opus-4-6', false, `${ANTHROPIC}/claude-opus-4-6:rawPredict`],
])('%#: the address of %s', (provider, model, stream, url) => {
  const request = plainRequest({ stream })
  expect(provider.request(request, at(model)).url).toBe(url)
})

test('no key is sent, and no version as a header', () => {
  const sent = [vertexGemini, vertexClaude].map((provider) => provider.request(plainRequest(), at('claude')).headers)
  expect(sent).toEqual([{ 'content-type': 'application/json' }, { 'content-type': 'application/json' }])
})

test('Claude gets the version in the body, and no model', () => {
  const { body } = vertexClaude.request(
    plainRequest({ stream: true, maxOutputTokens: 5, hints: { serviceTier: 'auto' } }),
    at('claude-opus-4-6'),
  )
  expect(objectOf(body)).toEqual({
    anthropic_version: 'vertex-2023-10-16',
    max_tokens: 5,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
    stream: true,
  })
})

describe('token counts', () => {
  test('Gemini', () => {
    const sent = vertexGemini.counter?.request(plainRequest({ maxOutputTokens: 5 }), at('gemini-2.5-flash'))
    expect(sent?.url).toBe(`${GOOGLE}/gemini-2.5-flash:countTokens`)
    expect(objectOf(sent?.body ?? '')).toEqual({ contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] })
    expect(vertexGemini.counter?.tokens({ totalTokens: 4 })).toBe(4)
  })

  test('Claude: a model of its own counts', () => {
    const sent = vertexClaude.counter?.request(plainRequest(), at('publishers/anthropic/models/claude-opus-4-6'))
    expect(sent?.url).toBe(`${ANTHROPIC}/count-tokens:rawPredict`)
    expect(objectOf(sent?.body ?? '')).toEqual({
      anthropic_version: 'vertex-2023-10-16',
      model: 'claude-opus-4-6',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
    })
    expect(vertexClaude.counter?.tokens({ input_tokens: 4 })).toBe(4)
  })
})

describe('images by URL', () => {
  const image: UserPart = { type: 'image', source: { type: 'url', url: 'https://example.org/a.png' } }
  const request = plainRequest({ messages: [{ role: 'user', parts: [image] }] })

  test('Claude: rejected before anything is sent, so that the next candidate is asked', () => {
    for (const send of [vertexClaude.request, vertexClaude.counter?.request])
      expect(() => send?.(request, at('claude-opus-4-6'))).toThrow(
        expect.objectContaining({ kind: 'rejected', detail: { unsent: true } }),
      )
  })

  test('Gemini: passed on', () => {
    const { body } = vertexGemini.request(request, at('gemini-2.5-flash'))
    const fileData = { mimeType: 'image/png', fileUri: 'https://example.org/a.png' }
    expect(objectOf(body)).toMatchObject({ contents: [{ parts: [{ fileData }] }] })
  })
})

describe('calls of Gemini', () => {
  const call = (callId: string, city: string) => ({ callId, name: 'weather', json: JSON.stringify({ city }) })
  const result = (callId: string, text: string) => ({ role: 'tool', callId, parts: [{ type: 'text', text }] }) as const
  const request: ChatRequest = plainRequest({
    messages: [
      { role: 'user', parts: [{ type: 'text', text: 'Compare.' }] },
      { role: 'assistant', parts: [], toolCalls: [call('a', 'Oslo'), call('b', 'Rome')] },
      result('b', 'sunny'),
      result('a', 'rain'),
      { role: 'user', parts: [{ type: 'text', text: 'And?' }] },
    ],
  })

  test('have no ids, and results stand in the order of the calls', () => {
    const { body } = vertexGemini.request(request, at('gemini-2.5-flash'))
    const response = (text: string) => ({ functionResponse: { name: 'weather', response: { result: text } } })
    expect(objectOf(body)['contents']).toEqual([
      { role: 'user', parts: [{ text: 'Compare.' }] },
      {
        role: 'model',
        parts: ['Oslo', 'Rome'].map((city) => ({ functionCall: { name: 'weather', args: { city } } })),
      },
      { role: 'user', parts: [response('rain'), response('sunny'), { text: 'And?' }] },
    ])
  })

  test('of an earlier turn are answered after those of the turn before', () => {
    const answer = (callId: string) => ({ role: 'assistant', parts: [], toolCalls: [call(callId, 'Oslo')] }) as const
    const messages = [answer('a'), result('a', 'rain'), answer('b'), result('a', 'snow'), result('b', 'sunny')]
    const { body } = vertexGemini.request(plainRequest({ messages }), at('gemini-2.5-flash'))
    const response = (text: string) => ({ functionResponse: { name: 'weather', response: { result: text } } })
    expect(objectOf(body)).toMatchObject({ contents: { 4: { parts: [response('sunny'), response('snow')] } } })
  })
})
