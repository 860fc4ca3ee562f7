/**
 * One call to one candidate. It owns its connection, what the answer has used so far, and what is charged for it.
 */

import type { Candidate } from '../catalog/resolve.ts'
import type { JsonValue } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Dispatch, Provider } from '../providers/provider.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import { shapeProblem, VALUES_MAX } from '../wire/json-shape.ts'
import type { Upstream } from './gateway.ts'
import type { Interruptible } from './in-flight.ts'
import type { Pump } from './pump.ts'
import type { Bill, Metered, RequestReservation } from './reservation.ts'
import type { Counted } from './usage-meter.ts'

export abstract class ProviderCall implements Interruptible, Metered {
  protected readonly provider: Provider
  protected readonly connection: UpstreamCall

  constructor(
    readonly candidate: Candidate,
    { provider, endpoint }: Upstream,
    request: Dispatch,
    /** The provider was asked for a stream. */
    stream: boolean,
    dueMs: number,
  ) {
    this.provider = provider
    this.connection = new UpstreamCall(request, endpoint, stream, dueMs)
  }

  /** Sends the request. Throws `ProviderError` if the provider cannot be reached or answers with an error. */
  open(): Promise<void> {
    return send(this.connection, this.provider)
  }

  /**
   * The caller's body of a whole answer, or a stream that has begun. Throws `ProviderError` if the answer breaks off
   * before that, or cannot be read. `reservation` grows with the output.
   */
  abstract answer(reservation: RequestReservation): Promise<string | Pump>

  /** The usage so far: what is charged if the request ends now. */
  abstract used(): Counted

  /** What is charged: for the complete answer, or for what was used until now. */
  abstract bill(isComplete: boolean): Bill

  /** The search for a candidate that answers is over: from now on only the provider's own deadlines hold. */
  endSearch(): void {
    this.connection.endSearch()
  }

  /** Ends the call in whatever state it is, and leaves nothing open. */
  abort(): void {
    this.connection.abort()
  }

  interrupt(): void {
    this.abort()
  }

  /** False if the provider cannot have received anything of the request. */
  wasSent(): boolean | Promise<boolean> {
    return this.connection.wasSent()
  }
}

/** Sends a request. Throws a `ProviderError` if the provider cannot be reached or answers with an error. */
export async function send(connection: UpstreamCall, provider: Provider): Promise<void> {
  await connection.open()
  const { status } = connection
  if (status >= 200 && status < 300) return
  const text = await connection.errorText()
  if (status < 400) throw new ProviderError('failed', `the provider answered ${status}`, { status })
  throw provider.responseError(status, connection.headers, text)
}

/** Reads a whole body as JSON. Throws as `parseJson` does. */
export async function readJson(connection: UpstreamCall, valuesMax?: number): Promise<JsonValue> {
  return parseJson(await connection.text(), connection.status, valuesMax)
}

/** Throws `ProviderError` `broken` for text that is not JSON, is too deep, or has more than `valuesMax` values. */
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
