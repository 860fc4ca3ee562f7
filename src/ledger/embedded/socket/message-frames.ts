/** Frames on a socket: gathers the messages of a turn of the event loop into one write, and splits what arrives. */

const NEWLINE = 10
/** How long a message may wait for others. */
const LATER_MS = 5

/** The parts of a socket that are needed to write. */
interface Writable {
  write(bytes: Uint8Array): number
}

/** Writes messages as frames. What the socket does not take at once waits for `drain`. */
export class FrameWriter<Message> {
  private later: ReturnType<typeof setTimeout> | undefined
  private messages: Message[] = []
  private readonly unsent: Uint8Array[] = []
  private isPlanned = false

  constructor(private readonly socket: Writable) {}

  /** Sends a message at the end of this turn, together with the others of the turn. */
  add(message: Message): void {
    this.messages.push(message)
    if (this.isPlanned) return
    this.isPlanned = true
    setImmediate(() => this.flush())
  }

  /** Sends a message that needs no answer: with the next urgent one, at most `LATER_MS` later. */
  addLater(message: Message): void {
    this.messages.push(message)
    this.later ??= setTimeout(() => this.flush(), LATER_MS)
  }

  /** Sends what has been added. */
  flush(): void {
    this.isPlanned = false
    clearTimeout(this.later)
    this.later = undefined
    if (this.messages.length === 0) return
    this.unsent.push(Buffer.from(`${JSON.stringify(this.messages)}\n`))
    this.messages = []
    if (this.unsent.length === 1) this.drain()
  }

  /** The socket can take more. */
  drain(): void {
    for (let first = this.unsent[0]; first !== undefined; first = this.unsent[0]) {
      const written = Math.max(0, this.socket.write(first))
      if (written < first.length) {
        this.unsent[0] = first.subarray(written)
        return
      }
      this.unsent.shift()
    }
  }
}

/** Returns the messages of the frames that are complete. */
export class FrameReader<Message> {
  private pieces: Uint8Array[] = []

  /** `bytes` is not kept. */
  read(bytes: Uint8Array): readonly Message[] {
    const end = bytes.lastIndexOf(NEWLINE) + 1
    if (end === 0) {
      this.pieces.push(bytes.slice())
      return []
    }
    const whole = Buffer.concat([...this.pieces, bytes.subarray(0, end)])
    this.pieces = end === bytes.length ? [] : [bytes.slice(end)]
    const messages: Message[] = []
    for (const line of whole.toString().split('\n')) if (line !== '') messages.push(...framesOf<Message>(line))
    return messages
  }
}

function framesOf<Message>(line: string): readonly Message[] {
  return JSON.parse(line)
}
