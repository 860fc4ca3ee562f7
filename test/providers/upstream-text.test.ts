/** Whole bodies, over a transport controlled by the test. */

import { expect, test } from 'bun:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { ProviderError } from '../../src/core/provider-error.ts'
import { type ExchangeInUse, UpstreamCall } from '../../src/providers/upstream.ts'
import type { ResponseHandler } from '../../src/transport/exchange.ts'

const endpoint: Endpoint = {
  name: 'p',
  baseUrl: 'http://provider.test',
  headers: {},
  deadlines: { connectMs: 1e6, firstByteMs: { stream: 1e6, whole: 1e6 }, idleMs: 1e6, totalMs: 1e6 },
}

/** Gives the answer at once: in pieces, or whole if the handler takes it so. */
function transportOf(pieces: readonly Uint8Array[]): ExchangeInUse & { aborted: boolean } {
  return {
    aborted: false,
    send(_: unknown, handler: ResponseHandler) {
      handler.head(200, new Headers())
      const [only] = pieces
      if (pieces.length === 1 && only !== undefined && handler.takesText === true)
        handler.text?.(Buffer.from(only).toString(), only.length)
      else for (const piece of pieces) handler.data(piece, 0, piece.length)
      if (!this.aborted) handler.end()
    },
    pause() {},
    resume() {},
    abort() {
      this.aborted = true
    },
    canConnect: () => Promise.resolve(true),
    wasSent: () => true,
  }
}

/** What the reader of a body of at most 10 bytes gets, once. */
function readBy(pieces: readonly string[]): readonly string[] {
  const transport = transportOf(pieces.map((piece) => Buffer.from(piece)))
  const call = new UpstreamCall(
    { url: '', headers: {}, body: '' },
    endpoint,
    false,
    Number.POSITIVE_INFINITY,
    transport,
  )
  const got: string[] = []
  const reader = {
    text: (text: string) => got.push(text),
    fail: (error: ProviderError) => got.push(error.kind, `aborted: ${transport.aborted}`),
  }
  call.send({ head: () => call.readText(reader, 10), fail: () => got.push('failed') })
  return got
}

test('a whole body is the same text however it arrives', () => {
  for (const body of ['{"a":1}', '\ufeff{"a":1}', '\ufeff\ufeff', '€€€']) {
    const expected = body.replace(/^\ufeff/, '')
    expect(readBy([body])).toEqual([expected])
    expect(readBy([body.slice(0, 1), body.slice(1)])).toEqual([expected])
  }
})

test('a body of more bytes than allowed is aborted however it arrives', () => {
  for (const pieces of [['€€€€'], ['€€', '€€'], ['12345678901']])
    expect(readBy(pieces)).toEqual(['broken', 'aborted: true'])
})
