/** The generators obey the laws that they are used to test. */

import { describe, expect } from 'bun:test'
import type { StreamEvent } from '../../src/core/event.ts'
import { joined } from './bytes.ts'
import { fold } from './decode.ts'
import { property, Random } from './random.ts'
import { chatProviderBytes, cuts, randomEvents } from './streams.ts'

/** The order law of `core/event.ts`, as a regular expression over one letter per event. */
const ORDER = /^s(?:[txhrdu])*f(?:u)*e$/
const LETTER = {
  start: 's',
  text: 't',
  refusal: 'x',
  reasoning: 'h',
  thought: 'k',
  'tool-start': 'r',
  'tool-delta': 'd',
  own: 'o',
  usage: 'u',
  finish: 'f',
  end: 'e',
} as const

function startedBefore(events: readonly StreamEvent[]): boolean {
  let started = 0
  return events.every((event) => {
    if (event.type === 'tool-start') return event.index === started++
    return event.type !== 'tool-delta' || event.index < started
  })
}

describe('random streams', () => {
  property('obey the order law, and fold to complete calls', 500, (random) => {
    const events = randomEvents(random)
    expect(events.map((event) => LETTER[event.type]).join('')).toMatch(ORDER)
    expect(startedBefore(events)).toBe(true)
    for (const call of fold(events).toolCalls) expect(typeof JSON.parse(call.json)).toBe('object')
  })

  property('are the same for the same seed', 20, (random) => {
    const make = () => {
      const again = new Random(random.seed)
      const events = randomEvents(again)
      return { events, bytes: chatProviderBytes(again, events) }
    }
    expect(make()).toEqual(make())
  })

  property('are the same bytes at every cut', 20, (random) => {
    const bytes = chatProviderBytes(random, randomEvents(random))
    for (const { chunks } of cuts(bytes, random, 500)) expect(joined(chunks)).toEqual(bytes)
  })
})
