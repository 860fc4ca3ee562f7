/**
 * The law of broken streams at the pump: whatever bytes of a recorded stream a provider sends before it breaks off, the
 * candidate has failed and nothing was opened, or the caller's head is out before the cut, or the answer is whole.
 * `test/e2e/prefixes.test.ts` shows the same on the wire.
 */

import { expect } from 'bun:test'
import { ProviderError } from '../../src/core/provider-error.ts'
import { ChatEncoder } from '../../src/dialects/chat/stream.ts'
import type { StreamEncoder, StreamMeter } from '../../src/dialects/dialect.ts'
import { MessagesEncoder } from '../../src/dialects/messages/stream.ts'
import { Pump } from '../../src/gateway/pump.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { accept, SERVED } from '../dialects/responses/setting.ts'
import { attached, HandCall, HandSink, opened } from '../gateway/by-hand.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { fixtures } from '../support/fixtures.ts'
import { property, type Random } from '../support/random.ts'

const PROVIDERS: readonly (readonly [string, Provider])[] = [
  ['openai/', openai],
  ['openai-responses/', openaiResponses],
  ['anthropic/', anthropic],
  ['gemini/', gemini],
  ['bedrock/', bedrock],
  ['vertex-gemini/', vertexGemini],
  ['vertex-claude/', vertexClaude],
]
const STREAMS = ['text/event-stream', 'application/vnd.amazon.eventstream']
const ALL = PROVIDERS.flatMap(([folder, provider]) =>
  fixtures(folder).flatMap(({ content_type: type, ...fixture }) =>
    STREAMS.includes(type) ? [{ provider, ...fixture }] : [],
  ),
)
const ENCODERS: readonly (readonly [name: string, make: (meter: StreamMeter) => StreamEncoder, end: RegExp])[] = [
  ['chat', () => new ChatEncoder(SERVED, true), /^data: \[DONE\]$/m],
  [
    'responses',
    (meter) => accept({ input: 'x', stream: true }).encoder(SERVED, meter),
    /^event: response\.completed$/m,
  ],
  ['messages', (meter) => new MessagesEncoder(SERVED, meter), /^event: message_stop$/m],
]

/** Random beginnings of each stream, besides those at the ends of its events. */
const BEGINNINGS = 25
/** Longer streams are broken off after some of their events. */
const EVENTS_MAX = 40

/** How it ends for a caller who takes the stream once it was opened. */
async function outcome(
  provider: Provider,
  make: (meter: StreamMeter) => StreamEncoder,
  bytes: Uint8Array,
  last: ProviderError | undefined,
) {
  const call = new HandCall()
  const meter = new UsageMeter(7)
  const pump = new Pump(call, undefined, provider, make(meter), meter)
  call.give(bytes, last)
  try {
    await opened(pump).open
  } catch (error) {
    expect(error).toBeInstanceOf(ProviderError)
    return { kind: 'failed', text: '' }
  }
  const whole = pump.takeWhole()
  if (whole !== undefined) return { kind: 'whole', text: Buffer.from(whole.take()).toString() }
  // Whatever can happen by itself has happened before anybody takes the stream.
  await new Promise((resolve) => setImmediate(resolve))
  await new Promise((resolve) => setImmediate(resolve))
  const sink = new HandSink()
  const kind = await attached(pump, sink).then(
    () => 'whole',
    () => 'cut',
  )
  return { kind, text: sink.text }
}

/** After events, whose ends are found by their bytes; with another framing, after every few bytes of the last part. */
function places({ bytes }: { readonly bytes: Uint8Array }, random: Random): readonly number[] {
  const text = Buffer.from(bytes).toString('latin1')
  const ends = [...text.matchAll(/\r\n\r\n|\n\n|\r\r/g)].map((found) => found.index + found[0].length)
  const last = Array.from({ length: EVENTS_MAX }, (_, back) => Math.max(0, bytes.length - 7 * back))
  const chosen = ends.length > 0 ? [...ends.slice(0, EVENTS_MAX / 2), ...ends.slice(-EVENTS_MAX / 2)] : last
  return [0, ...chosen, ...Array.from({ length: BEGINNINGS }, () => random.between(0, bytes.length))]
}

property('a candidate that failed, a head and a cut, or all of it', 3, async (random) => {
  const cases = ALL.flatMap((one) =>
    places(one, random).flatMap((length) => {
      const reset = random.chance(0.5)
      return ENCODERS.map(([name, make, end]) => ({ ...one, length, reset, name, make, end }))
    }),
  )
  const judged = cases.map(async ({ file, provider, bytes, length, reset, name, make, end }) => {
    const last = reset ? new ProviderError('cut', 'reset') : undefined
    const { kind, text } = await outcome(provider, make, bytes.subarray(0, length), last)
    if (kind === 'failed' || (kind === 'whole' ? end.test(text) : text !== '' && !end.test(text))) return []
    return [`${file}, ${length} bytes, ${reset ? 'reset' : 'ended'}, ${name}: ${kind} with ${text.slice(0, 99)}`]
  })
  expect((await Promise.all(judged)).flat()).toEqual([])
})
