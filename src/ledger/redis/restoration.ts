/**
 * Gives back to a Redis that was emptied what this node's log holds, so that no budget begins anew: usage row by usage row, each once, however
 * often it is tried and whoever dies in between. Every node does so for what it served itself.
 */

import type { KnownLife } from '../life-rows.ts'
import type { UsageRow } from '../usage-log.ts'
import type { RedisBook } from './book.ts'
import type { Lives } from './lives.ts'

/** Rows on their way at once. */
const ABREAST = 64
/** Redis may be emptied again meanwhile. */
const TRIES = 3
/** No organisation's life: what is known to be incomplete is completed before anything else is done. */
const INCOMPLETE_LIFE = 1

/** What a node's log knows of lives; `Outbox` is one. */
export interface RestoringLog {
  readonly node: string
  knownLives(): readonly KnownLife[]
  enter(organization: string, life: number): readonly UsageRow[]
  entered(organization: string, life: number): void
}

export class Restoration {
  private readonly running = new Map<string, Promise<void>>()

  /** `register` notes an organisation for those who read over all: that note was lost, too. */
  constructor(
    private readonly book: RedisBook,
    private readonly log: RestoringLog,
    private readonly lives: Lives,
    private readonly register: (organization: string) => Promise<void>,
  ) {
    for (const { organization, life, complete } of log.knownLives()) {
      lives.adopt(organization, complete ? life : INCOMPLETE_LIFE)
    }
  }

  /** Every organisation that this node has served. */
  organizations(): readonly string[] {
    return this.log.knownLives().map(({ organization }) => organization)
  }

  /** The life in which this node is; 0 where none is known. */
  lifeOf(organization: string): number {
    return this.lives.of(organization)
  }

  /** Sees to it that Redis has what this node has. Little is done where it has. Throws where Redis cannot be asked. */
  restore(organization: string): Promise<void> {
    const running = this.running.get(organization)
    if (running !== undefined) return running
    const work = this.work(organization).finally(() => this.running.delete(organization))
    this.running.set(organization, work)
    return work
  }

  private async work(organization: string): Promise<void> {
    const { book, log, lives } = this
    for (let tries = 0; tries < TRIES; tries++) {
      const { life, done } = await book.lifeOf(organization, log.node)
      const rows = log.enter(organization, life)
      if (!(await this.give(life, rows, done))) continue
      const isNew = lives.of(organization) !== life
      log.entered(organization, life)
      lives.adopt(organization, life)
      if (isNew) await this.register(organization)
      return
    }
    throw new Error(`Redis is emptied again and again: the organisation '${organization}' is not restored.`)
  }

  /** False where it was emptied on the way. */
  private async give(life: number, rows: readonly UsageRow[], done: number): Promise<boolean> {
    for (let given = done; given < rows.length; ) {
      const next = rows.slice(given, given + ABREAST)
      const replies = await Promise.all(
        next.map((row, i) => this.book.restore(life, this.log.node, given + i + 1, row)),
      )
      const reached = Math.max(given, ...replies.map((reply) => reply ?? 0))
      if (replies.includes(undefined)) return false
      if (reached === given) throw new Error('Redis took no row of the log.')
      given = reached
    }
    return true
  }
}
