/** The ledger without a gateway while Redis is emptied: how many requests it serves, and how long its turns are. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { newRequestId } from '../../src/core/request-id.ts'
import { type Account, type Charge, type Estimate, type Ledger, noCharge } from '../../src/ledger/ledger.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'

const ORGANIZATIONS = 2000
const PER_SECOND = 850
/** Requests before the loss, and the time after it in which half of the usual answers must come. */
const WARM_MS = 12_000
const WATCHED_MS = 2000
const ROWS = 100_000
const ROWS_A_COMMIT = 2000
const HOUR_MS = 3_600_000
const USED: Estimate = { inputTokens: 480, outputTokens: 200, costMicroUsd: 800 }
const HELD: Estimate = { inputTokens: 500, outputTokens: 4096, costMicroUsd: 9000 }
const CHARGE: Charge = { ...noCharge('completed'), ...USED, model: 'bench', provider: 'bench' }

function accountOf(organization: string): Account {
  const spend = { total: 1e13, strict: false, onExhausted: 'finish' as const }
  return { organization, organizationLimits: { spend }, key: 'key', keyLimits: {} }
}

async function serve(ledger: Ledger, account: Account): Promise<void> {
  const hold = { id: newRequestId(), estimate: HELD, floorMicroUsd: 500, model: 'bench' }
  await ledger.settle(await ledger.reserve(account, hold), CHARGE)
}

/** Opens a ledger in a new directory, after `prepare`, and a client that can empty its Redis. */
async function withLedger<T>(
  url: string,
  work: (ledger: Ledger, client: Redis) => Promise<T>,
  prepare: (directory: string) => void = () => undefined,
): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'weir-bench-ledger-'))
  const client = new Redis(url)
  prepare(directory)
  const ledger = await RedisLedger.open({ kind: 'single', url }, directory, 'refuse')
  try {
    return await work(ledger, client)
  } finally {
    await ledger.close()
    client.disconnect()
    await rm(directory, { recursive: true, force: true })
  }
}

export interface Emptied {
  /** Answers in the 2 s after the loss, and in the 2 s before it. */
  readonly after: number
  readonly before: number
  /** The longest use of the CPU in one turn of the event loop after the loss. */
  readonly turnMs: number
}

/** Many organisations, each with the same share of the requests. */
export function manyEmptied(url: string): Promise<Emptied> {
  return withLedger(url, async (ledger, client) => {
    const accounts = Array.from({ length: ORGANIZATIONS }, (_, i) => accountOf(`organization-${i}`))
    const answeredMs: number[] = []
    const running: Promise<void>[] = []
    const begunMs = performance.now()
    let turns: LongestTurn | undefined
    let lostMs = 0
    for (let now = 0; now < WARM_MS + WATCHED_MS; now = performance.now() - begunMs) {
      for (; running.length < (now * PER_SECOND) / 1000; ) {
        const account = accounts[running.length % ORGANIZATIONS]
        if (account === undefined) continue
        running.push(serve(ledger, account).then(() => void answeredMs.push(performance.now()), ignore))
      }
      if (turns === undefined && now >= WARM_MS) {
        await client.flushall()
        lostMs = performance.now()
        turns = new LongestTurn()
      }
      await Bun.sleep(2)
    }
    const turnMs = turns?.end() ?? 0
    await Promise.all(running)
    const between = (from: number, until: number) => answeredMs.filter((ms) => ms >= from && ms < until).length
    return { after: between(lostMs, lostMs + WATCHED_MS), before: between(lostMs - WATCHED_MS, lostMs), turnMs }
  })
}

/** Milliseconds until an organisation with very many rows of usage is served after the loss. */
export function largeEmptied(url: string): Promise<number> {
  const account = accountOf('large')
  const fill = (directory: string) => {
    const outbox = new Outbox(directory, () => Date.now() - HOUR_MS)
    for (let i = 0; i < ROWS; i++) {
      const charge = { ...CHARGE, model: `model-${i}` }
      const settlement = { id: newRequestId(), account, admittedMs: Date.now() - HOUR_MS, charge, heldMicroUsd: 800 }
      outbox.add(settlement, false, { committed: ignore })
      if (i % ROWS_A_COMMIT !== ROWS_A_COMMIT - 1) continue
      outbox.commit()
      for (const one of outbox.pending(ROWS_A_COMMIT, true)) outbox.taken(one.settlement.id, account.organization, 0)
    }
    outbox.close()
  }
  return withLedger(
    url,
    async (ledger) => {
      const begunMs = performance.now()
      await serve(ledger, account)
      return performance.now() - begunMs
    },
    fill,
  )
}

function ignore(): void {}

class LongestTurn {
  private longest = 0
  private before = process.cpuUsage()
  private isOver = false

  constructor() {
    setImmediate(() => this.look())
  }

  /** Milliseconds. */
  end(): number {
    this.isOver = true
    return this.longest / 1000
  }

  private look(): void {
    const { user, system } = process.cpuUsage(this.before)
    this.longest = Math.max(this.longest, user + system)
    this.before = process.cpuUsage()
    if (!this.isOver) setImmediate(() => this.look())
  }
}
