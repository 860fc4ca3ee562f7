/**
 * The settlements that may not be in Redis yet, by organisation, and how many are sent at once: none waits for a part
 * of Redis that is slow for another organisation.
 */

import { ConcurrencyLimit } from '../client/concurrency-limit.ts'
import { SETTLED_AT_ONCE } from '../store/settle-batches.ts'

/**
 * Settlements of one organisation in flight at once. A commit releases many; without this limit reservations would wait
 * for all of them. Those that begin together are one call of a script.
 */
const IN_FLIGHT_MIN = SETTLED_AT_ONCE

interface OfOrganization {
  readonly settlements: Set<Promise<unknown>>
  readonly limit: ConcurrencyLimit
}

export class SettlementsInFlight {
  private readonly organizations = new Map<string, OfOrganization>()

  /** Runs a settlement, with the concurrency limit of its organisation; it is in flight until it ends. */
  run<T>(organization: string, settle: (limit: ConcurrencyLimit) => Promise<T>): Promise<T> {
    const known = this.organizations.get(organization) ?? {
      settlements: new Set(),
      limit: new ConcurrencyLimit(IN_FLIGHT_MIN),
    }
    this.organizations.set(organization, known)
    const settling = settle(known.limit)
    known.settlements.add(settling)
    const ended = () => {
      known.settlements.delete(settling)
      if (known.settlements.size === 0) this.organizations.delete(organization)
    }
    settling.then(ended, ended)
    return settling
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
