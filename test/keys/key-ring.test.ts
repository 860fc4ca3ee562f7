/** Which token belongs to which key, and what a key sees in the model list. */

import { describe, expect, test } from 'bun:test'
import { modelList } from '../../src/catalog/model-list.ts'
import { KeyRing } from '../../src/keys/key-ring.ts'
import { catalog, hash, key, keyOf, model, organization } from '../catalog/fixture.ts'

const NOW = Date.UTC(2026, 10, 1)

describe('the key ring', () => {
  const of = catalog({
    organizations: [
      organization('o', {
        keys: [
          key('plain'),
          key('disabled', { disabled: true }),
          key('expired', { expiresAtMs: NOW }),
          key('lasting', { expiresAtMs: NOW + 1 }),
        ],
      }),
      organization('p', { keys: [key('other')] }),
    ],
  })
  const ring = new KeyRing(of.credentials)

  test.each<[string, string | undefined]>([
    ['secret-of-plain', 'plain'],
    ['secret-of-other', 'other'],
    ['secret-of-lasting', 'lasting'],
    ['secret-of-disabled', undefined],
    ['secret-of-expired', undefined],
    ['secret-of-nobody', undefined],
    ['secret-of-plain ', undefined],
    ['SECRET-OF-PLAIN', undefined],
    [hash('secret-of-plain'), undefined],
    ['', undefined],
    ['ä\ud800', undefined],
    ['x'.repeat(1e6), undefined],
  ])('%p', (token, id) => expect(ring.find(token, NOW)?.id).toBe(id))

  test('a key knows its organisation', () => expect(ring.find('secret-of-other', NOW)?.organization.id).toBe('p'))

  test('a key is rejected from the moment of its expiry on', () => {
    expect(ring.find('secret-of-lasting', NOW)?.id).toBe('lasting')
    expect(ring.find('secret-of-lasting', NOW + 1)).toBeUndefined()
  })

  test('keys whose hashes begin alike do not hide each other', () => {
    const sha256 = hash('secret-of-plain')
    const plain = { sha256, key: keyOf(of, 'plain') }
    const alike = { sha256: sha256.slice(0, 8).padEnd(64, '0'), key: keyOf(of, 'other') }
    for (const credentials of [
      [plain, alike],
      [alike, plain],
    ])
      expect(new KeyRing(credentials).find('secret-of-plain', NOW)?.id).toBe('plain')
    expect(new KeyRing([alike]).find('secret-of-plain', NOW)).toBeUndefined()
  })

  test('no token has the hash with which unknown tokens are compared', () =>
    expect(new KeyRing([]).find('anything', NOW)).toBeUndefined())
})

describe('the model list', () => {
  const list = (auto: 'off' | 'available' | 'mandatory', models?: readonly string[]) => {
    const of = catalog({
      ownedBy: 'somebody',
      models: [model('z', { aliases: ['alias'] }), model('a'), model('paint', { supports: ['image_generation'] })],
      auto: { candidates: ['a'] },
      organizations: [
        organization('o', {
          rules: [{ effect: 'deny', models: ['a'], keys: ['x'] }],
          keys: [key('k', { auto, models })],
        }),
      ],
    })
    return modelList(of, keyOf(of), { of: () => [] })
  }

  test('its exact shape', () =>
    expect(list('off', ['a'])).toEqual({
      object: 'list',
      data: [
        {
          id: 'a',
          object: 'model',
          created: 0,
          owned_by: 'somebody',
          display_name: 'a',
          supports: ['tools', 'images'],
        },
      ],
    }))

  test.each<['off' | 'available' | 'mandatory', string[] | undefined, string[]]>([
    ['off', undefined, ['z', 'a', 'paint']],
    ['available', undefined, ['auto', 'z', 'a', 'paint']],
    ['available', ['p*'], ['auto', 'paint']],
    ['mandatory', undefined, ['auto']],
    ['off', [], []],
  ])('auto %s, models %j', (auto, models, ids) => expect(list(auto, models).data.map((item) => item.id)).toEqual(ids))
})
