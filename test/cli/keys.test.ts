/** `weir keys` as operators use it: with the embedded store and with a real Redis. */

import { describe, expect, test } from 'bun:test'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMistyped } from '../../src/keys/key-format.ts'
import { RedisServer } from '../support/redis.ts'
import { closedPort } from '../support/upstream.ts'
import { World } from './world.ts'

for (const kind of ['embedded', 'redis'] as const) {
  test(`${kind}: a key is created, listed, explained and revoked, and its id cannot be used again`, async () => {
    await using redis = kind === 'redis' ? await RedisServer.start(['--maxmemory-policy', 'noeviction']) : undefined
    await using world = await World.make(redis?.url)
    const models = ['--models', 'small, x-*', '--expires', '90d']
    const made = await world.weir('keys', 'create', '--org', 'acme', '--id', 'laptop', ...models)
    expect(made.code).toBe(0)
    expect(made.stdout).toMatch(/^gwk_\w{8}_\w{49}\n$/)
    const token = made.stdout.trim()
    expect(isMistyped(token)).toBe(false)
    expect(made.stderr).toMatch(
      /^weir: key "laptop" of organisation "acme" may use 1 of 2 models and expires at [^\n]+\n/,
    )
    // A pattern that is probably mistyped.
    expect(made.stderr.split('\n').slice(1)).toEqual([
      'weir: warning: models: "x-*" matches no model of the configuration',
      '',
    ])

    const { keys } = JSON.parse((await world.weir('keys', 'list', '--json')).stdout)
    const laptop = keys[1]
    expect(keys.map((key: { id: string }) => key.id)).toEqual(['ci', 'laptop', 'old'])
    expect(laptop).toEqual({
      ...{ id: 'laptop', organization: 'acme', source: 'store', shown: token.slice(0, 12), models: ['small', 'x-*'] },
      ...{
        limits: {},
        tags: {},
        fixed_tags: {},
        priority: 'interactive',
        max_wait_ms: null,
        created_at: expect.any(String),
        expires_at: expect.any(String),
        revoked_at: null,
      },
      ...{ grace_until: null, last_used_at: null, spend_today_micro_usd: 0, state: 'active' },
    })
    expect(Date.parse(laptop.expires_at) - Date.parse(laptop.created_at)).toBe(90 * 86_400_000)

    expect((await world.weir('keys', 'update', '--id', 'laptop', '--priority', 'urgent')).stderr).toContain('priority')
    await world.weir('keys', 'update', '--id', 'laptop', '--priority', 'batch', '--max-wait-ms', '0')
    const lowered = JSON.parse((await world.weir('keys', 'list', '--json')).stdout).keys[1]
    expect(lowered).toMatchObject({ priority: 'batch', max_wait_ms: 0 })
    await world.weir('keys', 'update', '--id', 'laptop', '--priority', '', '--max-wait-ms', '')
    const before = JSON.parse((await world.weir('keys', 'list', '--json')).stdout).keys[1]
    expect(before).toMatchObject({ priority: 'interactive', max_wait_ms: null })

    const explain = ['explain', '--key', 'laptop', '--model', 'large'] as const
    expect((await world.weir(...explain)).stdout).toContain(
      'large: denied, the models of key "laptop" do not include it',
    )
    const rotated = await world.weir('keys', 'rotate', '--id', 'laptop', '--grace', '0')
    expect([rotated.code, rotated.stderr]).toEqual([0, expect.stringContaining('the old one is rejected')])
    // No secret outlives the key.
    const { stderr } = await world.weir('keys', 'rotate', '--id', 'laptop', '--grace', '100d')
    const end = `${laptop.expires_at.slice(0, 16)}Z`
    expect(stderr).toEndWith(`the old one is accepted until ${end}, when the key expires\n`)
    const after = JSON.parse((await world.weir('keys', 'list', '--json')).stdout).keys[1]
    expect(after.grace_until).toBe(laptop.expires_at)
    await world.weir('keys', 'update', '--id', 'laptop', '--expires', '60d')
    const { expires_at: earlier } = JSON.parse((await world.weir('keys', 'list', '--json')).stdout).keys[1]
    const audit = (await world.weir('audit', '--admin', '--json')).stdout
    expect(audit).toContain(`"old_secret_until":"${laptop.expires_at}"`)
    expect(audit).toContain(`{"expires_at":"${earlier}"}`)
    const revoke = ['keys', 'revoke', '--id', 'laptop'] as const
    expect(await world.weir(...revoke)).toEqual({ code: 0, stderr: '', stdout: 'key "laptop" is revoked\n' })
    expect(await world.weir(...revoke)).toEqual({ code: 0, stderr: '', stdout: 'key "laptop" was already revoked\n' })
    expect((await world.weir(...explain)).stdout).toContain('the key is revoked: 401 invalid_api_key\n')
    expect((await world.weir('keys', 'list')).stdout).toMatch(/\nlaptop +acme +store +gwk_\w{8}_… .* revoked\n/)
    const again = await world.weir('keys', 'create', '--org', 'acme', '--id', 'laptop')
    expect([again.code, again.stdout]).toEqual([1, ''])
    expect(again.stderr).toContain('"laptop" is used')
  })
}

describe('stored data', () => {
  test('commands that only read store nothing', async () => {
    await using world = await World.make()
    for (const words of [
      ['keys', 'list'],
      ['keys', 'revoke', '--id', 'x'],
      ['usage'],
      ['audit'],
      ['explain', '--key', 'ci', '--model', 'small'],
    ]) {
      await world.weir(...words)
      expect([words, await readdir(world.folder)]).toEqual([words, ['weir.yaml']])
    }
  })

  test('the store holds the hash, never the key', async () => {
    await using world = await World.make()
    const { stdout } = await world.weir('keys', 'create', '--org', 'acme', '--id', 'laptop')
    const files = await readdir(world.dataDir)
    const kept = await Promise.all(files.map((file) => readFile(join(world.dataDir, file), 'latin1')))
    const hash = new Bun.CryptoHasher('sha256').update(stdout.trim()).digest('hex')
    expect(kept.join('')).toContain(hash)
    expect(kept.join('')).not.toContain(stdout.trim().slice(13))
  })

  test('the list shows both sources with their states, of one organisation or all', async () => {
    await using world = await World.make()
    await world.weir('keys', 'create', '--org', 'other', '--id', 'laptop')
    const listed = async (...flags: string[]) => {
      const { keys } = JSON.parse((await world.weir('keys', 'list', '--json', ...flags)).stdout)
      return keys.map((key: Record<string, string>) => `${key['id']} ${key['source']} ${key['state']}`)
    }
    const ofOther = ['laptop store active', 'old configuration disabled']
    expect(await listed()).toEqual(['ci configuration active', ...ofOther])
    expect(await listed('--org', 'other')).toEqual(ofOther)
    await world.configure(
      'organizations: [{ id: acme, keys: [{ id: ci, key: 0123456789abcdef, expires_at: 2020-01-01 }] }]',
    )
    expect(await listed()).toEqual(['ci configuration expired', 'laptop store orphaned'])
    const { code, stderr } = await world.weir('explain', '--key', 'laptop', '--model', 'small')
    expect([code, stderr]).toEqual([1, expect.stringContaining('its organisation "other" is not in the configuration')])
  })
})

describe('impossible operations: one line, exit code 1', () => {
  test.each([
    ['create --org acne --id x', 'the configuration has no organisation "acne" (did you mean "acme"?)'],
    ['create --org acme --id ci', 'the id "ci" is used by a key of the configuration; choose another'],
    ['update --id ci --spend-day 1', 'key "ci" is in the configuration; change it there and send SIGHUP to weir serve'],
    ['rotate --id ci', 'key "ci" is in the configuration; change it there and send SIGHUP to weir serve'],
    ['revoke --id old', 'key "old" is disabled in the configuration and rejected already'],
    ['rotate --id cj', 'no key has the id "cj"'],
    ['rotate --id gwk_Ab3dEf9h_secret', 'this is a key and not its id; `weir keys list` shows the ids'],
    [
      'create --org acme --id x --tags colour=a',
      'tags.colour: is not in tags of the configuration; the configuration has project, team',
    ],
    ['create --org acme --id x --spend-day 9999999999', 'limits.spend.day: must be at most 1000000000'],
    ['revoke --id cj', 'no key has the id "cj"'],
    ['revoke --id gwk_Ab3dEf9h_secret', 'this is a key and not its id; `weir keys list` shows the ids'],
    ['list --org acne', 'unknown organisation "acne" (did you mean "acme"?)'],
    ['list --config none.yaml', undefined],
  ])('%s', async (line, words) => {
    await using world = await World.make()
    const { code, stdout, stderr } = await world.weir('keys', ...line.split(' '))
    expect([code, stdout]).toEqual([1, ''])
    if (words === undefined) expect(stderr).toMatch(/^none\.yaml: there is no such file[^\n]*\n$/)
    else expect(stderr).toBe(`weir: ${words}\n`)
  })

  test('Redis is away', async () => {
    await using world = await World.make(`redis://127.0.0.1:${await closedPort()}/0`)
    const create = await world.weir('keys', 'create', '--org', 'acme', '--id', 'x')
    expect(create).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^weir: Redis does not answer \(connect ECONNREFUSED [^\n]+\)\.\n$/),
    })
  })
})

describe('wrong usage: one line, exit code 2', () => {
  test.each([
    '',
    'creat',
    'constructor',
    'create --org acme',
    'create --org acme --id -x',
    'create --org acme --id a/b',
    'create --org acme --id x --models=',
    'create --org acme --id x --models a,,b',
    'create --org acme --id x --expires soon',
    'create --org acme --id x --expires 0d',
    'create --org acme --id x --expires 2020-01-01',
    'create --org acme --id x --expires 2030-02-30',
    'create --org acme --id x --spend-day=',
    'create --org acme --id x --spend-day five',
    'create --org acme --id x --spend-total -1',
    'create --org acme --id x --requests-per-minute 0',
    'create --org acme --id x --tags team',
    'create --org acme --id x --tags team=a,team=b',
    'update --id x',
    'update --spend-day 1',
    'update --id x --spend-day 1h',
    'rotate',
    'rotate --id x --grace 1',
    'rotate --id x --grace=',
    'list --csv',
    'revoke',
    'revoke laptop',
  ])('keys %s', async (line) => {
    await using world = await World.make()
    const { code, stdout, stderr } = await world.weir('keys', ...line.split(' ').filter((word) => word !== ''))
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^weir: [^\n]+ \(see --help\)\n$/)
  })
})

test('every verb has its help', async () => {
  await using world = await World.make()
  for (const verb of ['create', 'update', 'rotate', 'list', 'revoke']) {
    const { code, stdout, stderr } = await world.weir('keys', verb, '--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toStartWith(`Usage: weir keys ${verb}`)
  }
})
