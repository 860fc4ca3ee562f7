import { expect, test } from 'bun:test'
import { type Provider, provider } from './provider.ts'
import { configuration, until, Weir } from './weir.ts'

/** `host:port` of one that listens, for a second program to stumble over. */
function occupied(): { readonly port: number } & Disposable {
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
  return { port: server.port ?? 0, [Symbol.dispose]: () => void server.stop(true) }
}

async function started(upstream: Provider, options: { drainSeconds?: number } = {}): Promise<Weir> {
  return await Weir.ready(configuration({ baseUrl: upstream.baseUrl, ...options }))
}

async function refused(address: string): Promise<boolean> {
  try {
    await fetch(address, { keepalive: false })
    return false
  } catch {
    return true
  }
}

test('it starts, logs its address, and answers', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  const ready = await weir.line('ready')
  console.log(`ready after ${ready['ms']} ms`)
  expect(ready).toMatchObject({ level: 'info', workers: 1 })
  expect(await weir.models()).toEqual(['small'])
  expect((await fetch(`${weir.admin}/healthz`)).status).toBe(200)
  expect(await weir.readyz()).toEqual({ status: 200, reasons: [] })
  const nothing = await fetch(`${weir.admin}/v1/models`)
  expect(nothing.status).toBe(404)
  expect(nothing.headers.get('content-type')).toStartWith('application/json')
  upstream.finish()
  expect(await (await weir.stream()).rest()).toContain('[DONE]')
  weir.signal('SIGTERM')
  expect(await weir.ended).toEqual({ code: 0, stderr: '' })
})

test('--port and --workers override the file', async () => {
  using upstream = provider()
  using taken = occupied()
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl, port: taken.port }), ['--port', '0'])
  expect(await weir.models()).toEqual(['small'])
})

test('a worker that is killed is restarted, with one line', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  const first = await weir.worker()
  process.kill(first, 'SIGKILL')
  expect(await weir.line('worker died')).toMatchObject({ level: 'error', worker: 0, pid: first, restart_in_ms: 100 })
  await until(async () => (await weir.readyz()).status === 200)
  expect(await weir.models()).toEqual(['small'])
  const [second] = await weir.workers()
  expect(second).not.toBe(first)
  expect(weir.all('worker died')).toHaveLength(1)
  const start = { event: 'worker.started', level: 'info', worker: 0 }
  expect(await weir.line('worker started')).toMatchObject({ ...start, pid: first })
  expect(await weir.line('worker started', 2)).toMatchObject({ ...start, pid: second })
})

test('a worker that dies repeatedly is restarted later each time', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  for (const [deaths, restart_in_ms] of [
    [1, 100],
    [2, 200],
    [3, 400],
  ] as const) {
    process.kill(await weir.worker(), 'SIGKILL')
    expect(await weir.line('worker died', deaths)).toMatchObject({ how: 'signal SIGKILL', restart_in_ms })
    await until(async () => (await weir.readyz()).status === 200)
  }
  expect(await weir.models()).toEqual(['small'])
})

test('/readyz names the worker that is down', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  const [worker = 0] = await weir.workers()
  process.kill(worker, 'SIGSTOP')
  expect(await weir.readyz()).toEqual({ status: 503, reasons: ['worker 0 does not answer'] })
  process.kill(worker, 'SIGKILL')
  await weir.line('worker died')
  expect((await weir.readyz()).status).toBe(503)
})

test('SIGTERM closes the listener and lets a running stream finish', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  const stream = await weir.stream()
  weir.signal('SIGTERM')
  await weir.line('draining')
  expect(await weir.readyz()).toEqual({ status: 503, reasons: ['draining'] })
  await until(() => refused(`${weir.address}/v1/models`))
  upstream.finish()
  expect(await stream.rest()).toContain('[DONE]')
  expect(await weir.ended).toEqual({ code: 0, stderr: '' })
})

test('a second signal cuts running requests', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  const stream = await weir.stream()
  weir.signal('SIGINT')
  await weir.line('draining')
  weir.signal('SIGTERM')
  await expect(stream.rest()).rejects.toThrow()
  expect(await weir.ended).toEqual({ code: 0, stderr: '' })
  expect(weir.all('running requests were cut')).toHaveLength(1)
  expect(weir.all('request')).toMatchObject([{ outcome: 'drained' }])
})

test('a drain takes at most drain_seconds', async () => {
  using upstream = provider()
  await using weir = await started(upstream, { drainSeconds: 1 })
  const stream = await weir.stream()
  weir.signal('SIGTERM')
  await expect(stream.rest()).rejects.toThrow()
  expect(await weir.ended).toEqual({ code: 0, stderr: '' })
  expect(weir.all('request')).toMatchObject([{ outcome: 'drained' }])
})

test('SIGTERM to the whole group, as service managers and terminals send it, is one signal', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  const stream = await weir.stream()
  for (const pid of [weir.pid, ...(await weir.workers())]) process.kill(pid, 'SIGTERM')
  await weir.line('draining')
  upstream.finish()
  expect(await stream.rest()).toContain('[DONE]')
  expect(await weir.ended).toEqual({ code: 0, stderr: '' })
})

test('SIGHUP applies a valid file; running requests continue', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  const stream = await weir.stream()
  await weir.configure(configuration({ baseUrl: upstream.baseUrl, models: ['small', 'large'] }))
  weir.signal('SIGHUP')
  await weir.line('configuration reloaded')
  expect(await weir.models()).toEqual(['small', 'large'])
  upstream.finish()
  expect(await stream.rest()).toContain('[DONE]')
})

test('a worker that is restarted after a reload has the new configuration', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  await weir.configure(configuration({ baseUrl: upstream.baseUrl, models: ['large'] }))
  weir.signal('SIGHUP')
  await weir.line('configuration reloaded')
  process.kill(await weir.worker(), 'SIGKILL')
  await weir.line('worker died')
  await until(async () => (await weir.readyz()).status === 200)
  expect(await weir.models()).toEqual(['large'])
})

test('SIGHUP with an invalid file is one line with all its problems, and changes nothing', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  await weir.configure(`${configuration({ baseUrl: upstream.baseUrl, models: ['large'] })}nonsense: 1\nworker: 2\n`)
  weir.signal('SIGHUP')
  const line = await weir.line('configuration rejected')
  expect(line['level']).toBe('error')
  expect(line['problems']).toHaveLength(2)
  expect(await weir.models()).toEqual(['small'])
  expect(weir.all('configuration rejected')).toHaveLength(1)
  expect(await weir.readyz()).toEqual({ status: 200, reasons: [] })
})

test('SIGHUP with a change that needs a restart is rejected as a whole, and names the key', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  const changed = configuration({ baseUrl: upstream.baseUrl, models: ['large'], port: 1, adminPort: 2 })
  await weir.configure(changed.replace('./data', './elsewhere'))
  weir.signal('SIGHUP')
  const { problems } = await weir.line('configuration rejected')
  expect(String(problems)).toMatch(/listen\.port.*restart.*admin.*restart.*data_dir.*restart/)
  expect(await weir.models()).toEqual(['small'])
})

test('several SIGHUPs at once end with the newest file', async () => {
  using upstream = provider()
  await using weir = await started(upstream)
  for (const name of ['a', 'b', 'c']) {
    await weir.configure(configuration({ baseUrl: upstream.baseUrl, models: [name] }))
    weir.signal('SIGHUP')
  }
  await until(async () => (await weir.models())[0] === 'c')
})

test('SIGTERM before weir is ready ends it', async () => {
  using upstream = provider()
  await using weir = await Weir.start(configuration({ baseUrl: upstream.baseUrl }))
  await until(async () => (await weir.workers()).length > 0)
  weir.signal('SIGTERM')
  expect(await weir.ended).toEqual({ code: 0, stderr: '' })
})

for (const [name, ports] of [
  ['the port', (port: number) => ({ port })],
  ['the admin port', (port: number) => ({ adminPort: port })],
] as const) {
  test(`${name} in use is one line and exit code 1`, async () => {
    using upstream = provider()
    using taken = occupied()
    await using weir = await Weir.start(configuration({ baseUrl: upstream.baseUrl, ...ports(taken.port) }))
    const { code, stderr } = await weir.ended
    expect(code).toBe(1)
    expect(stderr).toMatch(new RegExp(`^weir: [^\\n]*127\\.0\\.0\\.1:${taken.port}: another program listens there\\n$`))
  })
}

test('a second weir on the same port fails, though its workers could share the port', async () => {
  using upstream = provider()
  await using first = await started(upstream)
  const port = Number(new URL(first.address).port)
  await using second = await Weir.start(configuration({ baseUrl: upstream.baseUrl, port }))
  expect((await second.ended).code).toBe(1)
  expect(await first.models()).toEqual(['small'])
})

test('an address that this machine does not have is one line and exit code 1', async () => {
  using upstream = provider()
  const config = configuration({ baseUrl: upstream.baseUrl }).replace(
    'listen: { port: 0 }',
    'listen: { host: 192.0.2.1 }',
  )
  await using weir = await Weir.start(config)
  const { code, stderr } = await weir.ended
  expect(code).toBe(1)
  expect(stderr).toMatch(/^weir: cannot listen on 192\.0\.2\.1:8080: [^\n]+\n$/)
})

test('an invalid configuration is all its problems, one line each, and exit code 1', async () => {
  using upstream = provider()
  await using weir = await Weir.start(`${configuration({ baseUrl: upstream.baseUrl })}nonsense: 1\nworker: 2\n`)
  const { code, stderr } = await weir.ended
  expect(code).toBe(1)
  expect(stderr).toMatch(/^weir: [^\n]+\nweir: [^\n]+\n$/)
  expect(stderr).not.toContain('    at ')
})

test('several workers serve without Redis', async () => {
  using upstream = provider()
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }), ['--workers', '2'])
  expect(await weir.line('ready')).toMatchObject({ workers: 2 })
  expect(await weir.models()).toEqual(['small'])
})
