/** Minimal HTTP/1.1 for the load generator: splits the bytes of a connection into answers at little cost. */

/** Receives the answers of a connection, piece by piece. */
export interface AnswerSink {
  /** The status of an answer, when its head is complete. */
  head(status: number): void
  /** A piece of the body, without chunk framing. Valid only during the call. */
  body(piece: Buffer): void
  end(): void
}

const CRLF2 = Buffer.from('\r\n\r\n')

/** Reads one answer after the other. Throws if the bytes are not an HTTP/1.1 answer with a length or with chunks. */
export class AnswerReader {
  private held: Buffer | undefined
  /** Missing bytes of the body, or of the chunk with its CRLF; -1 = waiting for a head, -2 = for a chunk size. */
  private left = -1
  private chunked = false

  constructor(private readonly sink: AnswerSink) {}

  /** True if an answer has begun and not ended. */
  get inside(): boolean {
    return this.left !== -1
  }

  push(data: Buffer): void {
    let bytes = this.held === undefined ? data : Buffer.concat([this.held, data])
    this.held = undefined
    while (bytes.length > 0) {
      const taken = this.left === -1 ? this.head(bytes) : this.left === -2 ? this.size(bytes) : this.body(bytes)
      if (taken === 0) {
        this.held = Buffer.from(bytes)
        return
      }
      bytes = bytes.subarray(taken)
    }
  }

  private head(bytes: Buffer): number {
    const end = bytes.indexOf(CRLF2)
    if (end === -1) return 0
    const head = bytes.toString('latin1', 0, end).toLowerCase()
    this.sink.head(Number(head.slice(9, 12)))
    this.chunked = head.includes('\r\ntransfer-encoding: chunked')
    const length = /\r\ncontent-length: (\d+)/.exec(head)?.[1]
    if (!this.chunked && length === undefined) throw new Error(`an answer without a length: ${head}`)
    this.left = this.chunked ? -2 : Number(length)
    if (this.left === 0) this.end()
    return end + 4
  }

  private size(bytes: Buffer): number {
    const end = bytes.indexOf(13)
    if (end === -1 || bytes.length < end + 2) return 0
    const size = Number.parseInt(bytes.toString('latin1', 0, end), 16)
    if (!Number.isFinite(size)) throw new Error('not a chunk size')
    if (size > 0) {
      this.left = size + 2
      return end + 2
    }
    if (bytes.length < end + 4) return 0
    this.end()
    return end + 4
  }

  /** A piece of the body, without the CRLF of a chunk. */
  private body(bytes: Buffer): number {
    const taken = Math.min(this.left, bytes.length)
    const after = this.left - taken
    const payload = this.chunked ? Math.max(0, Math.min(taken, this.left - 2)) : taken
    if (payload > 0) this.sink.body(bytes.subarray(0, payload))
    this.left = after
    if (after === 0) {
      if (this.chunked) this.left = -2
      else this.end()
    }
    return taken
  }

  private end(): void {
    this.left = -1
    this.sink.end()
  }
}

/** The bytes of a POST with a JSON body on a connection that stays open. */
export function postBytes(path: string, body: string, key: string, headers = ''): string {
  const length = Buffer.byteLength(body)
  const head = `POST ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${key}\r\n${headers}`
  return `${head}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`
}
