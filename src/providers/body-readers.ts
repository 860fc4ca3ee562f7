/** Readers of the body of an answer, in pieces or as one text. */

import { partOf } from '../core/bytes.ts'
import { GrowingBytes } from '../core/growing-bytes.ts'
import type { ProviderError } from '../core/provider-error.ts'

/** Takes the body of an answer: any number of pieces, then `end` or `fail`. None of them may throw. */
export interface BodyReader {
  /** The bytes from `from` to `to`; at least one. */
  data(bytes: Uint8Array, from: number, to: number): void
  /** The clean end of the body. */
  end(): void
  /** `ProviderError` `cut` after a reset or a short body, `timeout` after a deadline. */
  fail(error: ProviderError): void
}

/** Takes a whole body, or the error that came instead. Neither may throw. */
export interface TextReader {
  text(text: string): void
  /** `ProviderError` `broken` if the body is too large, else as for `BodyReader`. */
  fail(error: ProviderError): void
}

interface AbortedIfLarge {
  /** Aborts the call, whose body has more than `bytesMax` bytes. */
  tooLarge(bytesMax: number): ProviderError
}

/** Gathers a body. Nearly always it comes in one piece, which is not copied. */
export class BodyText implements BodyReader {
  private text: string | undefined
  private first: Uint8Array | undefined
  /** All of it, from the second piece on. */
  private joined: GrowingBytes | undefined
  private size = 0

  constructor(
    private readonly call: AbortedIfLarge,
    private readonly reader: TextReader,
    private readonly bytesMax: number,
  ) {}

  /** Instead of `data`: all of the body. */
  whole(text: string, bytes: number): void {
    if (this.holds(bytes)) this.text = text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text
  }

  data(bytes: Uint8Array, from: number, to: number): void {
    if (!this.holds(to - from)) return
    if (this.first === undefined) {
      this.first = partOf(bytes, from, to)
      return
    }
    if (this.joined === undefined) {
      this.joined = new GrowingBytes()
      this.joined.add(this.first)
    }
    this.joined.add(bytes, from, to)
  }

  end(): void {
    if (this.text !== undefined) return this.reader.text(this.text)
    this.reader.text(utf8.decode(this.joined?.take() ?? this.first))
  }

  /** False, and the call fails, if the body is too large with so many bytes more. */
  private holds(bytes: number): boolean {
    this.size += bytes
    if (this.size <= this.bytesMax) return true
    this.reader.fail(this.call.tooLarge(this.bytesMax))
    return false
  }

  fail(error: ProviderError): void {
    this.reader.fail(error)
  }
}

/** Omits a byte order mark, as `whole` does. */
const utf8 = new TextDecoder()
const BYTE_ORDER_MARK = 0xfeff
