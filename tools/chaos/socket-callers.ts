/**
 * Callers over WebSockets: they send one turn after the other, most of which continue the one before, disconnect at
 * random, and connect again when the gateway closes the connection.
 */

import { isObject, type JsonObject, stringOf } from '../../src/core/json.ts'
import type { Random } from '../../test/support/random.ts'
import {
  type End,
  LEAVES_ONE_IN,
  type Load,
  PATIENCE_MS,
  PAUSE_MS,
  PROJECTS,
  REFUSED_PAUSE_MS,
  type Result,
  textOf,
  tierOf,
} from './callers.ts'

const CONTINUED = 0.7

/** What the frames of a turn have shown so far. */
interface Seen {
  readonly end: End
  readonly id: string | undefined
  readonly status: number
  readonly what: string
}

const NOTHING: Seen = { end: 'none', id: undefined, status: 0, what: '' }

/** Sends one turn after the other until `untilMs`, at least one unless the gateway accepts no connection. */
export async function callOverSocketsUntil(untilMs: number, load: Load, random: Random): Promise<void> {
  do {
    const gateway = random.below(load.ports.length)
    const [key, secret] = load.keys[random.below(load.keys.length)] ?? ['', '']
    const project = PROJECTS[random.below(PROJECTS.length)] ?? ''
    using connection = await Connection.open(load.ports[gateway] ?? 0, secret, project)
    if (connection === undefined) await Bun.sleep(REFUSED_PAUSE_MS)
    else await converse(untilMs, connection, { load, random, gateway, key, project })
  } while (performance.now() < untilMs)
}

interface Conversing {
  readonly load: Load
  readonly random: Random
  readonly gateway: number
  readonly key: string
  readonly project: string
}

async function converse(untilMs: number, connection: Connection, conversing: Conversing): Promise<void> {
  const { load, random, gateway, key, project } = conversing
  let previous: string | undefined
  do {
    const mark = `${load.name}-${load.number()}`
    const continued = random.chance(CONTINUED) ? previous : undefined
    const leavesMs = random.below(LEAVES_ONE_IN) === 0 ? random.below(200) : PATIENCE_MS
    const leaves = setTimeout(() => connection.leave(), leavesMs)
    const input = textOf(mark, random)
    const turn = { model: 'm', max_output_tokens: 64, input, previous_response_id: continued, ...tierOf(random) }
    const seen = await connection.turn({ type: 'response.create', ...turn })
    clearTimeout(leaves)
    const times = { endedMs: performance.now(), arrivedAfterMs: load.clock.earliestMs }
    const kind = continued === undefined ? 'first' : 'continued'
    load.results.push({ mark, key, project, gateway, ...seen, ...times, turn: kind } satisfies Result)
    // Any other end of a continuation makes the gateway forget what it continued.
    previous = seen.end === 'complete' ? connection.lastId : continued === undefined ? previous : undefined
    await Bun.sleep(seen.end === 'complete' || seen.end === 'cut' ? random.below(PAUSE_MS) : REFUSED_PAUSE_MS)
  } while (performance.now() < untilMs && connection.isOpen)
}

class Connection implements Disposable {
  /** Of the last response that is complete. */
  lastId: string | undefined
  private seen = NOTHING
  private ended: (() => void) | undefined

  private constructor(private readonly socket: WebSocket) {
    socket.addEventListener('message', ({ data }) => this.take(String(data)))
    socket.addEventListener('close', () => this.ended?.())
  }

  /** Undefined if the gateway refuses it, or is gone. */
  static async open(port: number, key: string, project: string): Promise<Connection | undefined> {
    const tags = project === '' ? {} : { 'x-gateway-tags': `project=${project}` }
    const headers = { authorization: `Bearer ${key}`, ...tags }
    const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers })
    const connection = new Connection(socket)
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.addEventListener('open', () => resolve(true))
      socket.addEventListener('error', () => resolve(false))
      socket.addEventListener('close', () => resolve(false))
      setTimeout(() => resolve(false), PATIENCE_MS).unref()
    })
    if (!isOpen) socket.terminate()
    return isOpen ? connection : undefined
  }

  get isOpen(): boolean {
    return this.socket.readyState === WebSocket.OPEN
  }

  /** Resolves at its last frame, or at the end of the connection. */
  async turn(frame: JsonObject): Promise<Seen> {
    this.seen = NOTHING
    if (!this.isOpen) return NOTHING
    await new Promise<void>((resolve) => {
      this.ended = resolve
      this.socket.send(JSON.stringify(frame))
    })
    this.ended = undefined
    return this.seen
  }

  leave(): void {
    this.socket.terminate()
  }

  [Symbol.dispose](): void {
    this.socket.close()
  }

  private take(text: string): void {
    const frame: unknown = JSON.parse(text)
    // The error that comes with the end of a connection belongs to no turn.
    if (!isObject(frame) || this.ended === undefined) return
    const { type } = frame
    if (type === 'response.created')
      this.seen = { ...NOTHING, end: 'cut', status: 200, id: requestId(frame['gateway']) }
    const end = endOf(frame)
    if (end === undefined) return
    if (end === 'complete') this.lastId = stringOf(Object(frame['response']).id)
    const { id = requestId(frame), status } = this.seen
    const what = end === 'wrong' ? text.slice(0, 300) : ''
    this.seen = { end, id, status: status || Number(frame['status'] ?? 200), what }
    this.ended()
  }
}

function requestId(from: unknown): string | undefined {
  return stringOf(Object(Object(from).headers)['x-request-id'])
}

/** Undefined if the turn goes on. */
function endOf({ type, status, error }: JsonObject): End | undefined {
  if (type === 'response.completed') return 'complete'
  if (type === 'response.failed') return 'cut'
  if (type === 'response.incomplete') return 'wrong'
  if (type !== 'error') return undefined
  if (status === 503 && Object(error).code === 'shutting_down') return 'drained'
  return status === 429 || status === 503 ? 'rejected' : 'wrong'
}
