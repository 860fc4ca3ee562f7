/**
 * AWS event stream bytes → frames. How the bytes are cut into chunks makes no difference; both checksums of every
 * message are verified.
 */

import { EventStreamCodec } from '@smithy/eventstream-codec'
import { partOf } from '../core/bytes.ts'
import { GrowingBytes } from '../core/growing-bytes.ts'
import { ProviderError } from '../core/provider-error.ts'
import { byteText, isPlain } from '../wire/byte-text.ts'
import { FRAME_CHARS_MAX, type FrameSink, type Shortcut } from '../wire/frames.ts'
import type { Framer } from './provider.ts'

/** A message begins with its total length. */
const LENGTH_BYTES = 4
/** The prelude, its checksum, and the checksum of the message. */
const MESSAGE_BYTES_MIN = 16

/** The content type of a stream. */
export const EVENT_STREAM_TYPE = 'application/vnd.amazon.eventstream'

const utf8 = new TextDecoder('utf-8')
const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : utf8.decode(bytes)),
  (text) => new TextEncoder().encode(text),
)

/**
 * The name of a frame is the type of its event, or `exception:` and the type of the exception. Bytes are gathered until
 * a message is complete. A message over the size limit is rejected by its first bytes.
 */
export class EventStreamFramer implements Framer {
  /** The beginning of a message. */
  private readonly held = new GrowingBytes()
  /** Bytes needed before the next step. */
  private wanted = LENGTH_BYTES

  /** `unwrapped`: what of the payload of an event is its frame, if not all of it. */
  constructor(
    private readonly shortcut?: Shortcut,
    private readonly unwrapped?: (payload: string) => Uint8Array,
  ) {}

  push(chunk: Uint8Array, sink: FrameSink, begin = 0, end: number = chunk.byteLength): void {
    if (begin === end) return
    let bytes = partOf(chunk, begin, end)
    if (this.held.byteLength > 0) {
      this.held.add(bytes)
      if (this.held.byteLength < this.wanted) return
      bytes = this.held.take()
    }
    let from = 0
    for (;;) {
      const length = lengthAt(bytes, from)
      if (length === undefined || from + length > bytes.byteLength) {
        this.wanted = length ?? LENGTH_BYTES
        if (from < bytes.byteLength) this.held.add(bytes, from)
        return
      }
      this.deliver(bytes.subarray(from, from + length), sink)
      from += length
    }
  }

  /** Throws `ProviderError` `cut` if the bytes end inside a message. */
  close(_sink: FrameSink): void {
    if (this.held.byteLength > 0) throw new ProviderError('cut', 'the stream ended inside a message')
  }

  private deliver(message: Uint8Array, sink: FrameSink): void {
    const { headers, body } = decoded(message)
    const header = (name: string): string => {
      const value = headers[name]?.value
      return typeof value === 'string' ? value : ''
    }
    switch (header(':message-type')) {
      case 'event': {
        const { unwrapped } = this
        const event = unwrapped === undefined ? header(':event-type') : ''
        const frame = unwrapped === undefined ? body : unwrapped(utf8.decode(body))
        if (this.shortcut?.take(event, byteText(frame), isPlain(frame)) !== true) sink(event, utf8.decode(frame))
        return
      }
      case 'exception':
        sink(`exception:${header(':exception-type')}`, utf8.decode(body))
        return
      case 'error':
        sink(`exception:${header(':error-code')}`, JSON.stringify({ message: header(':error-message') }))
        return
      default:
        throw new ProviderError('broken', 'a message of the stream is of no known type')
    }
  }
}

/** The length of the message that begins at `from`; undefined if fewer than 4 of its bytes have arrived. */
function lengthAt(bytes: Uint8Array, from: number): number | undefined {
  if (bytes.byteLength - from < LENGTH_BYTES) return undefined
  const length = new DataView(bytes.buffer, bytes.byteOffset + from, LENGTH_BYTES).getUint32(0)
  if (length < MESSAGE_BYTES_MIN) throw new ProviderError('broken', 'a message of the stream has no valid length')
  if (length > FRAME_CHARS_MAX) {
    throw new ProviderError('broken', `a message of the stream is longer than ${FRAME_CHARS_MAX} bytes`)
  }
  return length
}

function decoded(bytes: Uint8Array): ReturnType<EventStreamCodec['decode']> {
  try {
    return codec.decode(bytes)
  } catch (cause) {
    throw new ProviderError('broken', 'a message of the stream is damaged', { cause })
  }
}
