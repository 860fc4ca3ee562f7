/**
 * One node's link to Redis: two connections, the store that uses them, whether the server can be used, and if not, why.
 * `RedisLedger` decides what happens when it cannot be used.
 */

import { Cluster, type Redis } from 'ioredis'
import type { RedisConfig, ReservationPipeline } from '../../core/redis-config.ts'
import { codeOf } from '../../core/system-error.ts'
import { CircuitBreaker } from '../../redis/circuit-breaker.ts'
import { connect } from '../../redis/connect.ts'
import { LoopPauses } from '../../redis/loop-deadline.ts'
import { accessProblem, RedisUnfitError, writeProblem } from '../../redis/redis-errors.ts'
import { checkServer, tlsMismatch } from '../../redis/server-check.ts'
import { type NodeHome, NodeLease } from './node-lease.ts'
import { Epochs } from './protocol/epochs.ts'
import type { Link, Surveyed } from './protocol/link.ts'
import { checkDataVersion, noteDataVersion } from './store/data-version.ts'
import { ORGANIZATIONS_KEY, OVERDUE_TURN_KEY, redisKey } from './store/redis-keys.ts'
import { RedisStore } from './store/redis-store.ts'
import { overdue, survey } from './store/survey.ts'

/** How long a start waits for Redis before it also looks for the reason why Redis does not reply. */
const START_WAIT_MS = 500
/** How long a start looks for that reason before it continues without Redis. */
const START_DIAGNOSE_MS = 500
/** How long a PING may take, whatever `timeout_ms` allows a command: readiness probes have short timeouts. */
const PING_MS = 250
/** Nodes look for overdue reservations every 30 s, each at its own time. */
const OVERDUE_TURN_MS = 25_000
/** No real organisation: its keys are accessed to check our permissions. */
const PROBED = 'weir'
/**
 * A script without `allow-oom`, like the one that reserves: a server that is out of memory, read-only or short of
 * replicas rejects it.
 */
const WRITE_PROBE = '#!lua\nreturn 1'
const NO_PONG = 'Redis does not answer a PING.'

export class RedisLink implements Link {
  readonly store: RedisStore
  readonly epochs = new Epochs()
  readonly breaker = new CircuitBreaker()
  onReady = ignored
  onLost = ignored
  onEmptied = ignored
  private readonly pauses = new LoopPauses()
  private readonly admission: Redis | Cluster
  private readonly other: Redis | Cluster
  private readonly lease: NodeLease | undefined
  /** What makes the server unusable although it replies; checked again at each connection. */
  private unfit: RedisUnfitError | undefined
  /** Why the server rejected the last connection; undefined after one that succeeded. */
  private denial: RedisUnfitError | undefined
  /** The system's code of why the last connection failed, as `ECONNREFUSED`; '' if it succeeded or there is none. */
  private cause = ''
  private closedMs: number | undefined

  /** `own`: the outbox, whose id no other node may use. */
  constructor(
    private readonly place: RedisConfig,
    own?: NodeHome,
  ) {
    this.admission = connect(place, 'weir-reserve')
    this.other = connect(place, 'weir-settle')
    this.store = new RedisStore(this.admission, this.other, Date.now, undefined, this.epochs)
    this.lease = own && new NodeLease(this.other, own, () => this.onEmptied())
    const came = async () => {
      await this.inspect()
      this.onReady()
      this.closedMs = undefined
    }
    this.other.on('ready', () => {
      this.denial = undefined
      this.cause = ''
    })
    this.other.on('error', (error) => {
      this.denial = accessProblem(error) ?? this.denial
      this.cause = causeOf(error) || this.cause
    })
    const went = () => {
      this.closedMs ??= Date.now()
      this.onLost()
    }
    this.other.on('ready', came)
    this.other.on('close', went)
    // A reservation may reach a server that came back before the other connection does.
    this.admission.on('close', () => this.onLost())
    if (this.other instanceof Cluster) watchNodes(this.other, came, went)
  }

  /**
   * Waits at most 1 s for the server and returns without it if it does not reply. Throws `RedisUnfitError` if it
   * replies but cannot be used.
   */
  async start(): Promise<void> {
    const { promise: denied, reject: deny } = Promise.withResolvers<never>()
    const listen = (error: unknown) => {
      const denial = accessProblem(error)
      if (denial !== undefined) deny(denial)
    }
    this.other.on('error', listen)
    const connected = Promise.all([ready(this.admission), ready(this.other)])
    await Promise.race([connected, denied, Bun.sleep(START_WAIT_MS)])
    if (this.other.status !== 'ready') {
      const mismatch = tlsMismatch(this.place, START_DIAGNOSE_MS).then((problem) => problem && deny(problem))
      await Promise.race([connected, denied, Promise.all([mismatch, Bun.sleep(START_DIAGNOSE_MS)])])
    }
    this.other.off('error', listen)
    if (this.other.status !== 'ready') return
    await this.inspect()
    // Checks our permissions. `reap` only ends what is overdue, which any other call would do, too.
    if (this.unfit === undefined) {
      const calls = [this.store.reap(PROBED), this.other.hlen(redisKey(PROBED, 'scopes'))]
      await Promise.all(calls).catch((error) => this.judge(error))
    }
    if (this.unfit !== undefined) throw this.unfit
    await this.lease?.await().catch((error) => this.judge(error))
    if (this.lease?.problem !== undefined) throw this.lease.problem
  }

  survey(organizations: readonly string[], node: string): Promise<readonly Surveyed[]> {
    return survey(this.other, organizations, node)
  }

  async overdue(): Promise<readonly string[]> {
    const isTurn = (await this.other.set(OVERDUE_TURN_KEY, '1', 'PX', OVERDUE_TURN_MS, 'NX')) === 'OK'
    return isTurn ? await overdue(this.other, await this.other.smembers(ORGANIZATIONS_KEY)) : []
  }

  async register(organization: string): Promise<void> {
    await this.other.sadd(ORGANIZATIONS_KEY, organization)
  }

  get pipeline(): ReservationPipeline {
    return this.store.reserving
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
      await this.admission.eval(WRITE_PROBE, 1, redisKey(organization, 'scopes'))
      return undefined
    } catch (error) {
      const standstill = writeProblem(error)
      if (standstill === undefined) throw error
      return standstill
    }
  }

  async trouble(): Promise<string | undefined> {
    const replies = Promise.all([this.standstill(PROBED), this.other.ping()])
    const trouble = replies.then(
      ([standstill]) => standstill,
      () => NO_PONG,
    )
    return await Promise.race([trouble, this.pauses.wait(PING_MS).then(() => NO_PONG)])
  }

  get complaint(): string | undefined {
    const unfit = this.unfit ?? this.lease?.problem
    if (unfit !== undefined) return unfit.message
    if (!this.isConnected) {
      if (this.denial !== undefined) return this.denial.message
      return this.cause === '' ? 'Redis is not reached.' : `Redis is not reached (${this.cause}).`
    }
    return this.breaker.isOpen ? 'Redis does not answer in time.' : undefined
  }

  close(): void {
    this.onReady = this.onLost = this.onEmptied = ignored
    this.lease?.close()
    this.admission.disconnect()
    this.other.disconnect()
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
    // Any other error means that the connection broke again: the next one is inspected anew.
    this.unfit = error instanceof RedisUnfitError ? error : (accessProblem(error) ?? this.unfit)
  }
}

function ignored(): void {}

/** Of a cluster, that of the node that was tried last. */
function causeOf(error: Error): string {
  return codeOf('lastNodeError' in error ? error.lastNodeError : error)
}

/**
 * A cluster stays connected while one of its nodes restarts or fails over. That node may have lost its last writes, as
 * a single server may after a restart.
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

/** Which master has which slots, as text to compare: the first slot of each run and its node. */
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
