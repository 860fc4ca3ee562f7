/** What happens until a connection is made: black holes, several addresses, names, aborts. */

import { describe, expect, test } from 'bun:test'
import { Addresses } from '../../src/transport/addresses.ts'
import { HttpClient } from '../../src/transport/client.ts'
import { HttpExchange } from '../../src/transport/exchange.ts'
import { BlackHole } from './black-hole.ts'
import { Exchanged, response } from './exchanges.ts'
import { RawServer } from './raw-server.ts'

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await Bun.sleep(5)
}

describe('until there is a connection', () => {
  test('an abort while it connects closes the socket, and nothing was sent', async () => {
    await using hole = await BlackHole.start()
    const client = new HttpClient()
    const sent = Array.from({ length: 20 }, () => new Exchanged(client, `http://127.0.0.1:${hole.port}/`))
    await until(() => hole.attempts === 20)
    const [first] = sent
    expect(await first?.exchange.canConnect(50)).toBe(false)
    for (const { exchange } of sent) exchange.abort()
    await until(() => hole.attempts === 0)
    expect(await first?.exchange.wasSent()).toBe(false)
    expect(sent.map(({ outcome }) => outcome.end)).toEqual(sent.map(() => undefined))
  })

  test('a name without an address is unreachable, and nothing was sent', async () => {
    const client = new HttpClient()
    const sent = new Exchanged(client, 'http://nowhere.invalid/')
    expect((await sent.done).end).toBe('unreachable')
    expect(await sent.exchange.wasSent()).toBe(false)
  })
})

/** Each name has the addresses of the list, in its order; the lookups so far are in `asked`. */
function naming(...addresses: string[]) {
  const asked: string[] = []
  const lookUp = async (name: string) => {
    asked.push(name)
    await Bun.sleep(5)
    return addresses.map((address) => ({ address, family: address.includes(':') ? (6 as const) : (4 as const) }))
  }
  return { asked, addresses: new Addresses(lookUp) }
}

describe('addresses and names', () => {
  test('at most 256 connections to an origin are made at once; the others follow', async () => {
    await using hole = await BlackHole.start()
    const client = new HttpClient()
    const sent = Array.from({ length: 300 }, () => new Exchanged(client, `http://127.0.0.1:${hole.port}/`))
    await until(() => hole.attempts === 256)
    for (const { exchange } of sent.slice(0, 256)) exchange.abort()
    await until(() => hole.attempts === 44)
    for (const { exchange } of sent) exchange.abort()
    await until(() => hole.attempts === 0)
  })

  test('5,000 requests at once: each answer reaches its own request, and 1,024 connections are reused', async () => {
    const count = 5000
    const waiting: (() => void)[] = []
    await using server = await RawServer.answering((socket, { text }) => {
      waiting.push(() => socket.write(response(text.slice(text.indexOf('\r\n\r\n') + 4))))
      // None is answered before all have arrived, so all connections are open at the same time.
      if (waiting.length === count) for (const answer of waiting.splice(0)) answer()
    })
    const client = new HttpClient()
    for (const round of ['first', 'second']) {
      const bodies = Array.from({ length: count }, (_, at) => `${round} ${at}`)
      const outcomes = await Promise.all(bodies.map((body) => new Exchanged(client, server.url(), body).done))
      expect(outcomes.map(({ body }) => body)).toEqual(bodies)
    }
    expect(server.connections).toBe(count + count - 1024)
  })

  test('if an address does not answer, the next one is tried after 250 ms, and the first is abandoned', async () => {
    await using server = await RawServer.answering((socket) => socket.write(response('hello')))
    await using hole = await BlackHole.start('127.0.0.2', server.port)
    const { addresses } = naming('127.0.0.2', '127.0.0.1')
    const client = new HttpClient({ addresses })
    expect((await new Exchanged(client, `http://two.test:${server.port}/`).done).body).toBe('hello')
    await until(() => hole.attempts === 0)
  })

  test('if an address refuses, the next one is tried at once', async () => {
    await using server = await RawServer.answering((socket) => socket.write(response('hello')))
    const { addresses } = naming('127.0.0.3', '127.0.0.2', '::1', '127.0.0.1')
    const client = new HttpClient({ addresses })
    expect((await new Exchanged(client, `http://many.test:${server.port}/`).done).body).toBe('hello')
  })

  test('all addresses refuse: unreachable, with the reason of the system', async () => {
    const server = await RawServer.answering(() => {})
    const { port } = server
    await server[Symbol.asyncDispose]()
    const { addresses } = naming('127.0.0.2', '127.0.0.1')
    const client = new HttpClient({ addresses })
    const sent = new Exchanged(client, `http://many.test:${port}/`)
    expect((await sent.done).end).toBe('unreachable')
    expect(sent.error?.cause).toMatchObject({ code: 'ECONNREFUSED' })
  })

  test('requests for one name share a lookup, and its addresses are used again', async () => {
    await using server = await RawServer.answering((socket) => socket.write(response('hello', 'connection: close\r\n')))
    const { addresses, asked } = naming('127.0.0.1')
    const client = new HttpClient({ addresses })
    const url = `http://one.test:${server.port}/`
    await Promise.all([1, 2, 3].map(() => new Exchanged(client, url).done))
    await new Exchanged(client, url).done
    expect(asked).toEqual(['one.test'])
    expect(server.connections).toBe(4)
  })

  test('an idle connection is closed before its server closes it', async () => {
    await using server = await RawServer.answering((socket) =>
      socket.write(response('hello', 'Keep-Alive: timeout=2, max=5\r\n')),
    )
    const client = new HttpClient()
    await new Exchanged(client, server.url()).done
    await server.allClosed()
    expect(server.connections).toBe(1)
  })

  test('a URL with a user name is not sent with it', async () => {
    const texts: string[] = []
    await using server = await RawServer.answering((socket, { text }) => {
      texts.push(text)
      socket.write(response('hello'))
    })
    const client = new HttpClient()
    await new Exchanged(client, `http://user:word@127.0.0.1:${server.port}/a/b?c=d#e`).done
    expect(texts[0]).toStartWith(`POST /a/b?c=d HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\n`)
    expect(texts[0]).not.toContain('word')
  })

  test.each(['ftp://127.0.0.1/', 'nonsense'])('what is no HTTP URL fails, and nothing was sent: %s', async (url) => {
    const client = new HttpClient()
    const exchange = new HttpExchange(client)
    const { promise, resolve } = Promise.withResolvers<string>()
    exchange.send(
      { url, headers: {}, body: '' },
      { head: () => {}, data: () => {}, end: () => resolve('end'), fail: ({ kind }) => resolve(kind) },
    )
    expect(await promise).toBe('unreachable')
    expect(await exchange.wasSent()).toBe(false)
  })
})
