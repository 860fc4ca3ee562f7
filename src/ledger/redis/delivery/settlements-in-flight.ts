/**
 * The settlements that may not be in Redis yet, by organisation, and how many are sent at once: none waits for a part
 * of Redis that is slow for another organisation.
 */

import { ConcurrencyLimit } from '../client/concurrency-limit.ts'

/**
 * Settlements of one organisation in flight at once. A commit releases many, and Redis runs one script after
 * another, 50 µs each: without this limit reservations would wait for all of them, with it for 0.8 ms. Those in flight
 * share a write: with 4 a settlement took 65 µs of CPU, with 16 it takes 45, and with 64 no less.
 */
const IN_FLIGHT_MIN = 16

interface OfOrganization {
  readonly settlements: Set<Promise<unknown>>
  readonly limit: ConcurrencyLimit
}

export class SettlementsInFlight {
  private readonly organizations = new Map<string, OfOrganization>()

  /** Runs a settlement, with the concurrency limit of its organisation; it is in flight until it ends. */
  async run<T>(organization: string, settle: (limit: ConcurrencyLimit) => Promise<T>): Promise<T> {
    const known = this.organizations.get(organization) ?? {
      settlements: new Set(),
      limit: new ConcurrencyLimit(IN_FLIGHT_MIN),
    }
    this.organizations.set(organization, known)
    const settling = settle(known.limit)
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
