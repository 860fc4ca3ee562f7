/**
 * A worker's side of a shared embedded ledger: sends its calls to the owner over a Unix socket, those of a turn of the
 * event loop in one frame. While the owner is away, calls wait for it. Until the owner has written them to its journal,
 * the worker keeps what it needs to repeat them: if the owner is killed, nothing is lost and nothing is counted twice.
 */

import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Later } from '../../../core/later.ts'
import { MemberList } from '../../../core/member-list.ts'
import type {
  Account,
  Charge,
  Estimate,
  Hold,
  Ledger,
  LedgerHealth,
  RateStatuses,
  Reservation,
  Settled,
} from '../../ledger.ts'
import { checkEstimate, TERMS } from '../../reservation-store.ts'
import { CallQueue } from './call-queue.ts'
import { FrameError } from './frame-reader.ts'
import { LEDGER_SOCKET } from './ledger-server.ts'
import {
  Call,
  CancelEnding,
  type EndingCall,
  ExtendCall,
  Granted,
  HealthCall,
  ReserveCall,
  SettleEnding,
  unreachable,
  WAIT_MS,
} from './owner-calls.ts'
import { OwnerLink } from './owner-link.ts'
import { type FromOwner, PROTOCOL } from './owner-messages.ts'

const RECONNECT_MS = 20
/** How often calls that have waited too long are looked for. */
const CHECK_MS = 50
/** How long `close` waits until the owner has written the last calls. */
const CLOSE_MS = 3000
/** Calls that may wait for the owner; with more, new reservations are refused. */
const UNFINISHED_MAX = 20_000

const AWAY = 'the process that owns the ledger does not answer'
const OTHER = 'the process that owns the ledger is of another version of weir'
const MISREAD = 'the process that owns the ledger sent what this version of weir does not understand'

export class SharedLedger implements Ledger {
  private readonly worker = randomUUID()
  private link: OwnerLink | undefined
  private seq = 0
  /** Calls without an answer. */
  private readonly waiting = new CallQueue<Call>()
  /** Calls that end reservations and are not in the owner's journal yet. */
  private readonly endings = new CallQueue<EndingCall>()
  /** Reservations that have not ended. */
  private readonly live = new MemberList<Granted>()
  private limit: ReturnType<typeof setTimeout> | undefined
  private awaySinceMs = performance.now()
  private lastHealth: LedgerHealth = { ready: false, up: false, complaint: AWAY, pending: 0 }
  private isClosing = false
  private isClosed = false
  private readonly written = Promise.withResolvers<void>()

  private constructor(private readonly path: string) {}

  /** Connects to the owner of a directory. Resolves when it answers; after 2 s without an answer, too. */
  static async open(directory: string): Promise<SharedLedger> {
    const ledger = new SharedLedger(join(directory, LEDGER_SOCKET))
    const end = performance.now() + WAIT_MS
    void ledger.connect()
    do await ledger.askHealth()
    while (!ledger.lastHealth.up && performance.now() < end)
    return ledger
  }

  reserve(account: Account, hold: Hold, before?: Reservation): Later<Reservation> {
    if (this.waiting.size + this.endings.size >= UNFINISHED_MAX) throw unreachable()
    const call = new ReserveCall(this.next(), account, hold, before)
    this.ask(call)
    return call
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): Later<boolean> {
    if (!(reservation instanceof Granted)) throw unknown(reservation)
    const call = new ExtendCall(this.next(), reservation, soFar, wanted)
    this.ask(call)
    return call
  }

  /** The owner gets it within some milliseconds, or when it is back. */
  settle(reservation: Reservation, charge: Charge): Settled {
    if (!(reservation instanceof Granted)) throw unknown(reservation)
    checkEstimate(charge)
    if (reservation.place === -1) return 'already_settled'
    this.live.remove(reservation)
    const isDirect = performance.now() - reservation.leasedMs < TERMS.leaseMs
    this.end(new SettleEnding(this.next(), reservation, charge, isDirect))
    return 'settled'
  }

  /** Whether this ledger was granted the reservation, and has not ended it. */
  holds(reservation: Reservation): boolean {
    return reservation instanceof Granted && reservation.place !== -1
  }

  /** An owner that is restarted is away for a moment, and calls wait for it: only a longer absence counts. */
  health(): LedgerHealth {
    const pending = this.endings.size
    const isAway = this.link === undefined && performance.now() - this.awaySinceMs >= WAIT_MS
    return isAway ? { ready: false, up: false, complaint: AWAY, pending } : { ...this.lastHealth, pending }
  }

  async askHealth(): Promise<LedgerHealth> {
    const call = new HealthCall(this.next())
    this.ask(call)
    const answered = await call
    if (answered !== undefined) this.lastHealth = answered
    // An earlier complaint is more specific.
    else if (this.link !== undefined && this.lastHealth.up) this.isUnfit(AWAY)
    return this.health()
  }

  /** Waits until the owner has written the last calls. Throws if it does not: then the leases of those requests end. */
  async close(): Promise<void> {
    this.isClosing = true
    if (this.endings.size > 0) await Promise.race([this.written.promise, Bun.sleep(CLOSE_MS)])
    this.isClosed = true
    clearTimeout(this.limit)
    this.link?.close()
    if (this.endings.size > 0)
      throw new Error(`${this.endings.size} settlements did not reach the process that owns the ledger.`)
  }

  private next(): number {
    this.seq += 1
    return this.seq
  }

  private ask(call: Call): void {
    this.waiting.push(call)
    this.send(call)
    this.limit ??= setTimeout(() => this.check(), CHECK_MS)
  }

  private send(call: Call): void {
    if (this.link === undefined) return
    call.isSent = true
    call.write(this.link)
    this.link.frames.soon()
  }

  /** No caller awaits its answer: it is sent with the next message that is urgent. */
  private end(call: EndingCall): void {
    this.endings.push(call)
    if (this.link === undefined) return
    call.write(this.link)
    this.link.frames.eventually()
  }

  /** Gives up calls that have waited too long. */
  private check(): void {
    this.limit = undefined
    const now = performance.now()
    for (const call of this.waiting.snapshot()) {
      if (call.isGivenUp || now - call.sinceMs < call.waitMs) continue
      call.giveUp()
      // One that replaces another is ended by the end of that.
      if (call instanceof ReserveCall && call.isSent && call.before === undefined)
        this.end(new CancelEnding(this.next(), call))
    }
    if (this.waiting.size > 0) this.limit ??= setTimeout(() => this.check(), CHECK_MS)
  }

  /** Tries until there is an owner. */
  private async connect(): Promise<void> {
    while (!this.isClosed) {
      try {
        this.link = await OwnerLink.connect(this.path, this.worker, {
          messages: this.answers,
          closed: (problem) => this.lost(problem),
        })
        return this.repeat(this.link)
      } catch {
        // No owner listens: `health` reports it.
        await Bun.sleep(RECONNECT_MS)
      }
    }
  }

  private lost(problem: FrameError | undefined): void {
    this.link = undefined
    if (this.isClosed) return
    if (problem !== undefined) this.isUnfit(`${MISREAD}: ${problem.message}`)
    this.awaySinceMs = performance.now()
    // Not at once: an owner of another version closes each connection.
    setTimeout(() => void this.connect(), RECONNECT_MS)
  }

  /** Sends a new owner what it may not know: reservations first, then all calls that the last one may not have kept. */
  private repeat(link: OwnerLink): void {
    for (const { account, hold, admittedMs, soFar } of this.live.snapshot())
      link.calls.adopt(link.numberOf(account), hold, admittedMs, soFar)
    const asked: Call[] = []
    for (let call = this.waiting.shift(); call !== undefined; call = this.waiting.shift())
      if (!call.isGivenUp) asked.push(call)
    const endings = [...this.endings.snapshot()]
    for (const call of asked) {
      for (let ending = endings[0]; ending !== undefined && ending.seq < call.seq; ending = endings[0]) {
        ending.write(link)
        endings.shift()
      }
      this.waiting.push(call)
      this.send(call)
    }
    for (const ending of endings) ending.write(link)
    link.frames.soon()
  }

  /** Calls are answered in their order. */
  private answered<Asked>(seq: number, kind: abstract new (...values: never[]) => Asked): Asked {
    const call = this.waiting.peek()
    if (call?.seq !== seq) throw new FrameError(`Call ${seq} is not the next one to be answered.`)
    this.waiting.shift()
    if (!(call instanceof kind)) throw new FrameError(`Call ${seq} has an answer of another kind.`)
    return call
  }

  private isUnfit(complaint: string): void {
    this.lastHealth = { ...this.lastHealth, ready: false, up: false, complaint }
  }

  private readonly answers: Omit<FromOwner, 'takesRemotes'> = {
    welcome: (protocol) => {
      if (protocol !== PROTOCOL) this.isUnfit(OTHER)
    },
    granted: (seq, admittedMs, rates) => this.granted(seq, admittedMs, rates),
    notGranted: (seq, reply) => this.answered(seq, ReserveCall).notGranted(reply),
    extended: (seq, reply) => {
      const call = this.answered(seq, ExtendCall)
      if (!call.isGivenUp) call.extended(reply)
    },
    health: (seq, health) => this.answered(seq, HealthCall).resolve(health),
    failed: (seq, message) => this.answered(seq, Call).failed(message),
    written: (seq) => this.forget(seq),
  }

  private granted(seq: number, admittedMs: number, rates: RateStatuses): void {
    const call = this.answered(seq, ReserveCall)
    // One that was given up has been cancelled since.
    if (call.isGivenUp) return
    const { before } = call
    const granted = call.granted(admittedMs, rates)
    const hasEnded = before !== undefined && !this.holds(before)
    if (!hasEnded) this.live.add(granted)
    if (before instanceof Granted && !hasEnded) this.live.remove(before)
    // Its request may settle it at once.
    call.resolve(granted)
  }

  /** The calls up to `seq` are in the owner's journal. */
  private forget(seq: number): void {
    for (let call = this.endings.peek(); call !== undefined && call.seq <= seq; call = this.endings.peek())
      this.endings.shift()
    if (this.isClosing && this.endings.size === 0) this.written.resolve()
  }
}

function unknown({ id }: Reservation): Error {
  return new Error(`The reservation '${id}' is not from this ledger.`)
}
