/** How connections are used: reuse, early answers, cuts, aborts, back-pressure. */

import { describe, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { HttpClient } from '../../src/transport/client.ts'
import { HttpExchange } from '../../src/transport/exchange.ts'
import { Exchanged, response } from './exchanges.ts'
import { RawServer } from './raw-server.ts'

const MIB = 1024 * 1024

describe('connections', () => {
  test('a request arrives as written, and its connection serves the next one', async () => {
    const texts: string[] = []
    await using server = await RawServer.answering((socket, { text }) => {
      texts.push(text)
      socket.write(response(`answer ${texts.length}`))
    })
    const client = new HttpClient()
    for (let turn = 1; turn <= 5; turn++) {
      const headers = { 'X-Key': 'a b', 'content-type': 'application/json' }
      const outcome = await new Exchanged(client, server.url(), `{"turn":${turn},"é":"😀"}`, headers).done
      expect(outcome).toEqual({ status: 200, body: `answer ${turn}`, end: 'end' })
    }
    expect(server.connections).toBe(1)
    const text = texts[0] ?? ''
    expect(text).toStartWith('POST /v1/x?y=z HTTP/1.1\r\n')
    const lines = text.toLowerCase().split('\r\n')
    const length = Buffer.byteLength('{"turn":1,"é":"😀"}')
    for (const line of [
      `host: 127.0.0.1:${server.port}`,
      'x-key: a b',
      'content-type: application/json',
      'accept-encoding: identity',
      `content-length: ${length}`,
    ])
      expect(lines).toContain(line)
    expect(Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'latin1').toString()).toBe('{"turn":1,"é":"😀"}')
  })

  test('concurrent requests have connections of their own, and share them later', async () => {
    await using server = await RawServer.answering((socket, { text }) => {
      setTimeout(() => socket.write(response(text.slice(text.indexOf('\r\n\r\n') + 4))), 20)
    })
    const client = new HttpClient()
    for (const round of [1, 2]) {
      const bodies = Array.from({ length: 50 }, (_, at) => `${round} ${at}`)
      const outcomes = await Promise.all(bodies.map((body) => new Exchanged(client, server.url(), body).done))
      expect(outcomes.map(({ body }) => body)).toEqual(bodies)
    }
    expect(server.connections).toBe(50)
  })

  test.each([
    ['bytes', [new Uint8Array(3 * MIB).fill(97), new Uint8Array(0), new Uint8Array(2 * MIB).fill(98)]],
    ['many pieces', Array.from({ length: 3000 }, (_, at) => new Uint8Array(at).fill(at))],
    ['one small piece', [new Uint8Array(10).fill(1)]],
    ['a long text', `${'é'.repeat(MIB)}😀`],
    ['nothing', []],
  ])('a body of %s arrives whole', async (_, body) => {
    const whole = typeof body === 'string' ? Buffer.from(body) : Buffer.concat(body)
    const received: Buffer[] = []
    let bytes = 0
    await using server = await RawServer.start((socket) => {
      socket.on('data', (piece: Buffer) => {
        received.push(piece)
        bytes += piece.length
        const head = Buffer.concat(received.slice(0, 2)).indexOf('\r\n\r\n')
        if (head !== -1 && bytes >= head + 4 + whole.length) socket.write(response('whole'))
      })
    })
    const client = new HttpClient()
    expect(await new Exchanged(client, server.url(), body).done).toMatchObject({ body: 'whole', end: 'end' })
    const all = Buffer.concat(received)
    expect(all.toString('latin1')).toContain(`ontent-length: ${whole.length}\r\n`)
    expect(all.subarray(all.indexOf('\r\n\r\n') + 4).equals(whole)).toBe(true)
  })

  test('header values are Latin-1, and none can begin another line', async () => {
    const texts: string[] = []
    await using server = await RawServer.answering((socket, { text }) => {
      texts.push(text)
      socket.write(response('ok'))
    })
    const client = new HttpClient()
    expect((await new Exchanged(client, server.url(), '{}', { x: 'é' }).done).end).toBe('end')
    expect(texts[0]?.toLowerCase()).toContain('\r\nx: é\r\n')
    for (const value of ['a\r\nb: c', 'a\nb', 'a\0', 'a\rb', '😀']) {
      const sent = new Exchanged(client, server.url(), '{}', { x: value })
      expect([value, (await sent.done).end]).toEqual([value, 'unreachable'])
      expect(await sent.exchange.wasSent()).toBe(false)
    }
    expect(texts.length).toBe(1)
  })

  test('nothing listens: unreachable, and nothing was sent', async () => {
    const server = await RawServer.answering(() => {})
    const url = server.url()
    await server[Symbol.asyncDispose]()
    const client = new HttpClient()
    const sent = new Exchanged(client, url)
    expect((await sent.done).end).toBe('unreachable')
    expect(await sent.exchange.wasSent()).toBe(false)
  })

  test('an answer before the body was sent is taken, and its connection is not used again', async () => {
    await using server = await RawServer.start((socket) => {
      socket.once('data', () => {
        socket.write(response('no, thank you'))
        socket.pause()
      })
    })
    const client = new HttpClient()
    const body = [new Uint8Array(30 * MIB)]
    expect(await new Exchanged(client, server.url(), body).done).toMatchObject({ body: 'no, thank you', end: 'end' })
    void new Exchanged(client, server.url())
    while (server.connections < 2) await Bun.sleep(5)
  })

  test.each([['connection: close\r\n'], ['Connection: keep-alive, CLOSE\r\n']])(
    'a server that closes after its answer (%j) gets no other request on that connection',
    async (field) => {
      await using server = await RawServer.answering((socket) => socket.write(response('ok', field)))
      const client = new HttpClient()
      for (let turn = 0; turn < 3; turn++) expect((await new Exchanged(client, server.url()).done).end).toBe('end')
      expect(server.connections).toBe(3)
    },
  )

  test('a byte after an answer closes the connection, and reaches nobody', async () => {
    await using server = await RawServer.answering((socket, { connection }) =>
      socket.write(connection === 0 ? `${response('mine')}${response('poison')}` : response('clean')),
    )
    const client = new HttpClient()
    expect((await new Exchanged(client, server.url()).done).body).toBe('mine')
    expect((await new Exchanged(client, server.url()).done).body).toBe('clean')
    expect(server.connections).toBe(2)
  })

  test('a byte on an idle connection closes it', async () => {
    const idle = Promise.withResolvers<Socket>()
    await using server = await RawServer.answering((socket, { connection }) => {
      socket.write(response(connection === 0 ? 'mine' : 'clean'))
      idle.resolve(socket)
    })
    const client = new HttpClient()
    expect((await new Exchanged(client, server.url()).done).body).toBe('mine')
    const socket = await idle.promise
    socket.write(response('poison'))
    await server.allClosed()
    expect((await new Exchanged(client, server.url()).done).body).toBe('clean')
  })

  test('a kept connection that dies before a byte of the answer: once more on a new one, at most', async () => {
    await using server = await RawServer.answering((socket, { connection, turn }) => {
      if (connection === 0 && turn === 0) socket.write(response('first'))
      else if (connection === 1 && turn === 0) socket.write(response('second'))
      else socket.destroy()
    })
    const client = new HttpClient()
    const say = () => new Exchanged(client, server.url()).done
    expect((await say()).body).toBe('first')
    expect(await say()).toEqual({ status: 200, body: 'second', end: 'end' })
    expect(server.requests).toBe(3)
    // The kept one dies, and so does the new one.
    expect((await say()).end).toBe('unreachable')
    expect(server.requests).toBe(5)
    // None is kept: a new one is not replaced.
    expect((await say()).end).toBe('unreachable')
    expect(server.requests).toBe(6)
  })

  test.each([
    ['that ends long after the request was written', {}, 150],
    ['whose request must be sent once', { isSentOnce: true } as const, 0],
  ])('a kept connection %s: the request is not sent again', async (_, more, delayMs) => {
    await using server = await RawServer.answering((socket, { turn }) => {
      if (turn === 0) socket.write(response('first'))
      else setTimeout(() => socket.destroy(), delayMs)
    })
    const client = new HttpClient()
    expect((await new Exchanged(client, server.url()).done).body).toBe('first')
    const sent = new Exchanged(client, server.url(), '{}', {}, more)
    expect((await sent.done).end).toBe('unreachable')
    expect(sent.error?.causeCode).toBe('ECONNRESET')
    expect(server.requests).toBe(2)
  })

  test('after a byte of the answer a request is not sent again', async () => {
    await using server = await RawServer.answering((socket, { turn }) => {
      if (turn === 0) socket.write(response('first'))
      else socket.end('H')
    })
    const client = new HttpClient()
    await new Exchanged(client, server.url()).done
    const sent = new Exchanged(client, server.url())
    expect((await sent.done).end).toBe('unreachable')
    expect(await sent.exchange.wasSent()).toBe(true)
    expect(server.requests).toBe(2)
  })

  test('a reset is a cut, also if the end of the connection would end the body', async () => {
    await using server = await RawServer.answering((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\nhello')
      setTimeout(() => socket.resetAndDestroy(), 20)
    })
    const client = new HttpClient()
    expect((await new Exchanged(client, server.url()).done).end).toBe('cut')
  })

  test.each(['before the answer', 'in the body', 'while the body is sent', 'while paused'])(
    'an abort %s closes the connection, and nothing follows',
    async (when) => {
      const asked = Promise.withResolvers<void>()
      await using server = await RawServer.start((socket) => {
        socket.once('data', () => {
          asked.resolve()
          if (when === 'while the body is sent') socket.pause()
          if (when === 'in the body' || when === 'while paused')
            socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc')
        })
      })
      const client = new HttpClient()
      const body = when === 'while the body is sent' ? [new Uint8Array(30 * MIB)] : '{}'
      const sent = new Exchanged(client, server.url(), body)
      await asked.promise
      if (when === 'in the body' || when === 'while paused') await sent.begun
      if (when === 'while paused') sent.exchange.pause()
      sent.exchange.abort()
      // The server reads again, or it would not notice.
      for (const socket of server.all()) socket.resume()
      await server.allClosed()
      await Bun.sleep(20)
      expect(sent.outcome.end).toBeUndefined()
    },
  )

  test('an abort right after sending leaves nothing open, and other requests are served', async () => {
    await using server = await RawServer.answering((socket) => socket.write(response('ok')))
    const client = new HttpClient()
    const sent = new Exchanged(client, server.url())
    sent.exchange.abort()
    expect((await new Exchanged(client, server.url()).done).body).toBe('ok')
    expect(sent.outcome).toEqual({ body: '' })
  })

  test('aborting a finished exchange does not touch the next one on its connection', async () => {
    const release = Promise.withResolvers<void>()
    await using server = await RawServer.answering(async (socket, { turn }) => {
      if (turn > 0) await release.promise
      socket.write(response('ok'))
    })
    const client = new HttpClient()
    const first = new Exchanged(client, server.url())
    await first.done
    const second = new Exchanged(client, server.url())
    while (server.requests < 2) await Bun.sleep(2)
    first.exchange.abort()
    first.exchange.pause()
    release.resolve()
    expect((await second.done).body).toBe('ok')
    expect(server.connections).toBe(1)
  })

  test('a caller that does not read: little is taken from the provider, and everything arrives later', async () => {
    const total = 64 * MIB
    let written = 0
    await using server = await RawServer.answering((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`)
      const piece = Buffer.alloc(64 * 1024, 97)
      const fill = () => {
        while (written < total) {
          written += piece.length
          if (!socket.write(piece)) return
        }
      }
      socket.on('drain', fill)
      fill()
    })
    const client = new HttpClient()
    let received = 0
    const exchange = new HttpExchange(client)
    const ended = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    exchange.send(
      { url: server.url(), headers: {}, body: '{}' },
      {
        head: () => exchange.pause(),
        data: (_bytes, from, to) => {
          received += to - from
          begun.resolve()
        },
        end: () => ended.resolve(),
        fail: (error) => ended.reject(error),
      },
    )
    // Until the server can write nothing more.
    for (let last = -1; last !== written; ) {
      last = written
      await Bun.sleep(100)
    }
    // What it could write is in the buffers of the system, and what `fetch` reads ahead.
    expect(received).toBeLessThanOrEqual(MIB)
    expect(written).toBeLessThan(total)
    exchange.resume()
    await ended.promise
    expect(received).toBe(total)
  })

  test('an answer that ends while its caller does not read arrives whole', async () => {
    const size = 3 * MIB
    await using server = await RawServer.answering((socket) => {
      socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${'a'.repeat(size)}`)
    })
    const client = new HttpClient()
    const sent = new Exchanged(client, server.url())
    await sent.answered
    sent.exchange.pause()
    await Bun.sleep(200)
    sent.exchange.resume()
    const { body, end } = await sent.done
    expect([body.length, end]).toEqual([size, 'end'])
  })

  test('a body that expands a thousandfold is inflated no faster than it is read', async () => {
    const { gzipSync } = await import('node:zlib')
    const packed = gzipSync(Buffer.alloc(64 * MIB))
    await using server = await RawServer.answering((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${packed.length}\r\n\r\n`)
      socket.write(packed)
    })
    const client = new HttpClient()
    let received = 0
    const exchange = new HttpExchange(client)
    const ended = Promise.withResolvers<void>()
    exchange.send(
      { url: server.url(), headers: {}, body: '{}' },
      {
        head: () => exchange.pause(),
        data: (_bytes, from, to) => {
          received += to - from
        },
        end: () => ended.resolve(),
        fail: (error) => ended.reject(error),
      },
    )
    await Bun.sleep(200)
    expect(received).toBeLessThanOrEqual(MIB)
    exchange.resume()
    await ended.promise
    expect(received).toBe(64 * MIB)
  })

  test.each(['127.0.0.1', '::1'])('a literal address: %s', async (host) => {
    await using server = await RawServer.answering(
      (socket, { text }) => socket.write(response(/\r\nhost: (.*)\r\n/i.exec(text)?.[1] ?? '')),
      undefined,
      host,
    )
    const client = new HttpClient()
    const authority = `${host.includes(':') ? `[${host}]` : host}:${server.port}`
    expect((await new Exchanged(client, `http://${authority}/`).done).body).toBe(authority)
  })
})
