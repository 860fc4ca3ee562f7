/**
 * Looks through all organisations now and then: ends what is overdue of those that have gone quiet, and finds those of which Redis has lost
 * something without a connection that broke. Costs little for those with which all is well.
 */

import { isPermanent } from '../../../redis/redis-errors.ts'
import type { Link } from '../client/redis-link.ts'
import type { SettlementLog } from '../delivery/settlement-log.ts'
import type { Expected } from './epoch-rows.ts'
import type { Restoration } from './replay.ts'
import type { Surveyed } from './survey.ts'

/** Surveyed before anything is done about them. */
const A_TURN = 500

export class OrganizationSweep {
  private running: Promise<void> | undefined

  constructor(
    private readonly link: Pick<Link, 'book' | 'isReady' | 'survey'>,
    private readonly log: Pick<SettlementLog, 'node' | 'allExpected'>,
    private readonly restoration: Restoration,
  ) {}

  /** Never twice at the same time. */
  run(organizations: Iterable<string>): Promise<void> {
    this.running ??= this.sweep(organizations).finally(() => {
      this.running = undefined
    })
    return this.running
  }

  private async sweep(organizations: Iterable<string>): Promise<void> {
    // Taken before Redis is asked: what is settled meanwhile is only there.
    const expected = this.log.allExpected()
    const all = [...new Set([...organizations, ...expected.keys()])]
    for (let i = 0; i < all.length; i += A_TURN) {
      if (!this.link.isReady) return
      for (const one of await this.link.survey(all.slice(i, i + A_TURN), this.log.node)) {
        if (!(await this.tend(one, expected.get(one.organization)))) return
      }
    }
  }

  /** False if Redis cannot be asked. */
  private async tend(surveyed: Surveyed, expected: Expected | undefined): Promise<boolean> {
    const { organization } = surveyed
    try {
      if (surveyed.isOverdue) await this.link.book.reap(organization)
      const isWell = expected === undefined || this.restoration.agrees(surveyed, expected)
      if (!isWell) await this.restoration.compare(organization)
      return true
    } catch (error) {
      // What is wrong with the keys of one organisation keeps no other from its turn.
      return isPermanent(error) && this.link.isReady
    }
  }
}
