/**
 * A worker's side of a shared embedded ledger: sends its calls to the owner over a Unix socket, those of a turn of the
 * event loop in one frame. While the owner is away, calls wait for it. Until the owner has written them to its journal,
 * the worker keeps what it needs to repeat them: if the owner is killed, nothing is lost and nothing is counted twice.
 */

import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../../ledger.ts'
import { type ExtendReply, TERMS } from '../../reservation-store.ts'
import { LEDGER_SOCKET } from './ledger-server.ts'
import {
  type Answer,
  type Call,
  EndCall,
  ExtendCall,
  HealthCall,
  ReserveCall,
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

const NOTHING: Estimate = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }
const AWAY = 'the process that owns the ledger does not answer'
const OTHER = 'the process that owns the ledger is of another version of weir'

/** A reservation that the owner has granted and that has not ended. */
interface Live {
  readonly account: Account
  readonly admittedMs: number
  hold: Hold
  soFar: Estimate
  /** When its lease began, by `performance.now()`. */
  leasedMs: number
}

export class SharedLedger implements Ledger {
  private readonly worker = randomUUID()
  private link: OwnerLink | undefined
  private seq = 0
  /** Calls without an answer, in the order of `seq`. */
  private readonly waiting = new Map<number, Call>()
  /** Calls that end reservations and are not in the owner's journal yet, in the order of `seq`. */
  private readonly endings = new Map<number, EndCall>()
  private readonly live = new Map<string, Live>()
  /** The accounts by the indexes that calls have, and the indexes by organisation and key. */
  private readonly accounts: Account[] = []
  private readonly indexes = new Map<string, number>()
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

  extend({ id, account }: Reservation, soFar: Estimate, wanted: Estimate): Promise<boolean> {
    const index = this.indexOf(account)
    const call = new ExtendCall({ type: 'extend', seq: this.next(), account: index, id, soFar, wanted })
    this.ask(call)
    return call.result
  }

  /** Resolves when the owner has charged it, or after 2 s: then the owner gets it when it is back. */
  settle({ id, account, admittedMs }: Reservation, charge: Charge): Promise<'settled' | 'already_settled'> {
    const live = this.live.get(id)
    if (live === undefined) return Promise.resolve('already_settled')
    this.live.delete(id)
    const isDirect = performance.now() - live.leasedMs < TERMS.leaseMs
    const index = this.indexOf(account)
    const call = new EndCall({ type: 'settle', seq: this.next(), account: index, id, admittedMs, charge, isDirect })
    this.endings.set(call.message.seq, call)
    this.ask(call)
    return call.result
  }

  /** Whether this ledger was granted the reservation, and has not ended it. */
  holds(id: string): boolean {
    return this.live.has(id)
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
    const name = `${account.organization}\n${account.key}`
    let index = this.indexes.get(name)
    if (index === undefined) {
      index = this.accounts.length
      this.indexes.set(name, index)
    }
    this.accounts[index] = account
    return index
  }

  private ask(call: Call): void {
    this.waiting.set(call.message.seq, call)
    this.send(call)
    this.limit ??= setTimeout(() => this.check(), CHECK_MS)
  }

  private send(call: Call): void {
    if (this.link === undefined) return
    const { message } = call
    const index = 'account' in message ? message.account : 0
    call.isSent = true
    this.link.send(message, index, this.accounts[index])
  }

  /** Gives up calls that have waited too long. */
  private check(): void {
    this.limit = undefined
    const now = performance.now()
    for (const [seq, call] of this.waiting) {
      if (now - call.sinceMs < call.waitMs) continue
      this.waiting.delete(seq)
      call.giveUp()
      // The owner may have granted the reservation, or be about to.
      if (call instanceof ReserveCall && call.isSent) this.cancel(call)
    }
    if (this.waiting.size > 0) this.limit ??= setTimeout(() => this.check(), CHECK_MS)
  }

  private cancel({ message }: ReserveCall): void {
    const { account, hold } = message
    const call = new EndCall({ type: 'cancel', seq: this.next(), account, id: hold.id })
    this.endings.set(call.message.seq, call)
    this.ask(call)
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
    void this.connect()
  }

  /** Sends a new owner what it may not know: reservations first, then all calls that the last one may not have kept. */
  private repeat(): void {
    for (const { account, hold, admittedMs, soFar } of this.live.values()) {
      const index = this.indexOf(account)
      this.link?.send({ type: 'adopt', account: index, hold, admittedMs, soFar }, index, account)
    }
    const calls = new Map<number, Call>([...this.endings, ...this.waiting])
    for (const call of [...calls.values()].sort((a, b) => a.message.seq - b.message.seq)) this.send(call)
  }

  private receive(message: FromOwner): void {
    if (message.type === 'written') return this.forget(message.seq)
    if (message.type !== 'welcome') return this.answer(message)
    if (message.protocol !== PROTOCOL)
      this.lastHealth = { ...this.lastHealth, ready: false, up: false, complaint: OTHER }
  }

  private answer(answer: Answer): void {
    const call = this.waiting.get(answer.seq)
    // Given up.
    if (call === undefined) return
    this.waiting.delete(answer.seq)
    if (call instanceof ReserveCall && answer.type === 'reserved' && answer.reply.outcome === 'granted') {
      const { account, hold } = call
      const { admittedMs } = answer.reply
      this.live.set(hold.id, { account, hold, admittedMs, soFar: NOTHING, leasedMs: call.sinceMs })
    }
    if (call instanceof ExtendCall && answer.type === 'extended') this.extended(call, answer.reply)
    // Only a call that changed something will be reported as written.
    if (answer.type === 'ended' && answer.reply !== 'settled' && answer.reply !== 'cancelled') this.drop(answer.seq)
    call.answer(answer)
  }

  private extended({ message, sinceMs, soFar, wanted }: ExtendCall, reply: ExtendReply): void {
    const live = this.live.get(message.id)
    if (live === undefined || reply === 'ended' || reply === 'unknown') return
    live.leasedMs = sinceMs
    live.soFar = soFar
    if (reply === 'extended') live.hold = { ...live.hold, estimate: wanted }
  }

  /** The calls up to `seq` are in the owner's journal. */
  private forget(seq: number): void {
    for (const kept of this.endings.keys()) {
      if (kept > seq) break
      this.drop(kept)
    }
  }

  private drop(seq: number): void {
    this.endings.delete(seq)
    if (this.isClosing && this.endings.size === 0) this.written.resolve()
  }
}
