/** The deadlines of a call, over a transport controlled by the test; the test passes the time to `tick`. */

import { describe, expect, test } from 'bun:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { type ExchangeInUse, UpstreamCall } from '../../src/providers/upstream.ts'
import type { ResponseHandler } from '../../src/transport/exchange.ts'
import { headOf, nextOf } from './exchange.ts'

const HOUR_MS = 3_600_000
const endpoint: Endpoint = {
  name: 'p',
  baseUrl: 'http://provider.test',
  headers: {},
  deadlines: {
    connectMs: 2 * HOUR_MS,
    firstByteMs: { stream: 10 * HOUR_MS, whole: 20 * HOUR_MS },
    idleMs: 5 * HOUR_MS,
    totalMs: 40 * HOUR_MS,
  },
}

class HandTransport implements ExchangeInUse {
  readonly done: string[] = []
  readonly probe = Promise.withResolvers<boolean>()
  handler: ResponseHandler | undefined

  send(_: unknown, handler: ResponseHandler): void {
    this.done.push('send')
    this.handler = handler
  }

  head(): void {
    this.handler?.head(200, new Headers())
  }

  pause(): void {}

  resume(): void {}

  abort(): void {
    this.done.push('abort')
    this.handler = undefined
  }

  canConnect(ms: number): Promise<boolean> {
    this.done.push(`probe for ${ms / HOUR_MS} h`)
    return this.probe.promise
  }

  wasSent(): boolean {
    return true
  }
}

function made(stream = true, dueMs = Number.POSITIVE_INFINITY) {
  const transport = new HandTransport()
  const startedMs = performance.now()
  const call = new UpstreamCall({ url: '', headers: {}, body: '' }, endpoint, stream, dueMs, transport)
  return { transport, call, at: (hours: number) => call.tick(startedMs + hours * HOUR_MS + 2000) }
}

const errorOf = (promise: Promise<unknown>): Promise<unknown> => promise.then(() => undefined).catch((error) => error)

test.each([
  ['a stream', true, 10, 'within 36000000 ms'],
  ['a whole answer', false, 20, 'within 72000000 ms'],
])('%s begins within its first-byte deadline', async (_, stream, hours, words) => {
  const { transport, call, at } = made(stream)
  const opening = errorOf(headOf(call))
  transport.probe.resolve(true)
  at(hours - 1)
  expect(transport.done).not.toContain('abort')
  at(hours)
  expect(await opening).toMatchObject({ kind: 'timeout', message: `the provider did not answer ${words}` })
  expect(transport.done.at(-1)).toBe('abort')
})

test('a connection that cannot be made by the connect deadline ends the call', async () => {
  const { transport, call, at } = made()
  const opening = errorOf(headOf(call))
  at(0.5)
  expect(transport.done).toEqual(['send'])
  at(1)
  at(1.5)
  expect(transport.done).toEqual(['send', 'probe for 1 h'])
  transport.probe.resolve(false)
  expect(await opening).toMatchObject({ kind: 'timeout', message: 'no connection to the provider within 7200000 ms' })
  expect(transport.done.at(-1)).toBe('abort')
})

test('a probe that fails after the head came, or is inconclusive, ends nothing', async () => {
  const { transport, call, at } = made()
  const opening = headOf(call)
  at(1)
  transport.head()
  await opening
  transport.probe.resolve(false)
  await transport.probe.promise
  expect(transport.done).toEqual(['send', 'probe for 1 h'])

  const other = made()
  const waiting = headOf(other.call)
  other.at(1)
  other.transport.probe.reject(new Error('no sockets left'))
  await errorOf(other.transport.probe.promise)
  other.transport.head()
  await waiting
  expect(other.transport.done).toEqual(['send', 'probe for 1 h'])
})

async function reading() {
  const { transport, call, at } = made()
  const opening = headOf(call)
  transport.head()
  await opening
  return { transport, call, at }
}

test('silence between bytes ends the call, unless the caller is the slow side', async () => {
  const { transport, call, at } = await reading()
  call.resume()
  const next = errorOf(nextOf(call))
  call.pause()
  at(6)
  expect(transport.done).toEqual(['send'])
  call.resume()
  at(6)
  expect(await next).toMatchObject({ kind: 'timeout', message: 'the provider did not answer for 18000000 ms' })
})

test('a broken connection is a cut, and a clean end is the end', async () => {
  const broken = await reading()
  const cut = errorOf(nextOf(broken.call))
  broken.transport.handler?.fail(new ProviderError('cut', 'it broke'))
  expect(await cut).toMatchObject({ kind: 'cut' })
  const whole = await reading()
  const end = nextOf(whole.call)
  whole.transport.handler?.end()
  expect(await end).toBeUndefined()
  // The connection may serve another request by now.
  whole.call.abort()
  expect(whole.transport.done).toEqual(['send'])
})

test('the total deadline holds while the caller is slow, too', async () => {
  const { transport, call, at } = await reading()
  const next = errorOf(nextOf(call))
  call.pause()
  at(40)
  expect(await next).toMatchObject({ kind: 'timeout', message: 'the provider did not answer in time' })
  expect(transport.done).toEqual(['send', 'abort'])
})

test('the deadline of the whole request ends the search for a candidate, not an answer', async () => {
  const dueMs = performance.now() + HOUR_MS
  const late = made(true, dueMs)
  const opening = errorOf(headOf(late.call))
  late.at(1)
  const error = await opening
  expect(error).toMatchObject({ kind: 'timeout', detail: { hurried: true } })
  const found = made(true, dueMs)
  const finding = headOf(found.call)
  found.transport.head()
  await finding
  found.call.endSearch()
  found.at(1)
  expect(found.transport.done).toEqual(['send'])
  found.call.abort()
})

test('a call that is aborted while its request is signed sends nothing', async () => {
  const signing = Promise.withResolvers<Record<string, string>>()
  const transport = new HandTransport()
  const request = { url: '', headers: {}, body: '', sign: () => signing.promise }
  const call = new UpstreamCall(request, endpoint, true, Number.POSITIVE_INFINITY, transport)
  const opening = errorOf(headOf(call))
  call.interrupt()
  signing.resolve({})
  expect(await opening).toMatchObject({ kind: 'cut' })
  expect(transport.done).toEqual(['abort'])
})

test('a provider that does not end its body after its final marker is disconnected after a second', async () => {
  const { transport, call, at } = await reading()
  call.release()
  at(0)
  expect(transport.done).toEqual(['send', 'abort'])
})

describe('a call whose caller has left', () => {
  const SECOND = 1000

  test('is read on, and ends within a second whatever comes', async () => {
    for (const then of ['pause', 'release', 'nothing'] as const) {
      const { transport, call } = await reading()
      const leftMs = performance.now()
      expect(call.readOn()).toBe(true)
      const next = errorOf(nextOf(call))
      transport.handler?.data(Buffer.from('more'), 0, 4)
      await next
      const end = errorOf(nextOf(call))
      if (then !== 'nothing') call[then]()
      call.tick(leftMs + 0.7 * SECOND)
      expect(transport.done).toEqual(['send'])
      call.tick(leftMs + 0.9 * SECOND)
      expect(transport.done).toEqual(['send', 'abort'])
      if (then !== 'release') expect(await end).toMatchObject({ kind: 'cut' })
    }
  })

  test('is not read if nothing was sent', async () => {
    const { transport, call } = await reading()
    transport.wasSent = () => false
    expect(call.readOn()).toBe(false)
    call.abort()
  })

  test('is one of few, which free their places when they end', async () => {
    for (let round = 0; round < 3; round++) {
      const calls = await Promise.all(Array.from({ length: 1025 }, reading))
      expect(calls.filter(({ call }) => call.readOn()).length).toBe(1024)
      // Asking again takes no second place.
      expect(calls[0]?.call.readOn()).toBe(true)
      for (const { call } of calls) call.abort()
    }
  })

  test('takes little memory together with the others', async () => {
    const piece = Buffer.alloc(1024 * 1024)
    for (let round = 0; round < 3; round++) {
      const calls = await Promise.all(Array.from({ length: 80 }, reading))
      for (const { transport, call } of calls) {
        call.readText({ text: () => {}, fail: () => {} })
        call.readOn()
        transport.handler?.data(piece, 0, piece.length)
      }
      expect(calls.filter(({ transport }) => !transport.done.includes('abort')).length).toBeWithin(60, 68)
      for (const { call } of calls) call.abort()
    }
  })
})
