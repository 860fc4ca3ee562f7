/**
 * The simulated provider of the bench: a separate process on raw sockets, whose cost is small and the same for every
 * gateway.
 */

import type { Socket } from 'bun'
import { BURST_CHUNKS, BURSTS, JSON_BODY, LAST_EVENTS, MODELS, PACES, pacedEvent, ROLE_EVENT } from './sample-text.ts'

interface Connection {
  held: string
  /** Bytes that the socket did not accept yet. */
  backlog: Buffer | undefined
  waiting: (() => void) | undefined
  open: boolean
}

const STREAM_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const JSON_ANSWER = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n` +
    `content-length: ${Buffer.byteLength(JSON_BODY)}\r\n\r\n${JSON_BODY}`,
)
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const HEAD_AND_ROLE = Buffer.from(STREAM_HEAD + chunk(ROLE_EVENT))
const BURST_BYTES = BURST_CHUNKS.map((text) => Buffer.from(chunk(text)))
const END_BYTES = Buffer.from(`${chunk(LAST_EVENTS)}0\r\n\r\n`)

const server = Bun.listen<Connection>({
  hostname: '127.0.0.1',
  port: 0,
  socket: {
    open(socket) {
      socket.data = { held: '', backlog: undefined, waiting: undefined, open: true }
      socket.setNoDelay(true)
    },
    data(socket, data) {
      socket.data.held += data.toString('latin1')
      serveHeld(socket)
    },
    drain(socket) {
      const { backlog, waiting } = socket.data
      socket.data.backlog = undefined
      if (backlog !== undefined) write(socket, backlog)
      if (socket.data.backlog === undefined) {
        socket.data.waiting = undefined
        waiting?.()
      }
    },
    close(socket) {
      socket.data.open = false
      socket.data.waiting?.()
    },
    error() {},
  },
})

/** Answers every complete request that has arrived. */
function serveHeld(socket: Socket<Connection>): void {
  for (;;) {
    const { held } = socket.data
    const headEnd = held.indexOf('\r\n\r\n')
    if (headEnd === -1) return
    const head = held.slice(0, headEnd)
    const bodyEnd = headEnd + 4 + Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
    if (held.length < bodyEnd) return
    const body = held.slice(headEnd + 4, bodyEnd)
    socket.data.held = held.slice(bodyEnd)
    serve(socket, body)
  }
}

function serve(socket: Socket<Connection>, body: string): void {
  const model = /"model":"([^"]*)"/.exec(body)?.[1]
  if (model === MODELS.json) write(socket, JSON_ANSWER)
  else if (model === MODELS.burst) void bursts(socket, BURSTS.burst)
  else if (model === MODELS.bulk) void bursts(socket, BURSTS.bulk)
  else if (model === MODELS.paced) metronomes.paced.add(socket)
  else if (model === MODELS.slow) metronomes.slow.add(socket)
  else write(socket, Buffer.from('HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}'))
}

async function bursts(socket: Socket<Connection>, count: number): Promise<void> {
  write(socket, HEAD_AND_ROLE)
  for (const bytes of BURST_BYTES.slice(0, count)) {
    write(socket, bytes)
    // In the next turn of the loop, so that each burst is a packet of its own if the reader keeps up.
    await new Promise<void>((resolve) => setImmediate(resolve))
    await taken(socket)
  }
  write(socket, END_BYTES)
}

function write(socket: Socket<Connection>, bytes: Buffer): void {
  const { data } = socket
  if (!data.open) return
  if (data.backlog !== undefined) {
    data.backlog = Buffer.concat([data.backlog, bytes])
    return
  }
  const written = socket.write(bytes)
  if (written < bytes.length) data.backlog = bytes.subarray(Math.max(0, written))
}

function taken(socket: Socket<Connection>): Promise<void> {
  if (socket.data.backlog === undefined || !socket.data.open) return Promise.resolve()
  return new Promise((resolve) => {
    socket.data.waiting = resolve
  })
}

/** Streams that get an event once per period, spread over the period so that they do not all fall on one moment. */
class Metronome {
  private readonly streams = new Map<Socket<Connection>, { slot: number; sequence: number }>()
  private readonly slots: Set<Socket<Connection>>[]
  private next = 0
  private slot = 0
  private started = 0

  constructor(
    private readonly everyMs: number,
    slots: number,
  ) {
    this.slots = Array.from({ length: slots }, () => new Set())
  }

  add(socket: Socket<Connection>): void {
    const slot = this.next++ % this.slots.length
    this.slots[slot]?.add(socket)
    this.streams.set(socket, { slot, sequence: 0 })
    write(socket, HEAD_AND_ROLE)
    if (this.streams.size === 1) this.start()
  }

  /** Completes all streams. */
  finish(): void {
    for (const [socket, stream] of this.streams) {
      this.slots[stream.slot]?.delete(socket)
      write(socket, END_BYTES)
    }
    this.streams.clear()
  }

  private start(): void {
    const stepMs = this.everyMs / this.slots.length
    this.started = performance.now()
    this.slot = 0
    const step = () => {
      if (this.streams.size === 0) return
      for (; performance.now() - this.started >= this.slot * stepMs; this.slot++)
        this.play(this.slot % this.slots.length)
      setTimeout(step, Math.max(0, this.started + this.slot * stepMs - performance.now()))
    }
    step()
  }

  private play(slot: number): void {
    for (const socket of this.slots[slot] ?? []) {
      const stream = this.streams.get(socket)
      if (stream === undefined || !socket.data.open) {
        this.slots[slot]?.delete(socket)
        this.streams.delete(socket)
      } else write(socket, Buffer.from(chunk(pacedEvent(stream.sequence++))))
    }
  }
}

const metronomes = {
  paced: new Metronome(PACES.paced.everyMs, 10),
  slow: new Metronome(PACES.slow.everyMs, 200),
}

process.on('message', (message) => {
  if (message === 'finish') for (const metronome of Object.values(metronomes)) metronome.finish()
})
process.send?.({ port: server.port })
