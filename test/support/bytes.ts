/** Conversions for tests: text and pieces to bytes, and bytes to HTTP heads and chunked bodies. */

const encoder = new TextEncoder()

export function bytesOf(data: string | Uint8Array): Uint8Array {
  return typeof data === 'string' ? encoder.encode(data) : data
}

export function joined(pieces: Iterable<Uint8Array>): Uint8Array {
  const all = Buffer.concat([...pieces])
  return new Uint8Array(all.buffer, all.byteOffset, all.byteLength)
}

export function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}

/** The hash of a text in hexadecimal, as manifests of fixtures have it. */
export function sha256(text: string): string {
  return new Bun.CryptoHasher('sha256').update(text).digest('hex')
}

/** The head of an HTTP message: its first line and its fields, in order and as sent. */
export interface Head {
  readonly line: string
  readonly fields: readonly (readonly [name: string, value: string])[]
  /** The length of the head in bytes, with its blank line. */
  readonly length: number
}

/** The head at the start of the bytes; undefined if its blank line has not arrived. */
export function headOf(bytes: Uint8Array): Head | undefined {
  const end = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const [line = '', ...rest] = Buffer.from(bytes.subarray(0, end)).toString('latin1').split('\r\n')
  const fields = rest.map((field) => {
    const colon = field.indexOf(':')
    return [field.slice(0, colon), field.slice(colon + 1).trim()] as const
  })
  return { line, fields, length: end + 4 }
}

/** The values of a field, joined by `, ` if there are several; undefined if there is none. */
export function field(head: Head, name: string): string | undefined {
  const values = head.fields.filter(([key]) => key.toLowerCase() === name.toLowerCase()).map(([, value]) => value)
  return values.length === 0 ? undefined : values.join(', ')
}

export interface Chunked {
  readonly chunks: readonly Uint8Array[]
  /** Whether the terminating chunk has arrived. */
  readonly ended: boolean
  /** The bytes read so far, the terminating chunk included. */
  readonly length: number
}

/** The part of a chunked body that has arrived. Throws if the bytes are not chunked. */
export function chunkedOf(bytes: Uint8Array): Chunked {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const chunks: Uint8Array[] = []
  let at = 0
  for (;;) {
    const lineEnd = buffer.indexOf('\r\n', at)
    if (lineEnd === -1) return { chunks, ended: false, length: at }
    const size = buffer.toString('latin1', at, lineEnd).split(';')[0]?.trim() ?? ''
    if (!/^[0-9a-fA-F]+$/.test(size)) throw new Error(`not a chunk size: ${JSON.stringify(size)}`)
    const length = Number.parseInt(size, 16)
    const end = lineEnd + 2 + length + 2
    if (buffer.length < end) return { chunks, ended: false, length: at }
    if (buffer.toString('latin1', end - 2, end) !== '\r\n') throw new Error('a chunk does not end with CRLF')
    at = end
    if (length === 0) return { chunks, ended: true, length: at }
    chunks.push(bytes.subarray(lineEnd + 2, end - 2))
  }
}

/** The body of a whole answer as text. */
export function answerText(answer: string | Uint8Array): string {
  return typeof answer === 'string' ? answer : Buffer.from(answer).toString('utf8')
}
