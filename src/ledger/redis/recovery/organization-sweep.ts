/**
 * Periodic sweep over all organisations: ends overdue reservations of those that have no requests, and finds data loss
 * in Redis that came without a broken connection. Costs about 5 µs for an organisation without either.
 */

import { isPermanent } from '../../../redis/redis-errors.ts'
import type { Link, Surveyed } from '../protocol/link.ts'
import type { Expected, NodeLog } from '../protocol/node-log.ts'
import type { Restoration } from './restoration.ts'

/** Organisations of one survey. */
const A_TURN = 500

export class OrganizationSweep {
  private running: Promise<void> | undefined

  constructor(
    private readonly link: Pick<Link, 'store' | 'isReady' | 'survey'>,
    private readonly log: Pick<NodeLog, 'node' | 'allExpected'>,
    private readonly restoration: Restoration,
  ) {}

  /** A second call during a sweep waits for it. */
  run(organizations: Iterable<string>): Promise<void> {
    this.running ??= this.sweep(organizations).finally(() => {
      this.running = undefined
    })
    return this.running
  }

  private async sweep(organizations: Iterable<string>): Promise<void> {
    // Read before Redis: a settlement in between makes Redis have more, not less.
    const expected = this.log.allExpected()
    const all = [...new Set([...organizations, ...expected.keys()])]
    for (let i = 0; i < all.length; i += A_TURN) {
      if (!this.link.isReady) return
      for (const one of await this.link.survey(all.slice(i, i + A_TURN), this.log.node)) {
        if (!(await this.tend(one, expected.get(one.organization)))) return
      }
    }
  }

  /** False if Redis does not answer. */
  private async tend(surveyed: Surveyed, expected: Expected | undefined): Promise<boolean> {
    const { organization } = surveyed
    try {
      if (surveyed.isOverdue) await this.link.store.reap(organization)
      const isWell = expected === undefined || this.restoration.agrees(surveyed, expected)
      if (!isWell) await this.restoration.compare(organization)
      return true
    } catch (error) {
      // A problem with the keys of one organisation must not stop the sweep.
      return isPermanent(error) && this.link.isReady
    }
  }
}
