/**
 * The ledger for several processes: the store is in Redis, and each node logs the requests that it served in its own
 * outbox. A settlement is written to the outbox, then sent to Redis, then marked as taken: each request is charged
 * once, whichever process or server dies in between.
 */

import { CallerError } from '../../core/caller-error.ts'
import { Later, type LaterListener, laterOf } from '../../core/later.ts'
import type { RedisConfig, ReservationPipeline } from '../../core/redis-config.ts'
import { commandProblem, isPermanent, writeProblem } from '../../redis/redis-errors.ts'
import {
  type Account,
  type Charge,
  type Estimate,
  type Hold,
  type Ledger,
  type LedgerHealth,
  type RateStatuses,
  type Reservation,
  type Settled,
  turnOf,
} from '../ledger.ts'
import { isHeld, reservationOf, unreachedError } from '../refusal.ts'
import type { ReserveReply } from '../reservation-store.ts'
import type { UsageRow } from '../usage-log.ts'
import { Cancellations } from './delivery/cancellations.ts'
import { SettleCall } from './delivery/settle-call.ts'
import { SettlementSender } from './delivery/settlement-sender.ts'
import { SettlementsInFlight } from './delivery/settlements-in-flight.ts'
import { NodeHealth, type WhenUnreachable } from './node-health.ts'
import { after, realTime, type Time } from './node-time.ts'
import { NodeUpkeep } from './node-upkeep.ts'
import { Outbox, PENDING_MAX } from './outbox/outbox.ts'
import { DataLossError } from './protocol/epochs.ts'
import type { Link } from './protocol/link.ts'
import type { NodeLog } from './protocol/node-log.ts'
import type { Settlement } from './protocol/settlement.ts'
import { type AccountFinder, type PassedBudget, PassedBudgets } from './recovery/passed-budgets.ts'
import { Restoration } from './recovery/restoration.ts'
import { RedisLink } from './redis-link.ts'
import { ReserveAttempts } from './reserving/reserve-attempts.ts'
import { ReserveQueue, ReserveQueueFullError } from './reserving/reserve-queue.ts'
import { ReserveRetry } from './reserving/reserve-retry.ts'

/** Calls are tried 3 times if Redis loses data: it may lose data again meanwhile. */
const TRIES = 3

interface OutboxOptions {
  /** How long single requests are kept in the outbox, in milliseconds. */
  readonly keepMs?: number | undefined
  /** False for all but one of the processes that share the outbox. */
  readonly isKeeper?: boolean
}

/** How long `close` waits for settlements in flight; the outbox sends the others later. */
const CLOSE_MS = 2000
/** Nothing waits for a settlement of a process that ends. */
const UNHEARD = { committed: () => undefined }

class RedisReservation implements Reservation {
  readonly id: string
  readonly held: Estimate
  isSettled = false

  constructor(
    readonly account: Account,
    { id, estimate }: Hold,
    readonly admittedMs: number,
    readonly rates: RateStatuses | undefined,
  ) {
    this.id = id
    this.held = estimate
  }
}

/**
 * The first call of a reservation. Nearly always it is granted, and nothing else is awaited: async functions between
 * here and Redis kept eight promises for each request.
 */
class FirstCall extends Later<Reservation> implements LaterListener<ReserveReply> {
  constructor(
    private readonly ledger: RedisLedger,
    private readonly attempts: ReserveAttempts,
    private readonly account: Account,
    private readonly hold: Hold,
  ) {
    super()
  }

  resolved(reply: ReserveReply): void {
    if (reply.outcome !== 'granted') return this.goOn(Promise.resolve(reply))
    this.attempts.granted()
    this.ledger.granted(this.hold)
    this.resolve(new RedisReservation(this.account, this.hold, reply.admittedMs, reply.rates))
  }

  rejected(error: unknown): void {
    this.goOn(Promise.reject(error))
  }

  private goOn(begun: Promise<ReserveReply>): void {
    const { ledger, attempts, account, hold } = this
    this.follow(ledger.reserveOn(attempts, account, hold, attempts.goOn(begun)))
  }
}

export class RedisLedger implements Ledger {
  private readonly cancellations: Cancellations
  private readonly organizations = new Set<string>()
  private readonly resending = new Map<string, Promise<void>>()
  private readonly restoration: Restoration
  private readonly delivery: SettlementSender
  private readonly settlementsInFlight = new SettlementsInFlight()
  private readonly passed = new PassedBudgets()
  private readonly ownHealth: NodeHealth
  private readonly upkeep: NodeUpkeep
  private readonly queue: ReserveQueue
  private readonly reserveRetry = new ReserveRetry(this.settlementsInFlight, (ms) => after(this.time, ms))

  constructor(
    private readonly link: Link,
    private readonly outbox: NodeLog,
    private readonly unreachable: WhenUnreachable,
    private readonly time: Time = realTime,
    /** True for one of the processes that share the outbox: it sweeps over all organisations. */
    isKeeper = true,
  ) {
    this.ownHealth = new NodeHealth(link, outbox, unreachable)
    this.cancellations = new Cancellations(link, () => time.now())
    this.queue = new ReserveQueue(time === realTime ? undefined : time)
    const register = (organization: string) => link.register(organization)
    const entered = (organization: string, lacked: readonly UsageRow[]) => {
      this.passed.note(organization, lacked)
      this.resend(organization)
    }
    this.restoration = new Restoration(link.store, outbox, link.epochs, register, entered, time.now())
    this.delivery = new SettlementSender(link, outbox, this.restoration)
    for (const organization of this.restoration.organizations()) this.organizations.add(organization)
    const { restoration, cancellations, delivery, ownHealth } = this
    this.upkeep = new NodeUpkeep(link, outbox, restoration, cancellations, delivery, ownHealth, time, isKeeper)
  }

  /**
   * Opens the outbox in a directory and connects. Begins without Redis if it does not reply yet. Throws
   * `RedisUnfitError` if Redis replies but cannot be used, `LedgerFileError` if the outbox cannot be used.
   */
  static async open(
    place: RedisConfig,
    directory: string,
    unreachable: WhenUnreachable,
    { keepMs, isKeeper }: OutboxOptions = {},
  ): Promise<RedisLedger> {
    const outbox = new Outbox(directory, Date.now, keepMs)
    const link = new RedisLink(place, outbox)
    try {
      await link.start()
      return new RedisLedger(link, outbox, unreachable, realTime, isKeeper)
    } catch (error) {
      link.close()
      outbox.close()
      throw error
    }
  }

  reserve(account: Account, hold: Hold, before?: Reservation): Later<Reservation> {
    const { organization } = account
    const { breaker } = this.link
    const attempts = new ReserveAttempts(this.link, this.queue, account, hold, before !== undefined)
    const isUsual =
      !this.isFull() &&
      this.link.isFit &&
      !breaker.isOpen &&
      !this.restoration.isDoubted(organization) &&
      !this.resending.has(organization)
    const first = new FirstCall(this, attempts, account, hold)
    if (!isUsual || !attempts.begin(first)) return laterOf(this.reserveOn(attempts, account, hold))
    this.register(organization)
    return first
  }

  /**
   * Reserves, whatever the replies are. `begun`: the first call, if it is sent already. Throws `CallerError` if a limit
   * rejects the request or Redis cannot be reached.
   */
  async reserveOn(
    attempts: ReserveAttempts,
    account: Account,
    hold: Hold,
    begun?: Promise<ReserveReply>,
  ): Promise<Reservation> {
    if (begun === undefined) {
      if (this.isFull()) throw unavailable('The log of requests cannot be written.')
      this.register(account.organization)
      if (!this.link.isFit || !this.link.breaker.admits()) return this.without(account, hold)
    }
    const { breaker } = this.link
    let reply: ReserveReply
    try {
      const reserve = (first?: Promise<ReserveReply>) =>
        this.restoring(account.organization, () => attempts.reserve(), first)
      reply = await reserve(begun)
      // While spend is given back, a part of it may count twice: then no limit may be at fault.
      if (reply.outcome === 'refused' && this.link.epochs.isOwed(account.organization))
        reply = await this.restoration.quietly(account.organization, reserve)
      if (reply.outcome === 'refused') reply = await this.reserveRetry.retry(account, reply, () => reserve())
      breaker.succeeded()
    } catch (error) {
      const why = writeProblem(error)
      // Redis rejects new reservations, but still releases and records: the breaker stays closed.
      if (why !== undefined) this.ownHealth.writeRejected(account.organization, why)
      // Unexpected data in one organisation's keys and our own full queue are no faults of the server.
      else if (!isPermanent(error) && !(error instanceof ReserveQueueFullError)) breaker.failed()
      if (attempts.mayBeHeld && this.unreachable === 'refuse') this.cancellations.add(account, hold)
      return this.without(account, hold, error)
    }
    // The call without a reply may arrive late and find room that was missing before.
    if (attempts.mayBeHeld && reply.outcome === 'refused') this.cancellations.add(account, hold)
    if (reply.outcome === 'granted') this.granted(hold)
    const { admittedMs, rates } = reservationOf(account, hold, reply, this.time.now())
    return new RedisReservation(account, hold, admittedMs, rates)
  }

  /** What a candidate before it was refused is not cancelled any more: the settlement of this one ends it. */
  granted(hold: Hold): void {
    if (turnOf(hold) > 0) this.cancellations.drop(hold.id)
  }

  /**
   * Posts progress and asks for more room. With `allow`, true if Redis cannot be reached. Throws `CallerError`
   * `ledger_unavailable` with `refuse`.
   */
  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): Later<boolean> {
    return laterOf(this.extendNow(reservation, soFar, wanted))
  }

  private async extendNow(reservation: Reservation, soFar: Estimate, wanted: Estimate): Promise<boolean> {
    try {
      if (!this.link.isReady) throw unreachedError()
      return isHeld(await this.link.store.extend(reservation.account, reservation.id, soFar, wanted))
    } catch (error) {
      if (this.unreachable === 'allow') return true
      throw error instanceof CallerError ? error : unreachedError(error)
    }
  }

  /** Resolves when the settlement is in this node's outbox; it is in Redis, or the outbox sends it later. */
  settle(reservation: Reservation, charge: Charge): Settled | Later<Settled> {
    if (reservation instanceof RedisReservation) {
      // The outbox itself does not detect a second settlement.
      if (reservation.isSettled) return 'already_settled'
      reservation.isSettled = true
    }
    const { account, id, admittedMs, held } = reservation
    const settlement: Settlement = { id, account, admittedMs, charge, heldMicroUsd: held.costMicroUsd }
    const { link, delivery, settlementsInFlight } = this
    const isSent = link.isReady
    // Read before the settlement is in the file: if this node enters another epoch afterwards, the settlement may be in
    // the rows that it gives back to that epoch, and must not be sent under the new one.
    const epoch = link.epochs.of(account.organization)
    const settling = new SettleCall(settlement, epoch, isSent, link, delivery, settlementsInFlight)
    this.outbox.add(settlement, isSent, settling)
    return settling
  }

  get pipeline(): ReservationPipeline | undefined {
    return this.link.pipeline
  }

  health(): LedgerHealth {
    return this.ownHealth.get()
  }

  askHealth(): Promise<LedgerHealth> {
    return this.ownHealth.ask()
  }

  /**
   * Reports the budgets that are passed since this process gave back what Redis had lost, each once. Throws if Redis
   * does not answer.
   */
  reportPassed(accountOf: AccountFinder, report: (passed: PassedBudget) => void): Promise<void> {
    const isComplete = (organization: string) =>
      this.link.isReady &&
      !this.link.epochs.isOwed(organization) &&
      !this.resending.has(organization) &&
      this.outbox.resent(organization).length === 0
    return this.passed.report({ store: this.link.store, accountOf, isComplete, nowMs: this.time.now() }, report)
  }

  async close(): Promise<void> {
    await this.upkeep.close()
    if (this.link.isReady) {
      this.outbox.commit()
      await Promise.race([this.settlementsInFlight.all(), after(this.time, CLOSE_MS)])
      await this.cancellations.send()
      await this.delivery.sendAll()
    }
    // Another process sends them: this one does not end later because of them.
    for (const one of this.cancellations.asSettlements()) this.outbox.add(one, false, UNHEARD)
    this.link.close()
    this.outbox.close()
  }

  /**
   * True if the outbox has too many uncommitted settlements and cannot write them. If a burst merely exceeded the
   * commit interval, commits them now.
   */
  private isFull(): boolean {
    if (this.outbox.uncommitted <= PENDING_MAX) return false
    return this.outbox.complaint !== undefined || !this.outbox.commit()
  }

  /** Redis cannot be reached: serves the request without a reservation, or throws. */
  private without(account: Account, hold: Hold, error?: unknown): Reservation {
    if (this.unreachable === 'allow') return new RedisReservation(account, hold, this.time.now(), undefined)
    if (!(error instanceof ReserveQueueFullError)) throw unreachedError(error)
    throw unavailable('The ledger has more requests than it can answer.', error)
  }

  /** Calls Redis. If Redis has lost data, gives it back and retries. `begun`: the first call, if it is sent already. */
  private async restoring<T>(organization: string, call: () => Promise<T>, begun?: Promise<T>): Promise<T> {
    if (begun === undefined && this.restoration.isDoubted(organization)) await this.restoration.serve(organization)
    for (let tries = 1, first = begun; ; tries++, first = undefined) {
      const resending = first === undefined ? this.resending.get(organization) : undefined
      if (resending !== undefined) await resending
      try {
        return await (first ?? call())
      } catch (error) {
        if (!(error instanceof DataLossError) || tries === TRIES) throw error
        await this.restoration.serve(organization)
      }
    }
  }

  /** Sends the settlements that a newly entered epoch lacks; reservations of the organisation wait for them. */
  private resend(organization: string): void {
    const sending = this.delivery
      .resend(this.outbox.resent(organization))
      .catch((error: unknown) => {
        this.ownHealth.workProblem = commandProblem(error)
      })
      .finally(() => {
        if (this.resending.get(organization) === sending) this.resending.delete(organization)
      })
    this.resending.set(organization, sending)
  }

  private register(organization: string): void {
    if (this.organizations.has(organization)) return
    this.organizations.add(organization)
    this.link.register(organization).catch(() => this.organizations.delete(organization))
  }
}

function unavailable(message: string, cause?: unknown): CallerError {
  return new CallerError('ledger_unavailable', message, { retryAfterSeconds: 1, cause })
}
