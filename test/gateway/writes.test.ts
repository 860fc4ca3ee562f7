/** How the events of a stream are written: one write for each chunk that was read, and no event in two. */

import { expect, test } from 'bun:test'
import { textOf } from '../support/bytes.ts'
import * as does from '../support/scenarios.ts'
import type { Scenario } from '../support/upstream.ts'
import { lastingStage, STREAM, seen } from './stage.ts'

const CHUNKS = 8
const words = Array.from({ length: CHUNKS * 5 }, (_, index) => `w${index} `)
const [role = '', ...frames] = does.chatFrames(words)
/** Five words a chunk. The first chunk has the role, the last the end. */
const chunks = Array.from({ length: CHUNKS }, (_, index) => frames.slice(index * 5, index * 5 + 5).join(''))
chunks[0] = role + chunks[0]
chunks[CHUNKS - 1] += frames.slice(CHUNKS * 5).join('')

const LONG = `${'long "text" \u2028 '.repeat(60_000)}.`
const releases = chunks.map(() => Promise.withResolvers<void>())

/** Each chunk waits until the caller has seen the one before. */
const paced: Scenario = async (call) => {
  await call.head200()
  for (const [index, chunk] of chunks.entries()) {
    await call.chunk(chunk)
    await releases[index]?.promise
  }
  await call.end()
}

const stage = await lastingStage({
  paced,
  bytes: does.byteByByte([role, ...frames]),
  long: does.stream(does.chatFrames(['short', LONG, 'short'])),
})

test('each chunk that was read is one write to the caller', async () => {
  await using caller = await stage.caller('paced', STREAM)
  for (const [index, release] of releases.entries()) {
    await caller.until(`w${index * 5 + 4} `)
    release.resolve()
  }
  const answer = await caller.answer()
  expect(seen(answer.text)).toEqual({ text: words.join(''), finish: 'stop', done: true })
  expect(answer.chunks.length).toBe(CHUNKS)
})

test.each([
  ['bytes', words.join('')],
  ['long', `short${LONG}short`],
])('each event is whole in one write: %s', async (name, text) => {
  const answer = await stage.ask(name, STREAM)
  expect(seen(answer.text)).toEqual({ text, finish: 'stop', done: true })
  for (const chunk of answer.chunks) {
    const events = textOf(chunk)
    expect([events.slice(0, 6), events.slice(-2)]).toEqual(['data: ', '\n\n'])
  }
})
