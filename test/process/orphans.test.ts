/** A supervisor that is killed alone: the end of its workers and their streams, and the immediate restart of weir. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { RedisServer } from '../support/redis.ts'
import { type Provider, provider } from './provider.ts'
import { configuration, lives, PROGRAM, until, Weir } from './weir.ts'

/** The longest that a stream may go on, far beyond the end of a test. */
const DRAIN_SECONDS = 600

function configured(upstream: Provider, ledger: string, more: { port?: number; adminPort?: number } = {}): string {
  return configuration({ baseUrl: upstream.baseUrl, ledger, drainSeconds: DRAIN_SECONDS, ...more })
}

const portOf = (address: string) => Number(new URL(address).port)

/** True once nobody listens there. */
async function refused(address: string): Promise<boolean> {
  return await fetch(`${address}/v1/models`).then(
    () => false,
    () => true,
  )
}

/** What comes of a stream that is cut. */
async function restOf(stream: { rest(): Promise<string> }): Promise<string> {
  return await stream.rest().then(
    (text) => `whole: ${text}`,
    () => 'cut',
  )
}

async function usage(folder: string): Promise<{ readonly requests: number }> {
  const child = Bun.spawn([...PROGRAM, 'usage', '--json'], {
    cwd: folder,
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { total } = JSON.parse(await new Response(child.stdout).text())
  return { requests: total.requests }
}

test('embedded: running requests are cut and charged; a new weir gets ledger and ports at once', async () => {
  using upstream = provider()
  await using first = await Weir.ready(configured(upstream, 'embedded'))
  const [worker = 0] = await first.workers()
  const streams = [await first.stream(), await first.stream()]
  first.signal('SIGKILL')
  const ports = { port: portOf(first.address), adminPort: portOf(first.admin) }
  const again = configured(upstream, 'embedded', ports).replace('./data', join(first.folder, 'data'))
  await using second = await Weir.ready(again)
  expect(second.address).toBe(first.address)
  expect(await second.models()).toEqual(['small'])
  for (const stream of streams) expect(await restOf(stream)).toBe('cut')
  await until(async () => !(await lives(worker)))
  const { code } = await first.ended
  expect(code).not.toBe(0)
  expect(first.all('request').map((line) => line['outcome'])).toEqual(['drained', 'drained'])
  expect(await usage(second.folder)).toEqual({ requests: 2 })
  // Nothing of them was left to be found dead: both had been settled.
  const audit = Bun.spawn([...PROGRAM, 'audit', '--limit', '0', '--json'], { cwd: second.folder, stdout: 'pipe' })
  const ends = (await new Response(audit.stdout).text()).trim().split('\n')
  expect(ends.map((line) => JSON.parse(line).ended)).toEqual(['settled', 'settled'])
})

test('Redis: running requests finish while a new weir already serves', async () => {
  await using redis = await RedisServer.start()
  using upstream = provider()
  const ledger = `{ redis: "${redis.url}" }`
  await using first = await Weir.ready(configured(upstream, ledger), ['--workers', '2'])
  const workers = await first.workers()
  expect(workers).toHaveLength(2)
  const stream = await first.stream()
  first.signal('SIGKILL')
  await until(() => refused(first.address))
  const ports = { port: portOf(first.address), adminPort: portOf(first.admin) }
  await using second = await Weir.ready(configured(upstream, ledger, ports))
  expect(await second.models()).toEqual(['small'])
  upstream.finish()
  expect(await stream.rest()).toContain('[DONE]')
  for (const worker of workers) await until(async () => !(await lives(worker)))
})

test.each(['before', 'after'])(
  'Redis, and a service manager that ends what is left (%s the supervisor is gone): what runs is cut at once',
  async (when) => {
    await using redis = await RedisServer.start()
    using upstream = provider()
    await using weir = await Weir.ready(configured(upstream, `{ redis: "${redis.url}" }`))
    const [worker = 0] = await weir.workers()
    const stream = await weir.stream()
    if (when === 'before') {
      process.kill(worker, 'SIGTERM')
      await until(() => refused(weir.address))
      weir.signal('SIGKILL')
    } else {
      weir.signal('SIGKILL')
      await weir.line('the supervisor is gone')
      process.kill(worker, 'SIGTERM')
    }
    expect(await restOf(stream)).toBe('cut')
    await until(async () => !(await lives(worker)))
  },
)
