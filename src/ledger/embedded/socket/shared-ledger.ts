/**
 * A worker's side of a shared embedded ledger: sends its calls to the owner over a Unix socket, those of a turn of the
 * event loop in one frame. While the owner is away, calls wait for it. Until the owner has written them to its journal,
 * the worker keeps what it needs to repeat them: if the owner is killed, nothing is lost and nothing is counted twice.
 */

import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { MemberList } from '../../../core/member-list.ts'
import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../../ledger.ts'
import { checkEstimate, TERMS } from '../../reservation-store.ts'
import { CallQueue } from './call-queue.ts'
import { LEDGER_SOCKET } from './ledger-server.ts'
import {
  type Answer,
  type Call,
  ExtendCall,
  Granted,
  HealthCall,
  ReserveCall,
  unreachable,
  WAIT_MS,
} from './owner-calls.ts'
import { OwnerLink } from './owner-link.ts'
import { type FromOwner, PROTOCOL, type ToOwner } from './owner-messages.ts'

const RECONNECT_MS = 20
/** How often calls that have waited too long are looked for. */
const CHECK_MS = 50
/** How long `close` waits until the owner has written the last calls. */
const CLOSE_MS = 3000
/** Calls that may wait for the owner; with more, new reservations are refused. */
const UNFINISHED_MAX = 20_000

const AWAY = 'the process that owns the ledger does not answer'
const OTHER = 'the process that owns the ledger is of another version of weir'

/** A call that ends a reservation. */
type Ending = Extract<ToOwner, { type: 'settle' | 'cancel' }>

export class SharedLedger implements Ledger {
  private readonly worker = randomUUID()
  private link: OwnerLink | undefined
  private seq = 0
  /** Calls without an answer. */
  private readonly waiting = new CallQueue<Call>()
  /** Calls that end reservations and are not in the owner's journal yet. */
  private readonly endings = new CallQueue<Ending>()
  /** Reservations that have not ended. */
  private readonly live = new MemberList<Granted>()
  /** The accounts by the indexes that calls have, and the indexes by organisation and key. */
  private readonly accounts: Account[] = []
  private readonly indexes = new Map<string, number>()
  private readonly knownIndexes = new WeakMap<Account, number>()
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

  reserve(account: Account, hold: Hold): Promise<Reservation> {
    if (this.waiting.size + this.endings.size >= UNFINISHED_MAX) return Promise.reject(unreachable())
    const call = new ReserveCall({ type: 'reserve', seq: this.next(), account: this.indexOf(account), hold }, account)
    this.ask(call)
    return call.result
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): Promise<boolean> {
    if (!(reservation instanceof Granted)) return Promise.reject(unknown(reservation))
    const { id, account } = reservation
    const index = this.indexOf(account)
    const call = new ExtendCall({ type: 'extend', seq: this.next(), account: index, id, soFar, wanted }, reservation)
    this.ask(call)
    return call.result
  }

  /** The owner gets it within some milliseconds, or when it is back. */
  settle(reservation: Reservation, charge: Charge): 'settled' | 'already_settled' {
    if (!(reservation instanceof Granted)) throw unknown(reservation)
    checkEstimate(charge)
    if (reservation.place === -1) return 'already_settled'
    this.live.remove(reservation)
    const { id, account, admittedMs, leasedMs } = reservation
    const isDirect = performance.now() - leasedMs < TERMS.leaseMs
    this.end({ type: 'settle', seq: this.next(), account: this.indexOf(account), id, admittedMs, charge, isDirect })
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
    const call = new HealthCall({ type: 'health', seq: this.next() })
    this.ask(call)
    const answered = await call.result
    if (answered !== undefined) this.lastHealth = answered
    else if (this.link !== undefined) this.lastHealth = { ready: false, up: false, complaint: AWAY, pending: 0 }
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

  /** The index of an account; the same for all versions of it that reloads make. */
  private indexOf(account: Account): number {
    // Asked twice for each request: making its name would take 1 % of a worker's CPU time.
    const index = this.knownIndexes.get(account) ?? this.namedIndexOf(account)
    this.accounts[index] = account
    return index
  }

  private namedIndexOf(account: Account): number {
    const name = `${account.organization}\n${account.key}`
    const index = this.indexes.get(name) ?? this.accounts.length
    this.indexes.set(name, index)
    this.knownIndexes.set(account, index)
    return index
  }

  private ask(call: Call): void {
    this.waiting.push(call)
    this.send(call)
    this.limit ??= setTimeout(() => this.check(), CHECK_MS)
  }

  private send(call: Call): void {
    if (this.link === undefined) return
    const { message } = call
    const index = 'account' in message ? message.account : 0
    call.isSent = true
    this.link.send(message, index, this.accounts[index], true)
  }

  private end(call: Ending): void {
    this.endings.push(call)
    this.link?.send(call, call.account, this.accounts[call.account], false)
  }

  /** Gives up calls that have waited too long. */
  private check(): void {
    this.limit = undefined
    const now = performance.now()
    for (const call of this.waiting.snapshot()) {
      if (call.isGivenUp || now - call.sinceMs < call.waitMs) continue
      call.giveUp()
      // The owner may have granted the reservation, or be about to.
      if (call instanceof ReserveCall && call.isSent) {
        const { account, hold } = call.message
        this.end({ type: 'cancel', seq: this.next(), account, id: hold.id })
      }
    }
    if (this.waiting.size > 0) this.limit ??= setTimeout(() => this.check(), CHECK_MS)
  }

  /** Tries until there is an owner. */
  private async connect(): Promise<void> {
    while (!this.isClosed) {
      try {
        this.link = await OwnerLink.connect(this.path, this.worker, {
          message: (message) => this.receive(message),
          closed: () => this.lost(),
        })
        return this.repeat()
      } catch {
        // No owner listens: `health` reports it.
        await Bun.sleep(RECONNECT_MS)
      }
    }
  }

  private lost(): void {
    this.link = undefined
    if (this.isClosed) return
    this.awaySinceMs = performance.now()
    // Not at once: an owner of another version closes each connection.
    setTimeout(() => void this.connect(), RECONNECT_MS)
  }

  /** Sends a new owner what it may not know: reservations first, then all calls that the last one may not have kept. */
  private repeat(): void {
    for (const { account, hold, admittedMs, soFar } of this.live.snapshot()) {
      const index = this.indexOf(account)
      this.link?.send({ type: 'adopt', account: index, hold, admittedMs, soFar }, index, account, true)
    }
    const asked: Call[] = []
    for (let call = this.waiting.shift(); call !== undefined; call = this.waiting.shift())
      if (!call.isGivenUp) asked.push(call)
    const endings = [...this.endings.snapshot()]
    for (const call of asked) {
      for (let ending = endings[0]; ending !== undefined && ending.seq < call.message.seq; ending = endings[0]) {
        this.link?.send(ending, ending.account, this.accounts[ending.account], true)
        endings.shift()
      }
      this.waiting.push(call)
      this.send(call)
    }
    for (const ending of endings) this.link?.send(ending, ending.account, this.accounts[ending.account], true)
  }

  private receive(message: FromOwner): void {
    if (message.type === 'written') return this.forget(message.seq)
    if (message.type !== 'welcome') return this.answer(message)
    if (message.protocol !== PROTOCOL)
      this.lastHealth = { ...this.lastHealth, ready: false, up: false, complaint: OTHER }
  }

  /** Calls are answered in their order. */
  private answer(answer: Answer): void {
    const call = this.waiting.peek()
    if (call?.message.seq !== answer.seq) throw new Error(`The owner of the ledger answered call ${answer.seq} early.`)
    this.waiting.shift()
    if (call.isGivenUp) return
    call.answer(answer)
    if (call instanceof ReserveCall && call.granted !== undefined) this.live.add(call.granted)
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
