/**
 * What one endpoint asks of providers: what the request needs, what it may cost, how a candidate is called. The flow
 * knows its work by this interface alone.
 */

import type { Catalog, Key } from '../catalog/catalog.ts'
import { type Candidate, candidatesOf, type Requirements, type Resolution, selectModel } from '../catalog/resolve.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { OutputChoice } from '../ledger/ledger.ts'
import type { Learned } from '../providers/provider.ts'
import type { RequestLog } from './access-log.ts'
import type { Gateway, Upstream } from './gateway.ts'
import type { RunningRequest } from './in-flight.ts'
import type { ProviderCall } from './provider-call.ts'
import type { Quote } from './quote.ts'

/** `needs` are those of the request once `estimate` was called. */
export interface Work extends Requirements {
  /** Absent if another output limit would not change what is reserved. */
  readonly choice?: OutputChoice
  /** The model's name as the caller wrote it. */
  readonly model: string
  /** A whole answer is the text of server-sent events. Absent if it is not. */
  readonly answersInEvents?: boolean
  /**
   * Estimates the input tokens and reads what the request needs: once, and after its model was found, so that a wrong
   * name costs no estimate.
   */
  estimate(): void
  /** Names the conversation with one model, if requests of a conversation should reach the same target. */
  conversationWith(model: string): string
  /**
   * The order in which the candidates are called, the configured one unless there is a reason. At least one candidate.
   */
  order(candidates: readonly Candidate[]): readonly Candidate[]
  /**
   * What a candidate may cost: reserved before it is called. Throws `CallerError` `unsupported_cache` if the requested
   * model cannot honour what the caller insists on, and `unpriced_service_tier` or `unpriced_image` if a spend limit
   * holds and the price of what is asked for is not known.
   */
  quote(candidate: Candidate, key: Key): Quote
  /**
   * The call of one candidate, which is not sent yet. It ends at `dueMs` (`performance.now()`) if it has not begun to
   * answer. Throws `ProviderError` if this provider cannot take such a request.
   */
  ask(candidate: Candidate, upstream: Upstream, dueMs: number): ProviderCall
  /**
   * How to write the request instead, if the candidate may have rejected how it was written; `sentMs` is when it was
   * sent (`performance.now()`). Absent for requests that are passed on as they are.
   */
  learn?(candidate: Candidate, upstream: Upstream, error: ProviderError, sentMs: number): Learned | undefined
  /**
   * Pending while something that a call needs is fetched; resolves to the order in which the candidates are called
   * then. Never rejects. Absent if nothing is.
   */
  readonly fetching?: Promise<readonly Candidate[]> | undefined
  /** The candidate has answered. */
  served?(candidate: Candidate): void
  /**
   * The answer is a stream that has begun, so no other candidate is called: drops what only a call needs. A stream may
   * last for minutes, and a conversation of 200 KB would stay in memory for as long.
   */
  streams?(): void
}

/** Work on its way, as all steps of its flow share it. */
export interface RunningWork {
  readonly gateway: Gateway
  readonly key: Key
  readonly work: Work
  readonly running: RunningRequest
  readonly log: RequestLog
}

/** Finds the candidates, and estimates the work before. Throws the `CallerError` of a model that cannot be used. */
export function resolveWork(catalog: Catalog, key: Key, work: Work): Resolution {
  const selected = selectModel(catalog, key, work.model, work.kind)
  // The candidates depend on the estimate; a model that does not exist needs none.
  work.estimate()
  return candidatesOf(catalog, key, selected, work)
}
