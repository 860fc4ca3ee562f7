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

  /** The answer to a handshake. */
  static async handshake(
    port: number,
    headers: Readonly<Record<string, string>>,
    path = '/v1/responses',
  ): Promise<{ readonly status: number; readonly headers: Headers }> {
    const socket = net.connect(port, '127.0.0.1')
    const fields = { ...headers, ...UPGRADE }
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`GET ${path} HTTP/1.1\r\nHost: weir\r\n${lines.join('')}\r\n`)
    const [line = '', ...rest] = await new Promise<string[]>((resolve, reject) => {
      let text = ''
      socket.on('error', reject)
      socket.on('data', (bytes) => {
        text += bytes.toString('latin1')
        const end = text.indexOf('\r\n\r\n')
        if (end !== -1) resolve(text.slice(0, end).split('\r\n'))
      })
    })
    socket.destroy()
    const fieldsOf = rest.map((field): [string, string] => {
      const colon = field.indexOf(':')
      return [field.slice(0, colon), field.slice(colon + 1).trim()]
    })
    return { status: Number(line.split(' ')[1]), headers: new Headers(fieldsOf) }
  }

  /** The frames of one turn, of a caller that reads nothing until weir can write no more. */
  static async readSlowly(port: number, key: string, frame: JsonObject): Promise<readonly JsonObject[]> {
    const { promise, resolve } = Promise.withResolvers<readonly JsonObject[]>()
    const socket = net.connect(port, '127.0.0.1')
    const fields = Object.entries({ authorization: `Bearer ${key}`, ...UPGRADE })
    const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`GET /v1/responses HTTP/1.1\r\nHost: weir\r\n${lines.join('')}\r\n`)
    await new Promise((opened) => socket.once('data', opened))
    socket.pause()
    socket.write(maskedFrame(JSON.stringify(frame)))
    const frames: JsonObject[] = []
    let bytes: Buffer = Buffer.alloc(0)
    socket.on('data', (more: Buffer) => {
      bytes = Buffer.concat([bytes, more])
      for (let text = takeFrame(); text !== undefined; text = takeFrame()) {
        const one = parsed(text)
        frames.push(one)
        if (!LAST.has(String(one['type']))) continue
        socket.destroy()
        return resolve(frames)
      }
      socket.pause()
      setImmediate(() => socket.resume())
    })
    const takeFrame = (): string | undefined => {
      if (bytes.length < 4) return undefined
      const short = bytes[1] ?? 0
      const head = short === 127 ? 10 : short === 126 ? 4 : 2
      if (bytes.length < head) return undefined
      const size = short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short
      if (bytes.length < head + size) return undefined
      const text = bytes.toString('utf8', head, head + size)
      bytes = bytes.subarray(head + size)
      return text
    }
    socket.resume()
    return promise
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

function maskedFrame(text: string): Buffer {
  const bytes = Buffer.from(text)
  const head = Buffer.alloc(8)
  head[0] = 0x81
  head[1] = 0x80 | 126
  head.writeUInt16BE(bytes.length, 2)
  return Buffer.concat([head, bytes])
}
