/** Who issues the thoughts of a candidate. */

import type { Candidate } from '../catalog/resolve.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { sentModel, type TargetRef } from '../core/model-config.ts'
import type { Issuer } from '../core/thoughts.ts'
import type { Target } from '../providers/provider.ts'
import { type Gateway, type Upstream, upstreamOf } from './gateway.ts'
import { issuerOf as issuer } from './thought-memory.ts'

export function targetOf(target: TargetRef, endpoint: Endpoint): Target {
  const model = sentModel(target)
  return target.api === undefined ? { endpoint, model } : { endpoint, model, api: target.api }
}

/**
 * Undefined if it has none, or they are neither kept nor shown. `upstream`: as it is asked now, which may be by another
 * API than before a rejection.
 */
export function issuerOf(
  gateway: Gateway,
  candidate: Candidate,
  request: ChatRequest,
  upstream?: Upstream,
): Issuer | undefined {
  if (gateway.thoughts === undefined && request.reasoning === undefined) return undefined
  const { provider, endpoint } = upstream ?? upstreamOf(gateway, candidate)
  const target = targetOf(candidate.target, endpoint)
  const form = provider.thoughtForm?.(target, request)
  return form && issuer(endpoint, target.model, form)
}

/** Different for thoughts of one issuer in the forms of two APIs. */
export function issuerKey({ id, form }: Issuer): string {
  return `${form}/${id}`
}
