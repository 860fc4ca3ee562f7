/** What weir reports to systemd, on a socket of the test's own. */

import { expect, test } from 'bun:test'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monotonicMicroseconds } from '../../src/process/system/libc.ts'
import { provider } from './provider.ts'
import { configuration, until, Weir } from './weir.ts'

/** Bun has no datagram sockets for Unix. Prints each datagram as a line of JSON, after a line when it listens. */
const RECEIVER = `
import json, socket, sys
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
name = sys.argv[1]
receiver.bind(chr(0) + name[1:] if name.startswith('@') else name)
print('[]', flush=True)
while True:
    print(json.dumps(receiver.recv(4096).decode().split(chr(10))), flush=True)
`

/** Plays systemd: receives the messages of `NOTIFY_SOCKET`. */
class Receiver implements AsyncDisposable {
  readonly messages: (readonly string[])[] = []

  private constructor(private readonly child: Bun.Subprocess<'ignore', 'pipe', 'inherit'>) {
    void this.read()
  }

  static async start(name: string): Promise<Receiver> {
    const child = Bun.spawn(['python3', '-c', RECEIVER, name], { stdio: ['ignore', 'pipe', 'inherit'] })
    const receiver = new Receiver(child)
    await until(() => receiver.messages.length === 1)
    receiver.messages.length = 0
    return receiver
  }

  has(line: string): boolean {
    return this.messages.some((message) => message.includes(line))
  }

  count(line: string): number {
    return this.messages.filter((message) => message.includes(line)).length
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill()
    await this.child.exited
  }

  private async read(): Promise<void> {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of this.child.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) this.messages.push(JSON.parse(line))
    }
  }
}

test.each(['path', 'abstract'])('READY, RELOADING, WATCHDOG and STOPPING to a socket (%s)', async (kind) => {
  const folder = await fs.mkdtemp(join(tmpdir(), 'weir-notify-'))
  const name = kind === 'path' ? join(folder, 'notify') : `@weir-test-${process.pid}-${Date.now()}`
  await using systemd = await Receiver.start(name)
  using upstream = provider()
  const config = configuration({ baseUrl: upstream.baseUrl })
  const env = { NOTIFY_SOCKET: name, WATCHDOG_USEC: '200000' }
  await using weir = await Weir.ready(config, [], { env })
  await until(() => systemd.count('WATCHDOG=1') > 2)
  expect(systemd.messages[0]).toEqual(['READY=1', 'STATUS=Serving requests'])

  const before = monotonicMicroseconds()
  weir.signal('SIGHUP')
  await until(() => systemd.count('READY=1') === 2)
  const reloading = systemd.messages.find((message) => message.includes('RELOADING=1')) ?? []
  const at = BigInt(/^MONOTONIC_USEC=(\d+)$/.exec(reloading[1] ?? '')?.[1] ?? 0)
  expect(at).toBeGreaterThanOrEqual(before)
  expect(at).toBeLessThanOrEqual(monotonicMicroseconds())

  // A reload that is rejected is over, too.
  await weir.configure('listen: {')
  weir.signal('SIGHUP')
  await until(() => systemd.count('READY=1') === 3)

  // Workers do not speak for the service.
  const [worker = 0] = await weir.workers()
  expect(await fs.readFile(`/proc/${worker}/environ`, 'utf8')).not.toContain('NOTIFY_SOCKET')

  weir.signal('SIGTERM')
  expect((await weir.ended).code).toBe(0)
  await until(() => systemd.has('STOPPING=1'))
  await fs.rm(folder, { recursive: true })
})

test('a socket that nobody reads is one line in the log', async () => {
  using upstream = provider()
  const env = { NOTIFY_SOCKET: join(tmpdir(), 'weir-no-such-socket') }
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }), [], { env })
  weir.signal('SIGHUP')
  await weir.line('configuration reloaded')
  expect(weir.all('service manager not notified')).toMatchObject([{ problem: 'sendto failed (errno 2)' }])
})

test('the watchdog of another process is not answered', async () => {
  const name = `@weir-test-other-${process.pid}`
  await using systemd = await Receiver.start(name)
  using upstream = provider()
  const env = { NOTIFY_SOCKET: name, WATCHDOG_USEC: '20000', WATCHDOG_PID: '1' }
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }), [], { env })
  weir.signal('SIGTERM')
  await weir.ended
  await until(() => systemd.has('STOPPING=1'))
  expect(systemd.has('WATCHDOG=1')).toBe(false)
})
