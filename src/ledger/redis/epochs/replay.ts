/**
 * Gives a Redis that has lost something what this node's log holds and Redis does not: some settlements again one by one, the rest as sums, each once,
 * however often it is tried and whoever dies in between. Every node does so for what it served itself. It makes no difference whether all was
 * lost (FLUSHALL), the last minutes (a crash without an append-only file), or what came after a backup.
 */

import { noUsage } from '../../usage-figures.ts'
import type { UsageRow } from '../../usage-log.ts'
import type { SettlementLog } from '../delivery/settlement-log.ts'
import type { Expected, FoundOfNode, KnownEpoch } from './epoch-rows.ts'
import type { Entered, Epochs, RecoverableBook } from './epochs.ts'
import type { Surveyed } from './survey.ts'

/** Rows on their way at once. */
const ABREAST = 64
/** Redis may lose something again meanwhile. */
const TRIES = 3
/** What was taken so long before is sent again one by one if Redis lost it, so that its trail names each request. */
const TAIL_MS = 60_000

type Log = Pick<
  SettlementLog,
  'node' | 'knownEpochs' | 'epochOf' | 'expected' | 'places' | 'foldedBefore' | 'find' | 'prepare' | 'enter' | 'entered'
>

/** What Redis said, and what was known before it was asked. */
interface Asked {
  readonly known: KnownEpoch
  readonly entered: Entered
}

/** What a comparison is to find out: `likely` a loss that is larger than what is on its way, `certain` any loss. */
type Certainty = 'likely' | 'certain'

export class Restoration {
  private readonly running = new Map<string, Promise<void>>()
  /** Redis may have lost something of these: nothing is reserved or charged before they are compared. */
  private readonly doubted = new Map<string, Certainty>()
  /** What Redis took before is not among what it lost last, if it lost something. */
  private sinceMs: number

  constructor(
    private readonly book: Pick<RecoverableBook, 'enter' | 'figuresOfNode' | 'reservations' | 'restore'>,
    private readonly log: Log,
    private readonly epochs: Epochs,
    /** Notes an organisation for those who read over all: that note may be lost, too. */
    private readonly register: (organization: string) => Promise<void>,
    /** Another epoch of an organisation was entered: what it lacks may be sent to it. */
    private readonly entered: (organization: string) => void,
    now: number,
  ) {
    this.sinceMs = now - TAIL_MS
    for (const { organization, epoch, complete } of log.knownEpochs()) {
      if (complete) epochs.enter(organization, epoch)
      this.doubted.set(organization, 'likely')
    }
  }

  /** Every organisation that this node has served. */
  organizations(): readonly string[] {
    return this.log.knownEpochs().map(({ organization }) => organization)
  }

  /** The epoch that this process knows to be entered; 0: none. */
  epochOf(organization: string): number {
    return this.epochs.of(organization)
  }

  /** Redis was away since a time. */
  doubt(lostMs: number): void {
    this.sinceMs = lostMs - TAIL_MS
    for (const organization of this.organizations()) this.doubted.set(organization, 'certain')
  }

  /** Those that are in doubt now. */
  doubts(): readonly string[] {
    return [...this.doubted.keys()]
  }

  /** Compares if there is a doubt. Throws if Redis cannot be asked. */
  async assure(organization: string): Promise<void> {
    if (this.doubted.has(organization)) await this.compare(organization)
  }

  /**
   * Sees to it that Redis has what this node has. Without a doubt a loss may stay unseen that is no larger than what is on its way at that
   * moment. Throws if Redis cannot be asked.
   */
  compare(organization: string): Promise<void> {
    return this.once(organization, async () => {
      const { log } = this
      const certainty = this.doubted.get(organization)
      const mine = this.epochs.of(organization)
      const before = log.expected(organization)
      const asked = await this.ask(organization)
      const { entered } = asked
      const after = log.expected(organization)
      const isQuiet = before.pending === 0 && after.pending === 0 && before.requests === after.requests
      const isMissing = before.requests - before.pending > entered.requests || (certainty === 'certain' && !isQuiet)
      // In another epoch than mine everything was compared when it began: after any loss that I do not know of.
      if (entered.epoch === mine && entered.given === 'all' && isMissing) await this.renew(organization, mine)
      else await this.enter(organization, asked)
      if (this.doubted.get(organization) === certainty) this.doubted.delete(organization)
    })
  }

  /** True if nothing is missing, as far as can be told without asking more. `expected` was known before Redis was asked. */
  agrees({ organization, epoch, isWhole, requests }: Surveyed, expected: Expected): boolean {
    if (this.doubted.has(organization) || !isWhole || epoch !== this.epochs.of(organization)) return false
    return expected.requests - expected.pending <= requests
  }

  /** Gives back to the epoch that Redis is in. Throws if Redis cannot be asked. */
  restore(organization: string): Promise<void> {
    return this.once(organization, async () => this.enter(organization, await this.ask(organization)))
  }

  /** Something that was sent in a epoch may be missing, or may not: all of it is compared, in another epoch. Throws if Redis cannot be asked. */
  resolve(organization: string, epoch: number): Promise<void> {
    return this.once(organization, () => this.renew(organization, epoch))
  }

  private async renew(organization: string, epoch: number): Promise<void> {
    await this.enter(organization, await this.ask(organization, epoch))
  }

  /** What Redis has of this node; in another epoch, if it is still in the one that is to end. */
  private async ask(organization: string, ended = 0): Promise<Asked> {
    const known = this.log.epochOf(organization)
    const { epoch, legacyEpoch } = known
    return { known, entered: await this.book.enter(organization, { node: this.log.node, epoch, legacyEpoch }, ended) }
  }

  /** One at a time for each organisation: who comes meanwhile waits for that. */
  private once(organization: string, work: () => Promise<void>): Promise<void> {
    const running = this.running.get(organization)
    if (running !== undefined) return running
    const working = work().finally(() => this.running.delete(organization))
    this.running.set(organization, working)
    return working
  }

  private async enter(organization: string, first: Asked): Promise<void> {
    const { log, epochs } = this
    let asked = first
    for (let tries = 0; tries < TRIES; tries++) {
      const { known, entered } = asked
      const { epoch, given } = entered
      const isKnown = log.epochOf(organization).epoch === epoch
      // Redis was set back within this epoch; or the log was.
      const isAstray = (known.epoch === epoch && known.complete && given !== 'all') || (!isKnown && given !== 0)
      if (!isAstray && (await this.give(organization, entered, isKnown))) {
        const isNew = epochs.of(organization) !== epoch
        log.entered(organization, epoch)
        epochs.enter(organization, epoch)
        if (!isNew) return
        this.entered(organization)
        await this.register(organization)
        return
      }
      asked = await this.ask(organization, isAstray ? epoch : 0)
    }
    throw new Error(`Redis loses what it has again and again: the organisation '${organization}' is not restored.`)
  }

  /** False if Redis is in another epoch meanwhile. */
  private async give(organization: string, entered: Entered, isKnown: boolean): Promise<boolean> {
    const { epoch, given } = entered
    if (given === 'all') return true
    const rows = isKnown ? this.log.enter(organization, epoch, NOTHING, []) : await this.settle(organization, entered)
    return await this.giveRows(organization, epoch, rows, given)
  }

  /** Nothing of this node is taken in this epoch before all is given back: what is found now stays as it is. */
  private async settle(organization: string, { epoch, isLegacy }: Entered): Promise<readonly UsageRow[]> {
    const { log, book, sinceMs } = this
    // The places first: if another process folds in between, they are by day and compared by month, never the other way round.
    const places = log.places(organization)
    const [{ figures, foldedBefore }, reservations] = await Promise.all([
      book.figuresOfNode(log.node, places, log.foldedBefore),
      book.reservations(organization),
    ])
    // What is open there may have ended long ago here.
    const open = [...reservations].filter(([, { isOpen }]) => isOpen)
    const resent = await log.find(organization, new Map(open.map(([id, { admittedMs }]) => [id, admittedMs])))
    const found = { figures, foldedBefore, reservations, isLegacy, sinceMs }
    await log.prepare(organization, epoch, found)
    return log.enter(organization, epoch, found, resent)
  }

  private async giveRows(
    organization: string,
    epoch: number,
    rows: readonly UsageRow[],
    done: number,
  ): Promise<boolean> {
    const last = rows.length
    const give = (row: UsageRow, number: number) => this.book.restore(epoch, this.log.node, { ...row, number, last })
    if (last === 0) return (await give(noRow(organization), 0)) === 'all'
    for (let given = done; given < last; ) {
      const next = rows.slice(given, given + ABREAST)
      const replies = await Promise.all(next.map((row, i) => give(row, given + i + 1)))
      if (replies.includes(undefined)) return false
      if (replies.includes('all')) return true
      const reached = Math.max(given, ...replies.map((reply) => (typeof reply === 'number' ? reply : 0)))
      if (reached === given) throw new Error('Redis took no row of the log.')
      given = reached
    }
    return true
  }
}

const NOTHING: FoundOfNode = {
  figures: new Map(),
  foldedBefore: 0,
  reservations: new Map(),
  isLegacy: false,
  sinceMs: 0,
}

function noRow(organization: string): UsageRow {
  return { organization, key: '', day: 0, model: '', ...noUsage }
}
