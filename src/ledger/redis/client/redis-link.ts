/**
 * One node's link to Redis: two connections and the store over them, whether it can be used, and why not. Knows nothing
 * of what is done when it cannot.
 */

import { Cluster, type Redis } from 'ioredis'
import type { RedisConfig } from '../../../core/redis-config.ts'
import { CircuitBreaker } from '../../../redis/circuit-breaker.ts'
import { connect } from '../../../redis/connect.ts'
import { LoopDeadline } from '../../../redis/loop-deadline.ts'
import { accessProblem, RedisUnfitError, writeProblem } from '../../../redis/redis-errors.ts'
import { checkServer, tlsMismatch } from '../../../redis/server-check.ts'
import { checkDataVersion, noteDataVersion } from '../data-version.ts'
import { type NodeHome, NodeLease } from '../delivery/node-lease.ts'
import { Epochs, type RecoverableStore } from '../epochs/epochs.ts'
import { type Surveyed, survey } from '../epochs/survey.ts'
import { ORGANIZATIONS_KEY, RedisStore, redisKey } from '../store/redis-store.ts'

/** What a node needs of its connection to the store; a simulation gives it another one. */
export interface Link {
  readonly store: RecoverableStore
  /** The epochs that this node has entered: its store refuses reservations in others. */
  readonly epochs: Epochs
  readonly breaker: CircuitBreaker
  /** False while the server answers and cannot be used. */
  readonly isFit: boolean
  readonly isConnected: boolean
  /** Connected, fit, and answering in time. */
  readonly isReady: boolean
  /** Why it cannot be used; undefined where it can. */
  readonly complaint: string | undefined
  /**
   * When the connection before this one was lost; now, where there was none. What the server took since shortly before
   * may be lost, too.
   */
  readonly lostMs: number
  /** Asks whether the server answers again. */
  probe(): Promise<boolean>
  /** Asks whether the server answers now, and would take a reservation. Gives what is wrong, and decides nothing. */
  trouble(): Promise<string | undefined>
  /**
   * Why the server takes no reservations of an organisation though it answers; undefined if it takes them. Throws if it
   * cannot be asked.
   */
  standstill(organization: string): Promise<string | undefined>
  /** Calls a listener each time that a connection was made, or a part of a cluster came back or moved. */
  onReady(listener: () => void): void
  /**
   * Calls a listener when a connection breaks: from then on the server may have lost something, before the next
   * connection is announced.
   */
  onLost(listener: () => void): void
  /**
   * Calls a listener when Redis seems to have been emptied under a connection that stands: others may use what is not
   * there any more.
   */
  onEmptied(listener: () => void): void
  /** How organisations stand, and what Redis has of a node in each. Changes nothing. */
  survey(organizations: readonly string[], node: string): Promise<readonly Surveyed[]>
  /** Notes an organisation for those who read over all. */
  register(organization: string): Promise<void>
  close(): void
}

/** How long a start waits for Redis; from then on it also looks for what keeps it from answering, … */
const START_WAIT_MS = 500
/** … for so long before it begins without. */
const START_LOOK_MS = 500
/** How long a PING may take, whatever `timeout_ms` allows a command: whoever asks for readiness does not wait long. */
const PING_MS = 250
/** An organisation whose keys are looked at to see whether we may. */
const PROBED = 'weir'
/** What Redis refuses whenever it refuses a reservation, because of what it is and not of what it is asked. */
const GATE = '#!lua\nreturn 1'
const SILENT = 'Redis does not answer a PING.'

export class RedisLink implements Link {
  readonly store: RedisStore
  readonly epochs = new Epochs()
  readonly breaker = new CircuitBreaker()
  private readonly pings = new LoopDeadline(PING_MS)
  private readonly admission: Redis | Cluster
  private readonly other: Redis | Cluster
  private readonly lease: NodeLease | undefined
  /** What makes the server unusable though it answers; it is looked at again at each connection. */
  private unfit: RedisUnfitError | undefined
  /** Why the last connection was turned away; undefined once there is one. */
  private denial: RedisUnfitError | undefined
  private listener: () => void = () => undefined
  private lostListener: () => void = () => undefined
  private emptiedListener: () => void = () => undefined
  private closedMs: number | undefined

  /** `own`: the outbox whose id no other may use. */
  constructor(
    private readonly place: RedisConfig,
    own?: NodeHome,
  ) {
    this.admission = connect(place, 'weir-reserve')
    this.other = connect(place, 'weir-settle')
    this.store = new RedisStore(this.admission, this.other, Date.now, undefined, this.epochs)
    this.lease = own && new NodeLease(this.other, own, () => this.emptiedListener())
    const came = () => this.inspect().then(() => this.connected())
    this.other.on('ready', () => {
      this.denial = undefined
    })
    this.other.on('error', (error) => {
      this.denial = accessProblem(error) ?? this.denial
    })
    const went = () => {
      this.closedMs ??= Date.now()
      this.lostListener()
    }
    this.other.on('ready', came)
    this.other.on('close', went)
    // A reservation may reach a server that came back before the other connection does.
    this.admission.on('close', () => this.lostListener())
    if (this.other instanceof Cluster) watchNodes(this.other, came, went)
  }

  /**
   * Waits a moment for the server. Throws `RedisUnfitError` where it answers and cannot be used; begins without it
   * where it does not answer.
   */
  async start(): Promise<void> {
    const { promise: denied, reject: deny } = Promise.withResolvers<never>()
    const listen = (error: unknown) => {
      const denial = accessProblem(error)
      if (denial !== undefined) deny(denial)
    }
    this.other.on('error', listen)
    const both = Promise.all([ready(this.admission), ready(this.other)])
    await Promise.race([both, denied, Bun.sleep(START_WAIT_MS)])
    if (this.other.status !== 'ready') {
      const mistaken = tlsMismatch(this.place, START_LOOK_MS).then((problem) => problem && deny(problem))
      await Promise.race([both, denied, Promise.all([mistaken, Bun.sleep(START_LOOK_MS)])])
    }
    this.other.off('error', listen)
    if (this.other.status !== 'ready') return
    await this.inspect()
    // To end what is overdue changes nothing that would not come about anyway: whether we may is what is asked.
    if (this.unfit === undefined) {
      const asked = [this.store.reap(PROBED), this.other.hlen(redisKey(PROBED, 'scopes'))]
      await Promise.all(asked).catch((error) => this.judge(error))
    }
    if (this.unfit !== undefined) throw this.unfit
    await this.lease?.await().catch((error) => this.judge(error))
    if (this.lease?.problem !== undefined) throw this.lease.problem
  }

  onReady(listener: () => void): void {
    this.listener = listener
  }

  onLost(listener: () => void): void {
    this.lostListener = listener
  }

  onEmptied(listener: () => void): void {
    this.emptiedListener = listener
  }

  survey(organizations: readonly string[], node: string): Promise<readonly Surveyed[]> {
    return survey(this.other, organizations, node)
  }

  async register(organization: string): Promise<void> {
    await this.other.sadd(ORGANIZATIONS_KEY, organization)
  }

  get isConnected(): boolean {
    return this.admission.status === 'ready' && this.other.status === 'ready' && this.isFit
  }

  get isFit(): boolean {
    return this.unfit === undefined && this.lease?.problem === undefined
  }

  get isReady(): boolean {
    return this.isConnected && !this.breaker.isOpen
  }

  get lostMs(): number {
    return this.closedMs ?? Date.now()
  }

  async probe(): Promise<boolean> {
    try {
      await this.other.ping()
      this.breaker.succeeded()
      return true
    } catch {
      this.breaker.failed()
      return false
    }
  }

  async standstill(organization: string): Promise<string | undefined> {
    try {
      await this.admission.eval(GATE, 1, redisKey(organization, 'scopes'))
      return undefined
    } catch (error) {
      const standstill = writeProblem(error)
      if (standstill === undefined) throw error
      return standstill
    }
  }

  async trouble(): Promise<string | undefined> {
    const { promise, resolve } = Promise.withResolvers<string | undefined>()
    let isSettled = false
    const settle = (trouble: string | undefined) => {
      isSettled = true
      resolve(trouble)
    }
    Promise.all([this.standstill(PROBED), this.other.ping()]).then(
      ([standstill]) => settle(standstill),
      () => settle(SILENT),
    )
    this.pings.watch({
      get isSettled() {
        return isSettled
      },
      expire: () => settle(SILENT),
    })
    return await promise
  }

  get complaint(): string | undefined {
    const unfit = this.unfit ?? this.lease?.problem
    if (unfit !== undefined) return unfit.message
    if (!this.isConnected) return this.denial?.message ?? `Redis is not reached (${this.other.status}).`
    return this.breaker.isOpen ? 'Redis does not answer in time.' : undefined
  }

  close(): void {
    this.listener = () => undefined
    this.lostListener = () => undefined
    this.emptiedListener = () => undefined
    this.lease?.close()
    this.admission.disconnect()
    this.other.disconnect()
  }

  private connected(): void {
    this.listener()
    this.closedMs = undefined
  }

  private async inspect(): Promise<void> {
    try {
      await checkServer(this.other)
      await checkDataVersion(this.other)
      this.unfit = undefined
      await noteDataVersion(this.other)
      await this.lease?.claim()
    } catch (error) {
      this.judge(error)
    }
  }

  private judge(error: unknown): void {
    // Anything else is a connection that went away again: the next one is looked at anew.
    this.unfit = error instanceof RedisUnfitError ? error : (accessProblem(error) ?? this.unfit)
  }
}

/**
 * A cluster stays connected while one of its nodes goes away and comes back, or another takes its slots: then that part
 * of it may have lost what it had taken last, as one server may that was away.
 */
function watchNodes(cluster: Cluster, came: () => void, went: () => void): void {
  let known = ''
  cluster.on('-node', went)
  cluster.on('+node', came)
  cluster.on('refresh', () => {
    const masters = mastersOf(cluster.slots)
    if (known !== '' && masters !== known) {
      went()
      came()
    }
    known = masters
  })
}

/**
 * Which master has which slots: the first slot of each run and its node. Of 16,384 slots only the changes are looked
 * at.
 */
function mastersOf(slots: readonly (readonly string[] | undefined)[]): string {
  let text = ''
  let before: string | undefined
  for (const [slot, nodes] of slots.entries()) {
    const master = nodes?.[0]
    if (master !== before) text += `${slot} ${master ?? '-'} `
    before = master
  }
  return text
}

async function ready(client: Redis | Cluster): Promise<void> {
  if (client.status !== 'ready') await new Promise<void>((resolve) => client.once('ready', () => resolve()))
}
