/** The text of events: one line for every client, whatever characters it treats as line breaks. */

import { describe, expect, test } from 'bun:test'
import type { JsonValue } from '../../src/core/json.ts'
import { SseFramer } from '../../src/wire/frames.ts'
import { jsonInside, jsonLine, KEEP_ALIVE_COMMENT, namedEvent } from '../../src/wire/sse.ts'
import { bytesOf } from '../support/bytes.ts'
import { property } from '../support/random.ts'

/** All characters at which Python's `str.splitlines()` breaks a line. */
const BREAKS = ['\n', '\r', '\u000b', '\u000c', '\u001c', '\u001d', '\u001e', '\u0085', '\u2028', '\u2029'] as const
const PARTS = [...BREAKS, 'a', '"', '\\', 'é', '👩‍🚀', '\ud83d', '\ude00', '{}', ': ', 'data: '] as const

test('an event is its lines and a blank line', () => {
  expect(namedEvent('x', { a: 1 })).toBe('event: x\ndata: {"a":1}\n\n')
  expect(KEEP_ALIVE_COMMENT).toBe(': keep-alive\n\n')
})

describe('line breaks', () => {
  test.each([...BREAKS])('%j is sent as an escape', (unit) => {
    const line = jsonLine(`a${unit}b`)
    expect(line).not.toContain(unit)
    expect(JSON.parse(line)).toBe(`a${unit}b`)
  })

  test('half a surrogate pair is sent as an escape', () => {
    expect(jsonLine('\ud83d')).toBe('"\\ud83d"')
  })
})

property('a value comes back from its event, and its inside from a string', 500, (random) => {
  const text = () => random.list(6, () => random.pick(PARTS)).join('')
  const value: JsonValue = { [text()]: [text(), random.below(9), null, { [text()]: text() }] }
  const frames: [string, string][] = []
  new SseFramer().push(bytesOf(namedEvent('x', value)), (event, data) => void frames.push([event, data]))
  expect(frames.map(([event, data]): [string, JsonValue] => [event, JSON.parse(data)])).toEqual([['x', value]])
  for (const unit of BREAKS) expect(jsonLine(value)).not.toContain(unit)
  const raw = text()
  expect(`"${jsonInside(raw)}"`).toBe(jsonLine(raw))
})
