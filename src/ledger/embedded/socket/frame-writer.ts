/**
 * Writes binary frames to a socket. A frame is the number of bytes that follow (32 bits), the type of its message (8
 * bits), and the message's fields, all numbers little-endian. Fields are written into one buffer that is kept, so a
 * message costs no object and no copy; with JSON, messages took a third of the CPU time of the ledger's owner.
 */

/** Bytes of the length and the type. */
export const HEAD_BYTES = 5
/** What a frame's length may be at most: 10 MiB is the largest body, and a frame has no more than its texts. */
export const FRAME_BYTES_MAX = 16 * 1024 * 1024
/** Texts that a connection knows by number. Others take the place of the oldest. */
export const NAMES_MAX = 1024
/** Longer texts are not given a number: the table takes at most a few hundred KB. */
const NAME_LENGTH_MAX = 100
/** In place of a number: the text follows, and gets the next number. */
export const NEW_NAME = 0xffff
/** In place of a number: the text follows, and gets none. */
export const UNNUMBERED_NAME = 0xfffe

const BUFFER_BYTES = 16 * 1024
/** A larger buffer is not kept. */
const KEPT_BYTES = 1024 * 1024
const UTF8_BYTES_MAX = 3
/** How long a message that is not urgent may wait for others. */
const LATER_MS = 5

/** The parts of a socket that are needed to write. */
interface Writable {
  write(bytes: Uint8Array): number
}

export class FrameWriter {
  private buffer = Buffer.allocUnsafe(BUFFER_BYTES)
  private view = viewOf(this.buffer)
  /** The bytes of the buffer before these have been sent. */
  private sent = 0
  private used = 0
  /** Where the frame that is being written begins. */
  private start = 0
  private readonly names = new Map<string, number>()
  private readonly named: string[] = []
  private nextName = 0
  private isPlanned = false
  private isBlocked = false
  private later: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly socket: Writable) {}

  /** Begins a frame. Its fields follow, then `end`. */
  begin(type: number): this {
    this.reserve(HEAD_BYTES)
    this.start = this.used
    this.buffer[this.start + HEAD_BYTES - 1] = type
    this.used += HEAD_BYTES
    return this
  }

  end(): void {
    this.view.setUint32(this.start, this.used - this.start - (HEAD_BYTES - 1), true)
  }

  /** A whole number from 0 to 255. */
  byte(value: number): this {
    this.reserve(1)
    this.buffer[this.used++] = value
    return this
  }

  number(value: number): this {
    this.reserve(8)
    this.view.setFloat64(this.used, value, true)
    this.used += 8
    return this
  }

  text(value: string): this {
    this.reserve(4 + UTF8_BYTES_MAX * value.length)
    const length = value === '' ? 0 : this.buffer.write(value, this.used + 4)
    this.view.setUint32(this.used, length, true)
    this.used += 4 + length
    return this
  }

  /** A text that other messages have, too: from its second time on two bytes. */
  name(value: string): this {
    const known = this.names.get(value)
    if (known !== undefined) return this.short(known)
    if (value.length > NAME_LENGTH_MAX) return this.short(UNNUMBERED_NAME).text(value)
    const oldest = this.named[this.nextName]
    if (oldest !== undefined) this.names.delete(oldest)
    this.named[this.nextName] = value
    this.names.set(value, this.nextName)
    this.nextName = (this.nextName + 1) % NAMES_MAX
    return this.short(NEW_NAME).text(value)
  }

  /** For what is rare. */
  json(value: unknown): this {
    return this.text(JSON.stringify(value))
  }

  /** Sends what has been written, and what is until then, at the end of this turn of the event loop. */
  soon(): void {
    if (this.isPlanned) return
    this.isPlanned = true
    setImmediate(this.flushPlanned)
  }

  /** Sends what has been written with the next urgent message, at most `LATER_MS` later. */
  eventually(): void {
    // Not cleared by an earlier flush: a timer for each flush would cost more than a few that find nothing to send.
    this.later ??= setTimeout(this.flushLater, LATER_MS)
  }

  /** Sends what has been written, as far as the socket takes it; the rest waits for `drain`. */
  flush(): void {
    if (this.used > this.sent && !this.isBlocked) this.drain()
  }

  /** The socket can take more. */
  drain(): void {
    this.isBlocked = false
    if (this.used > this.sent) this.sent += Math.max(0, this.socket.write(this.buffer.subarray(this.sent, this.used)))
    this.isBlocked = this.sent < this.used
    if (this.isBlocked) return
    this.sent = 0
    this.used = 0
    if (this.buffer.length > KEPT_BYTES) this.replaceBuffer(BUFFER_BYTES)
  }

  private readonly flushPlanned = () => {
    this.isPlanned = false
    this.flush()
  }

  private readonly flushLater = () => {
    this.later = undefined
    this.flush()
  }

  private short(value: number): this {
    this.reserve(2)
    this.view.setUint16(this.used, value, true)
    this.used += 2
    return this
  }

  private reserve(bytes: number): void {
    if (this.used + bytes > this.buffer.length) this.makeRoom(bytes)
  }

  /** Drops what has been sent, and takes a larger buffer if that is not enough. */
  private makeRoom(bytes: number): void {
    const needed = this.used - this.sent + bytes
    this.replaceBuffer(needed > this.buffer.length / 2 ? 2 ** Math.ceil(Math.log2(2 * needed)) : this.buffer.length)
  }

  private replaceBuffer(bytes: number): void {
    const next = Buffer.allocUnsafe(bytes)
    next.set(this.buffer.subarray(this.sent, this.used))
    this.buffer = next
    this.view = viewOf(next)
    this.start -= this.sent
    this.used -= this.sent
    this.sent = 0
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength)
}
