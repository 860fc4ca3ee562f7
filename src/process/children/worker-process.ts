/** One worker as the supervisor sees it: its process, started again with back-off, and the messages to and from it. */

import type { RestartReason } from '../../admin/supervision.ts'
import type { PeerUpdate } from '../../assembly/inference-service.ts'
import type { LedgerRole } from '../../assembly/open-ledger.ts'
import type { Build } from '../../assembly/version.ts'
import type { Config } from '../../config/config.ts'
import { messageOf } from '../../core/error-message.ts'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'
import type { FormNews, LearnedForm } from '../../providers/form-store.ts'
import { DescriptorChannel } from '../ipc/descriptor-channel.ts'
import { isTyped, PROTOCOL, type Report, type ToSupervisor, type ToWorker, type WorkerStatus } from '../ipc/ipc.ts'
import { SystemCallError } from '../system/libc.ts'
import type { ListenAddress } from '../system/listen-address.ts'
import { ChildProcess } from './child-process.ts'
import { Heartbeat } from './heartbeat.ts'
import { RestartBackoff } from './restart-backoff.ts'
import { workerCommand, workerEnvironment } from './worker-command.ts'
import { WorkerMessages } from './worker-messages.ts'

const BACKOFF_MS_MIN = 100
const BACKOFF_MS_MAX = 5000
/**
 * A worker that is not ready so long after it got its settings is killed and restarted. Before that it waits for the
 * supervisor, which on a busy machine may take longer to read a large configuration.
 */
const START_MS_MAX = 30_000

/** What a worker is started with. */
interface StartSettings {
  readonly address: ListenAddress
  readonly config: Config
  /** Accept from this listening socket of the supervisor, instead of one of its own. */
  readonly socket?: number | undefined
}

interface WorkerProcessEvents {
  /** It accepts requests on this port. */
  readonly onReady: (port: number) => void
  /** It cannot start, for this reason. Not called for a replacement. */
  readonly onFailed: (reason: string) => void
  /** It died before it was ready, for the `deaths`th time in a row. `how` is the exit code or signal. */
  readonly onEarlyDeath: (how: string, deaths: number) => void
  /** It has counted or learned something, or asks for what the supervisor keeps. */
  readonly onReport: (report: Report) => void
  /** What was learned of targets, for a process that starts. */
  readonly learnedForms: () => readonly LearnedForm[]
  /** Its process died and is started again. `how` is the exit code or signal. */
  readonly onDeath: (how: string, reason: RestartReason) => void
  /** What the process that starts now is to do with an embedded ledger. */
  readonly ledgerRole: () => LedgerRole
  /** Its process is gone, for whatever reason. */
  readonly onGone: (pid: number | undefined) => void
}

type State = 'down' | 'starting' | 'ready' | 'ending'

/** The start of a worker that is to replace another, by its steps: each is a promise that others wait for. */
class ReplacementSteps {
  /** It has loaded its code and speaks our protocol. */
  readonly greeted = Promise.withResolvers<void>()
  /** It has everything but the listening socket. */
  readonly built = Promise.withResolvers<void>()
  /** It accepts requests. */
  readonly ready = Promise.withResolvers<void>()
  /** Resolves to the reason why it cannot replace the other. */
  readonly failed = Promise.withResolvers<string>()
}

export class WorkerProcess {
  state: State = 'down'
  /** What its process was built from; undefined until it reports that. */
  build: Build | undefined
  /** The version of the program that the process runs; undefined until it has loaded its code. */
  version: string | undefined
  readonly messages: WorkerMessages
  private isStuck = false
  private process: ChildProcess<ToWorker> | undefined
  private channel: DescriptorChannel | undefined
  /** While it is to replace another worker. Its process is not started again then if it ends. */
  private replacement: ReplacementSteps | undefined
  private settings: StartSettings | undefined
  private ending = false
  private startedAt = 0
  private readonly backoff = new RestartBackoff(BACKOFF_MS_MIN, BACKOFF_MS_MAX)
  private deaths = 0
  private restart: NodeJS.Timeout | undefined
  private startLimit: NodeJS.Timeout | undefined
  private readonly gone = Promise.withResolvers<void>()
  private readonly heartbeat = new Heartbeat({
    ask: () => this.send({ type: 'ping' }),
    lost: (silentMs) => this.killStuck(silentMs),
  })

  constructor(
    /** From 0. */
    readonly index: number,
    /** Its number among all that were ever started. It holds leases and room under it. */
    readonly holder: number,
    private readonly env: Readonly<Record<string, string | undefined>>,
    private readonly logger: Logger,
    private readonly events: WorkerProcessEvents,
  ) {
    this.messages = new WorkerMessages(`worker ${index}`, (message) => this.send(message))
  }

  /**
   * Starts the process. It loads its code while the configuration is still being checked, and waits for its settings.
   */
  spawn(): void {
    this.state = 'starting'
    this.startedAt = performance.now()
    const channel = this.openChannel()
    if (channel === 'failed') return
    this.channel = channel
    this.process = new ChildProcess({
      command: workerCommand(),
      env: workerEnvironment(this.env),
      descriptor: channel?.theirs,
      onMessage: (message) => {
        if (isTyped<ToSupervisor>(message)) this.receive(message)
      },
      onExit: (how) => this.exited(how),
    })
    channel?.spawned()
    if (this.settings !== undefined) this.sendStart(this.settings, false)
  }

  /** Without a free descriptor, the process counts as one that has ended, and is started again later. */
  private openChannel(): DescriptorChannel | undefined | 'failed' {
    try {
      return DescriptorChannel.open()
    } catch (error) {
      if (!(error instanceof SystemCallError)) throw error
      queueMicrotask(() => this.exited(`not started: ${error.message}`))
      return 'failed'
    }
  }

  /** Sends the settings to the process, and to every process that replaces it. */
  start(settings: StartSettings): void {
    this.settings = settings
    this.sendStart(settings, false)
  }

  /** Starts the process as the replacement of `other`, with its settings. `takeOver` completes it. */
  spawnFor(other: WorkerProcess): ReplacementSteps {
    const replacement = new ReplacementSteps()
    this.replacement = replacement
    this.spawn()
    // A worker of another protocol must not begin anything.
    void replacement.greeted.promise.then(() => {
      this.settings = other.settings
      if (this.settings !== undefined) this.sendStart(this.settings, true)
    })
    return replacement
  }

  /** Lets this worker accept from the listening socket of `other`. Resolves to the problem, if there is one. */
  async takeOver(other: WorkerProcess): Promise<string | undefined> {
    const problem = await other.lend()
    if (problem !== undefined) return problem
    try {
      const socket = other.channel?.receive()
      if (socket === undefined || this.channel === undefined) return 'this system cannot pass sockets between processes'
      this.channel.give(socket)
    } catch (error) {
      return messageOf(error)
    }
    this.send({ type: 'adopt' })
    return undefined
  }

  /**
   * Ends this worker after another has taken over its socket: what runs finishes, each connection is closed after an
   * answer. Its process is not restarted.
   */
  retire(): void {
    const wasReady = this.state === 'ready'
    this.end()
    if (wasReady) this.send({ type: 'retire' })
    else this.process?.kill('SIGKILL')
  }

  /** The configuration of processes that start from now on. */
  set config(config: Config) {
    if (this.settings !== undefined) this.settings = { ...this.settings, config }
  }

  /** Resolves to the log lines of its last requests, the oldest first; none if it does not answer within a second. */
  recent(): Promise<readonly string[]> {
    return this.process === undefined ? Promise.resolve([]) : this.messages.recent()
  }

  /** Forwards what another worker learned. A worker that is not ready yet cannot apply it. */
  forward(update: PeerUpdate): void {
    if (this.state === 'ready') this.send({ type: 'news', news: update })
  }

  /** Forwards what was learned of targets. */
  forwardForms({ forms, forgotten }: FormNews): void {
    if (forms.length + forgotten.length > 0) this.send({ type: 'forms', forms, forgotten })
  }

  /** Lets the running process drain and end; a new one with the latest settings replaces it. */
  replace(): void {
    this.process?.kill('SIGTERM')
  }

  /** Takes at most a second. */
  status(): Promise<WorkerStatus> {
    return this.state === 'ready'
      ? this.messages.status()
      : Promise.resolve({ reasons: [this.named(`is ${this.state}`)] })
  }

  /** Lets the process finish its requests and end. Resolves when it is gone. */
  drain(): Promise<void> {
    this.end()
    this.send({ type: 'drain' })
    return this.gone.promise
  }

  /** The id of its process, if it runs. */
  get pid(): number | undefined {
    return this.process?.pid
  }

  /** Whether its process runs. */
  get isAlive(): boolean {
    return this.process !== undefined
  }

  /** Resolves when a worker that drains, retires or is killed is gone. */
  get whenGone(): Promise<void> {
    return this.gone.promise
  }

  kill(): Promise<void> {
    this.end()
    this.process?.kill('SIGKILL')
    return this.gone.promise
  }

  /** Resolves to the problem, if it cannot send its listening socket. */
  private lend(): Promise<string | undefined> {
    if (this.state !== 'ready') return Promise.resolve(this.named(`is ${this.state}`))
    return this.messages.lend()
  }

  private end(): void {
    this.ending = true
    clearTimeout(this.restart)
    if (this.process === undefined) this.gone.resolve()
    else this.state = 'ending'
  }

  private sendStart(settings: StartSettings, replaces: boolean): void {
    clearTimeout(this.startLimit)
    this.startLimit = setTimeout(() => this.process?.kill('SIGKILL'), START_MS_MAX)
    const { address, config, socket } = settings
    const adopts = socket !== undefined
    const ledger = this.events.ledgerRole()
    this.send({ type: 'start', worker: this.index, replaces, adopts, ledger, address, config, takesItemLines: true })
    this.forwardForms({ forms: this.events.learnedForms(), forgotten: [] })
  }

  /** Lets the worker accept from the listening socket of the supervisor. */
  private sendSocket(): void {
    const socket = this.settings?.socket
    if (socket === undefined) return
    this.channel?.send(socket)
    this.send({ type: 'adopt' })
  }

  private named(reason: string): string {
    return `worker ${this.index} ${reason}`
  }

  /**
   * Between the end of a process and the start of the next there is no receiver; the next one gets its settings when it
   * starts.
   */
  send(message: ToWorker): void {
    this.process?.send(message)
  }

  private receive(message: ToSupervisor): void {
    this.heartbeat.heard()
    switch (message.type) {
      case 'hello':
        this.version = message.version
        this.greet(message.protocol)
        return
      case 'built':
        if (this.replacement !== undefined) this.replacement.built.resolve()
        else this.sendSocket()
        return
      case 'ready':
        this.ready(message.port)
        return
      case 'failed':
        this.failed(message.reason)
        return
      case 'status':
      case 'recent':
      case 'prepared':
      case 'lent':
        this.messages.take(message)
        return
      case 'pong':
        return
      case 'build':
        this.build = message.build
        return
      default:
        this.events.onReport(message)
    }
  }

  private greet(protocol: number): void {
    if (protocol === PROTOCOL) {
      this.replacement?.greeted.resolve()
      return
    }
    this.failed(
      `the program file speaks version ${protocol} of the protocol between supervisor and workers, and the running ` +
        `program version ${PROTOCOL}; restart weir`,
    )
    this.process?.kill('SIGKILL')
  }

  private failed(reason: string): void {
    if (this.replacement === undefined) this.events.onFailed(reason)
    else this.replacement.failed.resolve(reason)
  }

  private ready(port: number): void {
    clearTimeout(this.startLimit)
    this.deaths = 0
    if (!this.ending) {
      this.state = 'ready'
      logEvent(this.logger, 'worker.started', { worker: this.index, pid: this.process?.pid })
    }
    // A worker that is paused in a debugger does not answer for as long as the debugger likes.
    if (this.env['BUN_INSPECT'] === undefined) this.heartbeat.start()
    // A replacement must listen on the same port, even if any port was good enough for this process.
    if (this.settings !== undefined) this.settings = { ...this.settings, address: { ...this.settings.address, port } }
    this.events.onReady(port)
    this.replacement?.ready.resolve()
    this.replacement = undefined
  }

  /** Its event loop stands still: it takes no message, and no signal but SIGKILL. */
  private killStuck(silentMs: number): void {
    const { process, index } = this
    logEvent(this.logger, 'worker.stuck', { worker: index, pid: process?.pid, silent_ms: silentMs })
    this.isStuck = true
    process?.kill('SIGKILL')
  }

  private exited(how: string): void {
    const pid = this.process?.pid
    const wasReady = this.state === 'ready'
    this.process = undefined
    this.state = 'down'
    clearTimeout(this.startLimit)
    this.heartbeat.stop()
    this.channel?.close()
    this.channel = undefined
    this.events.onGone(pid)
    this.messages.gone()
    if (this.ending) {
      this.gone.resolve()
      return
    }
    if (this.replacement !== undefined) {
      this.replacement.failed.resolve(`it ended before it was ready (${how})`)
      return
    }
    if (!wasReady) this.events.onEarlyDeath(how, ++this.deaths)
    if (!this.ending) this.restartLater(pid, how)
  }

  private restartLater(pid: number | undefined, how: string): void {
    const restartInMs = this.backoff.pauseMs(this.startedAt)
    this.events.onDeath(how, this.isStuck ? 'stuck' : how.startsWith('signal') ? 'signal' : 'exit')
    this.isStuck = false
    logEvent(this.logger, 'worker.died', { worker: this.index, pid, how, restart_in_ms: restartInMs })
    this.restart = setTimeout(() => this.spawn(), restartInMs)
  }
}
