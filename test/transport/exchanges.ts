/** Requests over the HTTP client, and what came of them. */

import { BytePieces } from '../../src/core/byte-pieces.ts'
import type { ProviderError } from '../../src/core/provider-error.ts'
import type { ResponseHeaders } from '../../src/providers/provider.ts'
import type { HttpClient } from '../../src/transport/client.ts'
import { HttpExchange } from '../../src/transport/exchange.ts'
import type { ClientRequest } from '../../src/transport/request-head.ts'

/** What an exchange has come to; `end` is the last event, absent while it goes on. */
export interface Outcome {
  status?: number
  body: string
  end?: 'end' | ProviderError['kind']
}

export class Exchanged {
  readonly outcome: Outcome = { body: '' }
  readonly exchange: HttpExchange
  headers: ResponseHeaders | undefined
  error: ProviderError | undefined
  private isSending = true
  private readonly ending = Promise.withResolvers<Outcome>()
  private readonly beginning = Promise.withResolvers<void>()
  private readonly answering = Promise.withResolvers<void>()

  constructor(
    client: HttpClient,
    url: string,
    body: string | readonly Uint8Array[] = '{}',
    headers = {},
    more: Partial<ClientRequest> = {},
  ) {
    this.exchange = new HttpExchange(client)
    this.send({ url, headers, body: typeof body === 'string' ? body : BytePieces.of(body), ...more })
  }

  private send(request: ClientRequest): void {
    this.exchange.send(request, this)
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
