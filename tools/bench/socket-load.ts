/** Callers of the load generator over WebSockets: one turn after the other, or none at all. */

import { BURST_TEXTS } from './answers.ts'
import { requestOf } from './dialects.ts'
import type { Counter } from './load-counter.ts'
import { BURST_EVENTS, type Traffic } from './traffic.ts'

/** `turns`: each is the whole request; `continued`: each adds some words to the request; `idle`: there is none. */
export type SocketUse = 'turns' | 'continued' | 'idle'

/** What a continuation adds to the conversation. */
const WORDS = 'And what then? '.repeat(64)
/** Reads the text of one answer in so many; of the others the last frame counts. */
const READ_EVERY = 16

interface Reports {
  readonly counter: Counter
  readonly repeats: boolean
  closed(caller: SocketCaller): void
}

export class SocketCaller {
  private frame = ''
  private turns = 0

  private constructor(
    private readonly socket: WebSocket,
    private readonly reports: Reports,
  ) {
    socket.addEventListener('message', ({ data }) => this.take(String(data)))
    socket.addEventListener('close', () => {
      if (this.frame !== '') reports.counter.fail('a socket closed in the middle of a turn')
      reports.closed(this)
    })
  }

  /** Resolves when the connection is open; its turns go on by themselves. */
  static async open(port: number, key: string, traffic: Traffic, use: SocketUse, reports: Reports) {
    const headers = { authorization: `Bearer ${key}` }
    const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/responses`, { headers })
    const caller = new SocketCaller(socket, reports)
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve)
      socket.addEventListener('error', () => reject(new Error('no WebSocket')))
    })
    if (use === 'idle') {
      reports.counter.started++
      return caller
    }
    const request = JSON.parse(requestOf('responses', traffic).body)
    const first = { type: 'response.create', ...request }
    // In a lane of its own, so that every turn continues the same response.
    if (use === 'continued') caller.send(JSON.stringify({ ...first, generate: false, stream_id: 'whole' }))
    else caller.send(JSON.stringify(first))
    return caller
  }

  /** Closes it, if it has no turn to wait for. */
  stop(): void {
    if (this.frame === '') this.socket.close()
  }

  private send(frame: string): void {
    this.frame = frame
    this.socket.send(frame)
  }

  private take(data: string): void {
    const { counter } = this.reports
    counter.bytes += data.length
    if (data.startsWith('{"type":"error"')) counter.fail(data.slice(0, 200))
    if (!data.includes('"type":"response.completed"')) return
    if (data.includes('"stream_id":"whole"')) {
      const { model, tools, instructions, response } = { ...JSON.parse(this.frame), ...JSON.parse(data) }
      const more = { previous_response_id: response.id, input: WORDS, stream: true }
      return this.send(JSON.stringify({ type: 'response.create', model, instructions, tools, ...more }))
    }
    this.turns++
    if (this.turns % READ_EVERY === 1 && JSON.parse(data).response.output[0].content[0].text !== BURST_TEXTS.burst)
      counter.fail(`an answer over a WebSocket is wrong: ${data.slice(0, 200)}`)
    counter.answers++
    counter.events += BURST_EVENTS
    if (this.reports.repeats) return this.send(this.frame)
    this.frame = ''
    this.socket.close()
  }
}
