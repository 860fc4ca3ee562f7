/** TLS: whose certificates each transport accepts, for which names, and what a cut looks like. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HttpClient } from '../../src/transport/client.ts'
import { Authorities } from '../../src/transport/dial.ts'
import { Exchanged, type Outcome, response } from './exchanges.ts'
import { RawServer } from './raw-server.ts'

const path = (name: string): string => join(import.meta.dir, '../fixtures/tls', name)
const pem = (name: string): string => readFileSync(path(name), 'utf8')
const AUTHORITY = pem('authority.crt')

function secure(certificate: string) {
  return { cert: pem(`${certificate}.crt`), key: pem(certificate === 'self-signed' ? 'self-signed.key' : 'leaf.key') }
}

/** A request in a process of its own, which reads its authorities from the environment. */
async function fromProcess(url: string, authorities: string | undefined): Promise<Outcome> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'one-request.ts'), url], {
    env: { ...process.env, ...(authorities === undefined ? {} : { NODE_EXTRA_CA_CERTS: authorities }) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return JSON.parse(await child.stdout.text())
}

const unreachable: Outcome = { body: '', end: 'unreachable' }

describe('a provider with', () => {
  test.each([
    ['a certificate of an authority of NODE_EXTRA_CA_CERTS', 'good', 'authority.crt', true],
    ['a certificate of an unknown authority', 'good', undefined, false],
    ['a self-signed certificate', 'self-signed', 'authority.crt', false],
    ['an expired certificate', 'expired', 'authority.crt', false],
    ['a certificate for another name', 'wrong-name', 'authority.crt', false],
  ])('%s', async (_, certificate, authority, isAccepted) => {
    await using server = await RawServer.answering((socket) => socket.write(response('hello')), secure(certificate))
    const outcome = await fromProcess(server.url(), authority && path(authority))
    expect(outcome).toEqual(isAccepted ? { status: 200, body: 'hello', end: 'end' } : unreachable)
    expect(server.requests).toBe(isAccepted ? 1 : 0)
  })
})

describe('TLS', () => {
  test('connections are used again, large bodies arrive, and a caller that does not read is waited for', async () => {
    const size = 8 * 1024 * 1024
    await using server = await RawServer.answering((socket, { text }) => {
      const length = text.length - text.indexOf('\r\n\r\n') - 4
      socket.write(response('x'.repeat(length)))
    }, secure('good'))
    const client = new HttpClient({ authorities: new Authorities(AUTHORITY) })
    for (let turn = 0; turn < 3; turn++)
      expect(await new Exchanged(client, server.url(), 'abc').done).toEqual({ status: 200, body: 'xxx', end: 'end' })
    expect(server.connections).toBe(1)
    const sent = new Exchanged(client, server.url(), [new Uint8Array(size)])
    await sent.answered
    sent.exchange.pause()
    await Bun.sleep(100)
    expect(sent.outcome.body.length).toBeLessThanOrEqual(1024 * 1024)
    sent.exchange.resume()
    expect((await sent.done).body.length).toBe(size)
  })

  test.each([
    ['a declared length', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello', 'cut'],
    ['chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n', 'cut'],
    // TLS would say whether all of it came (close_notify), but Bun reports the end of TCP in the same way.
    ['nothing but the end', 'HTTP/1.1 200 OK\r\n\r\nhello', 'end'],
  ] as const)('a body with %s, cut by a FIN without close_notify', async (_, sends, end) => {
    await using server = await RawServer.answering((socket) => {
      socket.write(sends, () => setTimeout(() => socket.destroy(), 20))
    }, secure('good'))
    const client = new HttpClient({ authorities: new Authorities(AUTHORITY) })
    expect(await new Exchanged(client, server.url()).done).toMatchObject({ status: 200, end })
  })

  test('the certificate is checked for the name of the URL, also if it is reached by its address', async () => {
    await using server = await RawServer.answering((socket) => socket.write(response('hello')), secure('wrong-name'))
    const client = new HttpClient({ authorities: new Authorities(AUTHORITY) })
    const sent = new Exchanged(client, server.url())
    expect(await sent.done).toEqual(unreachable)
    expect(await sent.exchange.wasSent()).toBe(false)
    expect(sent.error?.cause).toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  })

  test('a peer that does not speak TLS is unreachable', async () => {
    await using server = await RawServer.start((socket) =>
      socket.on('data', () => socket.end('HTTP/1.1 400 No\r\n\r\n')),
    )
    const client = new HttpClient()
    expect(await new Exchanged(client, server.url().replace('http:', 'https:')).done).toEqual(unreachable)
  })
})
