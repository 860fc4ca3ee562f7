/** A caller with a WebSocket at `/v1/responses`. */

import net from 'node:net'
import { isObject, type JsonObject } from '../../src/core/json.ts'

const LAST = new Set(['response.completed', 'response.failed', 'response.incomplete', 'error'])

function parsed(text: unknown): JsonObject {
  const json: unknown = JSON.parse(String(text))
  if (!isObject(json)) throw new Error(`a frame is no object: ${String(text)}`)
  return json
}

export class SocketClient implements AsyncDisposable {
  /** Every frame. */
  readonly all: JsonObject[] = []
  /** Resolves to the code. */
  readonly closed: Promise<number>
  /** Those that no one has read. */
  private readonly frames: JsonObject[] = []
  private waiting: (() => void) | undefined

  private constructor(private readonly socket: WebSocket) {
    socket.addEventListener('message', ({ data }) => {
      const frame = parsed(data)
      this.frames.push(frame)
      this.all.push(frame)
      this.waiting?.()
    })
    this.closed = new Promise((resolve) => {
      socket.addEventListener('close', ({ code }) => {
        resolve(code)
        this.waiting?.()
      })
    })
  }

  static async open(port: number, key: string): Promise<SocketClient> {
    const headers = { authorization: `Bearer ${key}` }
    const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers })
    const client = new SocketClient(socket)
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve)
      socket.addEventListener('error', reject)
    })
    return client
  }

  send(frame: JsonObject): void {
    this.raw(JSON.stringify(frame))
  }

  raw(data: string | Uint8Array<ArrayBuffer>): void {
    this.socket.send(data)
  }

  /** The next frame. */
  async next(): Promise<JsonObject> {
    for (;;) {
      const frame = this.frames.shift()
      if (frame !== undefined) return frame
      if (this.socket.readyState > WebSocket.OPEN) throw new Error('the connection is closed')
      await new Promise<void>((resolve) => {
        this.waiting = resolve
      })
    }
  }

  /** The next frame of this type. */
  async frameOf(type: string): Promise<JsonObject> {
    for (;;) {
      const frame = await this.next()
      if (frame['type'] === type) return frame
    }
  }

  /** Sends a turn, and resolves to the frames of its lane up to the last one. */
  async turn(frame: JsonObject): Promise<readonly JsonObject[]> {
    this.send(frame)
    const frames: JsonObject[] = []
    for (;;) {
      const one = await this.next()
      if (one['stream_id'] !== frame['stream_id']) continue
      frames.push(one)
      if (LAST.has(String(one['type']))) return frames
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.close()
    await this.closed
  }
}

const UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
}
export const TEXT = 1
export const CLOSE = 8
export const PING = 9

/** One frame as a caller sends it, masked with zeros. */
export function frame(opcode: number, data: string | Uint8Array, isLast = true): Buffer {
  const bytes = Buffer.from(data)
  const first = (isLast ? 0x80 : 0) | opcode
  const { length } = bytes
  let head: Buffer
  if (length < 126) head = Buffer.from([first, 0x80 | length])
  else {
    const isShort = length < 65_536
    head = Buffer.alloc(isShort ? 4 : 10)
    head.set([first, 0x80 | (isShort ? 126 : 127)])
    if (isShort) head.writeUInt16BE(length, 2)
    else head.writeUIntBE(length, 4, 6)
  }
  return Buffer.concat([head, Buffer.alloc(4), bytes])
}

/** A message in `pieces` frames. */
export function fragments(data: Uint8Array, ends: readonly number[]): Buffer {
  const froms = [0, ...ends]
  return Buffer.concat(
    froms.map((from, index) => frame(index === 0 ? TEXT : 0, data.subarray(from, ends[index]), index === ends.length)),
  )
}

/** A caller that writes the bytes of its frames itself, and reads when it wants to. */
export class RawSocket implements Disposable {
  status = 0
  headers = new Headers()
  /** Resolves when the connection is gone. */
  readonly gone: Promise<void>
  private bytes: Buffer = Buffer.alloc(0)
  private wake: (() => void) | undefined
  private isGone = false

  private constructor(private readonly socket: net.Socket) {
    socket.on('data', (more: Buffer) => {
      this.bytes = Buffer.concat([this.bytes, more])
      this.wake?.()
    })
    // A reset.
    socket.on('error', () => {})
    this.gone = new Promise((resolve) => {
      socket.once('close', () => {
        this.isGone = true
        this.wake?.()
        resolve()
      })
    })
  }

  /** Resolves with the answer to its handshake. */
  static async open(
    port: number,
    fields: Readonly<Record<string, string>>,
    path = '/v1/responses',
    opening: Uint8Array = Buffer.alloc(0),
  ): Promise<RawSocket> {
    const one = new RawSocket(net.connect(port, '127.0.0.1'))
    one.write(opening)
    const lines = Object.entries({ ...UPGRADE, ...fields }).map(([name, value]) => `${name}: ${value}\r\n`)
    one.write(`GET ${path} HTTP/1.1\r\nHost: weir\r\n${lines.join('')}\r\n`)
    await one.until(() => one.bytes.includes('\r\n\r\n') || one.isGone)
    const end = one.bytes.indexOf('\r\n\r\n')
    const [line = '', ...rest] = one.bytes.toString('latin1', 0, end).split('\r\n')
    one.bytes = one.bytes.subarray(end + 4)
    one.status = Number(line.split(' ')[1])
    for (const field of rest) one.headers.append(field.slice(0, field.indexOf(':')), field.replace(/^[^:]*: */, ''))
    return one
  }

  static with(port: number, key: string, opening?: Uint8Array): Promise<RawSocket> {
    return RawSocket.open(port, { authorization: `Bearer ${key}` }, undefined, opening)
  }

  write(bytes: string | Uint8Array): void {
    this.socket.write(bytes)
  }

  send(json: JsonObject): void {
    this.write(frame(TEXT, JSON.stringify(json)))
  }

  /** Reads nothing until `resume`. */
  pause(): void {
    this.socket.pause()
  }

  resume(): void {
    this.socket.resume()
  }

  /** The body of an answer to the handshake. */
  async rest(): Promise<string> {
    const count = Number(this.headers.get('content-length'))
    await this.until(() => this.bytes.length >= count)
    return this.bytes.toString('utf8', 0, count)
  }

  /** The next frame; undefined once the connection is gone. */
  async next(): Promise<{ readonly opcode: number; readonly data: Buffer } | undefined> {
    await this.until(() => this.frameSize !== undefined || this.isGone)
    const { frameSize } = this
    if (frameSize === undefined) return undefined
    const [head, size] = frameSize
    const opcode = (this.bytes[0] ?? 0) & 0x0f
    const data = this.bytes.subarray(head, head + size)
    this.bytes = this.bytes.subarray(head + size)
    return { opcode, data }
  }

  /** The frames of text up to the last one of a turn. */
  async turn(): Promise<readonly JsonObject[]> {
    const frames: JsonObject[] = []
    for (let one = await this.next(); one !== undefined; one = await this.next()) {
      if (one.opcode !== TEXT) continue
      const json = parsed(one.data)
      frames.push(json)
      if (LAST.has(String(json['type']))) return frames
    }
    return frames
  }

  /** The code that weir closes it with; undefined for none. */
  async code(): Promise<number | undefined> {
    for (let one = await this.next(); one !== undefined; one = await this.next())
      if (one.opcode === CLOSE) return one.data.readUInt16BE(0)
    return undefined
  }

  [Symbol.dispose](): void {
    this.socket.destroy()
  }

  private get frameSize(): readonly [number, number] | undefined {
    const { bytes } = this
    if (bytes.length < 2) return undefined
    const short = bytes[1] ?? 0
    const head = short === 127 ? 10 : short === 126 ? 4 : 2
    if (bytes.length < head) return undefined
    const size = short === 127 ? bytes.readUIntBE(4, 6) : short === 126 ? bytes.readUInt16BE(2) : short
    return bytes.length < head + size ? undefined : [head, size]
  }

  private async until(condition: () => boolean): Promise<void> {
    while (!condition())
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
  }
}
