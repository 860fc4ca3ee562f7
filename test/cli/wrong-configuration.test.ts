/**
 * Every command that does not serve, while the configuration file is wrong. `test/config/partial.test.ts` has the ways
 * in which a file can be.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LOST, MISTAKES } from '../config/mistakes.ts'
import { configuration, KEY, PROGRAM, Weir } from '../process/weir.ts'
import { use, World } from './world.ts'

/** Each with a part of what it prints. */
type Expected = readonly (readonly [words: string, shown: string])[]
type Command = (...words: readonly string[]) => Promise<{ code: number; stdout: string; stderr: string }>

/** All at the same time. Their warning names the mistake. */
async function allSucceed(command: Command, expected: Expected, named: string): Promise<void> {
  const ended = await Promise.all(expected.map(async ([words]) => await command(...words.split(' '))))
  for (const [i, [words, shown]] of expected.entries()) {
    const { code = -1, stdout = '', stderr = '' } = ended[i] ?? {}
    expect([words, code, code === 0 ? '' : stderr]).toEqual([words, 0, ''])
    expect(stdout).toContain(shown)
    expect([words, stderr]).toEqual([words, expect.stringContaining(named)])
  }
}

describe('without a gateway', () => {
  for (const what of ['a tab', 'an unset variable'] as const) {
    test(`${what} is a warning`, async () => {
      await using world = await World.make()
      const file = join(world.folder, 'weir.yaml')
      const yaml = await Bun.file(file).text()
      const ledger = await world.ledger()
      await use(ledger, { organization: 'acme', key: 'ci' }, 'small', { cost: 125 })
      await ledger.close()
      const [break_, named] = MISTAKES[what] ?? []
      await writeFile(file, break_?.(yaml) ?? '')
      const weir: Command = (...words) => world.weir(...words)
      await allSucceed(weir, [['keys create --org acme --id made', 'gwk_']], named ?? '?')
      const reading: Expected = [
        ['usage --by key', 'ci'],
        ['audit', '$0.000125'],
        ['audit --admin', 'key.created'],
        ['keys list', 'made'],
        ['explain --key made --model small', 'small'],
        ['ledger reset-window --org acme', 'no window'],
      ]
      await allSucceed(weir, what === 'a tab' ? reading : reading.slice(0, 1), named ?? '?')
      await allSucceed(weir, [['keys update --id made --requests-per-minute 5', 'is updated']], named ?? '?')
      await allSucceed(weir, [['keys revoke --id made', 'is revoked']], named ?? '?')
      await allSucceed(weir, [['keys revoke --id ci', 'key "ci" is revoked']], named ?? '?')
      if (what === 'a tab')
        await allSucceed(weir, [[`backup ${join(world.folder, 'copy')}`, 'keys.sqlite']], named ?? '?')
    })
  }

  test('a ledger that is not certain is an error, not another ledger', async () => {
    await using world = await World.make()
    const file = join(world.folder, 'weir.yaml')
    await writeFile(file, LOST['a mistyped data_dir']?.(await Bun.file(file).text()) ?? '')
    for (const words of [['keys', 'create', '--org', 'acme', '--id', 'made'], ['usage'], ['health']]) {
      const { code, stdout, stderr } = await world.weir(...words)
      expect([words, code, stdout]).toEqual([words, 1, ''])
      expect(stderr).toContain('data_dri: unknown key (did you mean "data_dir"?)')
    }
  })
})

describe('while a gateway runs', () => {
  const GOOD = configuration({ baseUrl: 'http://127.0.0.1:9/v1' })
  let weir: Weir

  beforeAll(async () => {
    weir = await Weir.ready(GOOD)
  })

  afterAll(async () => {
    weir.signal('SIGTERM')
    await weir.ended
    await rm(weir.folder, { recursive: true })
  })

  const command: Command = async (...args) => {
    const child = Bun.spawn([...PROGRAM, ...args], {
      cwd: weir.folder,
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
    return { code, stdout, stderr }
  }

  for (const [what, break_] of Object.entries(LOST)) {
    if (!['an empty file', 'an unset data_dir'].includes(what)) continue
    test(`${what} is a warning`, async () => {
      await weir.configure(break_(GOOD))
      const id = what.replaceAll(' ', '-')
      const secret = (await command('keys', 'create', '--org', 'acme', '--id', id)).stdout.trim()
      expect(await status(secret)).toBe(200)
      await allSucceed(command, [[`keys revoke --id ${id}`, 'is revoked']], 'weir.yaml has mistakes')
      expect(await status(secret)).toBe(401)
      const reading: Expected = [
        ['keys list --org acme', id],
        ['usage', 'total'],
        ['audit', 'outcome'],
        ['audit --admin', id],
        ['explain --key ci --model small', 'small at fake'],
      ]
      await allSucceed(command, reading, 'so this command uses the configuration of the running gateway')
      const finding: Expected = [
        ['health', 'ready'],
        ['top --once', 'ready'],
      ]
      await allSucceed(command, finding, 'weir.yaml')
      const { code, stderr } = await command('reload')
      expect([code, stderr]).toEqual([1, expect.stringContaining('the one before stays in force')])
    })
  }

  test('with a file that is gone, a key of it is revoked', async () => {
    await rm(join(weir.folder, 'weir.yaml'))
    await allSucceed(command, [['keys revoke --id ci', 'is revoked']], 'there is no such file')
    expect(await status(KEY)).toBe(401)
  })

  test('no command gets the credentials of providers', async () => {
    const answer = await fetch('http://weir/local/config', { unix: join(weir.folder, 'data/control.sock') })
    const text = await answer.text()
    expect(text).toContain('"organizations"')
    expect(text).not.toContain('provider-key')
  })

  async function status(key: string): Promise<number> {
    return (await fetch(`${weir.address}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status
  }
})
