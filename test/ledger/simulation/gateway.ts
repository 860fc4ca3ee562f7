/**
 * A gateway without HTTP: requests that reserve, call a provider, stream and settle; it can be killed between any two
 * steps.
 */

import { CallerError } from '../../../src/core/caller-error.ts'
import { type Account, type Estimate, noCharge, type Reservation } from '../../../src/ledger/ledger.ts'
import type { WhenUnreachable } from '../../../src/ledger/redis/node-health.ts'
import { RedisLedger } from '../../../src/ledger/redis/redis-ledger.ts'
import { Disk, SimulatedLog } from './disk.ts'
import { type Faults, SimulatedLink } from './network.ts'
import { LOST_MOST_MS, type Server } from './server.ts'
import type { World } from './world.ts'

const EXTEND_MS = 10_000
const LEASE_MS = 30_000
/** One in this many requests kills its gateway. */
const KILLED_AT_ITS_END = 100

/** What really happened to a request. */
export interface Truth {
  readonly id: string
  /** Of the candidate that is called. */
  account: Account
  /** Its reservation is being replaced by one under other counters: a gateway that dies now does not know its own. */
  isMoving: boolean
  /** A provider was called and must be paid. */
  called: boolean
  /** Its cost, once it ended; undefined if its gateway was killed before. */
  cost: number | undefined
  gatewayDied: boolean
  /** Its gateway died with a row that a full disk had rejected, and that was therefore sent unwritten. */
  sentUnwritten: boolean
}

export class Gateway {
  readonly disk: Disk
  readonly truths: Truth[] = []
  private life = 0
  private ledger: RedisLedger | undefined
  private link: SimulatedLink | undefined
  private log: SimulatedLog | undefined
  private readonly running = new Set<Truth>()
  private isAway = false
  private readonly refused: { readonly truth: Truth; readonly ms: number }[] = []

  constructor(
    private readonly world: World,
    private readonly server: Server,
    private readonly faults: Faults,
    private readonly unreachable: WhenUnreachable,
    private readonly name: string,
  ) {
    this.disk = new Disk(name)
    this.start()
  }

  get isAlive(): boolean {
    return this.ledger !== undefined
  }

  get health() {
    return this.ledger?.health()
  }

  /** SIGKILL: its pending calls never resolve, and uncommitted rows are gone. It restarts a little later. */
  kill(restartMs: number): void {
    if (this.ledger === undefined) return
    this.life += 1
    this.ledger = undefined
    for (const truth of this.running) truth.gatewayDied = true
    this.running.clear()
    // A settlement whose commit failed is sent before it is written. Its row dies with the gateway even if the disk has
    // room again by now and only the next commit is missing.
    const unwritten = this.log?.unwritten
    for (const truth of this.truths) {
      const row = unwritten?.get(truth.id)
      if (row === undefined) continue
      truth.gatewayDied = true
      truth.sentUnwritten = row.isReleased
    }
    // Cancellations that it had not sent die with it: then the lease ends the reservation.
    for (const { truth, ms } of this.refused.splice(0))
      if (ms > this.world.nowMs - LEASE_MS - LOST_MOST_MS) truth.gatewayDied = true
    this.world.after(restartMs, () => this.start())
  }

  cut(): void {
    this.link?.cut()
  }

  /** Cuts it off from the server until `comeBack`. */
  leave(): void {
    this.isAway = true
    this.cut()
  }

  comeBack(): void {
    this.isAway = false
  }

  /** `next`: the owners of the candidate that is called after the first one. */
  async request(account: Account, next?: Account): Promise<void> {
    const { ledger, life, world } = this
    if (ledger === undefined) return
    const truth: Truth = {
      id: `${this.name}-${this.truths.length}`,
      account,
      isMoving: false,
      called: false,
      cost: undefined,
      gatewayDied: false,
      sentUnwritten: false,
    }
    this.truths.push(truth)
    this.running.add(truth)
    const estimate = { inputTokens: 100, outputTokens: 200, costMicroUsd: 100 }
    let reservation: Reservation
    try {
      reservation = await ledger.reserve(account, { id: truth.id, estimate, floorMicroUsd: 30, model: 'm' })
    } catch (error) {
      if (!(error instanceof CallerError)) throw error
      this.running.delete(truth)
      this.refused.push({ truth, ms: world.nowMs })
      return
    }
    const moved = next && (await this.move(ledger, next, truth))
    if (next !== undefined && moved === undefined) {
      await ledger.settle(reservation, noCharge('refused'))
      truth.cost = 0
      this.running.delete(truth)
      return
    }
    reservation = moved ?? reservation
    truth.called = true
    const cost = world.random.below(180)
    await this.stream(ledger, reservation, cost, life)
    truth.cost = cost
    const charge = { ...noCharge('completed'), ...amountsOf(cost), model: 'm' }
    // The moment between row, charge and mark, at which kills are more likely.
    if (world.random.oneIn(KILLED_AT_ITS_END))
      world.after(world.delay(0, 60), () => this.life === life && this.kill(1000))
    await ledger.settle(reservation, charge)
    this.running.delete(truth)
  }

  /** Reserves for the next candidate. Undefined if that is refused. */
  private async move(ledger: RedisLedger, account: Account, truth: Truth): Promise<Reservation | undefined> {
    truth.isMoving = true
    try {
      const estimate = { inputTokens: 100, outputTokens: 200, costMicroUsd: 120 }
      const hold = { id: truth.id, estimate, floorMicroUsd: 40, model: 'n', turn: 1 }
      const reservation = await ledger.reserve(account, hold)
      truth.account = account
      return reservation
    } catch (error) {
      letPass(error)
      return undefined
    } finally {
      // Not if the gateway died meanwhile: then this never runs.
      truth.isMoving = false
    }
  }

  private start(): void {
    const { life } = this
    const isAlive = () => this.life === life
    this.link = new SimulatedLink(this.world, this.server, this.faults, isAlive, () => this.isAway)
    const log = new SimulatedLog(this.world, this.disk, isAlive)
    this.log = log
    const every = (ms: number, call: () => void) => {
      let stopped = false
      const again = () => {
        if (!isAlive() || stopped) return
        call()
        if (!stopped) this.world.after(ms, again)
      }
      this.world.after(ms, again)
      return () => {
        stopped = true
      }
    }
    this.ledger = new RedisLedger(this.link, log, this.unreachable, { now: () => this.world.nowMs, every })
  }

  /** Receives the answer over a second to a minute; extends every 10 s without waiting for the reply. */
  private async stream(ledger: RedisLedger, reservation: Reservation, cost: number, life: number): Promise<void> {
    const total = this.world.delay(10, 90_000)
    for (let past = 0; past < total; past += EXTEND_MS) {
      await this.sleep(Math.min(EXTEND_MS, total - past), life)
      const soFar = amountsOf(Math.floor((cost * Math.min(total, past + EXTEND_MS)) / total))
      Promise.resolve(ledger.extend(reservation, soFar, amountsOf(soFar.costMicroUsd + 50))).catch(letPass)
    }
  }

  private sleep(ms: number, life: number): Promise<void> {
    return new Promise((resolve) => {
      this.world.after(ms, () => {
        if (this.life === life) resolve()
      })
    })
  }
}

/** A stream whose extension fails goes on. */
function letPass(error: unknown): void {
  if (!(error instanceof CallerError)) throw error
}

function amountsOf(costMicroUsd: number): Estimate {
  return { inputTokens: 100, outputTokens: costMicroUsd, costMicroUsd }
}
