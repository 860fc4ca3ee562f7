/** Only the owner can read the files of data_dir, including those that existed before. */

import { expect, test } from 'bun:test'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Gateway } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { closedPort } from '../support/upstream.ts'

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

/** The files of a folder that the group or others have rights to, with their modes. */
function shared(folder: string): string[] {
  return readdirSync(folder)
    .map((file) => `${file} ${modeOf(join(folder, file))}`)
    .filter((line) => !line.endsWith('00'))
}

test.each(['embedded', 'redis'])(
  '%s ledger: files are 0600 from the start, and again after their mode was changed',
  async (kind) => {
    await using redis = kind === 'redis' ? await RedisServer.start() : undefined
    const root = mkdtempSync(join(tmpdir(), 'weir-private-'))
    const folder = join(root, 'made', 'data')
    const setup = {
      providers: { up: `http://127.0.0.1:${await closedPort()}/v1` },
      config: { data_dir: folder, ...(redis === undefined ? {} : { ledger: { redis: redis.url } }) },
    }
    {
      await using gateway = await Gateway.start(setup)
      expect([modeOf(join(root, 'made')), modeOf(folder)]).toEqual(['700', '700'])
      expect(readdirSync(folder).length).toBeGreaterThan(1)
      expect(shared(folder)).toEqual([])
      expect((await gateway.stop()).code).toBe(0)
    }
    for (const file of readdirSync(folder)) chmodSync(join(folder, file), 0o644)
    {
      await using gateway = await Gateway.start(setup)
      expect(shared(folder)).toEqual([])
      expect((await gateway.run('usage')).code).toBe(0)
      expect(shared(folder)).toEqual([])
    }
    rmSync(root, { recursive: true })
  },
)

test('an existing folder keeps its mode', async () => {
  const root = mkdtempSync(join(tmpdir(), 'weir-private-'))
  const folder = join(root, 'data')
  mkdirSync(folder)
  chmodSync(folder, 0o750)
  {
    await using _ = await Gateway.start({
      providers: { up: `http://127.0.0.1:${await closedPort()}/v1` },
      config: { data_dir: folder },
    })
    expect(modeOf(folder)).toBe('750')
    expect(shared(folder)).toEqual([])
  }
  rmSync(root, { recursive: true })
})
