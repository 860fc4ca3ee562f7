/** What idle nodes cost the Redis that they share: they report, listen to each other and look after the ledger. */

import { Gateway } from '../../test/support/gateway.ts'
import { ownCpuMs } from '../../test/support/process-table.ts'
import { RedisServer } from '../../test/support/redis.ts'
import type { Measurement, Plan } from './rounds.ts'

const NODES = 10
/** Until all know each other. */
const SETTLE_MS = 12_000

export async function idleNodes({ plan }: { readonly plan: Plan }): Promise<readonly Measurement[]> {
  await using redis = await RedisServer.start()
  await using nodes = new AsyncDisposableStack()
  const measured = async () => {
    const [beganMs, before] = [performance.now(), ownCpuMs(redis.pid)]
    await Bun.sleep(plan.idleSeconds * 2000)
    return ((ownCpuMs(redis.pid) - before) / (performance.now() - beganMs)) * 100
  }
  const alone = await measured()
  for (let i = 0; i < NODES; i++) {
    const config = { ledger: { redis: redis.url }, node_name: `node-${i}` }
    nodes.use(await Gateway.start({ providers: { up: 'http://127.0.0.1:9/v1' }, config }))
  }
  await Bun.sleep(SETTLE_MS)
  const value = ((await measured()) - alone) / NODES
  const name = `an idle node of ${NODES}: share of a core that Redis takes for it`
  return [{ name, unit: '%', valueMax: 0.1, figures: [{ gateway: 'weir', value }] }]
}
