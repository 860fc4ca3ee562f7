/**
 * A provider over bare TCP: it sends exactly the bytes that a test gives it, when the test gives them, and records its
 * requests and how each connection ended. The model in a request selects the scenario.
 */

import net from 'node:net'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { bytesOf, chunkedOf, field, type Head, headOf, joined, textOf } from './bytes.ts'

/** How a connection ended: which side closed it, with a FIN or a reset. */
export interface Ending {
  readonly by: 'us' | 'gateway'
  readonly reset: boolean
}

/** A provider's reaction to a request. It may return before it has answered: the connection stays open. */
export type Scenario = (call: Call) => void | Promise<void>

/** One request and its connection. */
export class Call {
  readonly method: string
  readonly path: string
  readonly json: JsonObject
  private answered = false

  constructor(
    readonly head: Head,
    readonly body: Uint8Array,
    /** Connections are numbered from 0 in order of arrival. */
    readonly connection: number,
    private readonly link: Link,
  ) {
    const [method = '', path = ''] = head.line.split(' ')
    this.method = method
    this.path = path
    this.json = objectOf(textOf(body))
  }

  get model(): string {
    return String(this.json['model'] ?? '')
  }

  header(name: string): string | undefined {
    return field(this.head, name)
  }

  /** Resolves when the connection of this request has ended, on either side. */
  get ended(): Promise<Ending> {
    return this.link.ended
  }

  /** Resolves when the gateway closed the connection before the answer was complete; throws if it ended otherwise. */
  get aborted(): Promise<Ending> {
    return this.link.ended.then((ending) => {
      if (ending.by === 'gateway' && !this.answered) return ending
      throw new Error(`the request was not aborted: the connection ended by ${ending.by}, answered: ${this.answered}`)
    })
  }

  get open(): boolean {
    return this.link.open
  }

  /** True until the answer is complete. */
  get isAnswering(): boolean {
    return !this.answered
  }

  /**
   * Writes the bytes unchanged. Resolves when the operating system accepted them; false if the connection has ended.
   */
  write(data: string | Uint8Array): Promise<boolean> {
    return this.link.write(bytesOf(data))
  }

  /** Writes a status line and header fields. Chunked, unless the fields contain a length or `connection: close`. */
  head200(fields: Readonly<Record<string, string>> = {}): Promise<boolean> {
    return this.status(200, { 'content-type': 'text/event-stream', 'transfer-encoding': 'chunked', ...fields })
  }

  status(status: number, fields: Readonly<Record<string, string>>): Promise<boolean> {
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
    return this.write(`HTTP/1.1 ${status} ${STATUS_TEXT[status] ?? 'Status'}\r\n${lines.join('')}\r\n`)
  }

  /** One chunk of a chunked body. */
  chunk(data: string | Uint8Array): Promise<boolean> {
    const bytes = bytesOf(data)
    return this.write(joined([bytesOf(`${bytes.length.toString(16)}\r\n`), bytes, bytesOf('\r\n')]))
  }

  /** The terminating chunk: the answer is complete, and the connection stays open for the next request. */
  async end(): Promise<void> {
    this.answered = true
    await this.write('0\r\n\r\n')
  }

  /** Marks the answer as complete if it has no terminating chunk. */
  whole(): void {
    this.answered = true
  }

  /** Closes with a FIN. */
  close(): void {
    this.link.close()
  }

  /** Closes with a reset. */
  reset(): void {
    this.link.reset()
  }

  /** A JSON answer with its length. */
  async answer(
    status: number,
    body: string | Uint8Array,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const bytes = bytesOf(body)
    this.answered = true
    await this.status(status, { 'content-type': 'application/json', 'content-length': String(bytes.length), ...fields })
    await this.write(bytes)
  }
}

/** The ports that simulated providers of this process have had. */
const taken = new Set<number>()

/**
 * A listening server; for `port` 0 on a port that none before it had. The transport of this process may still keep a
 * connection to an earlier server, whose end it has not read yet: on the same port, the next request would take it.
 */
async function listeningServer(port: number, host: string): Promise<net.Server> {
  const server = net.createServer({ noDelay: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const given = portOf(server)
  if (port !== 0 || !taken.has(given)) {
    taken.add(given)
    return server
  }
  try {
    return await listeningServer(port, host)
  } finally {
    server.close()
  }
}

/** A simulated provider on a port of its own; closed with `await using`. */
export class Upstream implements AsyncDisposable {
  /** But for requests for the list of models, which are in `lists`. */
  readonly calls: Call[] = []
  readonly lists: Call[] = []
  /** The reaction to those; like most servers of tests, it has no list. */
  list: Scenario = (call) => call.answer(404, '{}')
  private readonly scenarios = new Map<string, Scenario>()
  private fallback: Scenario = (call) =>
    call.answer(404, '{"error":{"message":"no scenario for this model","code":"test"}}')
  private readonly waiting = new Set<() => void>()
  /** Open connections. */
  private readonly links = new Set<Link>()
  private accepted = 0

  private constructor(
    private readonly server: net.Server,
    readonly port: number,
  ) {}

  static async start(
    scenarios: Readonly<Record<string, Scenario>> = {},
    port = 0,
    host = '127.0.0.1',
  ): Promise<Upstream> {
    const server = await listeningServer(port, host)
    const upstream = new Upstream(server, portOf(server))
    server.on('connection', (socket) => upstream.accept(socket))
    for (const [model, scenario] of Object.entries(scenarios)) upstream.on(model, scenario)
    return upstream
  }

  /** The `base_url` of a Chat Completions provider. */
  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`
  }

  on(model: string, scenario: Scenario): this {
    this.scenarios.set(model, scenario)
    return this
  }

  otherwise(scenario: Scenario): this {
    this.fallback = scenario
    return this
  }

  /** The n-th request (from 0) for a model, or for any model, as soon as it arrives. */
  async call(model?: string, n = 0): Promise<Call> {
    for (;;) {
      const found = this.calls.filter((call) => model === undefined || call.model === model)[n]
      if (found !== undefined) return found
      await new Promise<void>((resolve) => this.waiting.add(resolve))
    }
  }

  get openConnections(): number {
    return this.links.size
  }

  get connections(): number {
    return this.accepted
  }

  /** Resolves when no connection is open. */
  async idle(): Promise<void> {
    while (this.openConnections > 0) await Promise.all([...this.links].map((link) => link.ended))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const link of this.links) link.reset()
    await new Promise<void>((resolve) => this.server.close(() => resolve()))
  }

  private accept(socket: net.Socket): void {
    const link = new Link(socket)
    const number = this.accepted++
    this.links.add(link)
    void link.ended.then(() => this.links.delete(link))
    const requests = new Requests()
    let busy = Promise.resolve()
    socket.on('data', (data: Buffer) => {
      for (const { head, body } of requests.push(data)) {
        const call = new Call(head, body, number, link)
        busy = busy.then(() => this.serve(call))
      }
    })
  }

  private async serve(call: Call): Promise<void> {
    const isList =
      call.method === 'GET' && /\/(?:(?:foundation-)?models|deployments|inference-profiles)(?:\?|$)/.test(call.path)
    if (isList) this.lists.push(call)
    else this.calls.push(call)
    for (const resolve of this.waiting) resolve()
    this.waiting.clear()
    await (isList ? this.list : (this.scenarios.get(call.model) ?? this.fallback))(call)
  }
}

/** One accepted connection: it writes with back-pressure and records how it ended. */
class Link {
  open = true
  readonly ended: Promise<Ending>
  private byUs = false

  constructor(private readonly socket: net.Socket) {
    let failed = false
    let gatewayLeft = false
    socket.on('error', () => {
      failed = true
    })
    socket.on('end', () => {
      if (!this.byUs) gatewayLeft = true
    })
    const { promise, resolve } = Promise.withResolvers<Ending>()
    this.ended = promise
    socket.on('close', () => {
      this.open = false
      resolve({ by: this.byUs && !gatewayLeft ? 'us' : 'gateway', reset: failed })
    })
  }

  async write(bytes: Uint8Array): Promise<boolean> {
    if (!this.open || this.byUs) return false
    if (this.socket.write(bytes)) return true
    await Promise.race([new Promise<void>((resolve) => this.socket.once('drain', () => resolve())), this.ended])
    return this.open
  }

  close(): void {
    if (!this.open) return
    this.byUs = true
    this.socket.end()
  }

  reset(): void {
    if (!this.open) return
    this.byUs = true
    this.socket.resetAndDestroy()
  }
}

/** Parses bytes into requests. A body with a length is joined once, when it is complete. */
class Requests {
  private pieces: Uint8Array[] = []
  private size = 0
  private needed = 0

  push(data: Uint8Array): { head: Head; body: Uint8Array }[] {
    this.pieces.push(data)
    this.size += data.length
    if (this.size < this.needed) return []
    const found: { head: Head; body: Uint8Array }[] = []
    let rest = joined(this.pieces)
    for (let request = requestOf(rest); request !== undefined; request = requestOf(rest)) {
      found.push(request)
      rest = rest.slice(request.length)
    }
    this.pieces = [rest]
    this.size = rest.length
    const head = headOf(rest)
    this.needed = head === undefined ? 0 : head.length + Number(field(head, 'content-length') ?? 0)
    return found
  }
}

/** The first complete request in the bytes. */
function requestOf(bytes: Uint8Array): { head: Head; body: Uint8Array; length: number } | undefined {
  const head = headOf(bytes)
  if (head === undefined) return undefined
  const rest = bytes.subarray(head.length)
  if (field(head, 'transfer-encoding') === 'chunked') {
    const { chunks, ended, length } = chunkedOf(rest)
    return ended ? { head, body: joined(chunks), length: head.length + length } : undefined
  }
  const length = Number(field(head, 'content-length') ?? 0)
  return rest.length < length ? undefined : { head, body: rest.slice(0, length), length: head.length + length }
}

function objectOf(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}

export function portOf(server: net.Server): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server does not listen on a port')
  return address.port
}

/** A port that nothing listens on. */
export async function closedPort(): Promise<number> {
  const server = net.createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const port = portOf(server)
  await new Promise<void>((resolve) => server.close(() => resolve()))
  return port
}

const STATUS_TEXT: Readonly<Record<number, string>> = {
  200: 'OK',
  307: 'Temporary Redirect',
  400: 'Bad Request',
  401: 'Unauthorized',
  404: 'Not Found',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}
