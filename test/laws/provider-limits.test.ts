/** Quotas of providers that others use as well: a fleet uses them up, keeps to them, and shares them fairly. */

import { describe, expect, test } from 'bun:test'
import type { Key } from '../../src/catalog/catalog.ts'
import { catalog, key, model, organization } from '../catalog/fixture.ts'
import { Random } from '../support/random.ts'
import { SEED } from '../support/seed.ts'
import {
  candidatesOf,
  QuotaProvider,
  SimulatedFleet,
  type SimulatedNode,
  SimulatedRequest,
  VirtualTime,
} from './fleet-simulation.ts'

const NODES = 10
const MINUTE_MS = 60_000
const QUEUE = { maxWaitMs: 30_000, maxWaiting: 20_000 }

/** A fleet and those who send to it. */
class Stage {
  readonly random = new Random(SEED)
  readonly fleet: SimulatedFleet
  readonly keys: readonly Key[]
  readonly served = new Map<string, number>()
  readonly counts = { sent: 0, attempts: 0, failed: 0, answered: 0, answeredBatch: 0 }
  /** The longest that a request took. */
  longestMs = 0
  private readonly candidates

  constructor(
    organizations: number,
    readonly providers: Readonly<Record<string, QuotaProvider>>,
    readonly time: VirtualTime,
    /** `perMinute`: configured for each provider; by default its quota. `weightOf`: of an organisation. */
    { perMinute, weightOf = () => 1 }: { readonly perMinute?: number; readonly weightOf?: (at: number) => number } = {},
  ) {
    const targets = Object.keys(providers).map((provider) => ({ provider, model: 'm' }))
    const limits = Object.entries(providers).map(
      ([name, quota]) => [name, { requestsPerMinute: perMinute ?? quota.perMinute }] as const,
    )
    const config = { providers: Object.fromEntries(limits), targets: [], queue: QUEUE }
    const names = Array.from({ length: organizations }, (_, i) => `o${i}`)
    const all = catalog({
      models: [model('m', { targets })],
      organizations: names.map((name, i) => organization(name, { keys: [key(name)], weight: weightOf(i) })),
    })
    this.keys = all.credentials.map((each) => each.key)
    this.candidates = candidatesOf(all, 'm')
    for (const { id } of this.keys) this.served.set(id, 0)
    this.fleet = new SimulatedFleet(time, this.random, providers, config, targets, NODES)
  }

  get anyNode(): SimulatedNode {
    const node = this.fleet.nodes[this.random.below(NODES)]
    if (node === undefined) throw new Error('no node')
    return node
  }

  /** `began`: each time that a provider is called. */
  send(caller: Key, node = this.anyNode, isLowered = false, began: () => void = () => undefined): void {
    const sentMs = this.time.nowMs
    this.counts.sent++
    const took = () => {
      this.longestMs = Math.max(this.longestMs, this.time.nowMs - sentMs)
    }
    const ends = {
      began: () => {
        this.counts.attempts++
        began()
      },
      answered: () => {
        this.counts.answered++
        if (isLowered) this.counts.answeredBatch++
        this.served.set(caller.id, (this.served.get(caller.id) ?? 0) + 1)
        took()
      },
      failed: () => {
        this.counts.failed++
        took()
      },
    }
    new SimulatedRequest(node, caller, this.candidates, ends, isLowered).next()
  }

  /** All organisations send alike, as much in a minute as all quotas together; `isLowered`: of batch. */
  demand(share = 1, isLowered = false): () => void {
    const total = Object.values(this.providers).reduce((sum, { perMinute }) => sum + perMinute, 0)
    const periodMs = (MINUTE_MS * this.keys.length) / (total * share)
    let isOn = true
    for (const caller of this.keys)
      this.time.after(this.random.below(Math.round(periodMs)), () =>
        this.time.every(periodMs, () => isOn && this.send(caller, this.anyNode, isLowered)),
      )
    return () => {
      isOn = false
    }
  }

  /** What is used of a quota, by all, while it runs. */
  async usedIn(ms: number): Promise<Record<string, number>> {
    const sums = () => Object.values(this.providers).map(({ figures }) => figures.ours + figures.others)
    const before = sums()
    await this.time.run(ms)
    const after = sums()
    return Object.fromEntries(
      Object.entries(this.providers).map(([name, { perMinute }], i) => {
        const used = (after[i] ?? 0) - (before[i] ?? 0)
        return [name, used / ((perMinute * ms) / MINUTE_MS)]
      }),
    )
  }

  /** How many requests of others were sent to a provider before each of 20 that the caller sends to any node. */
  async passedBefore(caller: Key): Promise<readonly number[]> {
    const passed: number[] = []
    for (let i = 0; i < 20; i++) {
      this.time.after(0, () => {
        const before = this.counts.attempts
        this.send(caller, this.anyNode, false, () => void passed.push(this.counts.attempts - before - 1))
      })
      await this.time.run(300 + this.random.below(100))
    }
    return passed
  }

  get refused(): number {
    return Object.values(this.providers).reduce((sum, { figures }) => sum + figures.refused, 0)
  }

  get jain(): number {
    const counts = [...this.served.values()]
    const sum = counts.reduce((total, count) => total + count, 0)
    return (sum * sum) / (counts.length * counts.reduce((total, count) => total + count * count, 0))
  }
}

/** Never more in a minute than the limit, a bucket, and 2 % for each node. */
function mostAllowed(perMinute: number): number {
  return (perMinute * 7) / 6 + NODES * Math.max(1, perMinute * 0.02)
}

describe('ten nodes', () => {
  test('use up the quotas of three providers that others use as well, through an outage, without 429s', async () => {
    const time = new VirtualTime()
    const providers = {
      reserved: new QuotaProvider(time, 900, 'even', (ms) => (ms % 120_000 < 60_000 ? 0.2 : 0.5)),
      even: new QuotaProvider(time, 1200, 'even', () => 0.4),
      window: new QuotaProvider(time, 600, 'window', () => 0.3),
    }
    const stage = new Stage(1000, providers, time)
    stage.demand(0.85)
    const used = [await stage.usedIn(60_000), await stage.usedIn(60_000)]
    providers.even.isDown = true
    await time.run(30_000)
    providers.even.isDown = false
    // Its quota has come back meanwhile, and is used up first.
    await time.run(30_000)
    used.push(await stage.usedIn(60_000))
    const least = (name: keyof typeof providers) => Math.min(...used.slice(1).map((each) => each[name] ?? 0))
    expect(Math.min(least('reserved'), least('even'), least('window'))).toBeGreaterThanOrEqual(0.95)
    expect(stage.refused).toBeLessThanOrEqual(0.005 * stage.counts.attempts)
    for (const { mostInAMinute, perMinute } of Object.values(providers))
      expect(mostInAMinute).toBeLessThanOrEqual(mostAllowed(perMinute))
    expect(stage.jain).toBeGreaterThanOrEqual(0.98)
    stage.fleet.close()
  })

  test.each([
    ['a constant share', () => 0.4],
    ['a share that swings', (ms: number) => 0.45 + 0.15 * Math.sin((2 * Math.PI * ms) / 120_000)],
  ])('learn from 429s alone how much of a quota is theirs: others use %s', async (_, others) => {
    const time = new VirtualTime()
    const providers = { silent: new QuotaProvider(time, 600, 'silent', others) }
    const stage = new Stage(100, providers, time)
    stage.demand(0.8)
    await time.run(MINUTE_MS)
    const { silent: used = 0 } = await stage.usedIn(4 * MINUTE_MS)
    expect(used).toBeGreaterThanOrEqual(0.95)
    expect(stage.refused).toBeLessThanOrEqual(0.005 * stage.counts.attempts)
    stage.fleet.close()
  })

  test.each([
    ['both want more than there is', 1.2, 0.1],
    ['interactive wants half', 0.5, 0.5],
  ])('give batch its share: %s', async (_, interactive, batchShare) => {
    const time = new VirtualTime()
    const stage = new Stage(40, { even: new QuotaProvider(time, 1200, 'even', () => 0) }, time)
    stage.demand(interactive)
    stage.demand(1.2, true)
    // Then everything of before has been answered, or has given up.
    await time.run(40_000)
    const { answered, answeredBatch } = stage.counts
    const { even: used = 0 } = await stage.usedIn(2 * MINUTE_MS)
    expect(used).toBeGreaterThanOrEqual(0.95)
    const [all, ofBatch] = [stage.counts.answered - answered, stage.counts.answeredBatch - answeredBatch]
    expect(ofBatch / all).toBeWithin(batchShare - 0.02, batchShare + 0.02)
    stage.fleet.close()
  })

  test('use reserved capacity first, and what costs by use for the rest alone', async () => {
    const time = new VirtualTime()
    const quotas = { reserved: 600, payg: 1800 }
    const of = (perMinute: number) => new QuotaProvider(time, perMinute, 'even', () => 0)
    const stage = new Stage(100, { reserved: of(quotas.reserved), payg: of(quotas.payg) }, time)
    stage.demand(0.5)
    await time.run(MINUTE_MS)
    const { reserved: used = 0, payg = 0 } = await stage.usedIn(2 * MINUTE_MS)
    expect(used).toBeGreaterThanOrEqual(0.95)
    // Half of both together, without what is reserved.
    const rest = ((quotas.reserved + quotas.payg) * 0.5 - quotas.reserved) / quotas.payg
    expect(payg).toBeWithin(rest - 0.03, rest + 0.03)
    stage.fleet.close()
  })

  test('share by weight among organisations that each wait at a node of their own', async () => {
    const time = new VirtualTime()
    const quota = new QuotaProvider(time, 1200, 'even', () => 0)
    const stage = new Stage(NODES, { quota }, time, { weightOf: (i) => (i < NODES / 2 ? 3 : 1) })
    stage.keys.forEach((caller, i) => {
      time.every(200, () => stage.send(caller, stage.fleet.nodes[i]))
    })
    await time.run(40_000)
    stage.served.clear()
    const { quota: used = 0 } = await stage.usedIn(2 * MINUTE_MS)
    expect(used).toBeGreaterThanOrEqual(0.95)
    const counts = stage.keys.map(({ id }) => stage.served.get(id) ?? 0)
    const sum = counts.reduce((total, count) => total + count, 0)
    counts.forEach((count, i) => {
      const share = (i < NODES / 2 ? 3 : 1) / (2 * NODES)
      expect(count / sum / share).toBeWithin(0.95, 1.05)
    })
    stage.fleet.close()
  })

  test('let one request pass a thousand of another organisation at each node within one slot', async () => {
    const time = new VirtualTime()
    const stage = new Stage(2, { even: new QuotaProvider(time, 1200, 'even', () => 0, 1) }, time)
    const [many, single] = stage.keys
    if (many === undefined || single === undefined) throw new Error('no key')
    time.after(0, () => {
      for (let i = 0; i < 10_000; i++) stage.send(many, stage.fleet.nodes[i % NODES])
    })
    await time.run(3000)
    const passed = await stage.passedBefore(single)
    expect(passed).toHaveLength(20)
    expect(Math.max(...passed)).toBeLessThanOrEqual(1)
    stage.fleet.close()
  })

  test('let one interactive request pass 10,000 of batch within two slots', async () => {
    const time = new VirtualTime()
    const stage = new Stage(20, { even: new QuotaProvider(time, 1200, 'even', () => 0, 1) }, time)
    const [person, ...others] = stage.keys
    if (person === undefined) throw new Error('no key')
    time.after(0, () => {
      for (let i = 0; i < 10_000; i++)
        stage.send(others[i % others.length] ?? person, stage.fleet.nodes[i % NODES], true)
    })
    await time.run(3000)
    const passed = await stage.passedBefore(person)
    expect(passed).toHaveLength(20)
    expect(Math.max(...passed)).toBeLessThanOrEqual(2)
    stage.fleet.close()
  })

  test('keep to a quota while Redis is away for four of them, then for all, and nothing waits for ever', async () => {
    const time = new VirtualTime()
    const quiet = new QuotaProvider(time, 100_000, 'silent', () => 0)
    const limit = 900
    const stage = new Stage(100, { quiet }, time, { perMinute: limit })
    const stop = stage.demand(0.015)
    // Two that start cut off, and know of no fleet.
    const late = stage.fleet.nodes.slice(-2)
    for (const node of late) {
      node.isCutOff = true
      node.rooms.shareAmong(undefined)
    }
    await time.run(70_000)
    expect(quiet.arrivals.length).toBeGreaterThan(limit)
    expect(quiet.mostInAMinute).toBeLessThanOrEqual(mostAllowed(limit))
    for (const node of late) {
      node.isCutOff = false
      node.rooms.shareAmong(NODES)
    }
    await time.run(30_000)
    for (const node of stage.fleet.nodes.slice(0, 4)) node.isCutOff = true
    await time.run(60_000)
    for (const node of stage.fleet.nodes) node.isCutOff = true
    const before = quiet.arrivals.length
    await time.run(60_000)
    // Each has its part of the limit, and all together have the whole.
    expect(quiet.arrivals.length - before).toBeWithin(0.95 * limit, 1.05 * limit)
    for (const node of stage.fleet.nodes) node.isCutOff = false
    await time.run(20_000)
    stop()
    await time.run(40_000)
    // Those that cannot see Redis have their part, while the others have all of it.
    expect(quiet.mostInAMinute).toBeLessThanOrEqual(mostAllowed(limit) + (4 / NODES) * limit)
    expect(stage.counts.answered + stage.counts.failed).toBe(stage.counts.sent)
    expect(stage.longestMs).toBeLessThanOrEqual(QUEUE.maxWaitMs + 1000)
    stage.fleet.close()
  })
})
