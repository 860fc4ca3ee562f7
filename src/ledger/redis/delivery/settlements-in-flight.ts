/**
 * The settlements that may not be in Redis yet, by organisation, and how many are sent at once: none waits for a part
 * of Redis that is slow for another organisation.
 */

import { ConcurrencyLimit } from '../client/concurrency-limit.ts'

/**
 * Settlements of one organisation that are sent at once. A commit releases many, and Redis runs one script after
 * another, 50 µs each: without this limit reservations would wait for all of them.
 */
const ABREAST = 4

interface OfOne {
  readonly settlements: Set<Promise<unknown>>
  readonly lanes: ConcurrencyLimit
}

export class SettlementsInFlight {
  private readonly organizations = new Map<string, OfOne>()

  /** Runs a settlement, with the concurrency limit of its organisation; it is in flight until it ends. */
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

  /**
   * Resolves when the settlements of an organisation that are in flight now have ended; undefined if there are none.
   */
  of(organization: string): Promise<unknown> | undefined {
    const known = this.organizations.get(organization)
    return known === undefined ? undefined : Promise.allSettled(known.settlements)
  }

  /** Resolves when all that are in flight now have ended. */
  all(): Promise<unknown> {
    return Promise.allSettled([...this.organizations.keys()].map((organization) => this.of(organization)))
  }
}
