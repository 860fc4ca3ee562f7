/** Reading a request body within its limits, and what is not a JSON object. */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import { parseBody, readBody } from '../../src/wire/body.ts'
import { DEPTH_MAX, VALUES_MAX } from '../../src/wire/json-shape.ts'
import { bytesOf, textOf } from '../support/bytes.ts'
import { thrownBy } from '../support/thrown.ts'

const MIB = 1024 * 1024
const LIMIT = 10 * MIB

/** A request whose body comes in chunks without a declared length. */
function chunked(chunks: Iterable<Uint8Array>): { readonly request: Request; readonly state: { cancelled: boolean } } {
  const state = { cancelled: false }
  const each = chunks[Symbol.iterator]()
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const { value, done } = each.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel() {
      state.cancelled = true
    },
  })
  return { request: new Request('http://weir.test/', { method: 'POST', body }), state }
}

function declared(length: number, body = ''): Request {
  const headers = { 'content-length': String(length) }
  return new Request('http://weir.test/', { method: 'POST', headers, body })
}

async function read(request: Request): Promise<{ readonly bytes: Uint8Array; readonly taken: readonly number[] }> {
  const taken: number[] = []
  const bytes = await receive(request, (count) => taken.push(count))
  return { bytes, taken }
}

function receive(request: Request, take: (bytes: number) => void): Promise<Uint8Array> {
  return new Promise((body, failed) => readBody(request, { take, body, failed }))
}

describe('readBody', () => {
  test('a declared length is reserved at once, before the body is read', async () => {
    const { bytes, taken } = await read(declared(5, 'hello'))
    expect([textOf(bytes), taken]).toEqual(['hello', [5]])
  })

  test('a body in chunks is reserved chunk by chunk', async () => {
    const { bytes, taken } = await read(chunked([bytesOf('he'), bytesOf('llo')]).request)
    expect([textOf(bytes), taken]).toEqual(['hello', [2, 3]])
  })

  test('no body is an empty one', async () => {
    const { bytes, taken } = await read(new Request('http://weir.test/', { method: 'POST' }))
    expect([bytes.length, taken]).toEqual([0, []])
  })

  test('a declared length above the limit is rejected without a reservation', () => {
    const take = () => {
      throw new Error('nothing may be reserved')
    }
    const never = { take, body: take, failed: take }
    expect(() => readBody(declared(LIMIT + 1), never)).toThrow(CallerError)
  })

  test('a body in chunks is rejected at the chunk that exceeds the limit, and is not read further', async () => {
    const mebibyte = new Uint8Array(MIB)
    let made = 0
    function* endless() {
      for (;;) {
        made++
        yield mebibyte
      }
    }
    const { request, state } = chunked(endless())
    expect(await thrownBy(read(request))).toMatchObject({ kind: 'too_large', row: { status: 413 } })
    expect(state.cancelled).toBe(true)
    expect(made).toBeLessThan(14)
  })

  test('a body of exactly the limit is read', async () => {
    const ten = Array.from({ length: 10 }, () => new Uint8Array(MIB))
    const { bytes } = await read(chunked(ten).request)
    expect(bytes.length).toBe(LIMIT)
  })

  test('a reservation that fails ends the reading', async () => {
    const { request, state } = chunked([bytesOf('a'), bytesOf('b')])
    const error = await thrownBy(
      receive(request, () => {
        throw new RangeError('no memory')
      }),
    )
    expect(error).toBeInstanceOf(RangeError)
    expect(state.cancelled).toBe(true)
  })

  test('a body that breaks off is malformed', async () => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(bytesOf('{"a"'))
        controller.error(new Error('reset'))
      },
    })
    const request = new Request('http://weir.test/', { method: 'POST', body })
    expect(await thrownBy(read(request))).toMatchObject({ kind: 'malformed_body' })
  })
})

describe('parseBody', () => {
  function problem(bytes: Uint8Array): string {
    try {
      parseBody(bytes)
    } catch (error) {
      if (error instanceof CallerError && error.kind === 'malformed_body') return error.message
      throw error
    }
    throw new Error('nothing was thrown')
  }

  test('an object', () => {
    expect(parseBody(bytesOf(' {"a":[1,"\u00e9"]}\n'))).toEqual({ a: [1, 'é'] })
  })

  const rows: readonly (readonly [name: string, text: string, message: RegExp])[] = [
    ['nothing', '', /not valid JSON/],
    ['half an object', '{"a":', /not valid JSON/],
    ['two objects', '{}{}', /not valid JSON/],
    ['an array', '[]', /must be a JSON object/],
    ['null', 'null', /must be a JSON object/],
    ['a text', '"a"', /must be a JSON object/],
    ['a byte order mark', '\ufeff{}', /byte order mark/],
    ['too deep', `${'{"a":'.repeat(DEPTH_MAX + 1)}1${'}'.repeat(DEPTH_MAX + 1)}`, /128 levels/],
    ['too full', `{"a":[${'1,'.repeat(VALUES_MAX)}1]}`, /250000 values/],
  ]
  test.each(rows)('%s', (_, text, message) => {
    expect(problem(bytesOf(text))).toMatch(message)
  })

  test('bytes that are not UTF-8', () => {
    expect(problem(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d))).toMatch(/not valid UTF-8/)
    // The decoder of the call before had half a character left.
    expect(parseBody(bytesOf('{"a":1}'))).toEqual({ a: 1 })
  })

  test('a body at the limit of depth', () => {
    expect(parseBody(bytesOf(`${'{"a":'.repeat(DEPTH_MAX)}1${'}'.repeat(DEPTH_MAX)}`))).toHaveProperty('a')
  })
})
