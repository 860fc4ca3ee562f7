/**
 * Which candidate of a request is called next. Those that rest are passed over, and called only if no other could be.
 */

import type { Candidate } from '../catalog/resolve.ts'
import { Later, laterOf } from '../core/later.ts'
import { Attempt } from './attempt.ts'
import type { Breaker } from './breaker.ts'
import type { Permit } from './permit.ts'
import type { RequestRoom } from './request-room.ts'

/** Hears of each candidate that was passed over because it rests. */
export interface RestListener {
  rests(candidate: Candidate): void
}

export class CandidateTurns {
  private turns = 0
  /** Candidates at the beginning that a budget does not allow. */
  private passed = 0
  /** Candidates to call although they rest, once none of the others could be called. */
  private resting: Candidate[] | undefined

  constructor(
    /** In the order of the configuration, or of the conversation's hash. */
    private readonly listed: readonly Candidate[],
    /** The same in the order in which they are called; it may change before the first call. */
    public candidates: readonly Candidate[],
    private readonly breaker: Breaker,
    private readonly listener: RestListener,
    /** Absent if no provider has limits. */
    private readonly room?: RequestRoom,
  ) {}

  get isOnly(): boolean {
    return this.listed.length === 1
  }

  /**
   * How many candidates come before it. A conversation that stays with a later candidate has skipped those that are
   * listed before it, too.
   */
  before(candidate: Candidate): number {
    return Math.max(this.candidates.indexOf(candidate), this.listed.indexOf(candidate))
  }

  /** Makes a candidate the first that is called. Returns those before it. */
  begin(candidate: Candidate): readonly Candidate[] {
    this.passed = Math.max(0, this.candidates.indexOf(candidate))
    this.turns = this.passed
    return this.candidates.slice(0, this.passed)
  }

  /**
   * The next candidate that does not rest; undefined if there is none. Later if the other workers must be asked
   * whether this one may probe the candidate; it resolves to undefined if it may not, and then this is called again.
   */
  next(isFirst: boolean): Attempt | Later<Attempt | undefined> | undefined {
    while (this.resting === undefined) {
      const candidate = this.candidates[this.turns++]
      if (candidate === undefined) return undefined
      const permit = this.breaker.enter(candidate.target)
      if (permit !== undefined) {
        const attempt = this.attempt(candidate, permit, isFirst)
        if (attempt !== undefined) return attempt
        continue
      }
      // Only a target whose rest is over has to ask the other workers, of which one may probe it.
      if (this.breaker.mustClaim(candidate.target)) return laterOf(this.claim(candidate, isFirst))
      this.rests(candidate)
    }
    return undefined
  }

  /** After `next` found none, and no candidate was called: the next of those that may be called at rest. */
  nextAtRest(isAutomatic: boolean): Attempt | Later<Attempt | undefined> | undefined {
    this.resting ??= callableAtRest(this.candidates.slice(this.passed), this.breaker, isAutomatic)
    const candidate = this.resting.shift()
    if (candidate === undefined) return undefined
    const permit = this.breaker.enterAnyway(candidate.target)
    const entering = this.attempt(candidate, permit, true, true)
    if (!(entering instanceof Later)) return entering ?? this.nextAtRest(isAutomatic)
    return laterOf(entering.then((attempt) => attempt ?? this.nextAtRest(isAutomatic)))
  }

  private async claim(candidate: Candidate, isFirst: boolean): Promise<Attempt | undefined> {
    const permit = await this.breaker.enterByClaim(candidate.target)
    if (permit !== undefined) return await this.attempt(candidate, permit, isFirst)
    this.rests(candidate)
    return undefined
  }

  private attempt(candidate: Candidate, permit: Permit, isFirst: boolean, isAtRest?: boolean) {
    if (this.room === undefined) return new Attempt(candidate, permit, isFirst)
    return this.room.enter(candidate, permit, isFirst, isAtRest)
  }

  private rests(candidate: Candidate): void {
    this.listener.rests(candidate)
    this.room?.rests(candidate)
  }
}

/**
 * Which candidates are called in spite of their rest, if every candidate of a request rests. The one whose rest ends
 * first before the others: the first that can be called is the only one. During a rest that its
 * provider asked for, and with automatic selection during any rest, a candidate is not called. If the rest is over and
 * another request is still probing the target, it is.
 */
function callableAtRest(
  candidates: readonly Candidate[],
  breaker: Pick<Breaker, 'restOf'>,
  isAutomatic: boolean,
): Candidate[] {
  const resting = candidates.flatMap((candidate) => {
    const rest = breaker.restOf(candidate.target)
    if (rest === undefined) return []
    // While another worker probes a target, its rest is over; `restMs` is the time for the probe.
    const isAsked = rest.asked && !rest.probing
    return rest.restMs > 0 && (isAutomatic || isAsked) ? [] : [{ candidate, rest }]
  })
  return resting.sort((one, other) => one.rest.restMs - other.rest.restMs).map(({ candidate }) => candidate)
}
