/**
 * Asks idle targets that failed whether they answer again, by a free request such as a list of models. Targets with
 * traffic are probed by their requests. No request waits for this, and one worker of a node does it.
 *
 * A list of models is a witness only if it shows the failure: that of a provider whose models fail, or whose account
 * has no credit, may answer all the same. So it is also asked for once while the target rests. If it answers then, it
 * is not asked again, and the target waits for a request; if it fails, it is asked for after each rest, until it
 * answers.
 */

import { isObject } from '../core/json.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Ticking } from '../core/ticker.ts'
import type { Dispatch } from '../providers/provider.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import type { Breaker, Rest } from './breaker.ts'
import { type Gateway, type Upstream, upstreamOf } from './gateway.ts'
import { parseJson, sendForText } from './provider-call.ts'

/** After a rest a target counts as idle if no request has come for so long. */
const IDLE_MS = 1000
/** Requests at a time; the other targets wait for a later tick. */
const CONCURRENT_MAX = 8
const TIMEOUT_MS = 30_000

/** `answered`, the kind of failure, or `none`: the provider has no such request, or does not allow it. */
export type ProbeResult = 'answered' | 'none' | ProviderError['kind']

interface ProberOptions {
  readonly breaker: Pick<Breaker, 'rests' | 'probed'>
  /** Of the configuration in force; undefined if it turns probes off. */
  readonly upstreams: () => Gateway['upstreams'] | undefined
  /** A probe of a target has ended. `error`: it counts as a failed call. */
  readonly ended: (target: TargetRef, result: ProbeResult, error: ProviderError | undefined) => void
  readonly now?: () => number
}

/** What is known of a target since its last request failed. */
interface Outage {
  /** The rest that followed. */
  readonly rest: Rest
  /** Whether the free request shows the failure; undefined if it was not asked yet. */
  isWitness: boolean | undefined
  /** When the rest was first found to be over (`now`). */
  overSinceMs: number | undefined
  /** A probe failed, and the next rest follows from that. */
  hasFailed: boolean
}

/** A request for all targets of a provider that it is about. */
interface DueRequest {
  readonly request: Dispatch
  readonly upstream: Upstream
  readonly outages: Outage[]
}

export class TargetProber implements Ticking {
  place = -1
  private readonly outages = new Map<string, Outage>()
  /** The requests that run now, by provider and address. */
  private readonly running = new Set<string>()

  constructor(private readonly options: ProberOptions) {}

  tick(): void {
    const { breaker, upstreams, now = () => performance.now() } = this.options
    const known = upstreams()
    const rests = known === undefined ? [] : breaker.rests()
    const keys = new Set(rests.map(targetKey))
    for (const key of this.outages.keys()) if (!keys.has(key)) this.outages.delete(key)
    if (known === undefined) return
    for (const [key, due] of this.dueRequests(rests, known, now())) {
      if (this.running.size >= CONCURRENT_MAX) return
      void this.ask(key, due)
    }
  }

  private dueRequests(
    rests: readonly Rest[],
    upstreams: Gateway['upstreams'],
    nowMs: number,
  ): ReadonlyMap<string, DueRequest> {
    const found = new Map<string, DueRequest>()
    for (const rest of rests) {
      const outage = this.outageOf(rest)
      if (!isDue(outage, rest, nowMs) || !upstreams.has(rest.provider)) continue
      const upstream = upstreamOf({ upstreams }, { target: rest })
      const request = upstream.provider.probe?.({ endpoint: upstream.endpoint, model: rest.model })
      if (request === undefined) continue
      // Two providers may have one address, and credentials of their own.
      const key = JSON.stringify([rest.provider, request.url])
      if (this.running.has(key)) continue
      found.getOrInsert(key, { request, upstream, outages: [] }).outages.push(outage)
    }
    return found
  }

  private outageOf(rest: Rest): Outage {
    const key = targetKey(rest)
    const known = this.outages.get(key)
    if (known?.rest.rests === rest.rests) return known
    // The failure of a probe shows nothing new, and neither does a request that failed in the same way.
    const isSame = known !== undefined && (known.hasFailed || isSameFailure(known.rest, rest))
    // A limit ends by itself at the time that the provider has named.
    const isWitness = isSame ? known.isWitness : isRefutable(rest) || rest.asked || undefined
    const outage: Outage = { rest, isWitness, overSinceMs: undefined, hasFailed: false }
    this.outages.set(key, outage)
    return outage
  }

  private async ask(key: string, { request, upstream, outages }: DueRequest): Promise<void> {
    this.running.add(key)
    const error = await answerOf(request, upstream)
    this.running.delete(key)
    for (const outage of outages) this.take(outage, error)
  }

  /** `error`: undefined if it answered. */
  private take(outage: Outage, error: ProviderError | undefined): void {
    const { rest } = outage
    const result = resultOf(rest, error)
    const failure = result === 'answered' || result === 'none' ? undefined : error
    const isOver = outage.overSinceMs !== undefined
    if (outage.isWitness === undefined || result === 'none') outage.isWitness = failure !== undefined
    // While the target rests, this only shows whether the request is a witness.
    const counts = isOver && outage.isWitness
    outage.hasFailed = counts && failure !== undefined
    const isTaken = counts && this.options.breaker.probed(rest, failure)
    this.options.ended({ provider: rest.provider, model: rest.model }, result, isTaken ? failure : undefined)
  }
}

function isDue(outage: Outage, { failures, asked, restMs, probing }: Rest, nowMs: number): boolean {
  // A limit that is used up is no failure.
  if (failures === 0 || outage.isWitness === false) return false
  if (probing) {
    outage.overSinceMs = undefined
    return false
  }
  if (restMs > 0) return outage.isWitness === undefined && !asked
  outage.overSinceMs ??= nowMs
  return nowMs - outage.overSinceMs >= IDLE_MS
}

function isSameFailure(one: Rest, other: Rest): boolean {
  return one.reason === other.reason && one.status === other.status && one.cause === other.cause
}

/** Whether any answer at all shows that the failure is over. */
function isRefutable({ reason, cause }: Rest): boolean {
  return reason === 'unreachable' || cause === 'connect_timeout'
}

/** The error of the request; undefined if the answer is JSON. */
async function answerOf(request: Dispatch, { provider, endpoint }: Upstream): Promise<ProviderError | undefined> {
  try {
    const call = new UpstreamCall(request, endpoint, false, performance.now() + TIMEOUT_MS)
    const text = await sendForText(call, provider, () => {})
    if (!isObject(parseJson(text, call.status))) throw new ProviderError('broken', 'the answer is no JSON object')
    return undefined
  } catch (error) {
    return error instanceof ProviderError ? error : new ProviderError('failed', 'weir could not ask', { cause: error })
  }
}

/** Statuses of a provider that has no such request, or does not allow it to this credential. */
const NO_LIST: ReadonlySet<number> = new Set([400, 403, 404, 405, 410, 422, 501])

function resultOf(rest: Rest, error: ProviderError | undefined): ProbeResult {
  if (error === undefined) return 'answered'
  const { status } = error.detail
  if (status === undefined || !NO_LIST.has(status)) return error.kind
  // Requests are rejected with the same status.
  if (status === 403 && rest.reason === 'credential') return error.kind
  return isRefutable(rest) ? 'answered' : 'none'
}
