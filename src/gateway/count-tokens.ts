/** How many tokens a request would take in. It costs nothing and is counted nowhere, but it is a request: limits on those apply. */

import { fit, needsOf } from '../catalog/capability.ts'
import type { Key } from '../catalog/catalog.ts'
import { type Candidate, resolve } from '../catalog/resolve.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import { hasLimit } from '../core/limits.ts'
import { ProviderError } from '../core/provider-error.ts'
import { isAbsurd } from '../core/token-usage.ts'
import { estimateInput } from '../ledger/estimate.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import type { RequestLog } from './access-log.ts'
import type { Gateway } from './gateway.ts'
import type { Flight } from './in-flight.ts'
import { RequestReservation } from './reservation.ts'
import { accountOf, readJson, send, upstreamOf } from './walk.ts'

/** A request whose tokens are to be counted: who asks, and how that can be ended from outside. */
interface CountOrder {
  readonly key: Key
  readonly request: ChatRequest
  readonly flight: Flight
  readonly trace: RequestLog
}

/** An agent counts before each turn and has an estimate of its own: it is not kept waiting. */
const COUNT_MS = 10_000

/**
 * The figure of the provider that would be asked first, where it has a counter and answers in time; else our estimate. Throws the model
 * errors of decisions.md 2.
 */
export async function countTokens(gateway: Gateway, { key, request, flight, trace }: CountOrder): Promise<number> {
  const tokens = estimateInput(request)
  const ask = { name: request.model, kind: 'chat', needs: needsOf(request, tokens) } as const
  const { candidates } = resolve(gateway.catalog, key, ask)
  const first = candidates.find(({ target }) => gateway.breaker.isWell(target))
  const count = async () =>
    (first && (await countedBy(gateway, first, request, { flight, estimate: tokens }))) ?? tokens
  if (!limitsRequests(key)) return await count()
  const quote = { model: candidates[0]?.model.name ?? '', inputTokens: 0, maxOutputTokens: 0, price: undefined }
  await using held = await RequestReservation.open(gateway.ledger, accountOf(key), quote, trace, () => undefined)
  const counted = await count()
  held.settleBehind(flight.interrupted ?? 'completed', undefined, (error) => gateway.report(error, trace.requestId))
  return counted
}

/** Where none is limited the ledger has nothing to say, and an agent that counts before each turn would ask it twice as often. */
function limitsRequests({ limits, organization }: Key): boolean {
  return hasLimit([limits, organization.limits], ({ unit }) => unit === 'requests')
}

async function countedBy(
  gateway: Gateway,
  candidate: Candidate,
  request: ChatRequest,
  { flight, estimate }: { readonly flight: Flight; readonly estimate: number },
): Promise<number | undefined> {
  const { provider, endpoint } = upstreamOf(gateway, candidate)
  const { counter } = provider
  if (counter === undefined) return undefined
  const target = { endpoint, model: candidate.target.model }
  const dispatch = counter.request(fit(request, candidate.model), target)
  const call = new UpstreamCall(dispatch, endpoint, false, performance.now() + COUNT_MS)
  flight.onInterrupt(() => call.abort())
  try {
    await send(call, provider)
    flight.sent()
    const tokens = counter.tokens(await readJson(call))
    return isAbsurd(tokens, estimate) ? undefined : tokens
  } catch (error) {
    // Whatever is wrong with the provider, a request would find it out again and tell it; an estimate is an answer.
    if (error instanceof ProviderError) return undefined
    throw error
  }
}
