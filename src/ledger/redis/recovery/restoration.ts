/**
 * Gives back to Redis what it lost and this node's log has: some settlements one by one, the rest as sums, each exactly
 * once, however often it is retried and whichever process dies in between. Every node does so for its own requests. It
 * covers a total loss (FLUSHALL), the loss of the last minutes (a crash without an append-only file), and a restored
 * backup.
 */

import { ConcurrencyLimit } from '../../../redis/concurrency-limit.ts'
import { noUsage } from '../../usage-figures.ts'
import type { UsageRow } from '../../usage-log.ts'
import { type FoundCounters, type GivenRow, NO_COUNTERS_FOUND } from '../protocol/counter-spend.ts'
import type { Entered, Epochs, RecoverableStore } from '../protocol/epochs.ts'
import type { Surveyed } from '../protocol/link.ts'
import type { Expected, FoundOfNode, KnownEpoch, NodeLog } from '../protocol/node-log.ts'
import { OwedSpend } from '../protocol/owed-spend.ts'

/** Organisations that are compared at once: what they read from Redis together is read in short turns. */
const ORGANIZATIONS_ABREAST = 64
/** Rows that are sent at once. */
const ABREAST = 64
/** With more rows, which take longer than 0.1 s, an organisation is served while they are given back. */
const ROWS_AWAITED = 500
/** Redis may lose data again during a try. */
const TRIES = 3
/**
 * Settlements acknowledged in the last 60 s before a loss are resent one by one, so that the audit trail names each
 * request.
 */
const TAIL_MS = 60_000

type Log = Pick<NodeLog, 'epochs' | 'counters' | 'find' | 'prepare' | 'enter' | 'entered'>

/** What Redis replied, and what was known before. */
interface Asked {
  readonly known: KnownEpoch
  readonly entered: Entered
}

/** What a comparison must find: `likely` a loss that is larger than what is in flight, `certain` any loss. */
type Certainty = 'likely' | 'certain'

export class Restoration {
  private readonly limit = new ConcurrencyLimit(ORGANIZATIONS_ABREAST)
  private readonly running = new Map<string, Promise<void>>()
  /** Calls that wait until no row is on its way. */
  private readonly quiet = new Map<string, (() => Promise<void>)[]>()
  /** Resolved when an organisation that is being restored may be served. */
  private readonly served = new Map<string, PromiseWithResolvers<void>>()
  /** Organisations of which Redis may have lost data: nothing is reserved or charged before they are compared. */
  private readonly doubted = new Map<string, Certainty>()
  /** What Redis lacked, by organisation, and the epoch to which it is given back. */
  private readonly lacked = new Map<string, { readonly epoch: number; readonly rows: readonly UsageRow[] }>()
  /** If Redis lost data, it did not lose what it took before this time. */
  private sinceMs: number

  constructor(
    private readonly store: Pick<
      RecoverableStore,
      'enter' | 'figuresOfNode' | 'reservations' | 'countersOfNode' | 'restore'
    >,
    private readonly log: Log,
    private readonly epochs: Epochs,
    /** Adds an organisation to the list in Redis, which may be lost, too. */
    private readonly register: (organization: string) => Promise<void>,
    /**
     * Called when another epoch of an organisation was entered, so that its settlements may be resent, with what Redis
     * lacked if this process decided what to give back.
     */
    private readonly entered: (organization: string, lacked: readonly UsageRow[]) => void,
    now: number,
  ) {
    this.sinceMs = now - TAIL_MS
    for (const { organization, epoch, complete } of log.epochs.all()) {
      if (complete) epochs.enter(organization, epoch)
      this.doubted.set(organization, 'likely')
    }
  }

  /** Every organisation that this node has served. */
  organizations(): readonly string[] {
    return this.log.epochs.all().map(({ organization }) => organization)
  }

  /** Redis did not answer since a time: all organisations are in doubt. */
  doubt(lostMs: number): void {
    this.sinceMs = lostMs - TAIL_MS
    for (const organization of this.organizations()) this.doubted.set(organization, 'certain')
  }

  /** The organisations that are in doubt. */
  doubts(): readonly string[] {
    return [...this.doubted.keys()]
  }

  /** True if Redis may have lost data of an organisation that was not compared since. */
  isDoubted(organization: string): boolean {
    return this.doubted.has(organization)
  }

  /**
   * Restores an organisation, and resolves as soon as reservations and settlements are possible: what is still lacking
   * then counts as spent. Throws if Redis does not answer.
   */
  async serve(organization: string): Promise<void> {
    const served = this.served.getOrInsertComputed(organization, () => Promise.withResolvers())
    const isDoubted = this.doubted.has(organization)
    await Promise.race([isDoubted ? this.compare(organization) : this.restore(organization), served.promise])
  }

  /**
   * Makes a call while no row of an organisation is on its way to Redis. One that has arrived there and is still owed
   * here counts twice: a reservation may be refused although it fits. Only while something is owed.
   */
  quietly<T>(organization: string, call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.quiet.getOrInsert(organization, []).push(() => call().then(resolve, reject))
    })
  }

  private async callQuiet(organization: string): Promise<void> {
    const calls = this.quiet.get(organization)
    this.quiet.delete(organization)
    if (calls !== undefined) await Promise.all(calls.map((call) => call()))
  }

  /**
   * Makes sure that Redis has what this node has. If the organisation is not in doubt, a loss that is no larger than
   * what is in flight at that moment may stay undetected. Throws if Redis does not answer.
   */
  compare(organization: string): Promise<void> {
    return this.once(organization, async () => {
      const { log } = this
      const certainty = this.doubted.get(organization)
      const mine = this.epochs.of(organization)
      const before = log.epochs.expected(organization)
      const asked = await this.ask(organization)
      const { entered } = asked
      const after = log.epochs.expected(organization)
      const isQuiet = before.pending === 0 && after.pending === 0 && before.requests === after.requests
      const isMissing = before.requests - before.pending > entered.requests || (certainty === 'certain' && !isQuiet)
      // If Redis is in another epoch, everything was compared when that epoch began, after any loss.
      if (entered.epoch === mine && entered.given === 'all' && isMissing) await this.renew(organization, mine)
      else await this.enter(organization, asked)
      if (this.doubted.get(organization) === certainty) this.doubted.delete(organization)
    })
  }

  /** True if nothing is missing, as far as a survey shows. `expected` was read before Redis was asked. */
  agrees({ organization, epoch, isWhole, requests }: Surveyed, expected: Expected): boolean {
    if (this.doubted.has(organization) || !isWhole || epoch !== this.epochs.of(organization)) return false
    return expected.requests - expected.pending <= requests
  }

  /** Gives back what the current epoch of Redis lacks. Throws if Redis does not answer. */
  restore(organization: string): Promise<void> {
    return this.once(organization, async () => this.enter(organization, await this.ask(organization)))
  }

  /**
   * Resolves a doubt about what was sent in an epoch: begins another epoch and compares everything. Throws if Redis
   * does not answer.
   */
  resolve(organization: string, epoch: number): Promise<void> {
    return this.once(organization, () => this.renew(organization, epoch))
  }

  private async renew(organization: string, epoch: number): Promise<void> {
    await this.enter(organization, await this.ask(organization, epoch))
  }

  /** What Redis has of this node. If Redis is still in the epoch `ended`, it begins another. */
  private async ask(organization: string, ended = 0): Promise<Asked> {
    const known = this.log.epochs.of(organization)
    const { epoch, legacyEpoch } = known
    return {
      known,
      entered: await this.store.enter(organization, { node: this.log.epochs.node, epoch, legacyEpoch }, ended),
    }
  }

  /** One at a time for each organisation: further calls wait for the one that runs. */
  private once(organization: string, work: () => Promise<void>): Promise<void> {
    const running = this.running.get(organization)
    if (running !== undefined) return running
    const working = new Promise<void>((resolve, reject) => {
      this.limit.enter({ start: () => void work().then(resolve, reject) })
    }).finally(() => {
      this.limit.leave()
      this.running.delete(organization)
      this.served.delete(organization)
      void this.callQuiet(organization)
    })
    this.running.set(organization, working)
    return working
  }

  private async enter(organization: string, first: Asked): Promise<void> {
    const { log } = this
    let asked = first
    for (let tries = 0; tries < TRIES; tries++) {
      const { known, entered } = asked
      const { epoch, given } = entered
      const isKnown = log.epochs.of(organization).epoch === epoch
      // Redis, or the log, was restored to an earlier state within this epoch.
      const isAstray = (known.epoch === epoch && known.complete && given !== 'all') || (!isKnown && given !== 0)
      if (!isAstray && (await this.give(organization, entered, isKnown))) {
        log.entered(organization, epoch)
        if (this.begin(organization, epoch)) await this.register(organization)
        return
      }
      asked = await this.ask(organization, isAstray ? epoch : 0)
    }
    throw new Error(`Redis lost data again during each try, so the organisation '${organization}' is not restored.`)
  }

  /** Enters an epoch. Returns false if it was entered before. */
  private begin(organization: string, epoch: number, owed?: OwedSpend): boolean {
    const isNew = this.epochs.of(organization) !== epoch
    this.epochs.enter(organization, epoch, owed)
    if (!isNew) return false
    const lacked = this.lacked.get(organization)
    this.lacked.delete(organization)
    this.entered(organization, lacked?.epoch === epoch ? lacked.rows : [])
    return true
  }

  /** False if Redis has begun another epoch. */
  private async give(organization: string, entered: Entered, isKnown: boolean): Promise<boolean> {
    const { epoch, given } = entered
    if (given === 'all') return true
    const rows = await (isKnown ? this.log.enter(organization, epoch, NOTHING, []) : this.settle(organization, entered))
    if (rows.length - given <= ROWS_AWAITED) return await this.giveRows(organization, epoch, rows, given)
    const owed = new OwedSpend(rows.slice(given))
    return await this.giveRows(organization, epoch, rows, given, async (from, until) => {
      owed.given(rows.slice(from, until))
      if (from > given) return await this.callQuiet(organization)
      // What this node gives back is decided, so Redis takes its settlements. It has just taken the next row of this
      // epoch: it has lost nothing of it.
      this.begin(organization, epoch, owed)
      this.doubted.delete(organization)
      this.served.get(organization)?.resolve()
      this.served.delete(organization)
    })
  }

  /**
   * What Redis has of this node. It stays as it is, because Redis takes nothing of this node in this epoch before
   * everything is given back.
   */
  private async settle(organization: string, entered: Entered): Promise<readonly GivenRow[]> {
    const { log, sinceMs } = this
    const { epoch, isLegacy, sums } = entered
    const { figures, foldedBefore, reservations, counters } = await this.found(organization, entered)
    // Reservations that are open in Redis may have ended here long ago.
    const open = [...reservations].filter(([, { isOpen }]) => isOpen)
    const resent = await log.find(organization, new Map(open.map(([id, { admittedMs }]) => [id, admittedMs])))
    const found = { figures, foldedBefore, sums, reservations, counters, isLegacy, sinceMs }
    await log.prepare(organization, epoch, found)
    let lacked: readonly UsageRow[] = []
    const given = await log.enter(organization, epoch, found, resent, (rows) => {
      lacked = rows
    })
    this.lacked.set(organization, { epoch, rows: lacked })
    return given
  }

  private async found(
    organization: string,
    { wasEmpty }: Entered,
  ): Promise<Pick<FoundOfNode, 'figures' | 'foldedBefore' | 'reservations' | 'counters'>> {
    const { log, store } = this
    // After a total loss there is nothing to read, and all organisations wait.
    if (wasEmpty) return NOTHING
    // Places are read first: if another process folds in between, they are by day and compared by month, which works;
    // the reverse would not.
    const places = log.epochs.places(organization)
    const [figures, reservations] = await Promise.all([
      store.figuresOfNode(log.epochs.node, places, log.epochs.foldedBefore),
      store.reservations(organization),
    ])
    return { ...figures, reservations, counters: await this.foundCounters(organization, reservations) }
  }

  private async foundCounters(organization: string, reservations: FoundOfNode['reservations']): Promise<FoundCounters> {
    const names = this.log.counters(organization)
    if (names.length === 0) return NO_COUNTERS_FOUND
    const open = [...reservations].flatMap(([id, { isOpen }]) => (isOpen ? [id] : []))
    return await this.store.countersOfNode(organization, this.log.epochs.node, names, open)
  }

  private async giveRows(
    organization: string,
    epoch: number,
    rows: readonly GivenRow[],
    done: number,
    progress?: (from: number, until: number) => Promise<void>,
  ): Promise<boolean> {
    const last = rows.length
    const give = (row: GivenRow, number: number) =>
      this.store.restore(epoch, this.log.epochs.node, { ...row, number, last })
    if (last === 0) return (await give({ organization, key: '', day: 0, series: '', ...noUsage }, 0)) === 'all'
    for (let given = done; given < last; ) {
      const next = rows.slice(given, given + ABREAST)
      const replies = await Promise.all(next.map((row, i) => give(row, given + i + 1)))
      if (replies.includes(undefined)) return false
      if (replies.includes('all')) return true
      const reached = Math.max(given, ...replies.map((reply) => (typeof reply === 'number' ? reply : 0)))
      if (reached === given) throw new Error('Redis accepted none of the rows that were given back.')
      await progress?.(given, reached)
      given = reached
    }
    return true
  }
}

const NOTHING: FoundOfNode = {
  figures: new Map(),
  foldedBefore: 0,
  reservations: new Map(),
  counters: NO_COUNTERS_FOUND,
  isLegacy: false,
  sinceMs: 0,
}
