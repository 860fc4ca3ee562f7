/**
 * What idle nodes cost the Redis that they share: they report, listen to each other and look after the ledger, also for
 * many organisations that have sent requests through each of them.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { newRequestId } from '../../src/core/request-id.ts'
import { noCharge } from '../../src/ledger/ledger.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { Gateway } from '../../test/support/gateway.ts'
import { ownCpuMs } from '../../test/support/process-table.ts'
import { RedisServer } from '../../test/support/redis.ts'
import type { Measurement, Plan } from './rounds.ts'

const NODES = 10
const ORGANIZATIONS = 10_000
const A_COMMIT = 1000
const HOUR_MS = 3_600_000
/** Until all know each other, and compare what nobody uses in turns. */
const SETTLE_MS = 150_000
/** A node that gives something back does not pause for longer. */
const GIVEN_MS = 20_000
/** Some things are done once a minute. */
const MEASURED_MS = 60_000
const CHARGE = { ...noCharge('completed'), inputTokens: 10, outputTokens: 10, costMicroUsd: 10, model: 'm' }

export async function idleNodes({ plan }: { readonly plan: Plan }): Promise<readonly Measurement[]> {
  const figures = [await costOf(0, plan), await costOf(ORGANIZATIONS, plan)]
  return figures.map((value, i) => ({
    name: `an idle node of ${NODES}${i === 0 ? '' : `, ${ORGANIZATIONS} organisations`}: share of a core of Redis`,
    ...{ unit: '%', valueMax: 0.1, figures: [{ gateway: 'weir', value }] },
  }))
}

async function costOf(count: number, { idleSeconds }: Plan): Promise<number> {
  await using redis = await RedisServer.start()
  await using nodes = new AsyncDisposableStack()
  const measured = async () => {
    const [beganMs, before] = [performance.now(), ownCpuMs(redis.pid)]
    await Bun.sleep(Math.max(MEASURED_MS, idleSeconds * 2000))
    return ((ownCpuMs(redis.pid) - before) / (performance.now() - beganMs)) * 100
  }
  const alone = await measured()
  const organizations = Array.from({ length: Math.max(1, count) }, (_, i) => `organization-${i}`)
  const configured = organizations.map((id) => ({ id, keys: [{ id, key: `key-of-${id}-0123456789` }] }))
  for (let i = 0; i < NODES; i++) {
    const folder = await mkdtemp(join(tmpdir(), 'weir-bench-node-'))
    nodes.defer(() => rm(folder, { recursive: true, force: true }))
    fill(folder, organizations.slice(0, count))
    const own = { ledger: { redis: redis.url }, node_name: `node-${i}`, data_dir: folder, organizations: configured }
    nodes.use(await Gateway.start({ providers: { up: 'http://127.0.0.1:9/v1' }, config: own }))
  }
  await given(redis)
  await Bun.sleep(SETTLE_MS)
  return ((await measured()) - alone) / NODES
}

/** Until every node has given to Redis what its log has. */
async function given(redis: RedisServer): Promise<void> {
  const client = new Redis(redis.url)
  const rows = async () => Number(/cmdstat_xadd:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0)
  for (let before = -1, now = await rows(); now > before; ) {
    await Bun.sleep(GIVEN_MS)
    ;[before, now] = [now, await rows()]
  }
  client.disconnect()
}

/** The log of a node that has served a request of each organisation; a node gives them to Redis when it starts. */
function fill(folder: string, organizations: readonly string[]): void {
  const sentMs = Date.now() - HOUR_MS
  const outbox = new Outbox(folder, () => sentMs)
  for (const [i, organization] of organizations.entries()) {
    const account = { organization, organizationLimits: {}, key: organization, keyLimits: {} }
    const settlement = { id: newRequestId(), account, admittedMs: sentMs, charge: CHARGE, heldMicroUsd: 10 }
    outbox.add(settlement, false, { committed: () => undefined })
    if (i % A_COMMIT !== A_COMMIT - 1 && i !== organizations.length - 1) continue
    outbox.commit()
    for (const one of outbox.pending(A_COMMIT, true))
      outbox.taken(one.settlement.id, one.settlement.account.organization, 0)
  }
  outbox.close()
}
