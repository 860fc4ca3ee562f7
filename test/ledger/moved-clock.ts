/** Nodes and a Redis whose clock a test moves: for what happens after days and months. */

import { expect } from 'bun:test'
import type { Redis } from 'ioredis'
import { openUsageLog } from '../../src/assembly/open-ledger.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import { foldUsage } from '../../src/ledger/redis/maintenance/usage-folding.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisLink } from '../../src/ledger/redis/redis-link.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { addUsage, noUsage } from '../../src/ledger/usage-figures.ts'
import type { UsageRow } from '../../src/ledger/usage-log.ts'
import { dayOf } from '../../src/ledger/window.ts'
import type { Opened } from './opened.ts'
import type { RedisServer } from './redis-server.ts'

interface FleetNode {
  readonly id: string
  readonly ledger: RedisLedger
  cutOff(): void
  close(): Promise<void>
}

/** Nodes and a Redis with one clock, which the test moves. */
export class Fleet {
  private aheadMs = 0

  private constructor(
    private readonly server: RedisServer,
    private readonly open: Opened['open'],
  ) {}

  /** `open`: what the test closes at its end. */
  static async start(server: RedisServer, open: Opened['open']): Promise<Fleet> {
    const fleet = new Fleet(server, open)
    await fleet.leap(0)
    return fleet
  }

  now = (): number => Date.now() + this.aheadMs

  async leap(ms: number): Promise<void> {
    this.aheadMs += ms
    const client = this.server.client()
    await client.set('weir:test:ahead', this.aheadMs)
    client.disconnect()
  }

  async node(at: string): Promise<FleetNode> {
    const outbox = new Outbox(at, this.now)
    // A busy machine delays replies, which these tests are not about.
    const link = new RedisLink({ kind: 'single', url: this.server.socket, timeoutMs: 60_000 }, outbox)
    const [admission, other] = [Reflect.get(link, 'admission'), Reflect.get(link, 'other')]
    Object.assign(link, { store: new RedisStore(admission, other, this.now, CLOCK, link.epochs) })
    await link.start()
    const every = (ms: number, call: () => void) => {
      const timer = setInterval(call, ms)
      return () => clearInterval(timer)
    }
    const ledger = new RedisLedger(link, outbox, 'refuse', { now: this.now, every })
    const closing = { close: () => ledger.close() }
    this.open.push(closing)
    return {
      id: outbox.epochs.node,
      ledger,
      cutOff: () => Object.defineProperties(link, { isReady: { value: false }, isConnected: { value: false } }),
      close: async () => {
        this.open.splice(this.open.indexOf(closing), 1)
        await ledger.close()
      },
    }
  }

  /** What the budgets and the usage say of an organisation with one key; both must be the same. */
  async spent(account: Account): Promise<number> {
    const { organization, key } = await this.onStore((store) => store.figures(account))
    const rows = await this.usage(account)
    const { spent } = organization.total
    expect({ ofKey: key.total.spent, used: rows.reduce(addUsage, noUsage).costMicroUsd }).toEqual({
      ofKey: spent,
      used: spent,
    })
    return spent
  }

  /** The usage of an account's organisation. */
  async usage(account: Account): Promise<readonly UsageRow[]> {
    const log = await openUsageLog({
      ledger: { kind: 'redis', redis: { kind: 'single', url: this.server.socket } },
      ledgerUnreachable: 'refuse',
      dataDir: '',
    })
    const rows = await log.read({ sinceDay: 0, untilDay: 1e6, organization: account.organization })
    await log.close()
    return rows
  }

  async fold(): Promise<void> {
    await this.onStore((store, client) => foldUsage(client, store, dayOf(this.now())))
  }

  /** Calls with a store of a connection of its own. */
  async onStore<T>(call: (store: RedisStore, client: Redis) => Promise<T>): Promise<T> {
    const client = this.server.client()
    try {
      return await call(new RedisStore(client, client, this.now, CLOCK), client)
    } finally {
      client.disconnect()
    }
  }
}

const CLOCK = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(redis.call('GET', 'weir:test:ahead'))\n`
