/**
 * Whatever frames a provider sends, in whatever order, the decoder keeps the order law of events: a strange stream is
 * the provider's error, after which the next candidate is tried, and never an error of our own.
 */

import { describe, expect, test } from 'bun:test'
import type { StreamEvent } from '../../src/core/event.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { EventCheck } from '../../src/gateway/event-check.ts'
import { ShownThoughts, ThoughtSeals } from '../../src/gateway/shown-thoughts.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { passingReader } from '../../src/providers/anthropic/request.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { DIALECTS } from '../providers/dialects.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { responsesWriter } from '../providers/openai/responses-writer.ts'
import { fixtures } from '../support/fixtures.ts'
import { Random } from '../support/random.ts'
import { SEED } from '../support/seed.ts'
import type { Speech } from '../support/speech-writer.ts'

const PROVIDERS = {
  ...{ openai, anthropic, gemini, bedrock },
  'openai-responses': openaiResponses,
  // What only its own API has passes.
  'anthropic-own': { ...anthropic, ...passingReader },
} as const satisfies Record<string, Provider>
type Name = keyof typeof PROVIDERS
const NAMES: readonly Name[] = ['openai', 'anthropic', 'gemini', 'bedrock', 'openai-responses', 'anthropic-own']
function writerOf(name: Name) {
  if (name === 'anthropic-own') return DIALECTS.anthropic.writer
  return name === 'openai-responses' ? responsesWriter : DIALECTS[name].writer
}
const STREAMS = 4000
/** Longer fixtures repeat what the shorter ones have. */
const FRAMES_MAX = 200

interface Frame {
  readonly event: string
  readonly data: string
}

/** The frames of every recorded stream that can be framed. */
function recorded(name: string, provider: Provider): Frame[][] {
  return fixtures(name === 'anthropic-own' ? 'anthropic/' : `${name}/`).flatMap(({ bytes, content_type }) => {
    if (!content_type.startsWith(provider.streamType)) return []
    const frames: Frame[] = []
    const framer = provider.framer()
    const take = (event: string, data: string) => frames.push({ event, data })
    try {
      framer.push(bytes, take)
      framer.close(take)
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
    }
    return frames.length === 0 || frames.length > FRAMES_MAX ? [] : [frames]
  })
}

const PLACES =
  /"(index|output_index|contentBlockIndex|finish_reason|finishReason|type|status|stop_reason|stopReason)":\s*("[^"]*"|\d+|null)/
const CONTENTS =
  /"(arguments|partial_json|content|text|args|input|name|id|delta|output|item|response|call_id)":\s*("(?:[^"\\]|\\.)*"|\{\}|null)/
const PLACE_VALUES = [
  '0',
  '1',
  '2',
  '-1',
  'null',
  '"stop"',
  '"tool_calls"',
  '"text"',
  '"tool_use"',
  '"STOP"',
  '"end_turn"',
]
const CONTENT_VALUES = ['""', 'null', '"{}"', '"{"', '"x"', '{}', '[]', '" "']

function oneOf<T>(choices: readonly T[], random: Random): T {
  const choice = choices[random.below(choices.length)]
  if (choice === undefined) throw new Error('nothing to choose from')
  return choice
}

/** One to three changes: frames lost, repeated, swapped, taken from another stream, or with another value. */
function changed(stream: readonly Frame[], others: readonly Frame[][], random: Random): Frame[] {
  const frames = [...stream]
  for (let changes = 1 + random.below(3); changes > 0 && frames.length > 0; changes--) {
    const at = random.below(frames.length)
    const frame = frames[at]
    const other = frames[random.below(frames.length)]
    if (frame === undefined || other === undefined) break
    const replaced = (pattern: RegExp, values: readonly string[]): Frame => ({
      event: frame.event,
      data: frame.data.replace(pattern, (_, name: string) => `"${name}":${oneOf(values, random)}`),
    })
    switch (random.below(6)) {
      case 0:
        frames.splice(at, 1)
        break
      case 1:
        frames.splice(at, 0, other)
        break
      case 2:
        frames[frames.indexOf(other)] = frame
        frames[at] = other
        break
      case 3:
        frames.splice(at, 0, oneOf(oneOf(others, random), random))
        break
      case 4:
        frames[at] = replaced(PLACES, PLACE_VALUES)
        break
      default:
        frames[at] = replaced(CONTENTS, CONTENT_VALUES)
    }
  }
  return frames
}

/** A caller that sees thoughts. */
const SEALS = new ThoughtSeals({ seal: (_, __, text) => Buffer.from(text), open: () => undefined }, 'o')
const shown = () => new ShownThoughts({ texts: true, seals: true }, undefined, SEALS)

/** Feeds frames to a decoder and what it emits to the check. Returns the provider's error, and throws any other. */
function run(provider: Provider, frames: readonly Frame[]): ProviderError | undefined {
  const check = new EventCheck({ event() {}, texts() {} }, undefined, undefined, shown())
  const decoder = provider.decoder()
  let ended = false
  const take = (events: readonly StreamEvent[]) => {
    for (const event of events) {
      ended ||= event.type === 'end'
      check.event(event)
    }
  }
  try {
    for (const { event, data } of frames) if (!ended) take(decoder.decode(event, data))
    if (!ended) take(decoder.close())
    return undefined
  } catch (error) {
    if (error instanceof ProviderError) return error
    throw new Error(`${error}\n${frames.map(({ data }) => data).join('\n')}`)
  }
}

/** Reads a whole answer. Throws weir's own errors; errors of the provider and text that is not JSON are expected. */
function readWhole(provider: Provider, text: string): void {
  const check = new EventCheck({ event() {}, texts() {} }, undefined)
  try {
    for (const event of provider.events(JSON.parse(text))) check.event(event)
  } catch (error) {
    if (error instanceof ProviderError || error instanceof SyntaxError) return
    throw new Error(`${error}\n${text}`)
  }
}

const CALLS = [
  { id: 'call_1', name: 'get_weather', json: '{"city":"Oslo"}' },
  { id: 'call_2', name: 'now', json: '{}' },
]
const SPEECHES: readonly Speech[] = [
  { text: 'Hello.', calls: [], finish: 'stop' },
  { text: '', calls: CALLS, finish: 'calls' },
  { text: 'One moment.', calls: CALLS, finish: 'length' },
]

describe('the order law holds for whole answers with other values', () => {
  test.each(NAMES)('%s', (name) => {
    const provider = PROVIDERS[name]
    const random = new Random(SEED)
    const writer = writerOf(name)
    const bodies = SPEECHES.map((speech) => JSON.stringify(writer.whole(speech)))
    for (let at = 0; at < STREAMS; at++) {
      let text = oneOf(bodies, random)
      for (let changes = 1 + random.below(3); changes > 0; changes--) {
        const pattern = new RegExp(random.chance(0.5) ? PLACES : CONTENTS, 'g')
        const found = [...text.matchAll(pattern)]
        if (found.length === 0) continue
        const { index, 0: whole, 1: field } = oneOf(found, random)
        const value = oneOf([...PLACE_VALUES, ...CONTENT_VALUES], random)
        text = `${text.slice(0, index)}"${field}":${value}${text.slice(index + whole.length)}`
      }
      readWhole(provider, text)
    }
  })
})

describe('the order law holds for frames in any order', () => {
  test.each(NAMES)('%s', (name) => {
    const provider = PROVIDERS[name]
    const random = new Random(SEED)
    const streams = recorded(name, provider)
    expect(streams.length).toBeGreaterThan(3)
    let whole = 0
    for (let at = 0; at < STREAMS; at++)
      if (run(provider, changed(oneOf(streams, random), streams, random)) === undefined) whole += 1
    // Both ends are reached: answers that are whole all the same, and answers that are not.
    expect(whole).toBeGreaterThan(STREAMS / 100)
    expect(whole).toBeLessThan(STREAMS)
  })
})
