/** The simulated provider and the raw caller against each other: each must observe exactly what the other sends. */

import { describe, expect, test } from 'bun:test'
import { ask, Caller, requestBytes } from './caller.ts'
import * as does from './scenarios.ts'
import { closedPort, Upstream } from './upstream.ts'

const PATH = '/v1/chat/completions'
const frames = does.chatFrames(['Hel', 'lo'])
const all = frames.join('')
const asking = (model: string) => requestBytes(PATH, { key: 'k', body: { model, stream: true } })

describe('the simulated provider', () => {
  const rows = [
    ['a whole stream', does.stream(frames), 'whole', all, frames.length],
    ['byte by byte', does.byteByByte(frames), 'whole', all, all.length],
    ['no last chunk', does.withoutLastChunk(frames), 'cut', all, frames.length],
    ['a reset', does.resets(frames), 'cut', all, frames.length],
    ['too short', does.tooShort(frames), 'cut', all, 0],
    ['closed by the end', does.closeDelimited(frames), 'closed', all, 0],
    ['a whole body', does.answersText('Hello'), 'whole', does.chatFrames(['Hello']).join(''), 5],
  ] as const
  test.each(rows)('%s', async (_, scenario, end, text, chunks) => {
    await using upstream = await Upstream.start({ m: scenario })
    const answer = await ask(upstream.port, asking('m'))
    expect({ end: answer.end, text: answer.text, chunks: answer.chunks.length }).toEqual({ end, text, chunks })
  })

  test('records its requests, and which side closed the connection', async () => {
    await using upstream = await Upstream.start({ quiet: does.silent(), broken: does.resets([]) })
    const caller = await Caller.connect(upstream.port)
    caller.send(asking('quiet'))
    const call = await upstream.call('quiet')
    expect([call.method, call.path, call.header('Authorization'), call.json['stream']]).toEqual([
      'POST',
      PATH,
      'Bearer k',
      true,
    ])
    expect([call.open, upstream.openConnections]).toEqual([true, 1])
    caller.close()
    expect(await call.aborted).toMatchObject({ by: 'gateway', reset: false })
    await using other = await Caller.connect(upstream.port)
    other.send(asking('broken'))
    expect(await other.ended()).toBe(true)
    expect(await (await upstream.call('broken')).ended).toMatchObject({ by: 'us' })
    await upstream.idle()
    expect(upstream.openConnections).toBe(0)
  })

  test('sees a reset of its peer', async () => {
    await using upstream = await Upstream.start({ quiet: does.stalls(frames.slice(0, 1)) })
    const caller = await Caller.connect(upstream.port)
    caller.send(asking('quiet'))
    await caller.until('assistant')
    caller.reset()
    expect(await (await upstream.call()).aborted).toMatchObject({ by: 'gateway', reset: true })
  })

  test('answers several requests on one connection, and one that arrives in pieces', async () => {
    await using upstream = await Upstream.start({ a: does.answersText('A'), b: does.answersText('B') })
    await using caller = await Caller.connect(upstream.port)
    const bytes = asking('a')
    caller.send(bytes.subarray(0, 30))
    await new Promise((resolve) => setImmediate(resolve))
    caller.send(bytes.subarray(30))
    caller.send(asking('b'))
    expect((await caller.answer()).text).toContain('"A"')
    expect((await caller.answer()).text).toContain('"B"')
    expect(upstream.connections).toBe(1)
  })

  test('is held back by a caller that does not read', async () => {
    let sent = 0
    const endless = does.endless([], 'x'.repeat(65_536), (bytes) => {
      sent = bytes
    })
    await using upstream = await Upstream.start({ m: endless })
    await using caller = await Caller.connect(upstream.port)
    caller.pause()
    caller.send(asking('m'))
    await upstream.call('m')
    let before = -1
    while (before !== sent) {
      before = sent
      await Bun.sleep(100)
    }
    expect(sent).toBeLessThan(64 * 1024 * 1024)
  })

  test('returns ports that nothing listens on', async () => {
    await expect(Caller.connect(await closedPort())).rejects.toThrow()
  })
})
