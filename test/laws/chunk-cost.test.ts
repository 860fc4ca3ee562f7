/**
 * What a body costs does not depend on how it is cut. A caller's: a chunk counts as at least 256 bytes, so that no body
 * has more than 49,152 reads. A provider's, whole or streamed: in CPU time at most three
 * times as much as the bytes on the wire do in large chunks. Neither depends on it in memory.
 */

import { heapStats } from 'bun:jsc'
import { describe, expect, test } from 'bun:test'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { CallerError } from '../../src/core/caller-error.ts'
import { Fold } from '../../src/core/completion.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { EventCheck } from '../../src/gateway/event-check.ts'
import { HeldBytes } from '../../src/gateway/held-bytes.ts'
import { parseJson } from '../../src/gateway/provider-call.ts'
import { EventStreamFramer } from '../../src/providers/event-stream.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { UpstreamCall } from '../../src/providers/upstream.ts'
import type { ResponseHandler } from '../../src/transport/exchange.ts'
import { ResponseParser } from '../../src/transport/response-parser.ts'
import { readBody } from '../../src/wire/body.ts'
import { SseFramer } from '../../src/wire/frames.ts'
import { textOf } from '../support/bytes.ts'
import { Caller } from '../support/caller.ts'
import { threadMs } from '../support/request-path.ts'

const KIB = 1024
const GROWTH_MAX = 3
const TRIES = 5
/** Shorter times are noise: the system may count CPU time in steps of 4 ms. */
const NOISE_MS = 25

/** Bytes in chunks of `size`, whose size lines have this extension. */
function chunked(bytes: Uint8Array, size: number, extension = ''): Buffer {
  const line = Buffer.from(`${size.toString(16)}${extension}\r\n`)
  const count = Math.floor(bytes.length / size)
  const unit = Buffer.concat([line, Buffer.alloc(size), Buffer.from('\r\n')])
  const all = Buffer.alloc(count * unit.length, unit)
  for (let chunk = 0; chunk < count; chunk++) {
    all.set(bytes.subarray(chunk * size, chunk * size + size), chunk * unit.length + line.length)
  }
  return Buffer.concat([all, chunkOfRest(bytes.subarray(count * size)), Buffer.from('0\r\n\r\n')])
}

function chunkOfRest(rest: Uint8Array): Buffer {
  return rest.length === 0
    ? Buffer.alloc(0)
    : Buffer.concat([Buffer.from(`${rest.length.toString(16)}\r\n`), rest, Buffer.from('\r\n')])
}

function allowedAfter(ms: number): number {
  return GROWTH_MAX * Math.max(ms, NOISE_MS)
}

async function least(run: () => Promise<number> | number, isEnough: (ms: number) => boolean): Promise<number> {
  let ms = await run()
  for (let tries = 1; tries < TRIES && !isEnough(ms); tries++) ms = Math.min(ms, await run())
  return ms
}

describe('a body of a caller', () => {
  const LIMIT = 10 * KIB * KIB
  const COUNT_MAX = 12 * KIB * KIB
  /** What the kernel gives in one read of the socket may end within a chunk. */
  const SPLITS_MAX = 1000

  interface Reading {
    readonly answer: string
    /** The bytes of each read. */
    readonly taken: readonly number[]
    /** Of the memory that the body was gathered in. */
    readonly capacity: number
  }

  /** The body in chunks of these sizes, one after the other and from the first again. */
  async function read(bytes: number, sizes: readonly number[]): Promise<Reading> {
    const taken: number[] = []
    let capacity = 0
    const respond = (request: Request) =>
      new Promise<Response>((resolve) => {
        readBody(request, {
          take: (count) => void taken.push(count),
          body(body) {
            capacity = body.buffer.byteLength
            resolve(new Response(String(body.length)))
          },
          failed: (error) => resolve(new Response(error instanceof CallerError ? error.kind : String(error))),
        })
      })
    using server = Bun.serve({ port: 0, maxRequestBodySize: 2 * LIMIT, routes: { '/read': respond } })
    await using caller = await Caller.connect(server.port ?? 0)
    caller.send('POST /read HTTP/1.1\r\nhost: weir.test\r\ntransfer-encoding: chunked\r\n\r\n')
    caller.send(chunkedBy(bytes, sizes))
    return { answer: textOf((await caller.answer()).body), taken, capacity }
  }

  function chunkedBy(bytes: number, sizes: readonly number[]): Buffer {
    const parts: string[] = []
    for (let left = bytes, chunk = 0; left > 0; chunk++) {
      const size = Math.min(left, sizes[chunk % sizes.length] ?? left)
      parts.push(`${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`)
      left -= size
    }
    return Buffer.from(`${parts.join('')}0\r\n\r\n`, 'latin1')
  }

  /** As many bytes as a body counts: each chunk at least 256. */
  function countOf(bytes: number, sizes: readonly number[]): number {
    let count = 0
    for (let left = bytes, chunk = 0; left > 0; chunk++) {
      const size = Math.min(left, sizes[chunk % sizes.length] ?? left)
      count += Math.max(size, 256)
      left -= size
    }
    return count
  }

  test.each([
    ['1 MiB at once', KIB * KIB, [KIB * KIB]],
    ['10 MiB in large chunks', LIMIT, [64 * KIB]],
    ['10 MiB in chunks of 256 bytes', LIMIT, [256]],
    ['the most chunks of one byte', 49_152, [1]],
    ['one chunk of one byte more', 49_153, [1]],
    ['1 MiB in chunks of one byte', KIB * KIB, [1]],
    ['9 MiB in chunks of 16 bytes', 9 * KIB * KIB, [16]],
    ['small chunks between large ones', KIB * KIB, [1, 16 * KIB, 1, 1, 3]],
    ['a large chunk and then small ones', 2 * KIB * KIB, [KIB * KIB, ...Array.from({ length: 50_000 }, () => 1)]],
  ])('%s: few reads, in as much memory as it needs', async (_, bytes, sizes) => {
    const { answer, taken, capacity } = await read(bytes, sizes)
    const count = countOf(bytes, sizes)
    expect(answer).toBe(count > COUNT_MAX ? 'too_large' : String(bytes))
    expect(taken.length).toBeLessThanOrEqual(Math.min(count, COUNT_MAX) / 256 + SPLITS_MAX)
    if (count > COUNT_MAX) return
    expect(taken.reduce((sum, one) => sum + one)).toBe(bytes)
    expect(capacity).toBeLessThanOrEqual(2 * bytes)
  })
})

const endpoint: Endpoint = {
  name: 'p',
  baseUrl: 'http://provider.test',
  headers: {},
  deadlines: { connectMs: 1e6, firstByteMs: { stream: 1e6, whole: 1e6 }, idleMs: 1e6, totalMs: 1e6 },
}

/** A call whose answer the test pushes into the handler, with a body of text that goes to `text`. */
function textCall(text: (text: string) => void): ResponseHandler {
  let handler: ResponseHandler | undefined
  const call = new UpstreamCall({ url: '', headers: {}, body: '' }, endpoint, false, Number.POSITIVE_INFINITY, {
    send: (_, given) => {
      handler = given
    },
    pause: () => {},
    resume: () => {},
    abort: () => {},
    canConnect: () => Promise.resolve(true),
    wasSent: () => true,
  })
  const failed = (error: unknown) => {
    throw error
  }
  call.send({ head: () => call.readText({ text, fail: failed }), fail: failed })
  if (handler === undefined) throw new Error('the call was not sent')
  handler.head(200, new Headers())
  return handler
}

/** A message of the event stream whose payload is as long as its bytes. */
function message(bytes: number): Uint8Array {
  const codec = new EventStreamCodec(
    (value) => new TextDecoder().decode(value as Uint8Array),
    (text) => new TextEncoder().encode(text),
  )
  return codec.encode({ headers: {}, body: new Uint8Array(bytes) })
}

type Push = (bytes: Uint8Array, from: number, to: number) => void

const noFrame = () => {
  throw new Error('the frame has not ended')
}

/** What gathers a provider's bytes until they can be taken, fed with pieces of this text. */
const GATHERERS: readonly [name: string, unit: string, make: () => Push][] = [
  [
    'a whole answer',
    'x',
    () => {
      const handler = textCall(() => {})
      return (bytes, from, to) => handler.data(bytes, from, to)
    },
  ],
  [
    'bytes that a slow caller cannot take',
    'x',
    () => {
      const held = new HeldBytes({ pause() {}, resume() {} })
      return (bytes, from, to) => held.add(bytes.subarray(from, to))
    },
  ],
  [
    'a line of server-sent events',
    'x',
    () => {
      const framer = new SseFramer()
      return (bytes, from, to) => framer.push(bytes, noFrame, from, to)
    },
  ],
  [
    'an event of many lines',
    'data:xy\n',
    () => {
      const framer = new SseFramer()
      return (bytes, from, to) => framer.push(bytes, noFrame, from, to)
    },
  ],
  [
    'a message of the event stream of AWS',
    '',
    () => {
      const framer = new EventStreamFramer()
      return (bytes, from, to) => framer.push(bytes, noFrame, from, to)
    },
  ],
]

/** Objects and bytes that the runtime holds. */
function held(): { readonly objects: number; readonly bytes: number } {
  Bun.gc(true)
  const { objectCount, heapSize, extraMemorySize } = heapStats()
  return { objects: objectCount, bytes: heapSize + extraMemorySize }
}

describe('bytes of a provider that are kept', () => {
  const BYTES = 256 * KIB
  test.each(GATHERERS)('%s: as much memory as their size', (_, unit, make) => {
    const whole = unit === '' ? message(BYTES + 1) : Buffer.alloc(BYTES, unit)
    const piece = unit === '' ? 1 : unit.length
    const push = make()
    const before = held()
    // Each piece is the part of a read, most of which was the extension of its chunk.
    for (let at = 0; at < BYTES; at += piece) {
      const read = Buffer.alloc(KIB)
      read.set(whole.subarray(at, at + piece), KIB / 2)
      push(read, KIB / 2, KIB / 2 + piece)
    }
    const after = held()
    // So that it is held until here.
    push(whole.subarray(0, 1), 0, 0)
    expect(after.objects - before.objects).toBeLessThan(10_000)
    expect(after.bytes - before.bytes).toBeLessThan(4 * BYTES)
  })
})

describe('the time for an answer of a provider', () => {
  /** All of an answer from its bytes to its events. */
  function read(wire: Buffer): number {
    const handler = textCall((text) => {
      const fold = new Fold()
      const check = new EventCheck({ event: (event) => fold.add(event), texts: () => {} }, undefined)
      for (const event of openai.events(parseJson(text, 200))) check.event(event)
      if (fold.completion === undefined) throw new Error('the events have no end')
    })
    const parser = new ResponseParser()
    parser.begin({
      head() {},
      data: (bytes, from, to) => handler.data(bytes, from, to),
      takesText: false,
      text() {},
    })
    const from = threadMs()
    parser.push(Buffer.from('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'))
    // As many bytes as the runtime reads at a time.
    for (let at = 0; at < wire.length; at += 512 * KIB) parser.push(Buffer.from(wire.subarray(at, at + 512 * KIB)))
    handler.end()
    return threadMs() - from
  }

  const answer = (bytes: number) =>
    Buffer.from(
      `{"choices":[{"message":{"content":"${'word '.repeat(bytes / 5)}"},"finish_reason":"stop"}],` +
        '"usage":{"prompt_tokens":1,"completion_tokens":1}}',
    )

  test.each([
    ['chunks of one byte', 1, ''],
    ['chunks of one byte with an extension', 1, ';a=b'],
    ['chunks of two bytes', 2, ''],
  ])('%s', async (_, size, extension) => {
    const wire = chunked(answer(KIB * KIB), size, extension)
    // As many bytes on the wire.
    const plain = chunked(answer(wire.length), 16 * KIB)
    const plainMs = await least(
      () => read(plain),
      () => false,
    )
    const ms = await least(
      () => read(wire),
      (each) => each <= allowedAfter(plainMs),
    )
    expect(ms).toBeLessThanOrEqual(allowedAfter(plainMs))
  })

  test('extensions that outweigh the data end the answer', () => {
    const wire = chunked(Buffer.alloc(64 * KIB, 'x'), 1, `;${'a'.repeat(KIB)}`)
    expect(() => read(wire)).toThrow('more extensions than data')
  })
})
