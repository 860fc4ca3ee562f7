/** A socket of systemd: a restart of weir refuses and resets no connection, because they wait in the socket. */

import { expect, test } from 'bun:test'
import { PassedSocket } from './passed-socket.ts'
import { pacedProvider, pricedConfiguration, SteadyLoad } from './steady-load.ts'
import { configuration, until, Weir } from './weir.ts'

test.each([1, 2])('workers %d: new connections wait while weir is restarted', async (workers) => {
  using socket = PassedSocket.open()
  using upstream = pacedProvider(1)
  const config = pricedConfiguration(upstream.baseUrl, 'embedded')
  const flags = ['--workers', String(workers)]
  const first = await Weir.start(config, flags, socket.start())
  // It waits in the socket, too.
  const load = new SteadyLoad({ port: socket.port, streams: 2, connectionsPerSecond: 50, kept: 0 })
  expect(new URL(String((await first.line('ready'))['address'])).port).toBe(String(socket.port))
  for (const worker of await first.workers())
    expect(await Bun.file(`/proc/${worker}/environ`).text()).not.toContain('LISTEN_')
  await until(() => load.answered > 50)
  const killed = await first.worker()
  const { unanswered } = load
  process.kill(killed, 'SIGKILL')
  await first.line('worker died')
  await until(async () => (await first.readyz()).status === 200)
  // Only requests that the killed worker may have had: those that came later waited in the socket.
  expect(load.failures.splice(0).length).toBeLessThanOrEqual(unanswered)

  first.signal('SIGTERM')
  expect(await first.ended).toEqual({ code: 0, stderr: '' })
  await using second = await Weir.ready(config, flags, { ...socket.start(), folder: first.folder })
  const after = load.answered
  await until(() => load.answered > after + 50)
  second.signal('SIGUSR2')
  await second.line('workers replaced')
  await load.finish()
  expect(load.failures.slice(0, 5)).toEqual([])
})

test.each([
  {
    what: 'two sockets',
    count: 2,
    port: 0,
    line: 'systemd passed 2 sockets, and weir takes one: write one ListenStream= in weir.socket',
  },
  {
    what: 'another port',
    count: 1,
    port: 1,
    line:
      'listen.port: is 1, and the socket of systemd listens on <port>; ' +
      'write the same port in weir.yaml and in ListenStream= of weir.socket',
  },
  {
    what: 'a socket that does not listen',
    count: 1,
    port: 0,
    listens: false,
    line: 'the socket of systemd does not listen on a TCP port: write ListenStream=HOST:PORT',
  },
])('$what: one line', async ({ count, port, listens, line }) => {
  using socket = PassedSocket.open(listens)
  const config = configuration({ baseUrl: 'http://127.0.0.1:9/v1', port })
  await using weir = await Weir.start(config, [], socket.start(count))
  expect(await weir.ended).toEqual({ code: 1, stderr: `weir: ${line.replace('<port>', String(socket.port))}\n` })
})

test('variables that are meant for another process are ignored', async () => {
  const env = { LISTEN_PID: '1', LISTEN_FDS: '1' }
  await using weir = await Weir.ready(configuration({ baseUrl: 'http://127.0.0.1:9/v1' }), [], { env })
  expect(await weir.models()).toEqual(['small'])
})
