/**
 * The connection of one gateway: delays, reorders, duplicates and loses calls and replies, as a network and a client
 * with a timeout do.
 */

import { laterOf } from '../../../src/core/later.ts'
import type { FullStore } from '../../../src/ledger/embedded/socket/full-store.ts'
import { DataLossError, Epochs, type RecoverableStore } from '../../../src/ledger/redis/protocol/epochs.ts'
import type { Link, Surveyed } from '../../../src/ledger/redis/protocol/link.ts'
import { CircuitBreaker } from '../../../src/redis/circuit-breaker.ts'
import type { Server } from './server.ts'
import type { World } from './world.ts'

const TIMEOUT_MS = 250
const RECONNECT_MS = 300

/** One in this many calls. Drawn for each world. */
export interface Faults {
  readonly requestLost: number
  readonly replyLost: number
  readonly doubled: number
  readonly slow: number
}

export class SimulatedLink implements Link {
  readonly store: RecoverableStore
  readonly epochs = new Epochs()
  readonly breaker: CircuitBreaker
  readonly isFit = true
  isConnected = true
  lostMs: number
  onReady = () => {}
  onLost = () => {}
  onEmptied = () => {}

  constructor(
    private readonly world: World,
    private readonly server: Server,
    private readonly faults: Faults,
    private readonly isAlive: () => boolean,
    /** The gateway is cut off: no connection can be opened. */
    private readonly isAway: () => boolean,
  ) {
    this.isConnected = !isAway()
    if (!this.isConnected) this.reconnect()
    this.lostMs = world.nowMs
    this.breaker = new CircuitBreaker(() => world.nowMs)
    this.store = {
      reserve: (account, hold) => laterOf(this.call(() => server.reserve(account, hold))),
      extend: (account, id, soFar, wanted) => this.call((store) => store.extend(account, id, soFar, wanted)),
      settle: (...settlement) => laterOf(this.call(() => server.settle(...settlement))),
      cancel: (account, id) => this.call((store) => store.cancel(account, id)),
      reap: (organization) => this.call((store) => store.reap(organization)),
      figures: (account) => this.call((store) => store.figures(account)),
      enter: (_organization, node, ended) => this.call(() => server.enter(node, ended)),
      figuresOfNode: (node, places) => this.call(() => server.figuresOfNode(node, places)),
      reservations: () => this.call(() => server.known()),
      countersOfNode: (_organization, node, names, ids) => this.call(() => server.countersOfNode(node, names, ids)),
      // The log of a simulated gateway asks for none.
      countersKept: () => Promise.reject(new Error('not simulated')),
      restore: (epoch, node, row) => this.call(() => server.restore(epoch, node, row)),
    }
  }

  get isReady(): boolean {
    return this.isConnected && !this.breaker.isOpen
  }

  get complaint(): string | undefined {
    return this.isReady ? undefined : 'away'
  }

  async probe(): Promise<boolean> {
    try {
      await this.call(() => undefined)
      this.breaker.succeeded()
      return true
    } catch {
      this.breaker.failed()
      return false
    }
  }

  async trouble(): Promise<string | undefined> {
    return this.isConnected ? undefined : 'away'
  }

  async standstill(): Promise<string | undefined> {
    return undefined
  }

  survey(organizations: readonly string[], node: string): Promise<readonly Surveyed[]> {
    return this.call(() => organizations.map((organization) => this.server.survey(organization, node)))
  }

  overdue(): Promise<readonly string[]> {
    return this.call(() => (this.server.takeTurn() ? ['acme'] : []))
  }

  async register(): Promise<void> {}

  close(): void {
    this.isConnected = false
  }

  /** Breaks the connection; it is opened again as soon as the server is up. */
  cut(): void {
    if (!this.isConnected) return
    this.isConnected = false
    this.lostMs = this.world.nowMs
    this.onLost()
    this.reconnect()
  }

  private reconnect(): void {
    this.world.after(this.world.delay(10, RECONNECT_MS), () => {
      if (!this.isAlive()) return
      if (!this.server.isUp || this.isAway()) {
        this.reconnect()
        return
      }
      this.isConnected = true
      this.onReady()
    })
  }

  private call<T>(verb: (store: FullStore) => T): Promise<T> {
    if (!this.isConnected)
      return Promise.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"))
    const { random } = this.world
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    // A dead gateway waits for nothing: its promises stay pending for ever.
    const end = (how: () => void) => {
      if (this.isAlive()) how()
    }
    this.world.after(TIMEOUT_MS, () => end(() => reject(new Error('Command timed out'))))
    if (random.oneIn(this.faults.requestLost)) return promise
    const arrives = (from: number, answer: (value: T) => void) => {
      const isSlow = random.oneIn(this.faults.slow)
      const ms = from + (isSlow ? this.world.delay(200, 3000) : this.world.delay(0.1, 20))
      this.world.after(ms, () => this.arrive(verb, end, answer, reject))
      return ms
    }
    // A client sends unanswered calls again: of a duplicated call the first reply is lost.
    if (random.oneIn(this.faults.doubled))
      arrives(
        arrives(0, () => undefined),
        resolve,
      )
    else arrives(0, resolve)
    return promise
  }

  private arrive<T>(
    verb: (store: FullStore) => T,
    end: (how: () => void) => void,
    resolve: (value: T) => void,
    reject: (error: Error) => void,
  ): void {
    if (!this.server.isUp) {
      end(() => {
        this.cut()
        reject(new Error('Connection is closed.'))
      })
      return
    }
    const answer = this.answerOf(verb, resolve, reject)
    if (this.world.random.oneIn(this.faults.replyLost)) return
    this.world.after(this.world.delay(0.1, 20), () => end(answer))
  }

  private answerOf<T>(
    verb: (store: FullStore) => T,
    resolve: (value: T) => void,
    reject: (error: Error) => void,
  ): () => void {
    try {
      const reply = this.server.ask(verb)
      return () => resolve(reply)
    } catch (error) {
      if (!(error instanceof DataLossError)) throw error
      return () => reject(error)
    }
  }
}
