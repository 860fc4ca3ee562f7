/**
 * The owner's side of a shared embedded ledger: carries out the calls of the workers, which come over a Unix socket in
 * `data_dir`, one after the other.
 */

import { unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Socket } from 'bun'
import { hasCode } from '../../../core/system-error.ts'
import type { Account, Ledger } from '../../ledger.ts'
import { EmbeddedLedger } from '../embedded-ledger.ts'
import type { Clock } from '../memory-store.ts'
import { OwnedStore } from '../owned-store.ts'
import { FullStore } from './full-store.ts'
import { FrameReader, FrameWriter } from './message-frames.ts'
import { type FromOwner, PROTOCOL, type ToOwner } from './owner-messages.ts'

export const LEDGER_SOCKET = 'ledger.sock'

/** Of how many workers the last call is kept; far more than can run at once. */
const WORKERS_KEPT = 1000

/** A call that ends a reservation. */
type Ending = Extract<ToOwner, { type: 'settle' | 'cancel' }>

interface LedgerServerOptions {
  readonly keepMs?: number | undefined
  /** True if workers of an earlier owner may still run. */
  readonly isTakeover?: boolean | undefined
  readonly clock?: Clock
}

export class LedgerServer {
  private readonly owned: OwnedStore<FullStore>
  private readonly connections = new Set<Connection>()
  /** The last call of each worker that ended a reservation: a later connection may send it again. */
  private readonly ended = new Map<string, number>()
  private readonly listener

  /** For calls of this process, which need no socket. Closed with the server. */
  readonly ledger: Ledger

  /** Opens the ledger of a directory and accepts workers. Throws `LedgerFileError`, or `Error` for the socket. */
  constructor(directory: string, { keepMs, isTakeover, clock }: LedgerServerOptions = {}) {
    this.owned = OwnedStore.open(directory, (...parts) => new FullStore(...parts), {
      clock,
      keepMs,
      isTakeover,
      appended: () => this.written(),
    })
    this.ledger = new EmbeddedLedger(this.owned)
    try {
      this.listener = this.listen(join(directory, LEDGER_SOCKET))
    } catch (error) {
      this.owned.close()
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
      this.owned.close()
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
            socket.data = new Connection(socket, this.owned, this.ended)
            this.connections.add(socket.data)
          },
          data: (socket, bytes) => socket.data.receive(bytes),
          drain: (socket) => socket.data.drain(),
          close: (socket) => void this.connections.delete(socket.data),
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

class Connection {
  private readonly reader = new FrameReader<ToOwner>()
  private readonly writer: FrameWriter<FromOwner>
  private readonly accounts: Account[] = []
  private worker = ''
  /** The last call that ended a reservation and is not in the journal's file yet. */
  private unwritten = 0

  constructor(
    private readonly socket: Socket<Connection>,
    private readonly owned: OwnedStore<FullStore>,
    private readonly ended: Map<string, number>,
  ) {
    this.writer = new FrameWriter(socket)
  }

  receive(bytes: Uint8Array): void {
    for (const message of this.reader.read(bytes)) this.handle(message)
    // Calls that changed nothing are not followed by a group of the journal.
    if (this.unwritten > 0 && this.owned.isWritten) this.written()
    // All calls of a frame have been carried out: nothing would be gathered by waiting for the end of the turn.
    this.writer.flush()
  }

  drain(): void {
    this.writer.drain()
  }

  /** All changes so far are in the journal's file. */
  written(): void {
    if (this.unwritten === 0) return
    this.writer.add({ type: 'written', seq: this.unwritten })
    this.writer.flush()
    this.unwritten = 0
  }

  private handle(message: ToOwner): void {
    switch (message.type) {
      case 'hello':
        this.worker = message.worker
        this.writer.add({ type: 'welcome', protocol: PROTOCOL })
        if (message.protocol !== PROTOCOL) this.socket.end()
        return
      case 'account':
        this.accounts[message.index] = message.account
        return
      default:
        try {
          this.carryOut(message)
        } catch (error) {
          // These have no answer, and their amounts were checked before they were sent.
          if (message.type === 'adopt' || message.type === 'settle' || message.type === 'cancel') throw error
          const why = error instanceof Error ? error.message : String(error)
          this.writer.add({ type: 'failed', seq: message.seq, message: why })
        }
    }
  }

  private carryOut(message: Exclude<ToOwner, { type: 'hello' | 'account' }>): void {
    const { writer, owned } = this
    const { store } = owned
    switch (message.type) {
      case 'adopt':
        return store.adopt(this.account(message.account), message.hold, message.admittedMs, message.soFar)
      case 'reserve': {
        const { seq, hold } = message
        const reply = owned.isFull()
          ? ({ outcome: 'full' } as const)
          : store.reserve(this.account(message.account), hold)
        return writer.add({ type: 'reserved', seq, reply })
      }
      case 'extend': {
        const { seq, id, soFar, wanted } = message
        return writer.add({
          type: 'extended',
          seq,
          reply: store.extend(this.account(message.account), id, soFar, wanted),
        })
      }
      case 'settle':
      case 'cancel':
        return this.end(message)
      case 'health':
        return writer.add({ type: 'health', seq: message.seq, health: owned.health() })
    }
  }

  /** Ends a reservation, unless this call has done so before: the worker sends all again that it has not heard of. */
  private end(call: Ending): void {
    const { seq, id } = call
    const { store, recentlyEnded } = this.owned
    this.unwritten = seq
    if (seq <= (this.ended.get(this.worker) ?? 0) || recentlyEnded.has(id)) return
    this.ended.delete(this.worker)
    this.ended.set(this.worker, seq)
    for (const [oldest] of this.ended) {
      if (this.ended.size <= WORKERS_KEPT) break
      this.ended.delete(oldest)
    }
    const account = this.account(call.account)
    if (call.type === 'cancel') {
      store.cancel(account, id)
      return
    }
    const { admittedMs, charge, isDirect } = call
    store.settle({ account, id, admittedMs }, charge, { isDirect })
  }

  private account(index: number): Account {
    const account = this.accounts[index]
    if (account === undefined) throw new RangeError(`No account has the index ${index}.`)
    return account
  }
}
