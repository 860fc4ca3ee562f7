/**
 * The owner's side of a shared embedded ledger: carries out the calls of the workers, which come over a Unix socket in
 * `data_dir`, one after the other.
 */

import { unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Socket } from 'bun'
import { messageOf } from '../../../core/error-message.ts'
import { hasCode } from '../../../core/system-error.ts'
import type { Account, Charge, Estimate, Hold } from '../../ledger.ts'
import { EmbeddedLedger, type EmbeddedLedgerOptions } from '../embedded-ledger.ts'
import { FrameError, FrameReader } from './frame-reader.ts'
import { FrameWriter } from './frame-writer.ts'
import { ACCOUNTS_MAX, AnswerWriter, PROTOCOL, readCall, type ToOwner } from './owner-messages.ts'

export const LEDGER_SOCKET = 'ledger.sock'

/** For how many workers the last call is kept; far more than can run at once. */
const WORKERS_KEPT = 1000

/** A worker that is or was connected. */
interface Worker {
  /** Its last call that ended a reservation: a later connection may send it again. */
  endedSeq: number
}

export class LedgerServer {
  /** For calls of this process, which need no socket. Closed with the server. */
  readonly ledger: EmbeddedLedger
  private readonly connections = new Set<Connection>()
  /** By their names; the one that was connected or closed last is the last. */
  private readonly workers = new Map<string, Worker>()
  private readonly listener

  /** Opens the ledger of a directory and accepts workers. Throws `LedgerFileError`, or `Error` for the socket. */
  constructor(directory: string, options: Omit<EmbeddedLedgerOptions, 'appended'> = {}) {
    this.ledger = EmbeddedLedger.open(directory, { ...options, appended: () => this.written() })
    try {
      this.listener = this.listen(join(directory, LEDGER_SOCKET))
    } catch (error) {
      this.ledger.closeNow()
      throw error
    }
  }

  /** The number of connected workers. */
  get connected(): number {
    return this.connections.size
  }

  /** Closes all connections and the ledger. Throws if changes are lost. */
  close(): void {
    this.listener.stop()
    try {
      this.ledger.closeNow()
    } finally {
      this.listener.stop(true)
    }
  }

  private listen(path: string) {
    // The lock on the directory is held, so this is the socket of an owner that is gone.
    try {
      unlinkSync(path)
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
    const mask = process.umask(0o177)
    try {
      return Bun.listen<Connection>({
        unix: path,
        socket: {
          open: (socket) => {
            socket.data = new Connection(socket, this.ledger, this.workers)
            this.connections.add(socket.data)
          },
          data: (socket, bytes) => socket.data.receive(bytes),
          drain: (socket) => socket.data.drain(),
          close: (socket) => {
            this.connections.delete(socket.data)
            socket.data.closed()
          },
          // The worker is gone; `close` follows.
          error: () => {},
        },
      })
    } finally {
      process.umask(mask)
    }
  }

  private written(): void {
    for (const connection of this.connections) connection.written()
  }
}

class Connection implements ToOwner {
  private readonly reader = new FrameReader()
  private readonly frames: FrameWriter
  private readonly answers: AnswerWriter
  private readonly accounts: Account[] = []
  private name = ''
  private worker: Worker | undefined
  /** The last call that ended a reservation and is not in the journal's file yet. */
  private unwritten = 0
  private isRejected = false

  constructor(
    private readonly socket: Socket<Connection>,
    private readonly ledger: EmbeddedLedger,
    private readonly workers: Map<string, Worker>,
  ) {
    this.frames = new FrameWriter(socket)
    this.answers = new AnswerWriter(this.frames)
  }

  receive(bytes: Buffer): void {
    if (this.isRejected) return
    try {
      this.reader.read(bytes, this.take)
    } catch (error) {
      if (!(error instanceof FrameError)) throw error
      this.reject()
    }
    // Calls that changed nothing are not followed by a group of the journal.
    if (this.unwritten > 0 && this.ledger.isWritten) this.written()
    // All calls of a read have been carried out: nothing would be gathered by waiting for the end of the turn.
    this.frames.flush()
  }

  drain(): void {
    this.frames.drain()
  }

  /** All changes so far are in the journal's file. */
  written(): void {
    if (this.unwritten === 0) return
    this.answers.written(this.unwritten)
    this.frames.flush()
    this.unwritten = 0
  }

  closed(): void {
    if (this.worker !== undefined) this.keepWorker(this.worker)
  }

  hello(protocol: number, worker: string, asksWhatIsTaken: boolean): void {
    this.answers.welcome(PROTOCOL)
    if (protocol !== PROTOCOL) throw new FrameError(`The worker speaks version ${protocol} of the protocol.`)
    if (asksWhatIsTaken) this.answers.takesRemotes()
    this.name = worker
    this.worker = this.workers.get(worker) ?? { endedSeq: 0 }
    this.keepWorker(this.worker)
  }

  account(number: number, account: Account): void {
    if (!Number.isInteger(number) || number < 0 || number >= ACCOUNTS_MAX)
      throw new FrameError(`${number} is not a number of an account.`)
    this.accounts[number] = account
  }

  adopt(account: number, hold: Hold, admittedMs: number, soFar: Estimate): void {
    const known = this.accountOf(account)
    checked(() => this.ledger.store.adopt(known, hold, admittedMs, soFar))
  }

  reserve(seq: number, account: number, hold: Hold): void {
    const { ledger, answers } = this
    const known = this.accountOf(account)
    if (ledger.isFull()) return answers.notGranted(seq, { outcome: 'full' })
    try {
      const reply = ledger.store.reserve(known, hold)
      if (reply.outcome === 'granted') answers.granted(seq, reply.admittedMs, reply.rates)
      else answers.notGranted(seq, reply)
    } catch (error) {
      this.failed(seq, error)
    }
  }

  extend(seq: number, account: number, id: string, soFar: Estimate, wanted: Estimate): void {
    const known = this.accountOf(account)
    try {
      this.answers.extended(seq, this.ledger.store.extend(known, id, soFar, wanted))
    } catch (error) {
      this.failed(seq, error)
    }
  }

  settle(seq: number, account: number, id: string, admittedMs: number, charge: Charge, isDirect: boolean): void {
    const known = this.accountOf(account)
    if (this.isNew(seq, id))
      checked(() => this.ledger.store.settle({ account: known, id, admittedMs }, charge, { isDirect }))
  }

  cancel(seq: number, account: number, id: string): void {
    const known = this.accountOf(account)
    if (this.isNew(seq, id)) this.ledger.store.cancel(known, id)
  }

  health(seq: number): void {
    this.answers.health(seq, this.ledger.health())
  }

  private readonly take = (type: number) => readCall(type, this.reader, this)

  /** Ends the connection: nothing that follows in it can be understood. */
  private reject(): void {
    this.isRejected = true
    this.frames.flush()
    this.socket.end()
  }

  private failed(seq: number, error: unknown): void {
    this.answers.failed(seq, messageOf(error))
  }

  /** Whether this call has not ended the reservation before: the worker sends all again that it has not heard of. */
  private isNew(seq: number, id: string): boolean {
    const { worker } = this
    if (worker === undefined) throw new FrameError('A call came before the first message.')
    this.unwritten = seq
    const { recentlyEnded } = this.ledger
    if (seq <= worker.endedSeq || (recentlyEnded.size > 0 && recentlyEnded.has(id))) return false
    worker.endedSeq = seq
    return true
  }

  private keepWorker(worker: Worker): void {
    const { workers } = this
    workers.delete(this.name)
    workers.set(this.name, worker)
    for (const [oldest] of workers) {
      if (workers.size <= WORKERS_KEPT) break
      workers.delete(oldest)
    }
  }

  private accountOf(number: number): Account {
    const account = this.accounts[number]
    if (account === undefined) throw new FrameError(`No account has the number ${number}.`)
    return account
  }
}

/** Amounts are checked before a worker sends them, so that wrong ones are a fault of the frame. */
function checked(change: () => unknown): void {
  try {
    change()
  } catch (error) {
    throw error instanceof RangeError ? new FrameError(error.message) : error
  }
}
