/** What the store in memory has of one organisation: its scopes, and the order of its reservations by due time. */

import { Counters } from './counters.ts'
import { DueOrder } from './reservation-index.ts'
import type { Scopes } from './reservation-moves.ts'
import { newScope, type ReservationState, type ScopeState } from './store-state.ts'

export class OrganizationState {
  readonly counters: Counters
  readonly live = new DueOrder()
  readonly lost = new DueOrder()
  /** Settled and cancelled ones, to recognise repeated calls. */
  readonly ended = new DueOrder()
  /** Its own scope by '', those of its keys by `k` and the key's id. */
  private readonly owners = new Map<string, ScopeState>()
  /** By the id of a key: the organisation's scope and its own. */
  private readonly pairs = new Map<string, Scopes>()

  /** `dropped` gets each counter that has ended. */
  constructor(
    private readonly id: string,
    dropped: (scope: ScopeState) => void,
  ) {
    this.counters = new Counters(id, dropped)
  }

  get scopes(): readonly ScopeState[] {
    return [...this.owners.values(), ...this.counters.scopes.values()]
  }

  /** Both scopes of a key, new ones if it has none: they are dropped unless they are stored. */
  pair(key: string, now: number): Scopes {
    const known = this.pairs.get(key)
    if (known !== undefined) return known
    const name = `k${key}`
    const own = this.owners.get(name)
    const pair = [this.owners.get('') ?? newScope(this.id, '', now), own ?? newScope(this.id, name, now)]
    if (own !== undefined) this.pairs.set(key, pair)
    return pair
  }

  /** Whether the scopes of a key are stored. */
  hasPair(key: string): boolean {
    return this.pairs.has(key)
  }

  store(scope: ScopeState): void {
    this.mapOf(scope).set(scope.key, scope)
  }

  has(scope: ScopeState): boolean {
    return this.mapOf(scope).get(scope.key) === scope
  }

  orderOf({ state }: ReservationState): DueOrder {
    if (state === 'live') return this.live
    return state === 'lost' ? this.lost : this.ended
  }

  private mapOf({ key }: ScopeState): Map<string, ScopeState> {
    return key.startsWith('b') ? this.counters.scopes : this.owners
  }
}
