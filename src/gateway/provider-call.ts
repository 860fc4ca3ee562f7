/**
 * One call to one candidate. It owns its connection, what the answer has used so far, and what is charged for it.
 */

import type { Candidate } from '../catalog/resolve.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { parseExact } from '../core/exact-json.ts'
import type { JsonValue } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { AnswerReader, Dispatch } from '../providers/provider.ts'
import { type HeadReader, UpstreamCall } from '../providers/upstream.ts'
import { shapeProblem, VALUES_MAX } from '../wire/json-shape.ts'
import type { Interruptible, Interruption } from './in-flight.ts'
import type { Pump } from './pump.ts'
import type { Bill } from './quote.ts'
import type { Metered, RequestReservation } from './reservation.ts'
import type { Counted } from './usage-meter.ts'

/** The caller's body of a whole answer, or a stream that has begun and of which nothing was written yet. */
export type Content = string | Uint8Array | Pump

/** Hears what becomes of a call: at most one of `began` and `failed`, and nothing once the call was aborted. */
export interface ProviderCallListener {
  /** The provider has taken the request. */
  accepted(): void
  /** The caller's body of a whole answer, or a stream that has begun. */
  began(content: Content): void
  /**
   * `ProviderError` if the provider cannot be reached, answers with an error, or its answer breaks off before it began
   * or cannot be read; any other error is a bug.
   */
  failed(error: unknown): void
}

export abstract class ProviderCall implements Interruptible, Metered, HeadReader {
  protected readonly provider: AnswerReader
  readonly connection: UpstreamCall
  /** Grows with the output of an answer that is read as a stream. */
  protected reservation: RequestReservation | undefined
  private listener: ProviderCallListener | undefined

  constructor(
    readonly candidate: Candidate,
    { provider, endpoint }: { readonly provider: AnswerReader; readonly endpoint: Endpoint },
    request: Dispatch,
    /** The provider was asked for a stream. */
    stream: boolean,
    dueMs: number,
  ) {
    this.provider = provider
    this.connection = new UpstreamCall(request, endpoint, stream, dueMs)
  }

  /** Sends the request. */
  send(listener: ProviderCallListener, reservation: RequestReservation): void {
    this.listener = listener
    this.reservation = reservation
    this.connection.send(this)
  }

  /** The head of a successful answer has arrived: reads the body. What it throws fails the call. */
  protected abstract answered(): void

  head(): void {
    if (!isSuccess(this.connection)) return readError(this.connection, this.provider, this)
    try {
      this.listener?.accepted()
      this.answered()
    } catch (error) {
      this.fail(error)
    }
  }

  protected began(content: Content): void {
    const { listener } = this
    this.listener = undefined
    listener?.began(content)
  }

  fail(error: unknown): void {
    const { listener } = this
    this.listener = undefined
    listener?.failed(error)
  }

  /** The usage so far: what is charged if the request ends now. */
  abstract used(): Counted

  /** What is charged: for the complete answer, or for what was used until now. */
  abstract bill(isComplete: boolean): Bill

  /** Ends the call in whatever state it is, and leaves nothing open. */
  abort(): void {
    this.connection.abort()
  }

  /** The answer to a caller that left is still read for a moment: its usage may come. */
  interrupt(why: Interruption): void {
    if (why !== 'caller_left' || !this.connection.readOn()) this.connection.interrupt()
  }

  /** False if the provider cannot have received anything of the request. */
  wasSent(): boolean {
    return this.connection.wasSent()
  }
}

function isSuccess({ status }: UpstreamCall): boolean {
  return status >= 200 && status < 300
}

/** Gives the error that a provider answered with to the reader. */
function readError(connection: UpstreamCall, provider: AnswerReader, reader: Pick<HeadReader, 'fail'>): void {
  connection.readErrorText((text) => reader.fail(errorOf(connection, provider, text)))
}

function errorOf({ status, headers }: UpstreamCall, provider: AnswerReader, text: string): unknown {
  try {
    if (status >= 400) return provider.responseError(status, headers, text)
    return new ProviderError('failed', `the provider answered ${status}`, { status })
  } catch (bug) {
    return bug
  }
}

/**
 * Sends a request; resolves with the body of the answer. `accepted` is called once the provider has taken the request.
 * Throws what `ProviderCallListener.failed` gets.
 */
export function sendForText(
  connection: UpstreamCall,
  provider: AnswerReader,
  accepted: () => void,
  bytesMax?: number,
): Promise<string> {
  return new Promise((resolve, reject) => {
    connection.send({
      head() {
        if (!isSuccess(connection)) return readError(connection, provider, this)
        accepted()
        connection.readText({ text: resolve, fail: reject }, bytesMax)
      },
      fail: reject,
    })
  })
}

/**
 * Throws `ProviderError` `broken` for text that is not JSON, is too deep, or has more than `valuesMax` values. With
 * `JSON.parse` as `parse`, the value is for readers that write no numbers of it again (`core/exact-json.ts`).
 */
export function parseJson(
  text: string,
  status: number,
  valuesMax: number = VALUES_MAX,
  parse: (text: string) => JsonValue = parseExact,
): JsonValue {
  if (shapeProblem(text, valuesMax) !== undefined) {
    throw new ProviderError('broken', 'the answer is nested too deep, or holds too many values', { status })
  }
  try {
    return parse(text)
  } catch (cause) {
    throw new ProviderError('broken', 'the answer is not JSON', { status, cause })
  }
}
