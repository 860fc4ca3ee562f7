/**
 * The process that owns the embedded ledger, as the supervisor sees it: started before the workers, started again at
 * once when it dies, since their requests wait for it, and ended after them.
 */

import type { LedgerPlace, LedgerRole } from '../../assembly/open-ledger.ts'
import { messageOf } from '../../core/error-message.ts'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'
import { type FromLedgerOwner, isTyped, LEDGER_PROTOCOL, type ToLedgerOwner } from '../ipc/ipc.ts'
import { ChildProcess } from './child-process.ts'
import { Heartbeat } from './heartbeat.ts'
import { RestartBackoff } from './restart-backoff.ts'
import { workerCommand, workerEnvironment } from './worker-command.ts'

const BACKOFF_MS_MIN = 10
const BACKOFF_MS_MAX = 1000
/** A new process that has not loaded its code by then is ended. */
const LOAD_MS_MAX = 10_000
/** How long the process may take to write what it has. */
const STOP_MS_MAX = 5000

interface LedgerProcessOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly logger: Logger
  readonly place: LedgerPlace
}

/** One process, from its start to its end. */
class Incarnation {
  readonly greeted = Promise.withResolvers<number>()
  readonly owned = Promise.withResolvers<void>()
  readonly exited = Promise.withResolvers<string>()
  readonly startedMs = performance.now()
  private readonly process: ChildProcess<ToLedgerOwner>
  private readonly heartbeat: Heartbeat

  constructor({ env, logger }: LedgerProcessOptions) {
    for (const { promise } of [this.greeted, this.owned]) promise.catch(() => {})
    this.process = new ChildProcess({
      command: workerCommand('ledger-owner'),
      env: workerEnvironment(env),
      onMessage: (message) => {
        if (isTyped<FromLedgerOwner>(message)) this.receive(message)
      },
      onExit: (how) => this.ended(how),
    })
    this.heartbeat = new Heartbeat({
      ask: () => this.send({ type: 'ping' }),
      lost: (silentMs) => {
        logEvent(logger, 'ledger.owner_stuck', { pid: this.pid, silent_ms: silentMs })
        this.kill()
      },
    })
    if (env['BUN_INSPECT'] === undefined) this.heartbeat.start()
  }

  get pid(): number | undefined {
    return this.process.pid
  }

  send(message: ToLedgerOwner): void {
    this.process.send(message)
  }

  /** It does so as soon as it has loaded its code: requests wait. */
  own(place: LedgerPlace, role: LedgerRole): void {
    this.send({ type: 'own', place, role, protocol: LEDGER_PROTOCOL })
  }

  kill(): void {
    this.process.kill('SIGKILL')
  }

  private receive(message: FromLedgerOwner): void {
    this.heartbeat.heard()
    if (message.type === 'hello') this.greeted.resolve(message.protocol)
    if (message.type === 'owned') this.owned.resolve()
    if (message.type === 'failed') this.owned.reject(new LedgerOwnerProblem(message.reason))
  }

  private ended(how: string): void {
    this.heartbeat.stop()
    this.greeted.reject(new LedgerOwnerProblem(`it ended (${how})`))
    this.owned.reject(new LedgerOwnerProblem(`it ended (${how})`))
    this.exited.resolve(how)
  }
}

/** Why the process cannot own the ledger, for the operator. */
export class LedgerOwnerProblem extends Error {
  override readonly name = 'LedgerOwnerProblem'
}

export class LedgerProcess {
  private current: Incarnation
  private isEnding = false
  private readonly backoff = new RestartBackoff(BACKOFF_MS_MIN, BACKOFF_MS_MAX)
  /** The protocol of the program file, while it is another one: logged once, not with each process that is tried. */
  private refused: number | undefined
  /** When the process ended that no other has followed as the owner yet. */
  private endedMs: number | undefined

  /** Starts the process, which loads its code. */
  constructor(private readonly options: LedgerProcessOptions) {
    this.current = new Incarnation(options)
  }

  /** The id of the process that owns the ledger, or is about to; undefined if it could not be started. */
  get pid(): number | undefined {
    return this.current.pid
  }

  /** Resolves when the process owns the ledger. Rejects with a `LedgerOwnerProblem` if it cannot. */
  async start(): Promise<void> {
    this.current.own(this.options.place, 'owner')
    await this.current.owned.promise
    this.watch(this.current)
  }

  /**
   * Replaces the process by one that is started from the program file as it is now. Workers wait for the new one.
   * Resolves to the reason why the old one stays; undefined if it was replaced.
   */
  async replace(): Promise<string | undefined> {
    const next = new Incarnation(this.options)
    const late = setTimeout(() => next.kill(), LOAD_MS_MAX)
    try {
      const protocol = await next.greeted.promise
      if (protocol !== LEDGER_PROTOCOL) {
        next.kill()
        return mismatch(protocol)
      }
    } catch (error) {
      if (error instanceof LedgerOwnerProblem) return error.message
      throw error
    } finally {
      clearTimeout(late)
    }
    const old = this.current
    this.current = next
    await stopped(old)
    next.own(this.options.place, 'successor')
    this.watch(next)
    return undefined
  }

  /** Ends the process after it has written everything. Call it when no worker runs any more. */
  async stop(): Promise<void> {
    this.isEnding = true
    await stopped(this.current)
  }

  async kill(): Promise<void> {
    this.isEnding = true
    this.current.kill()
    await this.current.exited.promise
  }

  /** Starts a new process when this one dies. */
  private watch(incarnation: Incarnation): void {
    incarnation.owned.promise.then(
      () => {
        this.refused = undefined
        if (this.endedMs !== undefined)
          logEvent(this.options.logger, 'ledger.owner_restarted', {
            pid: incarnation.pid,
            ms: Math.round(performance.now() - this.endedMs),
          })
        this.endedMs = undefined
      },
      (error: unknown) => {
        if (!this.isEnding) this.logFailure(incarnation, messageOf(error))
        incarnation.kill()
      },
    )
    void incarnation.exited.promise.then((how) => {
      if (!this.isEnding && this.current === incarnation) void this.restart(incarnation, how)
    })
  }

  private async restart(dead: Incarnation, how: string): Promise<void> {
    this.endedMs ??= performance.now()
    const restartInMs = this.backoff.pauseMs(dead.startedMs)
    if (this.refused === undefined)
      logEvent(this.options.logger, 'ledger.owner_died', { pid: dead.pid, how, restart_in_ms: restartInMs })
    await Bun.sleep(restartInMs)
    if (this.isEnding) return
    const next = new Incarnation(this.options)
    this.current = next
    this.watch(next)
    next.own(this.options.place, 'successor')
    const protocol = await next.greeted.promise.catch(() => undefined)
    if (protocol !== undefined && protocol !== LEDGER_PROTOCOL) this.refuse(next, protocol)
  }

  /**
   * The program file was replaced by one whose owner the running workers do not understand. It must not open the
   * ledger. Others are started until the file is the old one again, or weir is restarted.
   */
  private refuse(next: Incarnation, protocol: number): void {
    if (this.refused !== protocol && !this.isEnding) this.logFailure(next, mismatch(protocol))
    this.refused = protocol
    next.kill()
  }

  private logFailure({ pid }: Incarnation, reason: string): void {
    if (this.refused === undefined) logEvent(this.options.logger, 'ledger.owner_failed', { pid, reason })
  }
}

function mismatch(protocol: number): string {
  return (
    `the program file speaks version ${protocol} of the protocol between the ledger and its workers, and the running ` +
    `program version ${LEDGER_PROTOCOL}; restart weir`
  )
}

async function stopped(incarnation: Incarnation): Promise<void> {
  const late = setTimeout(() => incarnation.kill(), STOP_MS_MAX)
  incarnation.send({ type: 'stop' })
  await incarnation.exited.promise
  clearTimeout(late)
}
