/** How many tokens a request would take in. Costs nothing, so nothing is held for it. */

import { fit, needsOf } from '../catalog/capability.ts'
import type { Key } from '../catalog/catalog.ts'
import { type Candidate, resolve } from '../catalog/resolve.ts'
import { Fault } from '../core/fault.ts'
import type { ChatRequest } from '../core/request.ts'
import { isAbsurd } from '../core/usage.ts'
import { estimateInput } from '../ledger/estimate.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import type { Gateway } from './gateway.ts'
import type { Flight } from './in-flight.ts'
import { readJson, send, upstreamOf } from './walk.ts'

/** An agent counts before each turn and has an estimate of its own: it is not kept waiting. */
const COUNT_MS = 10_000

/**
 * The figure of the provider that would be asked first, where it has a counter and answers in time; else our estimate. Throws the model
 * errors of decisions.md 2.
 */
export async function countTokens(gateway: Gateway, key: Key, request: ChatRequest, flight: Flight): Promise<number> {
  const tokens = estimateInput(request)
  const ask = { name: request.model, kind: 'chat', needs: needsOf(request, tokens) } as const
  const { candidates } = resolve(gateway.catalog, key, ask)
  const first = candidates.find(({ target }) => gateway.breaker.isWell(target))
  return (first && (await countedBy(gateway, first, request, { flight, estimate: tokens }))) ?? tokens
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
    if (error instanceof Fault) return undefined
    throw error
  }
}
