/**
 * The runtime behaviour that the code relies on, one fact per test, so that a new version that changes one is noticed.
 */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectSecurely, type TlsOptions } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { handleOf } from '../src/transport/dial.ts'
import { ask, Caller, requestBytes } from './support/caller.ts'
import { frame, RawSocket, TEXT } from './support/socket-client.ts'
import { RawServer } from './transport/raw-server.ts'

/** A test server that records its requests. */
function serve(
  handler: (request: Request, server: Bun.Server<undefined>) => Response | Promise<Response>,
  more: object = {},
) {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: handler, ...more })
  const port = server.port ?? 0
  return { server, port, [Symbol.asyncDispose]: () => server.stop(true) }
}

const get = requestBytes('/')
const post = (body: string, fields: Readonly<Record<string, string>> = {}) =>
  requestBytes('/', { method: 'POST', body, fields })

async function problemOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'none'
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error)
  }
}

/** A server that sends back what comes, once, and records how its connection ended. */
async function echo(tls?: TlsOptions) {
  const ended = Promise.withResolvers<void>()
  const server = await RawServer.start((socket) => {
    socket.once('data', (bytes) => socket.write(bytes))
    socket.once('close', () => ended.resolve())
  }, tls)
  return { server, ended: ended.promise, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

/** One of Node's sockets, once it is connected. */
async function opened<T extends Socket>(socket: T, event: 'connect' | 'secureConnect'): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.once(event, () => resolve())
  socket.once('error', reject)
  await promise
  return socket
}

const pem = (name: string): string => readFileSync(join(import.meta.dir, 'fixtures/tls', name), 'utf8')
const TLS = { cert: pem('good.crt'), key: pem('leaf.key') }
const place = ({ server }: { readonly server: RawServer }) => ({ host: '127.0.0.1', port: server.port })
const trusted = { ca: pem('authority.crt'), host: '127.0.0.1' }

/** Passes the bytes of its connections on to a server. */
function passingOn(port: number, tls?: TlsOptions): Promise<RawServer> {
  return RawServer.start((socket) => {
    const onward = connect({ host: '127.0.0.1', port })
    socket.pipe(onward).pipe(socket)
    socket.once('close', () => onward.destroy())
  }, tls)
}

// `transport/dial.ts` takes it, so that no stream of Node is between a provider and its reader. If one of these fails
// after an upgrade of Bun, providers cannot be reached.
describe('the private field `_handle` of a socket of node:net and node:tls is a socket of Bun', () => {
  /** Everything that `transport/connection.ts` does with it. */
  async function expectSocket(socket: Socket, ended: Promise<void>): Promise<void> {
    const handle = handleOf(socket)
    const received = Promise.withResolvers<string>()
    const seen: unknown[] = []
    handle.reload({
      socket: {
        data: (_, bytes) => received.resolve(bytes.toString()),
        drain: () => {},
        end: () => void seen.push('end'),
        close: () => void seen.push('close'),
        error: (_, error) => void seen.push(error),
      },
    })
    for (const call of ['ref', 'unref', 'pause', 'resume', 'setNoDelay'] as const) handle[call]()
    // A text is written as UTF-8, and its bytes are counted.
    expect(handle.write('é')).toBe(2)
    expect(await received.promise).toBe('é')
    expect(seen).toEqual([])
    handle.terminate()
    await ended
  }

  test('of a connection', async () => {
    await using far = await echo()
    await expectSocket(await opened(connect(place(far)), 'connect'), far.ended)
  })

  test('of a connection with TLS', async () => {
    await using far = await echo(TLS)
    await expectSocket(await opened(connectSecurely({ ...trusted, ...place(far) }), 'secureConnect'), far.ended)
  })

  test.each([
    ['a connection', undefined],
    ['a connection with TLS', TLS],
  ])('of TLS within %s', async (_, outer) => {
    await using far = await echo(TLS)
    await using middle = await passingOn(far.server.port, outer)
    const near = { server: middle }
    const first =
      outer === undefined
        ? await opened(connect(place(near)), 'connect')
        : await opened(connectSecurely({ ...trusted, ...place(near) }), 'secureConnect')
    await expectSocket(await opened(connectSecurely({ ...trusted, socket: first }), 'secureConnect'), far.ended)
  })
})

/** Bun accepts async iterables as bodies, but its types do not. */
function bodyOf(pieces: AsyncIterable<string>): ReadableStream {
  return pieces as unknown as ReadableStream
}

/** A stream that sends `half` and then breaks, in each way that the gateway could use. */
const broken: Readonly<Record<string, () => ReadableStream>> = {
  'a throw in a generator': () => {
    async function* pieces() {
      yield 'half'
      await Bun.sleep(1)
      throw new Error('cut')
    }
    return bodyOf(pieces())
  },
  'controller.error': () =>
    new ReadableStream({
      async pull(controller) {
        controller.enqueue(new TextEncoder().encode('half'))
        await Bun.sleep(1)
        controller.error(new Error('cut'))
      },
    }),
  'a throw in pull': () => {
    let pulls = 0
    return new ReadableStream({
      async pull(controller) {
        await Bun.sleep(1)
        if (pulls++ > 0) throw new Error('cut')
        controller.enqueue(new TextEncoder().encode('half'))
      },
    })
  },
  'a throw in the pull of a direct stream': () =>
    new ReadableStream({
      type: 'direct',
      async pull(controller: ReadableStreamDirectController) {
        controller.write('half')
        await controller.flush(true)
        await Bun.sleep(1)
        throw new Error('cut')
      },
    }),
}

describe('a stream to the caller', () => {
  test.each(Object.entries(broken))('%s ends the connection without the terminating chunk', async (_, make) => {
    await using gateway = serve(() => new Response(make()), { error: () => new Response('error') })
    const answer = await ask(gateway.port, get)
    expect({ status: answer.status, text: answer.text, end: answer.end }).toEqual({
      status: 200,
      text: 'half',
      end: 'cut',
    })
  })

  test('bytes and headers written in the same turn as a throw are lost; a turn earlier they are sent', async () => {
    const breaking = (turn: () => Promise<void>) =>
      new Response(
        new ReadableStream({
          type: 'direct',
          async pull(controller: ReadableStreamDirectController) {
            controller.write('half')
            await controller.flush(true)
            await turn()
            throw new Error('cut')
          },
        }),
      )
    const immediate = () => new Promise<void>((resolve) => setImmediate(resolve))
    await using gateway = serve((request) =>
      breaking(request.url.endsWith('/at-once') ? () => Promise.resolve() : immediate),
    )
    await expect(ask(gateway.port, requestBytes('/at-once'))).rejects.toThrow('without an answer')
    expect(await ask(gateway.port, requestBytes('/a-turn-later'))).toMatchObject({
      status: 200,
      text: 'half',
      end: 'cut',
    })
  })

  test.each(['close', 'reset'] as const)(
    'when the caller leaves by %s, the signal and cancel both fire',
    async (how) => {
      const aborted = Promise.withResolvers<string>()
      const cancelled = Promise.withResolvers<string>()
      await using gateway = serve((request) => {
        request.signal.addEventListener('abort', () => aborted.resolve('aborted'))
        return new Response(
          new ReadableStream({
            pull: (controller) => {
              controller.enqueue(new TextEncoder().encode('half'))
              return new Promise(() => {})
            },
            cancel: () => cancelled.resolve('cancelled'),
          }),
        )
      })
      await using caller = await Caller.connect(gateway.port)
      caller.send(get)
      await caller.until('half')
      if (how === 'close') caller.close()
      else caller.reset()
      expect(await Promise.all([aborted.promise, cancelled.promise])).toEqual(['aborted', 'cancelled'])
    },
  )

  test('when the caller leaves before the answer, the signal fires', async () => {
    const arrived = Promise.withResolvers<void>()
    const aborted = Promise.withResolvers<string>()
    await using gateway = serve(async (request) => {
      request.signal.addEventListener('abort', () => aborted.resolve('aborted'))
      arrived.resolve()
      await aborted.promise
      return new Response('')
    })
    await using caller = await Caller.connect(gateway.port)
    caller.send(get)
    await arrived.promise
    caller.close()
    expect(await aborted.promise).toBe('aborted')
  })

  test('a direct stream that awaits flush(true) is held back by a caller that does not read', async () => {
    let written = 0
    const piece = 'x'.repeat(65_536)
    await using gateway = serve((request, server) => {
      server.timeout(request, 0)
      return new Response(
        new ReadableStream({
          type: 'direct',
          async pull(controller: ReadableStreamDirectController) {
            while (written < 256 * 1024 * 1024) {
              controller.write(piece)
              await controller.flush(true)
              written += piece.length
            }
          },
        }),
      )
    })
    await using caller = await Caller.connect(gateway.port)
    caller.pause()
    caller.send(get)
    let before = -1
    while (before !== written || written === 0) {
      before = written
      await Bun.sleep(50)
    }
    expect(written).toBeLessThan(64 * 1024 * 1024)
  })

  test.each([500, 65_536])(
    'a write of %i bytes returns a promise once the socket is full, a number before',
    async (size) => {
      const full = Promise.withResolvers<number>()
      const drained = Promise.withResolvers<void>()
      const piece = 'x'.repeat(size)
      await using gateway = serve((request, server) => {
        server.timeout(request, 0)
        return new Response(
          new ReadableStream({
            type: 'direct',
            async pull(controller: ReadableStreamDirectController) {
              let written = 0
              let last: unknown
              while (typeof last !== 'object' && written < 64 * 1024 * 1024) {
                last = controller.write(piece)
                controller.flush()
                written += size
              }
              full.resolve(written)
              await last
              drained.resolve()
              controller.end()
            },
          }),
        )
      })
      await using caller = await Caller.connect(gateway.port)
      caller.pause()
      caller.send(get)
      const written = await full.promise
      expect(written).toBeLessThan(64 * 1024 * 1024)
      caller.resume()
      await drained.promise
      expect((await caller.answer()).text.length).toBe(written)
    },
  )

  test('a signal that is first read after the caller has left is aborted', async () => {
    const arrived = Promise.withResolvers<void>()
    const left = Promise.withResolvers<void>()
    const aborted = Promise.withResolvers<boolean>()
    await using gateway = serve(async (request) => {
      arrived.resolve()
      await left.promise
      while (!request.signal.aborted) await Bun.sleep(1)
      aborted.resolve(true)
      return new Response('')
    })
    await using caller = await Caller.connect(gateway.port)
    caller.send(get)
    await arrived.promise
    caller.close()
    await Bun.sleep(50)
    left.resolve()
    expect(await aborted.promise).toBe(true)
  })

  test('one flush is one chunk on the wire', async () => {
    await using gateway = serve(
      () =>
        new Response(
          new ReadableStream({
            type: 'direct',
            async pull(controller: ReadableStreamDirectController) {
              for (const piece of ['one', 'two']) {
                controller.write(piece)
                controller.write('!')
                await controller.flush(true)
                await Bun.sleep(1)
              }
              controller.end()
            },
          }),
        ),
    )
    const answer = await ask(gateway.port, get)
    expect(answer.chunks.map((chunk) => Buffer.from(chunk).toString())).toEqual(['one!', 'two!'])
    expect(answer.end).toBe('whole')
  })

  test('the idle timeout cuts a silent stream, and server.timeout(request, 0) lifts it', async () => {
    const release = Promise.withResolvers<void>()
    await using gateway = serve(
      (request, server) => {
        if (new URL(request.url).pathname === '/lifted') server.timeout(request, 0)
        async function* pieces() {
          yield 'half'
          await release.promise
          yield 'whole'
        }
        return new Response(bodyOf(pieces()))
      },
      { idleTimeout: 1 },
    )
    await using lifted = await Caller.connect(gateway.port)
    lifted.send(requestBytes('/lifted'))
    await lifted.until('half')
    const cut = await ask(gateway.port, requestBytes('/limited'))
    expect({ text: cut.text, end: cut.end }).toEqual({ text: 'half', end: 'cut' })
    release.resolve()
    const whole = await lifted.answer()
    expect({ text: whole.text, end: whole.end }).toEqual({ text: 'halfwhole', end: 'whole' })
  })

  test('a lifted idle timeout stays lifted, unless it is set again before the answer ends', async () => {
    await using gateway = serve(
      (request, server) => {
        server.timeout(request, 0)
        const limit = () => server.timeout(request, 1)
        const when = new URL(request.url).pathname
        return new Response(
          new ReadableStream({
            type: 'direct',
            async pull(controller: ReadableStreamDirectController) {
              await Bun.sleep(1)
              controller.write('whole')
              if (when === '/before') limit()
              controller.end()
              if (when === '/after') limit()
            },
          }),
        )
      },
      { idleTimeout: 1 },
    )
    const [never, after, before] = await Promise.all(
      ['/never', '/after', '/before'].map(async (path) => {
        const caller = await Caller.connect(gateway.port)
        caller.send(requestBytes(path))
        expect((await caller.answer()).text).toBe('whole')
        return caller
      }),
    )
    await before?.ended()
    for (const caller of [never, after]) {
      caller?.send(get)
      expect((await caller?.answer())?.text).toBe('whole')
      caller?.close()
    }
  })

  test('Connection: keep-alive appears only if it is set', async () => {
    await using gateway = serve((request) => {
      const set = new URL(request.url).pathname === '/set'
      return new Response('', set ? { headers: { connection: 'keep-alive' } } : {})
    })
    expect((await ask(gateway.port, requestBytes('/set'))).header('connection')).toBe('keep-alive')
    expect((await ask(gateway.port, get)).header('connection')).toBeUndefined()
  })
})

describe('a request', () => {
  test('joins duplicate headers with a comma', async () => {
    await using gateway = serve((request) =>
      Response.json([request.headers.get('authorization'), request.headers.get('x-api-key')]),
    )
    const bytes =
      'GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n' +
      'X-Api-Key: c\r\nx-api-key: d\r\n\r\n'
    expect((await ask(gateway.port, bytes)).json()).toEqual(['Bearer a, Bearer b', 'c, d'])
  })

  test('over maxRequestBodySize gets an answer without a body from the runtime', async () => {
    await using gateway = serve(async (request) => new Response(await request.text()), { maxRequestBodySize: 100 })
    const answer = await ask(gateway.port, post('x'.repeat(101)))
    expect([answer.status, answer.text]).toEqual([413, ''])
  })

  test('with a strange Host has a url that does not parse', async () => {
    await using gateway = serve((request) => new Response(URL.canParse(request.url) ? 'parses' : request.url))
    const answer = await ask(gateway.port, requestBytes('/v1/models', { fields: { host: 'a/b?c' } }))
    expect(answer.text).not.toContain('/v1/models HTTP')
    const fine = await ask(gateway.port, get)
    expect(fine.text).toBe('parses')
    expect((await ask(gateway.port, requestBytes('/', { fields: { host: '[' } }))).text).not.toBe('parses')
  })

  test('without a Host, or with an invalid one, has a bare path as its url', async () => {
    await using gateway = serve((request) => new Response(request.url))
    expect((await ask(gateway.port, 'GET /v1/models HTTP/1.0\r\n\r\n')).text).toBe('/v1/models')
    expect((await ask(gateway.port, requestBytes('/v1/models', { fields: { host: 'a/b?c' } }))).text).toBe('/v1/models')
  })

  test('has a normalised path', async () => {
    await using gateway = serve((request) => new Response(new URL(request.url).pathname))
    for (const path of ['/v1/../v1/models', '/v1/./models', '/v1\\models'])
      expect((await ask(gateway.port, requestBytes(path))).text).toBe('/v1/models')
  })

  test('that arrives while another is answered on the same connection closes it', async () => {
    const served: string[] = []
    await using gateway = serve(async (request) => {
      served.push(new URL(request.url).pathname)
      await Bun.sleep(1)
      return new Response('')
    })
    await using caller = await Caller.connect(gateway.port)
    caller.send('GET /a HTTP/1.1\r\nHost: gateway.test\r\n\r\nGET /b HTTP/1.1\r\nHost: gateway.test\r\n\r\n')
    await expect(caller.answer()).rejects.toThrow('without an answer')
    await caller.ended()
    expect(served).toEqual(['/a'])
  })

  test('passes TRACE, and Expect: 100-continue, to the handler', async () => {
    await using gateway = serve(async (request) => new Response(`${request.method} ${await request.text()}`))
    expect((await ask(gateway.port, requestBytes('/', { method: 'TRACE' }))).text).toBe('TRACE ')
    await using caller = await Caller.connect(gateway.port)
    caller.send('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n')
    await caller.until('100 Continue')
    caller.send('hi')
    expect((await caller.answer()).text).toBe('POST hi')
  })

  test('has a body that rejects when the caller leaves in the middle of it', async () => {
    const seen = Promise.withResolvers<string>()
    const reading = Promise.withResolvers<void>()
    await using gateway = serve(async (request) => {
      reading.resolve()
      seen.resolve(await problemOf(request.arrayBuffer()))
      return new Response('')
    })
    await using caller = await Caller.connect(gateway.port)
    caller.send('POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nabc')
    await reading.promise
    caller.reset()
    expect(await seen.promise).not.toBe('none')
  })

  test('is not decompressed', async () => {
    await using gateway = serve(async (request) => new Response(String((await request.arrayBuffer()).byteLength)))
    const body = Uint8Array.from(gzipSync('{}'))
    const answer = await ask(gateway.port, requestBytes('/', { body, fields: { 'content-encoding': 'gzip' } }))
    expect(answer.text).toBe(String(body.length))
  })
})

describe('a WebSocket', () => {
  const piece = 'x'.repeat(100_000)

  test.each([false, true])(
    'drops frames beyond its limit, and with closeOnBackpressureLimit (%s) loses its connection, too',
    async (closes) => {
      const ended = Promise.withResolvers<number>()
      const written = Promise.withResolvers<readonly number[]>()
      const server = Bun.serve({
        hostname: '127.0.0.1',
        port: 0,
        fetch: (request, self) => (self.upgrade(request) ? undefined : new Response(null, { status: 400 })),
        websocket: {
          backpressureLimit: 1_000_000,
          closeOnBackpressureLimit: closes,
          message: (socket) => written.resolve(Array.from({ length: 200 }, () => socket.sendText(piece))),
          close: (_, code) => ended.resolve(code),
        },
      })
      using raw = await RawSocket.open(server.port ?? 0, {})
      raw.pause()
      raw.write(frame(TEXT, 'go'))
      const results = await written.promise
      // Sent, kept, dropped.
      expect(results.indexOf(-1)).toBeGreaterThan(0)
      expect(results.lastIndexOf(-1)).toBeLessThan(results.indexOf(0))
      raw.resume()
      if (closes) expect(await ended.promise).toBe(1006)
      else for (const result of results) if (result !== 0) expect((await raw.next())?.data.length).toBe(piece.length)
      await server.stop(true)
    },
  )

  test('that is closed still sends all that it has kept, and reports the end of its turn at once', async () => {
    const ended = Promise.withResolvers<number>()
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: (request, self) => (self.upgrade(request) ? undefined : new Response(null, { status: 400 })),
      websocket: {
        backpressureLimit: 100_000_000,
        message(socket) {
          for (let count = 0; count < 200; count++) socket.sendText(piece)
          socket.close(1012)
        },
        close: (_, code) => ended.resolve(code),
      },
    })
    using raw = await RawSocket.open(server.port ?? 0, {})
    raw.pause()
    raw.write(frame(TEXT, 'go'))
    expect(await ended.promise).toBe(1012)
    raw.resume()
    for (let count = 0; count < 200; count++) expect((await raw.next())?.data.length).toBe(piece.length)
    expect(await raw.code()).toBe(1012)
    await server.stop(true)
  })
})

describe('JSON', () => {
  test('parses any depth, and throws on writing it', () => {
    const deep = JSON.parse('['.repeat(120_000) + ']'.repeat(120_000))
    expect(() => JSON.stringify(deep)).toThrow(RangeError)
  })

  test('keeps the last of duplicate keys, and __proto__ as an ordinary key', () => {
    const value = JSON.parse('{"a":1,"a":2,"__proto__":{"b":1}}')
    expect([value.a, value.b, Object.keys(value)]).toEqual([2, undefined, ['a', '__proto__']])
    expect(Object.assign({}, value).b).toBe(1)
    expect({ ...value }.b).toBeUndefined()
  })

  test('writes lone surrogates as escapes', () => {
    expect(JSON.stringify('\ud83d')).toBe('"\\ud83d"')
  })

  test('invalid UTF-8 throws with fatal', () => {
    expect(() => new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.of(0xff))).toThrow(TypeError)
  })
})

describe('the process', () => {
  test('two servers share a port if both request it', async () => {
    await using one = serve(() => new Response('one'), { reusePort: true })
    const two = Bun.serve({ port: one.port, hostname: '127.0.0.1', reusePort: true, fetch: () => new Response('two') })
    await two.stop(true)
    expect(() => Bun.serve({ port: one.port, hostname: '127.0.0.1', fetch: () => new Response('') })).toThrow()
  })

  test('server.stop() closes the listener at once and lets running answers finish', async () => {
    const release = Promise.withResolvers<void>()
    async function* pieces() {
      yield 'half'
      await release.promise
      yield 'whole'
    }
    const { server, port } = serve(() => new Response(bodyOf(pieces())))
    await using caller = await Caller.connect(port)
    caller.send(get)
    await caller.until('half')
    const stopped = server.stop()
    await expect(Caller.connect(port)).rejects.toThrow()
    release.resolve()
    expect((await caller.answer()).text).toBe('halfwhole')
    await stopped
  })
})
