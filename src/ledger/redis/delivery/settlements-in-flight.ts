/**
 * The settlements that may not be in Redis yet, by organisation, and the turns they take: none waits for a part of Redis that is slow for
 * another organisation.
 */

import { ConcurrencyLimit } from '../client/concurrency-limit.ts'

/**
 * Settlements on their way at once, in one write where they begin together. Redis runs one script after the other, 50 µs each, and a commit
 * lets many go: reservations are not to wait behind all of them.
 */
const ABREAST = 4

interface OfOne {
  readonly settlements: Set<Promise<unknown>>
  readonly lanes: ConcurrencyLimit
}

export class UnderWay {
  private readonly organizations = new Map<string, OfOne>()

  /** Runs a settlement, which is under way until it ends. It is given the lanes of its organisation. */
  async run<T>(organization: string, settle: (lanes: ConcurrencyLimit) => Promise<T>): Promise<T> {
    const known = this.organizations.get(organization) ?? {
      settlements: new Set(),
      lanes: new ConcurrencyLimit(ABREAST),
    }
    this.organizations.set(organization, known)
    const settling = settle(known.lanes)
    known.settlements.add(settling)
    try {
      return await settling
    } finally {
      known.settlements.delete(settling)
      if (known.settlements.size === 0) this.organizations.delete(organization)
    }
  }

  /** The end of those of an organisation that are under way now; undefined where there are none. */
  of(organization: string): Promise<unknown> | undefined {
    const known = this.organizations.get(organization)
    return known === undefined ? undefined : Promise.allSettled(known.settlements)
  }

  /** The end of all that are under way now. */
  all(): Promise<unknown> {
    return Promise.allSettled([...this.organizations.keys()].map((organization) => this.of(organization)))
  }
}
