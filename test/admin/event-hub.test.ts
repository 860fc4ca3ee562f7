/** The listeners of the event stream: how many there may be, and what a slow one costs. */

import { expect, test } from 'bun:test'
import { connect } from 'node:net'
import type { JsonObject } from '../../src/core/json.ts'
import { listeningAdmin } from '../support/admin.ts'
import { EventReader } from '../support/event-reader.ts'

const open = (number: number) => fetch(`http://127.0.0.1:${number}/api/events`)

test('the workers send lines only while somebody listens', async () => {
  const watched: boolean[] = []
  const left = Promise.withResolvers<void>()
  const watch = (isWatched: boolean) => {
    watched.push(isWatched)
    if (!isWatched) left.resolve()
  }
  await using admin = listeningAdmin({ supervision: { watch } })
  const [one, other] = [
    new EventReader(await open(admin.address.port)),
    new EventReader(await open(admin.address.port)),
  ]
  await Promise.all([one.next('status'), other.next('status')])
  expect(watched).toEqual([true])
  await one[Symbol.asyncDispose]()
  await other[Symbol.asyncDispose]()
  await left.promise
  expect(watched).toEqual([true, false])
})

test('a status that cannot be made ends the streams and is logged', async () => {
  const lines: JsonObject[] = []
  const fails = { reasons: () => Promise.reject(new RangeError('inside')) }
  await using admin = listeningAdmin({ supervision: fails }, lines)
  const answer = await open(admin.address.port)
  expect(await answer.text()).toBe('')
  expect(lines).toEqual([expect.objectContaining({ event: 'admin.internal_error', path: '/api/events' })])
})

test('a token has 20 listeners of its own, and takes no place of another', async () => {
  const tokens = ['ann', 'eve'].map((name) => ({ name, token: `a-token-of-${name}-0123456789`, role: 'read' }) as const)
  await using admin = listeningAdmin({ tokens })
  const listen = ({ token }: { readonly token: string }) =>
    fetch(`http://127.0.0.1:${admin.address.port}/api/events`, { headers: { authorization: `Bearer ${token}` } })
  const [ann, eve] = tokens
  if (ann === undefined || eve === undefined) throw new Error('two tokens')
  const answers = await Promise.all(Array.from({ length: 25 }, () => listen(eve)))
  expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(20)
  expect((await listen(eve)).status).toBe(409)
  expect((await listen(ann)).status).toBe(200)
})

test('the 21st listener is refused, until another has left', async () => {
  await using admin = listeningAdmin()
  const listeners = await Promise.all(
    Array.from({ length: 20 }, async () => new EventReader(await open(admin.address.port))),
  )
  const answer = await open(admin.address.port)
  expect([answer.status, await answer.json()]).toEqual([
    409,
    { error: { code: 'too_many_listeners', message: expect.stringContaining('20') } },
  ])
  await Promise.all(listeners.map((each) => each[Symbol.asyncDispose]()))
  for (;;) {
    const again = await open(admin.address.port)
    if (again.status !== 200) {
      await again.body?.cancel()
      continue
    }
    await using _reader = new EventReader(again)
    break
  }
})

test('a listener that does not read misses requests, and learns how many', async () => {
  await using admin = listeningAdmin()
  const { promise: connected, resolve } = Promise.withResolvers<void>()
  const socket = connect(admin.address.port, '127.0.0.1', () => {
    socket.write('GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n')
    socket.once('data', () => {
      socket.pause()
      resolve()
    })
  })
  try {
    await connected
    const line = JSON.stringify({ msg: 'request', filler: 'x'.repeat(100_000) })
    // Much more than the buffers of both sockets take.
    let sent = 0
    for (; sent < 2000; sent++) {
      admin.requests([line], 0)
      if (sent % 50 === 0) await Bun.sleep(1)
    }
    let text = ''
    const { promise: counted, resolve: count } = Promise.withResolvers<number>()
    let received = 0
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      received += text.split('event: request\n').length - 1
      const omitted = /event: omitted\ndata: \{"requests":(\d+)\}/.exec(text)?.[1]
      text = text.slice(-200)
      if (omitted !== undefined) count(Number(omitted))
    })
    socket.resume()
    const omitted = await counted
    expect(omitted).toBeGreaterThan(1000)
    expect(omitted).toBeLessThan(sent)
    expect(received).toBeLessThan(sent)
  } finally {
    socket.destroy()
  }
})
