import { afterAll, beforeAll, expect, test } from 'bun:test'
import { probe } from '../../src/process/system/listen-address.ts'
import { provider } from './provider.ts'
import { configuration, until, Weir } from './weir.ts'

const WORKERS = 3
let redis: Bun.Subprocess
let ledger: string

beforeAll(async () => {
  const { port } = probe({ host: '127.0.0.1', port: 0 })
  redis = Bun.spawn(
    ['redis-server', '--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
    {
      stdio: ['ignore', 'ignore', 'ignore'],
    },
  )
  ledger = `{ redis: "redis://127.0.0.1:${port}/0" }`
  await until(async () => {
    try {
      const socket = await Bun.connect({ hostname: '127.0.0.1', port, socket: { data: () => {} } })
      socket.end()
      return true
    } catch {
      return false
    }
  })
})

afterAll(async () => {
  redis.kill()
  await redis.exited
})

async function start(baseUrl: string): Promise<Weir> {
  return await Weir.ready(configuration({ baseUrl, ledger }), ['--workers', String(WORKERS)])
}

test('several workers share the port, each without the default limits of the runtime', async () => {
  using upstream = provider()
  await using weir = await start(upstream.baseUrl)
  console.log(`ready after ${(await weir.line('ready'))['ms']} ms with ${WORKERS} workers`)
  const workers = await weir.workers()
  expect(workers).toHaveLength(WORKERS)
  for (const worker of workers) {
    const environment = await Bun.file(`/proc/${worker}/environ`).text()
    for (const setting of ['BUN_CONFIG_DNS_TIME_TO_LIVE_SECONDS=5', 'UV_THREADPOOL_SIZE=256'])
      expect(environment.split('\0')).toContain(setting)
  }
  const answers = await Promise.all(Array.from({ length: 20 }, () => weir.models()))
  for (const models of answers) expect(models).toEqual(['small'])
})

test('while one is killed the others answer, and it is restarted', async () => {
  using upstream = provider()
  await using weir = await start(upstream.baseUrl)
  const before = await weir.workers()
  const killed = await weir.worker(1)
  process.kill(killed, 'SIGKILL')
  expect(await weir.line('worker died')).toMatchObject({ worker: 1, pid: killed })
  await until(async () => (await weir.readyz()).status === 200)
  const after = await weir.workers()
  expect(after).toHaveLength(WORKERS)
  expect(after.filter((pid) => before.includes(pid))).toHaveLength(WORKERS - 1)
})

test('a reload is applied by all workers or by none', async () => {
  using upstream = provider()
  await using weir = await start(upstream.baseUrl)
  await weir.configure(configuration({ baseUrl: upstream.baseUrl, ledger, models: ['large'] }))
  weir.signal('SIGHUP')
  await weir.line('configuration reloaded')
  for (const models of await Promise.all(Array.from({ length: 30 }, () => weir.models())))
    expect(models).toEqual(['large'])

  const stopped = await weir.worker(2)
  await weir.configure(configuration({ baseUrl: upstream.baseUrl, ledger, models: ['third'] }))
  process.kill(stopped, 'SIGSTOP')
  weir.signal('SIGHUP')
  await until(async () => (await weir.readyz()).status === 503)
  process.kill(stopped, 'SIGKILL')
  expect((await weir.line('configuration rejected'))['problems']).toEqual(['worker 2 died'])
  await until(async () => (await weir.readyz()).status === 200)
  for (const models of await Promise.all(Array.from({ length: 30 }, () => weir.models())))
    expect(models).toEqual(['large'])
})

test('a reload requested during another follows it', async () => {
  using upstream = provider()
  await using weir = await start(upstream.baseUrl)
  const worker = await weir.worker()
  process.kill(worker, 'SIGSTOP')
  for (const name of ['second', 'third', 'fourth']) {
    await weir.configure(configuration({ baseUrl: upstream.baseUrl, ledger, models: [name] }))
    weir.signal('SIGHUP')
    // The supervisor, which answers this, has the first under way by then; it waits for the worker that stands still.
    if (name === 'second') await weir.readyz()
  }
  await fetch(`${weir.admin}/healthz`)
  process.kill(worker, 'SIGCONT')
  await weir.line('configuration reloaded', 2)
  for (const models of await Promise.all(Array.from({ length: 30 }, () => weir.models())))
    expect(models).toEqual(['fourth'])
  expect(weir.all('configuration reloaded')).toHaveLength(2)
})

test('a drain ends when the last stream of all workers has ended', async () => {
  using upstream = provider()
  await using weir = await start(upstream.baseUrl)
  const streams = await Promise.all(Array.from({ length: 12 }, () => weir.stream()))
  weir.signal('SIGTERM')
  await weir.line('draining')
  upstream.finish()
  for (const stream of streams) expect(await stream.rest()).toContain('[DONE]')
  expect(await weir.ended).toEqual({ code: 0, stderr: '' })
})
