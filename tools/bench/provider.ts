/**
 * The simulated provider of the bench: a separate process on raw sockets, whose cost is small and the same for every
 * gateway.
 */

import type { Socket } from 'bun'
import { ANSWERS, burstOf, pacedText, thoughtsOf } from './answers.ts'
import { answerOf, BURSTS, type BurstKind, PACES, PROVIDERS, type ProviderName } from './traffic.ts'

interface Connection {
  /** What has arrived of a head that is not complete. */
  head: Buffer | undefined
  /** Missing bytes of the request's body. */
  missing: number
  answer: ReturnType<typeof answerOf>
  /** The end of what was searched for the model's name without finding it. */
  searched: string
  /** Bytes that the socket did not accept yet. */
  backlog: Buffer | undefined
  waiting: (() => void) | undefined
  open: boolean
}

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/** The bytes of one provider's answers. */
function bytesOf(name: ProviderName) {
  const { first, last, json } = ANSWERS[name]
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
  return {
    start: Buffer.from(first === '' ? head : head + chunk(first)),
    bursts: Array.from({ length: BURSTS.bulk }, (_, burst) =>
      // Providers flush every event, which makes it a chunk of its own, whether they write one at a time or many.
      Buffer.from(burstOf(name, burst).map(chunk).join('')),
    ),
    thoughts: Buffer.from(thoughtsOf(name).map(chunk).join('')),
    end: Buffer.from(`${chunk(last)}0\r\n\r\n`),
    json: Buffer.from(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
    ),
  }
}

const BYTES = Object.fromEntries(PROVIDERS.map((name) => [name, bytesOf(name)])) as Readonly<
  Record<ProviderName, ReturnType<typeof bytesOf>>
>

const server = Bun.listen<Connection>({
  hostname: '127.0.0.1',
  port: 0,
  socket: {
    open(socket) {
      socket.data = {
        head: undefined,
        missing: 0,
        answer: undefined,
        searched: '',
        backlog: undefined,
        waiting: undefined,
        open: true,
      }
      socket.setNoDelay(true)
    },
    data: receive,
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

/** Counts the bytes of a request's body, without keeping them, and answers it when it is complete. */
function receive(socket: Socket<Connection>, data: Buffer): void {
  const { data: connection } = socket
  let bytes = data
  while (bytes.length > 0) {
    if (connection.missing === 0) {
      bytes = begin(connection, bytes)
      if (connection.head !== undefined) return
    } else lookForModel(connection, bytes)
    const taken = Math.min(connection.missing, bytes.length)
    connection.missing -= taken
    bytes = bytes.subarray(taken)
    if (connection.missing === 0) serve(socket)
  }
}

/** Reads the head of a request. Returns the bytes after it; \`head\` is set while it is incomplete. */
function begin(connection: Connection, data: Buffer): Buffer {
  const bytes = connection.head === undefined ? data : Buffer.concat([connection.head, data])
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) {
    connection.head = Buffer.from(bytes)
    return bytes
  }
  connection.head = undefined
  const head = bytes.toString('latin1', 0, end)
  connection.missing = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
  const body = bytes.subarray(end + 4)
  // Gemini names the model in the path, all others in the body, most of them at its beginning.
  connection.answer = answerOf(head) ?? answerOf(body.toString('latin1', 0, 4096))
  connection.searched = ''
  lookForModel(connection, body)
  return body
}

/** A model's name is shorter, so that one that is split between two reads is found. */
const NAME_LENGTH_MAX = 40

function lookForModel(connection: Connection, bytes: Buffer): void {
  if (connection.answer !== undefined) return
  const text = connection.searched + bytes.toString('latin1')
  connection.answer = answerOf(text)
  connection.searched = text.slice(-NAME_LENGTH_MAX)
}

const UNKNOWN = Buffer.from('HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}')

function serve(socket: Socket<Connection>): void {
  const { answer } = socket.data
  if (answer === undefined) return write(socket, UNKNOWN)
  const bytes = BYTES[answer.provider]
  switch (answer.kind) {
    case 'json':
      return write(socket, bytes.json)
    case 'burst':
    case 'bulk':
    case 'thoughts':
      void bursts(socket, bytes, answer.kind)
      return
    case 'paced':
    case 'slow':
      return metronomes[answer.kind].add(socket, answer.provider)
  }
}

async function bursts(socket: Socket<Connection>, bytes: ReturnType<typeof bytesOf>, kind: BurstKind): Promise<void> {
  write(socket, bytes.start)
  if (kind === 'thoughts') write(socket, bytes.thoughts)
  for (let burst = 0; burst < BURSTS[kind]; burst++) {
    write(socket, bytes.bursts[burst] ?? UNKNOWN)
    // In the next turn of the loop, so that each burst is a packet of its own if the reader keeps up.
    await new Promise<void>((resolve) => setImmediate(resolve))
    await taken(socket)
  }
  write(socket, bytes.end)
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
  private readonly streams = new Map<Socket<Connection>, { slot: number; sequence: number; provider: ProviderName }>()
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

  add(socket: Socket<Connection>, provider: ProviderName): void {
    const slot = this.next++ % this.slots.length
    this.slots[slot]?.add(socket)
    this.streams.set(socket, { slot, sequence: 0, provider })
    write(socket, BYTES[provider].start)
    if (this.streams.size === 1) this.start()
  }

  /** Completes all streams. */
  finish(): void {
    for (const [socket, stream] of this.streams) {
      this.slots[stream.slot]?.delete(socket)
      write(socket, BYTES[stream.provider].end)
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
      } else {
        const sequence = stream.sequence++
        write(socket, Buffer.from(chunk(ANSWERS[stream.provider].event(pacedText(sequence), sequence)), 'latin1'))
      }
    }
  }
}

const metronomes = {
  paced: new Metronome(PACES.paced, 20),
  slow: new Metronome(PACES.slow, 200),
}

process.on('message', (message) => {
  if (message === 'finish') for (const metronome of Object.values(metronomes)) metronome.finish()
})
process.send?.({ port: server.port })
