/**
 * `listen.port: 0`. The system in this test has so few free ports that a port which was found free, released and
 * bound again would be taken by another process in between.
 */

import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { inOwnNetwork } from '../support/own-network.ts'
import { RedisServer } from '../support/redis.ts'
import { provider } from './provider.ts'
import { configuration, Weir } from './weir.ts'

/** Free ports by number of workers: two gateways listen on four of them, and connections to Redis need the others. */
const FREE = { 1: 6, 2: 48 } as const
const FIRST = 40_000

const OTHERS: readonly [number, number] = [30_000, 39_999]

function limitPorts(range: readonly [number, number]): void {
  writeFileSync('/proc/sys/net/ipv4/ip_local_port_range', range.join(' '))
}

inOwnNetwork(import.meta.path, () => {
  for (const workers of [1, 2] as const) {
    test(`twice in a row, again and again, with ${workers} workers`, async () => {
      using upstream = provider()
      await using redis = await RedisServer.start()
      const ledger = workers === 1 ? 'embedded' : `{ redis: "${redis.url}" }`
      const config = configuration({ baseUrl: upstream.baseUrl, ledger })
      for (let i = 0; i < 3; i++) {
        // A new range for each round: the ports of the last one are not free at once.
        const lowest = FIRST + 100 * i
        const highest = lowest + FREE[workers] - 1
        limitPorts([lowest, highest])
        const flags = ['--workers', String(workers)]
        const [first, second] = await Promise.all([Weir.start(config, flags), Weir.start(config, flags)])
        await using one = first
        await using other = second
        await Promise.all([one.line('ready'), other.line('ready')])
        const ports = [one.address, one.admin, other.address, other.admin].map((address) =>
          Number(new URL(address).port),
        )
        expect(new Set(ports).size).toBe(4)
        for (const port of ports) expect(port).toBeWithin(lowest, highest + 1)
        // The requests of the test need ports, too.
        limitPorts(OTHERS)
        for (const weir of [one, other]) expect((await fetch(`${weir.address}/v1/models`)).status).toBe(401)
      }
    })
  }

  test('a worker that dies is replaced on the same port', async () => {
    using upstream = provider()
    await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }))
    const worker = await weir.worker()
    process.kill(worker, 'SIGKILL')
    await weir.line('worker died')
    const answers = () =>
      fetch(`${weir.address}/v1/models`).then(
        ({ status }) => status,
        () => 0,
      )
    while ((await answers()) !== 401) await Bun.sleep(10)
    expect(await weir.workers()).not.toContain(worker)
  })
})
