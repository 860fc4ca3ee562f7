/**
 * The interface of what carries one request to a provider and its answer back. Deadlines, caps on sizes and retries are
 * not its concern.
 */

import type { ProviderError } from '../core/provider-error.ts'
import type { Dispatch, ResponseHeaders } from './provider.ts'

/**
 * Takes an answer: its head, any number of pieces of its body, then its end; or an error at any point, and nothing
 * after it. Nothing is called before `send` has returned. None of the methods may throw.
 */
export interface ResponseHandler {
  head(status: number, headers: ResponseHeaders): void
  /** The bytes from `from` to `to`, at least one. The transport does not touch them again. */
  data(bytes: Uint8Array, from: number, to: number): void
  /** Whether a body that comes whole may go to `text`. Asked after `head`. */
  readonly takesText?: boolean
  /** All of a body in UTF-8, and its size, instead of `data`. A transport need not make use of it. */
  text?(text: string, bytes: number): void
  /** The clean end of the body. The connection can already serve another request. */
  end(): void
  /**
   * Before the head: `unreachable`, or `broken` for an answer that is not HTTP. After it: `cut`, if the connection
   * broke or the body is not the one announced.
   */
  fail(error: ProviderError): void
}

/** One HTTP exchange. */
export interface Transport {
  /** Sends the request; its answer goes to the handler. Once. */
  send(request: Dispatch, handler: ResponseHandler): void
  /**
   * Stops reading from the provider. Bytes that were already read may still be delivered: at most 512 KiB, and an end
   * after them.
   */
  pause(): void
  resume(): void
  /** Closes the connection; the handler is not called again. Does nothing after `end` or `fail`. */
  abort(): void
  /** After `send`: resolves with false if no connection to the provider can be made within `ms`. */
  canConnect(ms: number): Promise<boolean>
  /** False if the provider cannot have received any byte of the request; true if that is unknown. */
  wasSent(): boolean | Promise<boolean>
}
