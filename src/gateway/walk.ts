/** The steps that the walk of a chat request and that of a request for images have in common. */

import type { Key } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import type { JsonValue } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Account } from '../ledger/ledger.ts'
import type { Provider } from '../providers/provider.ts'
import type { UpstreamCall } from '../providers/upstream.ts'
import { shapeProblem, VALUES_MAX } from '../wire/json-shape.ts'
import type { RequestLog } from './access-log.ts'
import type { Gateway, Upstream } from './gateway.ts'
import type { Interruption } from './in-flight.ts'

/** What every answer says of itself. */
export interface Answered {
  readonly requestedModel: string
  readonly servedModel: string
  readonly fallbacks: number
  /** How the model was chosen; absent unless the operator lets callers see it. */
  readonly route?: string | undefined
}

/** Whose limits a request of this key falls under. */
export function accountOf(key: Key): Account {
  const { organization } = key
  return {
    organization: organization.id,
    organizationLimits: organization.limits,
    key: key.id,
    keyLimits: key.limits,
  }
}

export function upstreamOf(gateway: Gateway, { target }: Candidate): Upstream {
  const upstream = gateway.upstreams.get(target.provider)
  if (upstream === undefined) throw new Error(`no upstream for provider ${target.provider}`)
  return upstream
}

/** Sends a request; throws a `ProviderError` where the provider answers with an error. */
export async function send(call: UpstreamCall, provider: Provider): Promise<void> {
  await call.open()
  if (call.status >= 200 && call.status < 300) return
  const text = await call.errorText()
  if (call.status < 400)
    throw new ProviderError('failed', `the provider answered ${call.status}`, { status: call.status })
  throw provider.responseError(call.status, call.headers, text)
}

/** `valuesMax`: see `parseJson`. */
export async function readJson(call: UpstreamCall, valuesMax?: number): Promise<JsonValue> {
  return parseJson(await call.text(), call.status, valuesMax)
}

/** Throws a `ProviderError` for what is not JSON, is too deep, or holds more values than that. `status` is the provider's. */
export function parseJson(text: string, status: number, valuesMax: number = VALUES_MAX): JsonValue {
  if (shapeProblem(text, valuesMax) !== undefined) {
    throw new ProviderError('broken', 'the answer is nested too deep, or holds too many values', { status })
  }
  try {
    const body: JsonValue = JSON.parse(text)
    return body
  } catch (cause) {
    throw new ProviderError('broken', 'the answer is not JSON', { status, cause })
  }
}

/** Who answered or was last asked, for the log line. */
export function note(trace: RequestLog, candidate: Candidate, fallbacks: number | undefined): void {
  trace.servedModel = candidate.model.name
  trace.provider = candidate.target.provider
  trace.fallbacks = fallbacks
}

/** Nobody sees it where the caller left; a caller that waits while the process ends does. */
export function interruptedFailure(why: Interruption): CallerError {
  const message =
    why === 'drained' ? 'The gateway is shutting down; try again.' : 'The caller left before there was an answer.'
  return new CallerError('shutting_down', message, { retryAfterSeconds: 1 })
}
