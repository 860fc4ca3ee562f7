/**
 * What carries one request to a provider and its answer back. Deadlines, caps on sizes and retries are not its concern.
 */

import type { Dispatch } from './provider.ts'

/** `value` is absent at the clean end of the body. */
export interface BodyChunk {
  readonly done: boolean
  readonly value?: Uint8Array | undefined
}

/**
 * One HTTP exchange. `open` first; then either `read` until it is done, one at a time, or `text` once. It ends with
 * `finish` or `abort`, and is of no use after that.
 */
export interface Transport {
  /** Sends the request; resolves with the head of the answer. Throws `ProviderError` `unreachable` or `broken`. */
  open(request: Dispatch): Promise<void>
  /** 0 before the head. */
  readonly status: number
  /** Empty before the head. */
  readonly headers: Headers
  /**
   * The next bytes of the body. Rejects with any error if the connection breaks or the body is shorter than announced.
   */
  read(): Promise<BodyChunk>
  /** The whole body. Rejects as `read` does. */
  text(): Promise<string>
  /** The body was read to its end: the connection may serve another request. */
  finish(): void
  /** Closes the connection; what is pending rejects. */
  abort(): void
  /** After `open`: resolves with false if no connection to the provider can be made within `ms`. */
  canConnect(ms: number): Promise<boolean>
  /** False if the provider cannot have received any byte of the request; true if that is unknown. */
  wasSent(): Promise<boolean>
}
