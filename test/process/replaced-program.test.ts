/**
 * SIGUSR2: what becomes of the connections of a replaced worker, and a program file that has changed, is missing or
 * does not work.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LEDGER_PROTOCOL, PROTOCOL } from '../../src/process/ipc/ipc.ts'
import { Caller, requestBytes } from '../support/caller.ts'
import { RedisServer } from '../support/redis.ts'
import { provider } from './provider.ts'
import { pacedProvider, pricedConfiguration } from './steady-load.ts'
import { configuration, KEY, PROGRAM, until, Weir } from './weir.ts'

test('a kept connection without a request is closed before the drain ends, while streams go on', async () => {
  using upstream = pacedProvider(30)
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl, drainSeconds: 4 }))
  const port = Number(new URL(weir.address).port)
  await using kept = await Caller.connect(port)
  await using streaming = await Caller.connect(port)
  const body = { model: 'small', messages: [{ role: 'user', content: 'Hi' }] }
  kept.send(requestBytes('/v1/chat/completions', { key: KEY, body }))
  expect(await kept.answer()).toMatchObject({ status: 200 })
  streaming.send(requestBytes('/v1/chat/completions', { key: KEY, body: { ...body, stream: true } }))
  await streaming.until('"0 "')
  weir.signal('SIGUSR2')
  expect(await kept.ended()).toBe(false)
  // Half of the drain is left for requests that came before that.
  const pieces = new TextDecoder().decode(streaming.received).split('"content"').length
  await streaming.until(`"${pieces + 5} "`)
  expect(await streaming.answer()).toMatchObject({ end: 'cut' })
})

/** A copy of the program that a test can change while it runs. */
class Copy implements AsyncDisposable {
  private constructor(private readonly folder: string) {}

  static async make(): Promise<Copy> {
    const folder = await fs.mkdtemp(join(tmpdir(), 'weir-copy-'))
    const root = join(import.meta.dir, '../..')
    await fs.cp(join(root, 'src'), join(folder, 'src'), { recursive: true })
    await fs.copyFile(join(root, 'package.json'), join(folder, 'package.json'))
    await fs.symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
    return new Copy(folder)
  }

  get program(): readonly string[] {
    return [process.execPath, join(this.folder, 'src/main.ts')]
  }

  /** Returns what makes the file again what it was. */
  async change(file: string, from: string | RegExp, to: string): Promise<() => Promise<void>> {
    const path = join(this.folder, 'src', file)
    const text = await fs.readFile(path, 'utf8')
    const changed = text.replace(from, to)
    if (changed === text) throw new Error(`${file} has no ${from}`)
    await fs.writeFile(path, changed)
    return () => fs.writeFile(path, text)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await fs.rm(this.folder, { recursive: true, force: true })
  }
}

test('the new workers run the program file as it is now, under the same PID of the supervisor', async () => {
  await using redis = await RedisServer.start()
  using upstream = pacedProvider(1)
  await using copy = await Copy.make()
  const config = pricedConfiguration(upstream.baseUrl, `{ redis: "${redis.url}" }`)
  await using weir = await Weir.ready(config, [], { program: copy.program })
  await copy.change('http/app.ts', 'There is nothing at this path', 'The new program has nothing at this path')
  // A kept connection would be answered by the old worker once more.
  const message = async () => await (await fetch(`${weir.address}/nothing`, { keepalive: false })).text()
  expect(await message()).toContain('There is nothing at this path')
  weir.signal('SIGUSR2')
  await weir.line('workers replaced')
  expect(await message()).toContain('The new program has nothing at this path')
  expect((await weir.readyz()).status).toBe(200)
})

describe('the old worker stays if the new one', () => {
  const started = new AsyncDisposableStack()
  let copy: Copy
  let weir: Weir
  let failed = 0

  // One for all: from the source, a start takes seconds.
  beforeAll(async () => {
    const redis = started.use(await RedisServer.start())
    const upstream = started.use(pacedProvider(1))
    copy = started.use(await Copy.make())
    const config = pricedConfiguration(upstream.baseUrl, `{ redis: "${redis.url}" }`)
    weir = started.use(await Weir.ready(config, ['--workers', '2'], { program: copy.program }))
  })
  afterAll(() => started.disposeAsync())

  test.each([
    {
      what: 'speaks another protocol',
      file: 'process/ipc/ipc.ts',
      from: /PROTOCOL = \d+/,
      to: 'PROTOCOL = 999',
      reason:
        'the program file speaks version 999 of the protocol between supervisor and workers, and the running program ' +
        `version ${PROTOCOL}; restart weir`,
    },
    {
      what: 'does not start',
      file: 'process/worker.ts',
      from: 'export function work(): number {',
      to: 'export function work(): number {\n  process.exit(3)',
      reason: 'it ended before it was ready (exit code 3)',
    },
    {
      what: 'is not ready in time',
      file: 'process/worker.ts',
      from: "if (this.built === undefined) return { reasons: ['is starting'] }",
      to: "return { reasons: ['waits for the test'] }",
      reason: 'it was not ready within 10 s: worker 0 waits for the test',
    },
    {
      what: 'cannot take over the socket',
      file: 'process/serving/listener.ts',
      from: 'const received = receiveDescriptor(CHANNEL)',
      to: "throw new Error('no socket')\n  const received = receiveDescriptor(CHANNEL)",
      reason: 'cannot take over the listening socket: Error: no socket',
    },
  ])('$what', async ({ file, from, to, reason }) => {
    const before = await weir.workers()
    const restore = await copy.change(file, from, to)
    weir.signal('SIGUSR2')
    expect(await weir.line('workers not replaced', ++failed)).toMatchObject({
      event: 'workers.replace_failed',
      level: 'error',
      worker: 0,
      reason,
    })
    await restore()
    await until(async () => (await weir.workers()).length === before.length)
    expect(await weir.workers()).toEqual(before)
    for (const models of await Promise.all(Array.from({ length: 10 }, () => weir.models())))
      expect(models).toEqual(['small'])
    expect(weir.all('worker died')).toEqual([])
  })
})

/** The file that runs: `PROGRAM` may be a script that starts it. */
async function programFile(baseUrl: string): Promise<string> {
  await using weir = await Weir.ready(configuration({ baseUrl }))
  return await fs.readlink(`/proc/${weir.pid}/exe`)
}

test.each([
  { what: 'is missing', mode: undefined, reason: 'ENOENT' },
  { what: 'may not be executed', mode: 0o644, reason: 'EACCES' },
])('weir outlives a program file that $what, and starts its workers when it is back', async ({ mode, reason }) => {
  using upstream = provider()
  const folder = await fs.mkdtemp(join(tmpdir(), 'weir-program-'))
  await using _folder = { [Symbol.asyncDispose]: () => fs.rm(folder, { recursive: true }) }
  const file = join(folder, 'program')
  const original = await programFile(upstream.baseUrl)
  await fs.copyFile(original, file)
  const program = [file, ...PROGRAM.slice(1)]
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }), ['--workers', '2'], { program })
  const before = await weir.workers()
  await fs.rm(file)
  if (mode !== undefined) await fs.writeFile(file, 'not a program', { mode })
  weir.signal('SIGUSR2')
  expect(String((await weir.line('workers not replaced'))['reason'])).toStartWith(
    `it ended before it was ready (not started: ${reason}: `,
  )
  expect(await weir.models()).toEqual(['small'])
  const owner = await weir.ledgerOwner()
  if (owner === undefined) throw new Error('the ledger has no process')
  for (const pid of [...before, owner]) process.kill(pid, 'SIGKILL')
  // Each was killed, and could not be started again.
  await weir.line('worker died', before.length + 2)
  await until(() => weir.lines.some(({ event, how }) => event === 'ledger.owner_died' && how !== 'signal SIGKILL'))
  expect(weir.all('worker died').slice(before.length)).toContainEqual(
    expect.objectContaining({ how: expect.stringContaining(`not started: ${reason}: `) }),
  )
  await fs.copyFile(original, `${file}.new`)
  await fs.rename(`${file}.new`, file)
  await weir.line('worker started', before.length + 2)
  await until(async () => (await weir.readyz()).status === 200)
  expect(await weir.models()).toEqual(['small'])
})

test('an owner of the ledger of another protocol replaces neither one that runs nor one that died', async () => {
  using upstream = pacedProvider(1)
  await using copy = await Copy.make()
  await using weir = await Weir.ready(pricedConfiguration(upstream.baseUrl, 'embedded'), ['--workers', '2'], {
    program: copy.program,
  })
  const owner = await weir.ledgerOwner()
  const restore = await copy.change('process/ipc/ipc.ts', /LEDGER_PROTOCOL = \d+/, 'LEDGER_PROTOCOL = 999')
  weir.signal('SIGUSR2')
  const problem =
    'the program file speaks version 999 of the protocol between the ledger and its workers, and the running ' +
    `program version ${LEDGER_PROTOCOL}; restart weir`
  expect((await weir.line('process of the ledger not replaced'))['reason']).toEndWith(problem)
  expect(await weir.ledgerOwner()).toBe(owner)
  expect(await weir.models()).toEqual(['small'])
  if (owner !== undefined) process.kill(owner, 'SIGKILL')
  expect(await weir.line('process cannot own the ledger')).toMatchObject({
    event: 'ledger.owner_failed',
    reason: problem,
  })
  await until(async () => (await weir.readyz()).status === 503)
  // The supervisor retries, and does not log the same each time.
  await restore()
  await until(async () => (await weir.readyz()).status === 200)
  expect(weir.all('process cannot own the ledger')).toHaveLength(1)
  expect(weir.all('process of the ledger died')).toHaveLength(1)
  expect(await weir.models()).toEqual(['small'])
})

test('SIGTERM ends a replaced worker, too, after its stream', async () => {
  await using redis = await RedisServer.start()
  using upstream = provider()
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl, ledger: `{ redis: "${redis.url}" }` }))
  const stream = await weir.stream()
  weir.signal('SIGUSR2')
  await weir.line('workers replaced')
  expect(await weir.workers()).toHaveLength(2)
  weir.signal('SIGTERM')
  await weir.line('draining')
  upstream.finish()
  expect(await stream.rest()).toContain('[DONE]')
  expect((await weir.ended).code).toBe(0)
})

test('drain_seconds ends the streams of a replaced worker', async () => {
  await using redis = await RedisServer.start()
  using upstream = provider()
  const ledger = `{ redis: "${redis.url}" }`
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl, ledger, drainSeconds: 1 }))
  const stream = await weir.stream()
  weir.signal('SIGUSR2')
  await weir.line('workers replaced')
  expect(await stream.rest().catch(() => 'cut')).toBe('cut')
  await until(async () => (await weir.workers()).length === 1)
  expect(weir.all('request').map((line) => line['outcome'])).toEqual(['drained'])
  expect(await weir.models()).toEqual(['small'])
})
