/**
 * A caller over bare TCP: it sends exactly the bytes of a test, and reads an answer as it was sent, cut or complete.
 */

import net from 'node:net'
import { bytesOf, chunkedOf, field, type Head, headOf, joined, textOf } from './bytes.ts'

/**
 * `whole`: the framing shows that the answer is complete. `cut`: the connection ended before that. `closed`: only the
 * close of the connection ended the answer.
 */
export type End = 'whole' | 'cut' | 'closed'

export interface Answer {
  readonly status: number
  readonly head: Head
  readonly body: Uint8Array
  readonly text: string
  readonly end: End
  /** Whether the connection ended with a reset. */
  readonly reset: boolean
  /** The HTTP chunks of a chunked body; the gateway sends one per write. */
  readonly chunks: readonly Uint8Array[]
  header(name: string): string | undefined
  json(): unknown
}

export class Caller implements AsyncDisposable {
  /** All bytes received. */
  private readonly pieces: Uint8Array[] = []
  private taken = 0
  private failed = false
  private over = false
  private readonly waiting = new Set<() => void>()

  private constructor(private readonly socket: net.Socket) {
    socket.on('data', (data: Buffer) => {
      this.pieces.push(Uint8Array.from(data))
      this.wake()
    })
    socket.on('error', () => {
      this.failed = true
    })
    const ended = () => {
      this.over = true
      this.wake()
    }
    socket.on('end', ended)
    socket.on('close', ended)
  }

  /**
   * `localAddress` is the address that the gateway sees, any of 127.0.0.0/8. Without it the socket is not bound before
   * it connects: a bound port cannot be reused for a minute, so a load of thousands of connections would run out of
   * ports.
   */
  static connect(port: number, localAddress?: string): Promise<Caller> {
    return new Promise((resolve, reject) => {
      const from = localAddress === undefined ? {} : { localAddress }
      const socket = net.connect({ port, host: '127.0.0.1', ...from, allowHalfOpen: true, noDelay: true })
      const caller = new Caller(socket)
      socket.once('connect', () => resolve(caller))
      socket.once('error', reject)
    })
  }

  /** Sends the bytes unchanged. */
  send(data: string | Uint8Array): void {
    this.socket.write(bytesOf(data))
  }

  /**
   * The next answer, when it is complete or the connection has ended. Answers on one connection are read one after the
   * other.
   */
  async answer(): Promise<Answer> {
    for (;;) {
      const found = this.read()
      if (found !== undefined) return found
      if (this.over) return this.cut()
      await this.more()
    }
  }

  /** Resolves with what has arrived of this answer when it contains the text. Throws if the connection ends before. */
  async until(text: string): Promise<string> {
    for (;;) {
      const got = textOf(this.received)
      if (got.includes(text)) return got
      if (this.over) throw new Error(`the connection ended before ${JSON.stringify(text)} arrived: ${got.slice(-500)}`)
      await this.more()
    }
  }

  /** Resolves when the gateway has closed the connection; true if with a reset. */
  async ended(): Promise<boolean> {
    while (!this.over) await this.more()
    return this.failed
  }

  /** Received bytes that belong to no answer yet. */
  get received(): Uint8Array {
    return joined(this.pieces).subarray(this.taken)
  }

  pause(): void {
    this.socket.pause()
  }

  resume(): void {
    this.socket.resume()
  }

  /** Sends a FIN after the request; goes on reading. */
  halfClose(): void {
    this.socket.end()
  }

  /** Sends a FIN and stops reading. */
  close(): void {
    this.socket.destroy()
  }

  /** Resets the connection. */
  reset(): void {
    this.socket.resetAndDestroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy()
  }

  private read(): Answer | undefined {
    const bytes = this.received
    const head = headOf(bytes)
    if (head === undefined) return undefined
    const rest = bytes.subarray(head.length)
    const status = statusOf(head)
    if (status === 100) {
      this.taken += head.length
      return this.read()
    }
    if (field(head, 'transfer-encoding') === 'chunked') {
      const { chunks, ended, length } = chunkedOf(rest)
      if (!ended) return undefined
      this.taken += head.length + length
      return answerOf(head, joined(chunks), chunks, 'whole', false)
    }
    const declared = field(head, 'content-length')
    if (declared === undefined && status !== 204 && status !== 304) return undefined
    const length = Number(declared ?? 0)
    if (rest.length < length) return undefined
    this.taken += head.length + length
    return answerOf(head, rest.slice(0, length), [], 'whole', false)
  }

  /** An answer whose connection has ended. */
  private cut(): Answer {
    const bytes = this.received
    const head = headOf(bytes)
    if (head === undefined) {
      const state = `${bytes.length} bytes, ${this.failed ? 'reset' : 'closed'}`
      throw new Error(`the connection ended without an answer (${state}): ${textOf(bytes)}`)
    }
    const rest = bytes.slice(head.length)
    this.taken += bytes.length
    if (field(head, 'transfer-encoding') === 'chunked') {
      const { chunks } = chunkedOf(rest)
      return answerOf(head, joined(chunks), chunks, 'cut', this.failed)
    }
    const end = field(head, 'content-length') === undefined ? 'closed' : 'cut'
    return answerOf(head, rest, [], end, this.failed)
  }

  private more(): Promise<void> {
    return new Promise((resolve) => this.waiting.add(resolve))
  }

  private wake(): void {
    const waiting = [...this.waiting]
    this.waiting.clear()
    for (const resolve of waiting) resolve()
  }
}

function statusOf(head: Head): number {
  return Number(head.line.split(' ')[1])
}

function answerOf(head: Head, body: Uint8Array, chunks: readonly Uint8Array[], end: End, reset: boolean): Answer {
  const text = textOf(body)
  return {
    status: statusOf(head),
    head,
    body,
    text,
    end,
    reset,
    chunks,
    header: (name) => field(head, name),
    json: () => JSON.parse(text),
  }
}

export interface RequestParts {
  readonly method?: string
  readonly key?: string
  /** Further header fields, in addition to the usual ones; `undefined` removes a usual one. */
  readonly fields?: Readonly<Record<string, string | undefined>>
  readonly body?: string | Uint8Array | object
}

/** The bytes of a request with the usual header fields. */
export function requestBytes(path: string, parts: RequestParts = {}): Uint8Array {
  const { body } = parts
  const bytes =
    body === undefined
      ? undefined
      : bytesOf(typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body))
  const fields: Record<string, string | undefined> = {
    host: 'gateway.test',
    authorization: parts.key === undefined ? undefined : `Bearer ${parts.key}`,
    'content-type': bytes === undefined ? undefined : 'application/json',
    'content-length': bytes === undefined ? undefined : String(bytes.length),
    ...parts.fields,
  }
  const lines = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${value}\r\n`],
  )
  const head = `${parts.method ?? (bytes === undefined ? 'GET' : 'POST')} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
  return joined([Uint8Array.from(Buffer.from(head, 'latin1')), bytes ?? new Uint8Array()])
}

/** Sends one request on its own connection and reads its answer. */
export async function ask(port: number, data: string | Uint8Array, localAddress?: string): Promise<Answer> {
  await using caller = await Caller.connect(port, localAddress)
  caller.send(data)
  return await caller.answer()
}
