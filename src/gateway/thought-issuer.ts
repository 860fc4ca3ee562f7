/** Who issues the thoughts of a candidate. */

import type { Candidate } from '../catalog/resolve.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { sentModel, type TargetRef } from '../core/model-config.ts'
import type { Issuer, ThoughtForm } from '../core/thoughts.ts'
import type { Target } from '../providers/provider.ts'
import { type Gateway, type Upstream, upstreamOf } from './gateway.ts'
import { digestOf } from './thought-keeper.ts'

/** Each request needs its target more than once, and who issues its thoughts: both are made once. */
const targets = new WeakMap<TargetRef, Target>()
const issuers = new WeakMap<Target, Issuer>()

export function targetOf(target: TargetRef, endpoint: Endpoint): Target {
  const known = targets.get(target)
  if (known !== undefined && known.endpoint === endpoint) return known
  const model = sentModel(target)
  const made = target.api === undefined ? { endpoint, model } : { endpoint, model, api: target.api }
  targets.set(target, made)
  return made
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
  if (form === undefined) return undefined
  const known = issuers.get(target)
  if (known?.form === form) return known
  const made = issuerFor(endpoint, target.model, form)
  issuers.set(target, made)
  return made
}

/** Who issues the thoughts of a model of this provider. */
export function issuerFor(endpoint: Endpoint, model: string, form: ThoughtForm): Issuer {
  return { id: `${endpoint.name}/${credentials.getOrInsertComputed(endpoint, credentialOf)}/${model}`, form }
}

const credentials = new WeakMap<Endpoint, string>()
const DIGEST_CHARS = 16

/** A digest of what the provider knows the operator by: with another credential it cannot read its own thoughts. */
function credentialOf({ apiKey, aws, project, identity }: Endpoint): string {
  const known = JSON.stringify([apiKey, aws?.region, aws?.keys?.accessKeyId, project, identity])
  return digestOf(known).slice(0, DIGEST_CHARS)
}

/** Different for thoughts of one issuer in the forms of two APIs. */
export function issuerKey({ id, form }: Issuer): string {
  return `${form}/${id}`
}
