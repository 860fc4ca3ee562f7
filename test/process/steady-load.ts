/**
 * A steady load on a gateway, of which no request may fail: long streams, new connections, kept connections that are
 * used again, and sockets that continue their conversations. Every answer has the same usage, so its cost is known.
 */

import { Caller, requestBytes } from '../support/caller.ts'
import { RawSocket } from '../support/socket-client.ts'
import { configuration, KEY, PROGRAM, type Weir } from './weir.ts'

const encoder = new TextEncoder()
const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }
/** Dollars per million tokens. */
export const PRICE = { input: 3, output: 5 }
export const COST_MICRO_USD = USAGE.prompt_tokens * PRICE.input + USAGE.completion_tokens * PRICE.output
const PIECES_PER_SECOND = 10

/** A provider whose streams take `seconds`, and whose other answers come at once. */
export function pacedProvider(seconds: number): Disposable & { readonly baseUrl: string } {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      if (request.method === 'GET') return new Response(null, { status: 404 })
      const { stream = false } = (await request.json()) as { stream?: boolean }
      if (stream) return new Response(streamOf(seconds), { headers: { 'content-type': 'text/event-stream' } })
      const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }]
      return Response.json({ id: '1', object: 'chat.completion', created: 1, model: 'upstream', choices, usage: USAGE })
    },
  })
  return { baseUrl: `http://127.0.0.1:${server.port}/v1`, [Symbol.dispose]: () => void server.stop(true) }
}

function streamOf(seconds: number): ReadableStream<Uint8Array> {
  const common = { id: '1', object: 'chat.completion.chunk', created: 1, model: 'upstream' }
  const frame = (choices: readonly object[], more: object = {}) =>
    encoder.encode(`data: ${JSON.stringify({ ...common, choices, ...more })}\n\n`)
  return new ReadableStream({
    async start(controller) {
      for (let piece = 0; piece < seconds * PIECES_PER_SECOND; piece++) {
        controller.enqueue(frame([{ index: 0, delta: { content: `${piece} ` }, finish_reason: null }]))
        await Bun.sleep(1000 / PIECES_PER_SECOND)
      }
      controller.enqueue(frame([{ index: 0, delta: {}, finish_reason: 'stop' }]))
      controller.enqueue(frame([], { usage: USAGE }))
      controller.enqueue(encoder.encode('data: [DONE]\n\n'))
      controller.close()
    },
  })
}

/** A configuration whose model has `PRICE`, and whose organisation has a budget. */
export function pricedConfiguration(baseUrl: string, ledger: string): string {
  return configuration({ baseUrl, ledger })
    .replace('model: upstream }] }', `model: upstream }], price: { input: ${PRICE.input}, output: ${PRICE.output} } }`)
    .replace('[{ id: acme,', '[{ id: acme, limits: { spend: { total: 1000 } },')
}

/** What is spent and held of the budget, in micro-dollars. */
export async function budgetOf(weir: Weir): Promise<{ readonly used: number; readonly held: number }> {
  const { rows } = (await (await fetch(`${weir.admin}/api/budgets`)).json()) as {
    readonly rows: readonly { readonly limit: string; readonly used: number; readonly held: number }[]
  }
  const { used = Number.NaN, held = Number.NaN } = rows.find(({ limit }) => limit === 'spend.total') ?? {}
  return { used, held }
}

/** The total of `weir usage`. */
export async function usageOf(weir: Weir): Promise<{ readonly requests: number; readonly cost_micro_usd: number }> {
  const child = Bun.spawn([...PROGRAM, 'usage', '--json'], { cwd: weir.folder, stdout: 'pipe' })
  const { total } = JSON.parse(await new Response(child.stdout).text())
  return { requests: total.requests, cost_micro_usd: total.cost_micro_usd }
}

interface LoadOptions {
  readonly port: number
  readonly streams: number
  /** New connections per second, with one request each. */
  readonly connectionsPerSecond: number
  /** Connections that send one request after another, and are opened again when the gateway closes them. */
  readonly kept: number
  /** Sockets with one streamed turn after the other. The gateway must close each, which is then opened again. */
  readonly sockets?: number
  /** What each connection begins with. */
  readonly opening?: Uint8Array
}

export class SteadyLoad {
  /** Answers that were complete. */
  answered = 0
  /** Kept connections that the gateway closed after an answer with `connection: close`. */
  closed = 0
  readonly failures: string[] = []
  /** Requests that have no whole answer yet, those of kept connections left out. */
  unanswered = 0
  private isOver = false
  private readonly running = new Set<Promise<void>>()

  constructor(private readonly options: LoadOptions) {
    for (let index = 0; index < options.streams; index++) this.run(() => this.stream())
    for (let index = 0; index < options.kept; index++) this.run(() => this.keep())
    for (let index = 0; index < (options.sockets ?? 0); index++) this.run(() => this.converse())
    this.run(() => this.connect())
  }

  /** Sends no more, and resolves when everything is answered. */
  async finish(): Promise<void> {
    this.isOver = true
    while (this.running.size > 0) await Promise.all(this.running)
  }

  private run(work: () => Promise<void>): void {
    const running = work()
      .catch((error: unknown) => void this.failures.push(String(error)))
      .finally(() => this.running.delete(running))
    this.running.add(running)
  }

  private async connect(): Promise<void> {
    while (!this.isOver) {
      this.run(() => this.once(false))
      await Bun.sleep(1000 / this.options.connectionsPerSecond)
    }
  }

  private async stream(): Promise<void> {
    while (!this.isOver) await this.once(true)
  }

  private async once(isStream: boolean): Promise<void> {
    this.unanswered++
    try {
      await this.ask(isStream)
    } finally {
      this.unanswered--
    }
  }

  private async ask(isStream: boolean): Promise<void> {
    await using caller = await this.opened()
    caller.send(request(isStream))
    const answer = await caller.answer()
    const isWhole = answer.end === 'whole' && (!isStream || answer.text.endsWith('data: [DONE]\n\n'))
    this.count(answer.status, isWhole, answer.text)
  }

  private async keep(): Promise<void> {
    while (!this.isOver) {
      await using caller = await this.opened()
      for (let isOpen = true; isOpen && !this.isOver; ) {
        caller.send(request(false))
        const answer = await caller.answer()
        this.count(answer.status, answer.end === 'whole', answer.text)
        isOpen = answer.header('connection')?.toLowerCase() !== 'close'
        if (isOpen) await Bun.sleep(Math.random() * 20)
        else this.closed++
      }
    }
  }

  /** Until its worker was replaced at least once. */
  private async converse(): Promise<void> {
    for (let closed = 0; closed === 0 || !this.isOver; closed++) {
      using socket = await RawSocket.with(this.options.port, KEY, this.options.opening)
      let previous: string | null = null
      for (let isOpen = true; isOpen && (closed === 0 || !this.isOver); ) {
        socket.send({ ...TURN, previous_response_id: previous })
        const last = (await socket.turn()).at(-1)
        const { id = null, error } = { ...Object(last?.['response']), ...last }
        isOpen = socket.status === 101 && last !== undefined && error?.code !== 'shutting_down'
        if (!isOpen && socket.status === 101) continue
        const isWhole = last?.['type'] === 'response.completed'
        this.count(isWhole ? 200 : socket.status, isWhole, `a turn: ${JSON.stringify(last ?? null)}`)
        previous = id
      }
    }
  }

  private async opened(): Promise<Caller> {
    const { port, opening } = this.options
    const caller = await Caller.connect(port)
    if (opening !== undefined) caller.send(opening)
    return caller
  }

  private count(status: number, isWhole: boolean, text: string): void {
    if (status === 200 && isWhole) this.answered++
    else this.failures.push(`${status}, ${isWhole ? 'whole' : 'cut'}: ${text.slice(-300)}`)
  }
}

const TURN = { type: 'response.create', model: 'small', input: 'Hello', max_output_tokens: 1000 }

function request(stream: boolean): Uint8Array {
  const body = { model: 'small', stream, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1000 }
  return requestBytes('/v1/chat/completions', { key: KEY, body })
}
