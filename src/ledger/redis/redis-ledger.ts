/**
 * The ledger of several processes: the store in Redis, the log of what this node served in its own outbox. Row first,
 * settle second, mark third: whatever dies in between, each request is charged once.
 */

import { CallerError } from '../../core/caller-error.ts'
import type { RedisConfig } from '../../core/redis-config.ts'
import { isPermanent, writeProblem } from '../../redis/redis-errors.ts'
import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../ledger.ts'
import { isHeld, refusalError } from '../refusal.ts'
import type { ReserveReply, SettleReply } from '../reservation-store.ts'
import type { ConcurrencyLimit } from './client/concurrency-limit.ts'
import { type Link, RedisLink } from './client/redis-link.ts'
import { Outbox, PENDING_MAX } from './delivery/outbox.ts'
import type { Settlement } from './delivery/settlement.ts'
import type { Pending, SettlementLog } from './delivery/settlement-log.ts'
import { SettlementsInFlight } from './delivery/settlements-in-flight.ts'
import { DataLossError } from './epochs/epochs.ts'
import { OrganizationSweep } from './epochs/organization-sweep.ts'
import { Restoration } from './epochs/replay.ts'
import { ReserveAttempts } from './store/reserve-attempts.ts'
import { ReserveQueue, ReserveQueueFullError } from './store/reserve-queue.ts'
import { ReserveRetry } from './store/reserve-retry.ts'

/** What becomes of a request while Redis cannot be asked. */
export type WhenUnreachable = 'refuse' | 'allow'

/** The beat on which the outbox is looked through. */
const BEAT_MS = 250
/** Settlements that are resent concurrently. */
const ABREAST = 32
/** Settlements that are resent in one beat. */
const REPLAYED_A_BEAT = 256
/**
 * After a reconnection, what was taken back this long ago is taken back again: an append-only file may lose a second, a
 * failover a few.
 */
const TAIL_MS = 60_000
/** Redis may lose something again while a call is on its way. */
const TRIES = 3
/** Reservations to take back; beyond it the oldest is left to its lease, which charges its floor. */
const CANCELS_MAX = 10_000
/** How often all organisations are looked through. */
const SWEEP_MS = 30_000

/** The clock of this machine, and beats on it; a simulation gives another one. */
export interface Time {
  now(): number
  /** Calls a function again and again; what is returned ends it. */
  every(ms: number, call: () => void): () => void
}

interface Keeping {
  /** How long single requests are kept in the outbox. */
  readonly keepMs?: number | undefined
  /** False for all but one of the processes that share the outbox. */
  readonly isKeeper?: boolean
}

const realTime: Time = {
  now: Date.now,
  every: (ms, call) => {
    const timer = setInterval(call, ms)
    timer.unref()
    return () => clearInterval(timer)
  },
}

/** So long an end waits for them; what is left then is sent from the outbox. */
const CLOSE_MS = 2000

export class RedisLedger implements Ledger {
  /** Reservations to take back; those that were, for a while, as the server may lose that again. */
  private readonly cancels = new Map<string, Account>()
  private readonly cancelled = new Map<string, { readonly account: Account; readonly ms: number }>()
  private readonly organizations = new Set<string>()
  private readonly resending = new Map<string, Promise<void>>()
  /** A reservation is settled once: the log takes everything that it is given. */
  private readonly settled = new WeakSet<Reservation>()
  private readonly stops: readonly (() => void)[]
  private readonly restoration: Restoration
  private readonly settlementsInFlight = new SettlementsInFlight()
  private readonly queue: ReserveQueue
  private readonly patience = new ReserveRetry(this.settlementsInFlight, (ms) => this.after(ms))
  /** Why the last beat failed; undefined where it did not. */
  private trouble: string | undefined
  private working: Promise<void> | undefined
  private comparing: Promise<void> | undefined
  private asking: Promise<string | undefined> | undefined
  /** Redis answers, and took no reservation of an organisation. */
  private standstill: { readonly organization: string; readonly why: string } | undefined
  private closed = false

  constructor(
    private readonly link: Link,
    private readonly outbox: SettlementLog,
    private readonly unreachable: WhenUnreachable,
    private readonly time: Time = realTime,
    /** Looks through all organisations, for all processes that share the outbox. */
    isKeeper = true,
  ) {
    this.queue = new ReserveQueue(time === realTime ? undefined : time)
    const register = (organization: string) => link.register(organization)
    const entered = (organization: string) => this.resend(organization)
    this.restoration = new Restoration(link.store, outbox, link.epochs, register, entered, time.now())
    for (const organization of this.restoration.organizations()) this.organizations.add(organization)
    link.onReady(() => this.reconnected())
    link.onLost(() => this.restoration.doubt(link.lostMs))
    const sweep = new OrganizationSweep(link, outbox, this.restoration)
    const look = () => sweep.run(this.organizations).catch(() => undefined)
    link.onEmptied(look)
    this.stops = [time.every(BEAT_MS, () => this.beat()), ...(isKeeper ? [time.every(SWEEP_MS, look)] : [])]
    this.compareDoubted()
  }

  /**
   * Opens the outbox of a directory and connects. Begins without Redis where it does not answer yet. Throws
   * `RedisUnfitError` where it answers and cannot be used, `LedgerFileError` where the outbox cannot.
   */
  static async open(
    place: RedisConfig,
    directory: string,
    unreachable: WhenUnreachable,
    { keepMs, isKeeper }: Keeping = {},
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

  async reserve(account: Account, hold: Hold): Promise<Reservation> {
    if (this.isFull()) throw unavailable('The log of requests cannot be written.')
    const { breaker } = this.link
    this.remember(account.organization)
    if (!this.link.isFit || !breaker.admits()) return this.without(account, hold)
    const attempts = new ReserveAttempts(this.link, this.queue, account, hold)
    let reply: ReserveReply
    try {
      const ask = () => this.restoring(account.organization, () => attempts.ask())
      reply = await ask()
      if (reply.outcome === 'refused') reply = await this.patience.retry(account, reply, ask)
      breaker.succeeded()
    } catch (error) {
      const why = writeProblem(error)
      // It takes what frees and records all the same.
      if (why !== undefined) this.standstill = { organization: account.organization, why }
      // Neither what one organisation's keys hold nor our own queue is a fault of the server.
      else if (!isPermanent(error) && !(error instanceof ReserveQueueFullError)) breaker.failed()
      if (attempts.isAnyUnanswered && this.unreachable === 'refuse') this.cancelLater(account, hold.id)
      return this.without(account, hold, error)
    }
    // The call without a reply may come late and find room that was not there.
    if (attempts.isAnyUnanswered && reply.outcome === 'refused') this.cancelLater(account, hold.id)
    switch (reply.outcome) {
      case 'granted':
        return { id: hold.id, account, held: hold.estimate, admittedMs: reply.admittedMs, rates: reply.rates }
      case 'refused':
        throw refusalError(account, hold, reply.refusal, reply.rates, this.time.now())
      case 'ended':
        throw new Error(`The reservation '${hold.id}' has ended: an id is for one request.`)
    }
  }

  /** `allow` asks for no room while Redis is out of reach, and so for none of what was reserved then. */
  async extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): Promise<boolean> {
    try {
      if (!this.link.isReady) throw unavailable('The ledger cannot be reached.')
      return isHeld(await this.link.store.extend(reservation.account, reservation.id, soFar, wanted))
    } catch (error) {
      if (this.unreachable === 'allow') return true
      throw error instanceof CallerError ? error : unavailable('The ledger cannot be reached.', error)
    }
  }

  /** Resolves once the settlement is in this node's log, and in Redis or on its way there. */
  async settle(reservation: Reservation, charge: Charge): Promise<'settled' | 'already_settled'> {
    if (this.settled.has(reservation)) return 'already_settled'
    this.settled.add(reservation)
    const { organization } = reservation.account
    return await this.settlementsInFlight.run(organization, (lanes) => this.write(reservation, charge, lanes))
  }

  private after(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.time.every(ms, () => {
        stop()
        resolve()
      })
    })
  }

  private async write(
    reservation: Reservation,
    charge: Charge,
    lanes: ConcurrencyLimit,
  ): Promise<'settled' | 'already_settled'> {
    const { account, id, admittedMs, held } = reservation
    const isSent = this.link.isReady
    const settlement: Settlement = { id, account, admittedMs, charge, heldMicroUsd: held.costMicroUsd }
    // If another epoch is entered before it is in the file, it is not in what is given back to that epoch; if after, it
    // may be.
    const epoch = this.restoration.epochOf(account.organization)
    await this.outbox.add(settlement, isSent)
    // Where Redis went away meanwhile, it is in the outbox, and sent from there.
    const send = () => (this.link.isReady ? this.deliver({ settlement, epoch, wasSent: false }) : 'settled')
    return isSent ? lanes.run(send) : 'settled'
  }

  health(): LedgerHealth {
    const { pending, unread } = this.counted()
    const full = this.outbox.uncommitted > PENDING_MAX
    const isTaking = this.link.isReady && this.standstill === undefined
    return {
      ready: !full && (this.unreachable === 'allow' || isTaking),
      up: !full && isTaking,
      complaint: this.outbox.complaint ?? this.linkComplaint ?? this.trouble ?? unread,
      pending: pending + this.outbox.uncommitted,
    }
  }

  /**
   * Settlements that it does not take either open the breaker: then it still answers, and this is why it takes nothing.
   */
  private get linkComplaint(): string | undefined {
    const why = this.standstill?.why
    return this.link.isConnected ? (why ?? this.link.complaint) : (this.link.complaint ?? why)
  }

  async askHealth(): Promise<LedgerHealth> {
    // Whoever asks meanwhile waits for the same answer.
    this.asking ??= this.link.trouble().finally(() => {
      this.asking = undefined
    })
    const trouble = await this.asking
    const health = this.health()
    if (trouble === undefined) return health
    const complaint = health.complaint ?? trouble
    return { ...health, ready: health.ready && this.unreachable === 'allow', up: false, complaint }
  }

  /** A file that cannot be read now is something to tell of, not to die of. */
  private counted(): { readonly pending: number; readonly unread?: string } {
    try {
      return { pending: this.outbox.pendingCount() }
    } catch (error) {
      return { pending: 0, unread: messageOf(error) }
    }
  }

  async close(): Promise<void> {
    this.closed = true
    for (const stop of this.stops) stop()
    await Promise.all([this.working, this.comparing])
    if (this.link.isReady) {
      this.outbox.commit()
      await Promise.race([this.settlementsInFlight.all(), this.after(CLOSE_MS)])
      await this.replayAll()
    }
    this.link.close()
    this.outbox.close()
  }

  /**
   * More waits than may, and the file does not take it. A burst that merely outran the beat is committed here and now.
   */
  private isFull(): boolean {
    if (this.outbox.uncommitted <= PENDING_MAX) return false
    return this.outbox.complaint !== undefined || !this.outbox.commit()
  }

  /** Redis cannot be asked: serve and remember, or refuse. */
  private without(account: Account, hold: Hold, error?: unknown): Reservation {
    if (this.unreachable === 'allow') return { id: hold.id, account, held: hold.estimate, admittedMs: this.time.now() }
    const isFull = error instanceof ReserveQueueFullError
    throw unavailable(
      isFull ? 'The ledger has more requests than it can answer.' : 'The ledger cannot be reached.',
      error,
    )
  }

  private cancelLater(account: Account, id: string): void {
    if (this.cancels.size >= CANCELS_MAX) {
      const [oldest] = this.cancels.keys()
      if (oldest !== undefined) this.cancels.delete(oldest)
    }
    this.cancels.set(id, account)
  }

  /** Sends one settlement, and marks it if it was taken. What fails stays in the outbox. */
  private async deliver(first: Pending): Promise<'settled' | 'already_settled'> {
    const { id, account } = first.settlement
    const { organization } = account
    const { breaker } = this.link
    let pending: Pending | undefined = first
    try {
      for (let tries = 0; pending !== undefined && tries < TRIES; tries++) {
        const reply = await this.charge(pending)
        breaker.succeeded()
        if (reply !== 'compared') {
          this.outbox.taken(id, organization, pending.epoch)
          // After a comparison another process, or this one, may have sent it already.
          return tries > 0 || reply === 'settled' ? 'settled' : 'already_settled'
        }
        // It may be in what was given back meanwhile: then it is not sent any more.
        const standing = this.outbox.standing(first.settlement)
        pending = standing && { ...standing, epoch: standing.epoch || this.restoration.epochOf(organization) }
      }
    } catch (error) {
      if (isPermanent(error)) this.outbox.postponed(id)
      else breaker.failed()
    }
    return 'settled'
  }

  /**
   * `compared`: nothing was charged, as Redis had lost something. It has all that it lost now, or will have when this
   * one is sent again.
   */
  private async charge({ settlement, epoch, wasSent }: Pending): Promise<SettleReply | 'compared'> {
    const { organization } = settlement.account
    const { store } = this.link
    const from = { node: this.outbox.node, epoch }
    try {
      await this.restoration.assure(organization)
      const reply = await store.settle(settlement, settlement.charge, { from })
      if (reply !== 'unknown') return reply
      // Redis has lost the reservation, or never had it. If the settlement was sent before, Redis may have taken it and
      // forgotten that.
      if (!wasSent) return await store.settle(settlement, settlement.charge, { isDirect: true, from })
      await this.restoration.resolve(organization, epoch)
    } catch (error) {
      if (!(error instanceof DataLossError)) throw error
      await this.restoration.restore(organization)
    }
    return 'compared'
  }

  /** Calls Redis; if it turns out to have lost something, gives that back first, and calls again. */
  private async restoring<T>(organization: string, call: () => Promise<T> | T): Promise<T> {
    await this.restoration.assure(organization)
    for (let tries = 1; ; tries++) {
      await this.resending.get(organization)
      try {
        return await call()
      } catch (error) {
        if (!(error instanceof DataLossError) || tries === TRIES) throw error
        await this.restoration.restore(organization)
      }
    }
  }

  /** Sends at once what an epoch lacks that was entered: reservations of the organisation wait for it. */
  private resend(organization: string): void {
    const sending = this.replay(this.outbox.resent(organization))
      .catch((error: unknown) => {
        this.trouble = messageOf(error)
      })
      .finally(() => {
        if (this.resending.get(organization) === sending) this.resending.delete(organization)
      })
    this.resending.set(organization, sending)
  }

  private beat(): void {
    this.compareDoubted()
    if (this.working !== undefined || this.closed || !this.link.isConnected || !this.link.breaker.admits()) return
    this.working = this.work()
      .then(
        () => {
          this.trouble = undefined
        },
        (error: unknown) => {
          // A file that is full or busy: the next beat tries again, and `health` tells.
          this.trouble = messageOf(error)
        },
      )
      .finally(() => {
        this.working = undefined
      })
  }

  /** All that the outbox holds, as long as Redis takes it. */
  private async replayAll(): Promise<void> {
    for (let before = Number.POSITIVE_INFINITY; this.link.isReady; ) {
      this.outbox.commit()
      const pending = this.outbox.pendingCount()
      if (pending === 0 || pending >= before) return
      before = pending
      await this.replay(this.outbox.pending(REPLAYED_A_BEAT, true))
    }
  }

  private async work(): Promise<void> {
    if (this.link.breaker.isOpen && !(await this.link.probe())) return
    await this.lookWhetherItTakes()
    await this.cancelAll()
    this.outbox.forget()
    await this.replay(this.outbox.pending(REPLAYED_A_BEAT))
  }

  private async lookWhetherItTakes(): Promise<void> {
    const { standstill } = this
    if (standstill === undefined) return
    const { organization } = standstill
    const why = await this.link.standstill(organization).catch(() => standstill.why)
    if (this.standstill === standstill) this.standstill = why === undefined ? undefined : { organization, why }
  }

  private async cancelAll(): Promise<void> {
    const old = this.time.now() - TAIL_MS
    for (const [id, { ms }] of this.cancelled) {
      if (ms >= old) break
      this.cancelled.delete(id)
    }
    for (const [id, account] of this.cancels) {
      try {
        await this.link.store.cancel(account, id)
        this.link.breaker.succeeded()
        this.cancels.delete(id)
        this.cancelled.set(id, { account, ms: this.time.now() })
      } catch (error) {
        if (isPermanent(error)) {
          // Nothing can be reserved under keys that hold something else; the others behind it are not to wait.
          this.cancels.delete(id)
          continue
        }
        // Again on the next beat; until it is acknowledged it stays.
        this.link.breaker.failed()
        return
      }
    }
  }

  private async replay(pending: readonly Pending[]): Promise<void> {
    if (pending.length === 0) return
    for (const { settlement, wasSent } of pending) if (!wasSent) this.outbox.sent(settlement.id)
    // Written down before it is sent: after a kill it must be known that it may have been taken.
    if (!this.outbox.commit()) return
    for (let i = 0; i < pending.length; i += ABREAST) {
      await Promise.all(pending.slice(i, i + ABREAST).map((one) => this.deliver(one)))
      if (!this.link.isReady) return
    }
  }

  /** A server that came back may have lost what it had taken last. */
  private reconnected(): void {
    if (this.closed) return
    const { lostMs } = this.link
    this.restoration.doubt(lostMs)
    for (const [id, { account, ms }] of this.cancelled) {
      if (ms < lostMs - TAIL_MS) continue
      this.cancelled.delete(id)
      this.cancels.set(id, account)
    }
    this.compareDoubted()
  }

  /**
   * What Redis may have lost is looked for now, on the next beat if it cannot be asked, and before anything of the
   * organisation is reserved.
   */
  private compareDoubted(): void {
    const doubts = this.comparing === undefined && !this.closed ? this.restoration.doubts() : []
    if (doubts.length === 0 || !this.link.isReady) return
    this.comparing = this.forAll(doubts, (organization) => this.restoration.assure(organization)).finally(() => {
      this.comparing = undefined
    })
  }

  private remember(organization: string): void {
    if (this.organizations.has(organization)) return
    this.organizations.add(organization)
    this.link.register(organization).catch(() => this.organizations.delete(organization))
  }

  /**
   * Does something for each organisation while Redis can be asked; what is wrong with the keys of one keeps no other
   * from its turn.
   */
  private async forAll(
    organizations: Iterable<string>,
    call: (organization: string) => number | Promise<unknown>,
  ): Promise<void> {
    for (const organization of organizations) {
      if (!this.link.isReady) return
      try {
        await call(organization)
      } catch (error) {
        if (!isPermanent(error)) return
      }
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function unavailable(message: string, cause?: unknown): CallerError {
  return new CallerError('ledger_unavailable', message, { retryAfterSeconds: 1, cause })
}
