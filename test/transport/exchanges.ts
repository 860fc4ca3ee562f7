/** Requests over each of the two transports, and what came of them. */

import { BytePieces } from '../../src/core/byte-pieces.ts'
import type { ProviderError } from '../../src/core/provider-error.ts'
import { FetchTransport } from '../../src/providers/fetch-transport.ts'
import type { Dispatch, ResponseHeaders } from '../../src/providers/provider.ts'
import { SocketTransport } from '../../src/providers/socket-transport.ts'
import type { Transport } from '../../src/providers/transport.ts'
import type { Addresses } from '../../src/transport/addresses.ts'
import { HttpClient } from '../../src/transport/client.ts'
import { Authorities } from '../../src/transport/dial.ts'

/** A way to reach providers. One for each test: its connections are its own. */
export interface Way extends Disposable {
  readonly name: 'sockets' | 'fetch'
  open(baseUrl: string): Transport
}

export const WAYS = ['sockets', 'fetch'] as const

/** `ca` (the only authority in PEM) and `addresses` are for sockets; `fetch` takes them from the environment. */
export function wayOf(name: Way['name'], ca?: string, addresses?: Addresses): Way {
  const client = new HttpClient(new Authorities(ca), addresses)
  const deadlines = { connectMs: 5000, firstByteMs: { stream: 5000, whole: 5000 }, idleMs: 5000, totalMs: 5000 }
  return {
    name,
    open: (baseUrl) =>
      name === 'sockets'
        ? new SocketTransport(client)
        : new FetchTransport({ name: 'p', baseUrl, headers: {}, deadlines }),
    [Symbol.dispose]: () => client.close(),
  }
}

/** What an exchange has come to; `end` is the last event, absent while it goes on. */
export interface Outcome {
  status?: number
  body: string
  end?: 'end' | ProviderError['kind']
}

export class Exchanged {
  readonly outcome: Outcome = { body: '' }
  readonly transport: Transport
  headers: ResponseHeaders | undefined
  error: ProviderError | undefined
  private isSending = true
  private readonly ending = Promise.withResolvers<Outcome>()
  private readonly beginning = Promise.withResolvers<void>()
  private readonly answering = Promise.withResolvers<void>()

  constructor(
    way: Way,
    url: string,
    body: string | readonly Uint8Array[] = '{}',
    headers = {},
    more: Partial<Dispatch> = {},
  ) {
    this.transport = way.open(new URL(url).origin)
    this.send({ url, headers, body: typeof body === 'string' ? body : BytePieces.of(body), ...more })
  }

  private send(request: Dispatch): void {
    this.transport.send(request, this)
    this.isSending = false
  }

  /** Resolves with the outcome after the last event. */
  get done(): Promise<Outcome> {
    return this.ending.promise
  }

  /** Resolves at the head of the answer. */
  get answered(): Promise<void> {
    return this.answering.promise
  }

  /** Resolves at the first byte of the body. */
  get begun(): Promise<void> {
    return this.beginning.promise
  }

  head(status: number, headers: ResponseHeaders): void {
    this.check(this.outcome.status === undefined)
    this.outcome.status = status
    this.headers = headers
    this.answering.resolve()
  }

  data(bytes: Uint8Array, from: number, to: number): void {
    this.check(this.outcome.status !== undefined && to > from)
    this.outcome.body += Buffer.from(bytes.subarray(from, to)).toString('latin1')
    this.beginning.resolve()
  }

  end(): void {
    this.check(this.outcome.status !== undefined)
    this.finish('end')
  }

  fail(error: ProviderError): void {
    this.check(true)
    this.error = error
    this.finish(error.kind)
  }

  private finish(end: NonNullable<Outcome['end']>): void {
    this.outcome.end = end
    this.ending.resolve(this.outcome)
  }

  /** The order of the calls is part of the interface. */
  private check(isInOrder: boolean): void {
    if (isInOrder && !this.isSending && this.outcome.end === undefined) return
    this.ending.reject(new Error(`called out of order: ${JSON.stringify(this.outcome)}`))
  }
}

/** A whole response in a raw server's words. */
export function response(body: string, fields = ''): string {
  return `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n${fields}\r\n${body}`
}
