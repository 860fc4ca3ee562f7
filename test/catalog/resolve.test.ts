/** Names, aliases, fallbacks, endpoints and automatic selection, and the five model errors. */

import { describe, expect, test } from 'bun:test'
import { type Needs, noNeeds } from '../../src/catalog/capability.ts'
import type { Catalog, Model } from '../../src/catalog/catalog.ts'
import { type Ask, candidatesOf, resolve, selectModel } from '../../src/catalog/resolve.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import { catalog, key, keyOf, model, organization } from './fixture.ts'

function ask(name: string, changes: Partial<Ask> = {}): Ask {
  return { name, kind: 'chat', needs: noNeeds, ...changes }
}

/** The candidates as `model/target`, in order. */
function order(of: Catalog, name: string, changes: Partial<Ask> = {}) {
  const { candidates } = resolve(of, keyOf(of), ask(name, changes))
  return candidates.map(({ model: { name: served }, target }) => `${served}/${target.model}`)
}

/** The models that were left out, each with its reason. */
function excluded(of: Catalog, name: string, changes: Partial<Ask> = {}) {
  return resolve(of, keyOf(of), ask(name, changes)).excluded.map(
    ({ model: { name: left }, reason }) => `${left} ${reason}`,
  )
}

function failure(of: Catalog, name: string, changes: Partial<Ask> = {}): CallerError {
  try {
    order(of, name, changes)
  } catch (error) {
    if (error instanceof CallerError) return error
    throw error
  }
  throw new Error(`${name} was resolved`)
}

const summary = ({ row, code, message, detail }: CallerError) => [row.status, code, detail.param, message]

describe('names', () => {
  const of = catalog({
    models: [
      model('a', {
        aliases: ['one', 'shared'],
        targets: [
          { provider: 'p', model: 'x' },
          { provider: 'q', model: 'y' },
        ],
      }),
      model('b', { aliases: ['shared'] }),
      model('c', { aliases: ['two'] }),
    ],
    organizations: [organization('o', { models: ['a', 'b'] })],
  })

  test('a public name, its targets in order', () => expect(order(of, 'a')).toEqual(['a/x', 'a/y']))
  test('an alias', () => expect(order(of, 'one')).toEqual(['a/x', 'a/y']))

  test('a public name takes precedence over an equal alias', () => {
    const clash = catalog({ models: [model('a', { aliases: ['b'] }), model('b')] })
    expect(order(clash, 'b')).toEqual(['b/b-1'])
  })

  test.each(['nope', '', 'A', 'toString', '__proto__', 'ONE'])('unknown: %j', (name) => {
    expect(summary(failure(of, name))).toEqual([
      404,
      'model_not_found',
      'model',
      `The model '${name}' does not exist; GET /v1/models lists those that this API key may use.`,
    ])
  })

  test('an alias of two models is an error, for every key', () => {
    const narrow = catalog({
      models: [model('a', { aliases: ['s'] }), model('b', { aliases: ['s'] })],
      organizations: [organization('o', { models: ['a'] })],
    })
    for (const one of [failure(of, 'shared'), failure(narrow, 's')]) {
      expect([one.row.status, one.code]).toEqual([404, 'model_not_found'])
      expect(one.message).toContain('stands for several models')
    }
  })

  test('known but not allowed, by name and by alias', () => {
    for (const name of ['c', 'two']) {
      expect(summary(failure(of, name))).toEqual([
        403,
        'model_not_allowed',
        'model',
        `The model '${name}' is not among those allowed for this API key; GET /v1/models lists them.`,
      ])
    }
  })

  test('a model is selected by its name alone', () => {
    const selected = selectModel(of, keyOf(of), 'one', 'chat')
    expect(selected).toBe(of.model('a') as Model)
    expect(candidatesOf(of, keyOf(of), selected, ask('one'))).toEqual(resolve(of, keyOf(of), ask('one')))
    expect(() => selectModel(of, keyOf(of), 'two', 'chat')).toThrow('is not among those allowed')
    expect(() => selectModel(of, keyOf(of), 'a', 'image')).toThrow('is a chat model')
  })

  test('an error shortens a long name', () => {
    expect(failure(of, 'x'.repeat(1e6)).message.length).toBeLessThan(300)
  })
})

describe('fallbacks', () => {
  const of = catalog({
    models: [
      model('a', { fallbacks: ['c', 'b', 'denied', 'image', 'gone'] }),
      model('b', { fallbacks: ['d'] }),
      model('c'),
      model('d'),
      model('denied'),
      model('image', { supports: ['image_generation'] }),
    ],
    organizations: [organization('o', { rules: [{ effect: 'deny', models: ['denied'] }] })],
  })

  test('follow the targets in their own order, if the key may use them and they serve the same endpoint', () =>
    expect(order(of, 'a')).toEqual(['a/a-1', 'c/c-1', 'b/b-1']))

  test('the others are excluded with their reasons', () =>
    expect(excluded(of, 'a')).toEqual(['denied is not allowed for this API key', 'image makes images only']))

  const able = catalog({
    models: [
      model('able', {
        fallbacks: ['blind', 'small', 'plain', 'able-too'],
        contextWindow: 1000,
        promptCache: { key: false, explicit: true, ttls: ['5m', '1h'] },
      }),
      model('undeclared', { supports: [], fallbacks: ['blind', 'able-too'] }),
      model('blind', { supports: ['tools'] }),
      model('small', { contextWindow: 500 }),
      model('plain', { supports: [] }),
      model('able-too', { promptCache: { key: false, explicit: true, ttls: ['5m'] } }),
    ],
  })
  test.each<[string, string, Partial<Needs>, string[]]>([
    ['nothing: all', 'able', {}, ['able', 'blind', 'small', 'plain', 'able-too']],
    ['images', 'able', { images: true }, ['able', 'small', 'able-too']],
    ['tools', 'able', { tools: true }, ['able', 'blind', 'small', 'able-too']],
    ['room', 'able', { inputTokens: 501 }, ['able', 'blind', 'plain', 'able-too']],
    [
      'a strict cache mark, which they are asked without',
      'able',
      { cache: true },
      ['able', 'blind', 'small', 'plain', 'able-too'],
    ],
    ['a strict mark of 1h', 'able', { cache: true, ttls: ['1h'] }, ['able', 'blind', 'small', 'plain', 'able-too']],
    ['a TTL that may be dropped', 'able', { ttls: ['1h'] }, ['able', 'blind', 'small', 'plain', 'able-too']],
    [
      'too much for the one that was asked for: its provider decides',
      'able',
      { inputTokens: 5000 },
      ['able', 'blind', 'plain', 'able-too'],
    ],
    [
      'what the one that was asked for does not declare',
      'undeclared',
      { images: true, tools: true },
      ['undeclared', 'blind', 'able-too'],
    ],
  ])('that lack what the request needs are excluded: %s', (_, name, needs, expected) =>
    expect(order(able, name, { needs: { ...noNeeds, ...needs } }).map((one) => one.split('/')[0] ?? '')).toEqual(
      expected,
    ),
  )
})

describe('endpoints', () => {
  const of = catalog({ models: [model('a'), model('paint', { supports: ['image_generation'] })] })

  test('an image model at its endpoint', () => expect(order(of, 'paint', { kind: 'image' })).toEqual(['paint/paint-1']))

  test('a model at the wrong endpoint', () => {
    const image = failure(of, 'paint')
    expect([image.kind, image.row.status, image.detail.param]).toEqual(['wrong_endpoint', 400, 'model'])
    expect(image.message).toContain('/v1/images/generations')
    expect(failure(of, 'a', { kind: 'image' }).message).toContain('/v1/chat/completions')
  })
})

describe('auto', () => {
  const models = [
    model('small', { supports: [], contextWindow: 1000, maxOutputTokens: 100 }),
    model('tools', {
      supports: ['tools'],
      contextWindow: 10_000,
      promptCache: { key: false, explicit: true, ttls: ['5m'] },
    }),
    model('all', {
      targets: [
        { provider: 'p', model: 'x' },
        { provider: 'q', model: 'y' },
      ],
      fallbacks: ['other'],
      promptCache: { key: false, explicit: true, ttls: ['5m', '1h'] },
    }),
    model('other'),
  ]
  const auto = { candidates: ['small', 'tools', 'all'] }
  const withAuto = (setting: 'off' | 'available' | 'mandatory', keyModels?: readonly string[]) =>
    catalog({
      models,
      auto,
      organizations: [organization('o', { auto: setting, keys: [key('k', { auto: setting, models: keyModels })] })],
    })
  const of = withAuto('available')
  const needs = (changes: Partial<Needs>): Partial<Ask> => ({ needs: { ...noNeeds, ...changes } })

  test('off: the model does not exist', () => expect(failure(withAuto('off'), 'auto').code).toBe('model_not_found'))

  test('the candidates in order, without their fallbacks', () =>
    expect(order(of, 'auto')).toEqual(['small/small-1', 'tools/tools-1', 'all/x', 'all/y']))

  test.each<[string, Partial<Needs>, string[]]>([
    ['tools', { tools: true }, ['tools', 'all', 'all']],
    ['images', { images: true }, ['all', 'all']],
    ['input that just fits', { inputTokens: 1000 }, ['small', 'tools', 'all', 'all']],
    ['input that does not', { inputTokens: 1001 }, ['tools', 'all', 'all']],
    [
      'input and a limit, lowered to what the model gives',
      { inputTokens: 900, maxOutputTokens: 5000 },
      ['small', 'tools', 'all', 'all'],
    ],
    ['input and a limit', { inputTokens: 901, maxOutputTokens: 100 }, ['tools', 'all', 'all']],
    ["input and the dialect's default", { inputTokens: 9000, limitsOutput: true }, ['all', 'all']],
    ['a TTL of 5m', { ttls: ['5m'] }, ['tools', 'all', 'all']],
    ['a TTL of 1h', { ttls: ['1h'] }, ['all', 'all']],
    ['a strict mark', { cache: true }, ['tools', 'all', 'all']],
  ])('what the request needs: %s', (_, wanted, expected) =>
    expect(order(of, 'auto', needs(wanted)).map((one) => one.split('/')[0] ?? '')).toEqual(expected),
  )

  test('incapable and forbidden models are excluded, each with its reason', () => {
    expect(excluded(of, 'auto', needs({ tools: true }))).toEqual(['small takes no tools'])
    expect(order(withAuto('available', ['a*']), 'auto')).toEqual(['all/x', 'all/y'])
    expect(excluded(withAuto('available', ['a*']), 'auto')).toEqual([
      'small is not allowed for this API key',
      'tools is not allowed for this API key',
    ])
  })

  test('no candidate: the error lists each reason', () => {
    const none = failure(withAuto('available', ['small', 'tools']), 'auto', needs({ tools: true, ttls: ['1h'] }))
    expect(summary(none)).toEqual([
      400,
      'auto_resolution_failed',
      'model',
      "No candidate of automatic selection can run this request: 'small' takes no tools; " +
        "'tools' does not support a cache TTL of 1h; 'all' is not allowed for this API key.",
    ])
  })

  test('none configured, and none for images', () => {
    const empty = catalog({ organizations: [organization('o', { keys: [key('k', { auto: 'available' })] })] })
    expect(failure(empty, 'auto').message).toContain('none is configured')
    expect(failure(of, 'auto', { kind: 'image' }).message).toContain("'small' makes no images")
  })

  test('available: other names work', () => expect(order(of, 'other')).toEqual(['other/other-1']))

  test.each(['other', 'nope', ''])('mandatory: %j is rejected, known or not', (name) => {
    const refused = failure(withAuto('mandatory'), name)
    expect([refused.row.status, refused.code, refused.detail.param]).toEqual([403, 'auto_required', 'model'])
    expect(order(withAuto('mandatory'), 'auto')).toHaveLength(4)
  })
})
