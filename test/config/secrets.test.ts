/** Secrets that are easy to guess, and values that would break the header or address that they are used in. */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the configuration file are written so

import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { problemText } from '../../src/config/problems.ts'
import { property } from '../support/random.ts'
import { BASE, edited, good, parse, problems } from './fixture.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const APP = sha256('weir-fixture-key-of-app')

describe('a name without braces', () => {
  const CI = 'key: 0123456789abcdef0'
  const OPENAI = 'api_key: "${OPENAI_API_KEY}"'
  const group = (text: string) => `${text}\n${BASE}`
  const written: readonly [string, string, string][] = [
    [edited(CI, 'key: $WEIR_APP_KEY'), 'organizations[0].keys[0].key', 'WEIR_APP_KEY'],
    [edited(CI, 'key: "$WEIR_APP_KEY_OF_SOME_LENGTH"'), 'organizations[0].keys[0].key', 'WEIR_APP_KEY_OF_SOME_LENGTH'],
    [edited(CI, 'key: $KEY'), 'organizations[0].keys[0].key', 'KEY'],
    [edited(CI, 'key: "prefix-$WEIR_APP_KEY-suffix"'), 'organizations[0].keys[0].key', 'WEIR_APP_KEY'],
    [edited(CI, `sha256: $HASH`), 'organizations[0].keys[0].sha256', 'HASH'],
    [edited(OPENAI, 'api_key: $OPENAI_API_KEY'), 'providers.openai.api_key', 'OPENAI_API_KEY'],
    [edited(OPENAI, 'base_url: "https://$HOST/v1"'), 'providers.openai.base_url', 'HOST'],
    [edited(OPENAI, 'headers: { x-token: "Bearer $TOKEN" }'), 'providers.openai.headers.x-token', 'TOKEN'],
    [edited(OPENAI, 'headers: { x-token: "$A${OPENAI_API_KEY}" }'), 'providers.openai.headers.x-token', 'A'],
    [group('ledger: { redis: "redis://:$REDIS_PASSWORD@redis:6379" }'), 'ledger.redis', 'REDIS_PASSWORD'],
    [group('ledger: { redis: $REDIS_URL }'), 'ledger.redis', 'REDIS_URL'],
    [group('compaction: { keys: [$COMPACTION_KEY] }'), 'compaction.keys[0]', 'COMPACTION_KEY'],
    [group('data_dir: $STATE_DIRECTORY'), 'data_dir', 'STATE_DIRECTORY'],
    [group('data_dir: $STATE_DIRECTORY/weir'), 'data_dir', 'STATE_DIRECTORY'],
  ]
  test.each(written)('%#', (text, path, name) => {
    const lines = problems(text)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toStartWith(`${path}: $${name} without braces is not replaced; write \${${name}} (`)
  })

  test('in lower case may be a secret, and is not shown', () => {
    const lines = problems(edited(CI, 'key: $ecret0123456789abcdef'))
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain('without braces is not replaced; write ${NAME}')
    expect(lines[0]).not.toContain('ecret')
  })

  test('a dollar sign inside a secret, or in the value of a reference, is accepted', () => {
    for (const key of [
      'abc$def-0123456789',
      'abc$DEF-0123456789',
      '0123456789abcdef$',
      '$$0123456789abcdef',
      '$1-0123456789abcdef',
    ])
      good(edited(CI, `key: "${key}"`))
    const env = { OPENAI_API_KEY: '$NOT_A_NAME', PORT: '1', FLAG: 'true', DIGITS: '1' }
    expect(parse(BASE, { env })).toMatchObject({ ok: true })
  })
})

describe('a key that is easy to guess', () => {
  const at = (hash: string) => problems(edited(APP, `"${hash}"`))

  test.each([
    'test',
    'Test',
    'TEST',
    'test\n',
    'test123',
    'testtest',
    'password',
    'Password1',
    'secret',
    'changeme',
    'change-me',
    'admin',
    'weir',
    'key',
    'letmein!',
    'sk-1234',
    'your-api-key',
    '123456',
    '',
    '\n',
    '$KEY',
    'hunter2',
    'hello',
    'foo\n',
  ])('the hash of %j', (word) => {
    const line =
      'organizations[0].keys[1].sha256: is the SHA-256 of a well-known word, or of an empty string, ' +
      'which is easy to guess; create a key: openssl rand -hex 24'
    expect(at(sha256(word))).toEqual([line])
    expect(at(sha256(word).toUpperCase())).toEqual([line])
  })

  test('the word itself, if it is long enough for a key', () => {
    for (const word of [
      'changemechangeme',
      'passwordpassword',
      'placeholderplaceholder',
      'password-password',
      'your-api-key-here',
      'YOUR_API_KEY_HERE',
      'sk-your-api-key-here',
      'sk-1234567890abcdef',
      '1234567890123456',
      'abcdefghijklmnop',
      'aaaaaaaaaaaaaaaa',
      'xxxxxxxxxxxxxxxx',
      'correct-horse-battery-staple',
    ])
      expect(problems(edited('0123456789abcdef0', JSON.stringify(word)))).toEqual([
        'organizations[0].keys[0].key: is a well-known word, which is easy to guess; ' +
          'create a key: openssl rand -hex 24',
      ])
  })

  test('the placeholder of the example', () => {
    expect(at('0'.repeat(64))).toEqual([
      'organizations[0].keys[1].sha256: is the placeholder of the example; replace it with the output of: ' +
        'printf %s "$KEY" | sha256sum',
    ])
  })

  property('any other hash is taken', 50, (random) => {
    const key = Array.from({ length: 20 }, () =>
      random.pick([...'abcdefghijklmnopqrstuvwxyz0123456789'] as [string]),
    ).join('')
    expect(at(sha256(key))).toEqual([])
  })
})

describe('a control character', () => {
  const CONTROLS = [...Array.from({ length: 32 }, (_, code) => String.fromCharCode(code)), '\x7f']
  const bedrock = 'dialect: bedrock, region: eu-west-1, access_key_id: AKIA, secret_access_key: secret'
  const azure = 'dialect: azure, base_url: "https://a.example", api_version: preview'
  /** Field, the provider without it, and what stands around the character. */
  const fields: readonly [string, string, string, string][] = [
    ['api_key', 'dialect: openai', 'canary-', '-canary'],
    ['api_key', 'dialect: openai', 'canary', ''],
    ['api_key', 'dialect: openai', '', 'canary'],
    ['base_url', 'dialect: openai', 'https://canary.example', '/v1'],
    ['base_url', 'dialect: openai', 'https://canary.example/v1', ''],
    ['base_url', 'dialect: openai', '', 'https://canary.example'],
    ['api_version', azure.replace(', api_version: preview', ''), 'canary', 'x'],
    ['region', bedrock.replace('region: eu-west-1, ', ''), 'canary', 'x'],
    ['access_key_id', bedrock.replace('access_key_id: AKIA, ', ''), 'canary', ''],
    ['secret_access_key', bedrock.replace(', secret_access_key: secret', ''), 'canary', 'x'],
    ['session_token', bedrock, 'canary', 'x'],
  ]

  test.each(fields)('in %s of { %s }, after %j', (field, rest, before, after) => {
    for (const control of CONTROLS) {
      const value = JSON.stringify(`${before}${control}${after}`)
      const lines = problems(`${BASE.replace('providers:', `providers:\n  odd: { ${rest}, ${field}: ${value} }`)}`)
      expect([control.charCodeAt(0), lines.length]).toEqual([control.charCodeAt(0), 1])
      expect(lines[0]).toStartWith(`providers.odd.${field}: `)
      expect(lines[0]).not.toContain('canary')
    }
  })

  test('in a header: its value, and its name', () => {
    const header = (name: string, value: string) =>
      problems(
        BASE.replace(
          'providers:',
          `providers:\n  odd: { dialect: openai, headers: { ${JSON.stringify(name)}: ${JSON.stringify(value)} } }`,
        ),
      )
    for (const control of CONTROLS.filter((one) => one !== '\t')) {
      expect(header('x-team', `canary${control}`)).toEqual(['providers.odd.headers.x-team: must be printable ASCII'])
      expect(header(`x-${control}team`, 'a')).toHaveLength(1)
    }
  })

  test('in the address of a Redis, in a key, from the environment or a file', () => {
    for (const control of CONTROLS) {
      const redis = JSON.stringify(`redis://canary${control}host:6379`)
      expect(problems(`ledger: { redis: ${redis} }\n${BASE}`)).toHaveLength(1)
      expect(problems(`ledger: { redis: { cluster: [${redis}] } }\n${BASE}`)).toHaveLength(1)
      expect(problems(edited('0123456789abcdef0', JSON.stringify(`0123456789abcdef${control}`)))).toHaveLength(1)
      const env = { OPENAI_API_KEY: `sk-canary${control}`, PORT: '1', FLAG: 'true', DIGITS: '1' }
      const parsed = parse(BASE, { env })
      expect(parsed.ok ? [] : parsed.problems.map(problemText)).toEqual([
        'providers.openai.api_key: must be printable ASCII characters without spaces or line breaks ' +
          '(found "${OPENAI_API_KEY}")',
      ])
    }
  })
})
