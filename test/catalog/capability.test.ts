/** The needs of requests, and requests fitted to models. */

import { describe, expect, test } from 'bun:test'
import { lacks, needsOf, noNeeds, outputLimit } from '../../src/catalog/capability.ts'
import type { Model } from '../../src/catalog/catalog.ts'
import { fit as fitMarked } from '../../src/catalog/fitted-request.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { CacheMark } from '../../src/core/entry-marks.ts'
import type { ModelConfig } from '../../src/core/model-config.ts'
import { type Literal, requestJson, visible } from '../support/literal.ts'
import { catalog, chat, model } from './fixture.ts'

function made(changes: Partial<ModelConfig> = {}): Model {
  const found = catalog({ models: [model('m', changes)] }).model('m')
  if (found === undefined) throw new Error('there is no model m')
  return found
}

const explicit = (...ttls: ('5m' | '1h')[]) => made({ promptCache: { key: true, explicit: true, ttls } })
const plain = made()

/** A request with the same mark in every place that can carry one. */
function markedEverywhere(cache: CacheMark, changes: Partial<Literal> = {}): ChatRequest {
  const text = { type: 'text', text: 't', cache } as const
  return chat({
    cache,
    tools: [{ name: 'f', parameters: {}, cache }],
    messages: [
      { role: 'system', parts: [text] },
      {
        role: 'user',
        parts: [text, { type: 'image', source: { type: 'url', url: 'u' }, cache }, { type: 'native', json: {} }],
      },
      { role: 'assistant', parts: [text], toolCalls: [{ callId: 'c', name: 'f', json: '{}', cache }] },
      { role: 'tool', callId: 'c', parts: [text], cache },
    ],
    ...changes,
  })
}

const MARKS = 9
const DEFAULTS = Array.from({ length: MARKS }, () => '"cache":{}')
const marksIn = (request: ChatRequest): string[] => [...(requestJson(request).match(/"cache":\{[^}]*\}/g) ?? [])]

/** The places that can carry a mark, one at a time. */
const places: readonly [string, (cache: CacheMark) => Partial<Literal>][] = [
  ['the request', (cache) => ({ cache })],
  ['a tool', (cache) => ({ tools: [{ name: 'f', parameters: {}, cache }] })],
  ['a system text', (cache) => ({ messages: [{ role: 'system', parts: [{ type: 'text', text: 't', cache }] }] })],
  ['a user text', (cache) => ({ messages: [{ role: 'user', parts: [{ type: 'text', text: 't', cache }] }] })],
  [
    'an image',
    (cache) => ({ messages: [{ role: 'user', parts: [{ type: 'image', source: { type: 'url', url: 'u' }, cache }] }] }),
  ],
  [
    'an assistant text',
    (cache) => ({ messages: [{ role: 'assistant', toolCalls: [], parts: [{ type: 'text', text: 't', cache }] }] }),
  ],
  [
    'a tool call',
    (cache) => ({
      messages: [{ role: 'assistant', parts: [], toolCalls: [{ callId: 'c', name: 'f', json: '{}', cache }] }],
    }),
  ],
  ['a tool result', (cache) => ({ messages: [{ role: 'tool', callId: 'c', parts: [], cache }] })],
  [
    'a text of a tool result',
    (cache) => ({ messages: [{ role: 'tool', callId: 'c', parts: [{ type: 'text', text: 't', cache }] }] }),
  ],
]

const fit = (request: ChatRequest, to: Model) => fitMarked(request, to, needsOf(request, 0))

describe('needs', () => {
  test('of a plain request', () => expect(needsOf(chat(), 7)).toEqual({ ...noNeeds, inputTokens: 7 }))

  test('images anywhere in the history', () => {
    const image = { type: 'image', source: { type: 'base64', mediaType: 'image/png', data: '' } } as const
    const messages: Literal['messages'] = [
      { role: 'user', parts: [image] },
      { role: 'assistant', parts: [], toolCalls: [] },
      { role: 'user', parts: [{ type: 'text', text: 'and now?' }] },
    ]
    expect(needsOf(chat({ messages }), 0).images).toBe(true)
  })

  test('tools and limits', () => {
    const request = chat({ tools: [{ name: 'f', parameters: {} }], maxOutputTokens: 9, limitsOutput: true })
    expect(needsOf(request, 0)).toMatchObject({ tools: true, maxOutputTokens: 9, limitsOutput: true })
  })

  test.each([...places])('a mark on %s', (_, place) => {
    expect(needsOf(chat(place({ ttl: '1h' })), 0)).toMatchObject({ ttls: ['1h'], cache: false })
    expect(needsOf(chat({ ...place({}), cacheStrict: true }), 0)).toMatchObject({ ttls: [], cache: true })
  })
})

describe('lacks', () => {
  test('the reasons', () => {
    const small = made({ supports: [], contextWindow: 10 })
    const image = made({ supports: ['image_generation'] })
    expect(lacks(plain, noNeeds)).toBeUndefined()
    expect(lacks(image, noNeeds)).toBe('makes images only')
    expect(lacks(small, { ...noNeeds, images: true })).toBe('takes no images')
    expect(lacks(small, { ...noNeeds, tools: true })).toBe('takes no tools')
    expect(lacks(small, { ...noNeeds, inputTokens: 8, maxOutputTokens: 3 })).toBe(
      'has a context window of 10 tokens, too few for an estimated 8 of input and 3 of output',
    )
    expect(lacks(plain, { ...noNeeds, cache: true })).toBe('does not support cache_control')
    expect(lacks(explicit('5m'), { ...noNeeds, ttls: ['5m', '1h'] })).toBe('does not support a cache TTL of 1h')
  })
})

describe('the output limit', () => {
  test.each<[string, Partial<ModelConfig>, number | undefined, boolean, number | undefined]>([
    ['none, chat', {}, undefined, false, undefined],
    ['none, chat, with a most', { maxOutputTokens: 100 }, undefined, false, undefined],
    ['none, with a default', {}, undefined, true, 4096],
    ["the operator's default", { defaultOutputTokens: 50 }, undefined, true, 50],
    ['the default above the most', { maxOutputTokens: 100 }, undefined, true, 100],
    ['below the most', { maxOutputTokens: 100 }, 99, true, 99],
    ['above the most', { maxOutputTokens: 100 }, 101, false, 100],
    ['without a most', {}, 1e9, false, 1e9],
  ])('%s', (_, changes, maxOutputTokens, limitsOutput, expected) => {
    const of = made(changes)
    expect(outputLimit(of, { maxOutputTokens, limitsOutput })).toBe(expected)
    expect(fit(chat({ maxOutputTokens, limitsOutput }), of).maxOutputTokens).toBe(expected)
  })
})

describe('fit', () => {
  test('returns the same object if nothing changes', () => {
    const requests = [chat(), chat({ maxOutputTokens: 5, limitsOutput: true, hints: { user: 'u' } })]
    for (const request of requests) expect(fit(request, plain)).toBe(request)
    const cached = markedEverywhere({ ttl: '1h' }, { hints: { promptCacheKey: 'k' } })
    expect(fit(cached, explicit('1h'))).toBe(cached)
    expect(fit(markedEverywhere({}, { cacheStrict: true }), explicit())).toMatchObject({ cache: {} })
  })

  test('cache keys and their options are removed if the model has none; other hints stay', () => {
    const hints = { user: 'u', promptCacheKey: 'k', promptCacheRetention: '24h', promptCacheOptions: {} }
    expect(fit(chat({ hints }), plain).hints).toEqual({ user: 'u' })
    expect(fit(chat({ hints: { promptCacheRetention: '24h' } }), plain).hints).toEqual({})
    expect(fit(chat({ hints }), made({ promptCache: { key: true, explicit: false, ttls: [] } })).hints).toBe(hints)
  })

  test('all marks are removed if the model takes none, and nothing else is', () => {
    const request = markedEverywhere({ ttl: '5m' })
    expect(marksIn(request)).toHaveLength(MARKS)
    const fitted = fit(request, plain)
    expect(marksIn(fitted)).toEqual([])
    expect(requestJson(fitted)).toBe(requestJson(request).replaceAll(/,?"cache":\{[^}]*\}/g, ''))
  })

  test('a mark with an unsupported TTL keeps its place and gets the default TTL', () => {
    expect(marksIn(fit(markedEverywhere({ ttl: '1h' }), explicit('5m')))).toEqual(DEFAULTS)
    expect(marksIn(fit(markedEverywhere({ ttl: '5m' }), explicit()))).toEqual(DEFAULTS)
    const mixed = chat({ cache: { ttl: '1h' }, tools: [{ name: 'f', parameters: {}, cache: { ttl: '5m' } }] })
    expect(visible(fit(mixed, explicit('5m')))).toMatchObject({ cache: {}, tools: [{ cache: { ttl: '5m' } }] })
  })

  test.each([...places])('a single mark on %s is found', (_, place) => {
    expect(marksIn(fit(chat(place({ ttl: '1h' })), plain))).toEqual([])
    expect(() => fit(chat({ ...place({ ttl: '1h' }), cacheStrict: true }), plain)).toThrow(CallerError)
  })

  test.each<[string, Model, CacheMark, string]>([
    ['no caching', plain, {}, "The model 'm' does not support cache_control; leave it out."],
    ['no caching, with a TTL', plain, { ttl: '5m' }, "The model 'm' does not support cache_control; leave it out."],
    [
      'no such TTL',
      explicit('5m'),
      { ttl: '1h' },
      "The model 'm' does not support a cache ttl of '1h'. It takes '5m', or none.",
    ],
    [
      'no TTL at all',
      explicit(),
      { ttl: '1h' },
      "The model 'm' does not support a cache ttl of '1h'. It takes no ttl.",
    ],
  ])('strict: %s', (_, of, mark, message) => {
    try {
      fit(markedEverywhere(mark, { cacheStrict: true }), of)
      throw new Error('it was accepted')
    } catch (error) {
      expect(error).toMatchObject({ kind: 'unsupported_cache', message })
    }
  })

  test('strict: the error names the first unsupported mark', () => {
    const at = (index: number, ttl?: '5m' | '1h') =>
      ({ type: 'text', text: 'a', cache: { ttl, path: `input[${index}].cache_control` } }) as const
    const parts = [at(0), at(1, '5m'), at(2, '1h')]
    const request = chat({ messages: [{ role: 'user', parts }], cacheStrict: true })
    expect(() => fit(request, plain)).toThrow(expect.objectContaining({ detail: { param: 'input[0].cache_control' } }))
    const param = 'input[2].cache_control.ttl'
    expect(() => fit(request, explicit('5m'))).toThrow(expect.objectContaining({ detail: { param } }))
  })

  test('the original request is never changed', () => {
    const request = markedEverywhere({ ttl: '1h' }, { maxOutputTokens: 1e9, hints: { promptCacheKey: 'k' } })
    const before = JSON.stringify(request)
    fit(request, made({ maxOutputTokens: 5 }))
    expect(JSON.stringify(request)).toBe(before)
  })
})
