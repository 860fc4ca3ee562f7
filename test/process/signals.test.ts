/** Signals without a meaning end neither the supervisor nor a worker. */

import { expect, test } from 'bun:test'
import { RedisServer } from '../support/redis.ts'
import { provider } from './provider.ts'
import { configuration, lives, Weir } from './weir.ts'

for (const workers of [1, 2]) {
  test(`SIGQUIT and SIGUSR1 change nothing, nor does SIGUSR2 to a worker, with ${workers} workers`, async () => {
    using upstream = provider()
    await using redis = await RedisServer.start()
    const ledger = workers === 1 ? 'embedded' : `{ redis: "${redis.url}" }`
    await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl, ledger }), [
      '--workers',
      String(workers),
    ])
    const before = await weir.workers()
    expect(before).toHaveLength(workers)
    const stream = await weir.stream()
    for (const signal of ['SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const) {
      const supervisor = signal === 'SIGUSR2' ? [] : [weir.pid, weir.pid]
      for (const pid of [...before, ...supervisor]) process.kill(pid, signal)
      expect(await weir.models()).toEqual(['small'])
      expect((await weir.readyz()).status).toBe(200)
    }
    upstream.finish()
    expect(await stream.rest()).toContain('[DONE]')
    expect(await weir.workers()).toEqual(before)
    expect(await Promise.all(before.map(lives))).not.toContain(false)
    expect(weir.all('worker died')).toEqual([])
    weir.signal('SIGTERM')
    expect((await weir.ended).code).toBe(0)
  })
}
