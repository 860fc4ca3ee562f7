/**
 * The law of the splice: whatever a provider's frames hold and however their bytes are cut, the caller's bytes, the
 * usage and the error are those of a stream of which every frame is decoded.
 */

import { describe, expect, test } from 'bun:test'
import { compatibilityOf } from '../../src/core/compatibility.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { ChatEncoder } from '../../src/dialects/chat/stream.ts'
import type { StreamEncoder, StreamMeter } from '../../src/dialects/dialect.ts'
import { MessagesEncoder } from '../../src/dialects/messages/stream.ts'
import { DecodeStream } from '../../src/gateway/decode-stream.ts'
import { EncodeStream } from '../../src/gateway/encode-stream.ts'
import { EventCheck } from '../../src/gateway/event-check.ts'
import { ShownThoughts, ThoughtSeals } from '../../src/gateway/shown-thoughts.ts'
import { type KeptThoughts, ThoughtKeeper } from '../../src/gateway/thought-keeper.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { passingReader } from '../../src/providers/anthropic/request.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { SseFramer } from '../../src/wire/frames.ts'
import { accept, dialect, plain, SERVED } from '../dialects/responses/setting.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { readAtOnce } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'
import { cuts } from '../support/streams.ts'
import { damaged, TEXT_PROVIDERS, type TextProvider, textStream } from '../support/text-streams.ts'

const CASES = 250

/** Bedrock's decoder gets its frames as server-sent events here: the law is about frames, not about their framing. */
const PROVIDERS: Readonly<Record<TextProvider, Pick<Provider, 'framer' | 'decoder'>>> = {
  openai,
  'openai-responses': openaiResponses,
  anthropic,
  gemini,
  bedrock: { framer: (shortcut) => new SseFramer(shortcut), decoder: () => bedrock.decoder() },
}

const SHOWN = { texts: true, seals: true }
const THINKING = readAtOnce(
  dialect,
  {
    model: 'acme-large',
    input: 'x',
    stream: true,
    reasoning: { summary: 'auto' },
    include: ['reasoning.encrypted_content'],
  },
  { organization: 'acme', compatibility: compatibilityOf({ mode: 'native' }) },
)

/** Of callers that see no thoughts, and of others. */
const ENCODERS: readonly ((meter: StreamMeter) => StreamEncoder)[] = [
  () => new ChatEncoder(SERVED, true, 'chatcmpl-1'),
  (meter) => new MessagesEncoder(SERVED, meter, 'msg_1'),
  (meter) => accept({ input: 'x', stream: true }).encoder(SERVED, meter),
  () => new ChatEncoder(SERVED, true, 'chatcmpl-1', true),
  (meter) => new MessagesEncoder(SERVED, meter, 'msg_1', 'provider', SHOWN),
  (meter) => THINKING.encoder(SERVED, meter),
]
/** From here on in the list. */
const FIRST_SHOWING = 3

/** Seals that show what is in them. */
const SEALS = new ThoughtSeals({ seal: (_, __, text) => Buffer.from(text), open: () => undefined }, 'acme')
const ISSUER = { id: 'there', form: 'messages' } as const

type Mode = 'spliced' | 'decoded'

type Decoding = Pick<Provider, 'framer' | 'decoder'>

/** A provider whose streams have taught nothing yet. `passes`: what only its own API has becomes events, too. */
const fresh = (name: TextProvider, passes = false): Decoding =>
  passes && name === 'anthropic' ? { ...passingReader } : { ...PROVIDERS[name] }

/** An output limit that no stream of these tests goes beyond. */
const AMPLE_TOKENS = 4000

/** What the gateway makes of the chunks. */
function outcome(
  provider: Decoding,
  chunks: readonly Uint8Array[],
  encoder: number,
  mode: Mode,
  limitTokens = AMPLE_TOKENS,
) {
  const reader = new Reader(provider, encoder, mode, limitTokens)
  for (const chunk of chunks) reader.push(chunk)
  return reader.close()
}

/** The gateway's side of one stream. */
class Reader {
  private readonly meter: UsageMeter
  private readonly encoded: EncodeStream
  private readonly decoder: DecodeStream
  private error: ProviderError | undefined
  private kept: KeptThoughts | undefined

  constructor(provider: Decoding, encoder: number, mode: Mode, limitTokens = AMPLE_TOKENS) {
    this.meter = new UsageMeter(10, limitTokens)
    const made = ENCODERS[encoder]?.(this.meter)
    if (made === undefined) throw new Error('no such encoder')
    this.encoded = new EncodeStream(made, this.meter)
    const shown = encoder < FIRST_SHOWING ? undefined : new ShownThoughts(SHOWN, ISSUER, SEALS)
    const keeper = new ThoughtKeeper('messages', (kept) => {
      this.kept = kept
    })
    this.decoder = new DecodeStream(provider, new EventCheck(this.encoded, undefined, keeper, shown), mode)
  }

  push(chunk: Uint8Array): void {
    this.try(() => this.decoder.push(chunk))
  }

  close() {
    this.try(() => this.decoder.close())
    const { meter, encoded, error, kept } = this
    return {
      text: plain(Buffer.from(encoded.take()).toString()),
      error: error?.message,
      kept,
      complete: meter.count(true),
      cut: meter.count(false),
      reason: meter.reason,
    }
  }

  private try(step: () => void): void {
    if (this.decoder.ended || this.error !== undefined) return
    try {
      step()
    } catch (thrown) {
      if (!(thrown instanceof ProviderError)) throw thrown
      this.error = thrown
    }
  }
}

/** `earlier` are the bytes of a stream of the same provider before. */
function holds(name: TextProvider, bytes: Uint8Array, random: Random, earlier: Uint8Array): void {
  const provider = fresh(name, random.chance(0.5))
  if (random.chance(0.5)) outcome(provider, [earlier], 0, 'spliced')
  const encoder = random.below(ENCODERS.length)
  // Most streams go far beyond the lowest limit that counts, and are cut.
  const limitTokens = random.pick([AMPLE_TOKENS, 16])
  const slow = outcome(provider, [bytes], encoder, 'decoded', limitTokens)
  for (const { name, chunks } of cuts(bytes, random, 0)) {
    expect([name, outcome(provider, chunks, encoder, 'spliced', limitTokens)]).toEqual([name, slow])
  }
}

describe.each(TEXT_PROVIDERS)('%s: the same with the splice and without it', (provider) => {
  property('streams of text', CASES, (random) => {
    holds(provider, textStream(provider, random), random, textStream(provider, random))
  })

  property('damaged streams of text', CASES, (random) => {
    const bytes = textStream(provider, random)
    holds(provider, damaged(bytes, random), random, bytes)
  })
})

/** The bytes with every line end as CRLF. */
const withReturns = (bytes: Uint8Array) =>
  Buffer.from(Buffer.from(bytes).toString('latin1').replaceAll('\n', '\r\n'), 'latin1')

describe.each(TEXT_PROVIDERS)('%s: streams that alternate', (name) => {
  property('do not disturb each other, although they share what they have learned', CASES, (random) => {
    const provider = fresh(name)
    const first = textStream(name, random)
    const streams = [first, first, withReturns(first), textStream(name, random)]
    const slow = streams.map((bytes) => outcome(provider, [bytes], 0, 'decoded'))
    const readers = streams.map(() => new Reader(provider, 0, 'spliced'))
    const size = random.between(16, random.pick([1024, 8192]))
    for (let at = 0; streams.some((bytes) => at < bytes.length); at += size)
      for (const [index, reader] of readers.entries()) {
        const chunk = streams[index]?.subarray(at, at + size)
        if (chunk !== undefined && chunk.length > 0) reader.push(chunk)
      }
    expect(readers.map((reader) => reader.close())).toEqual(slow)
  })
})

/** How many of the frames of a stream are copied, beside the decoded ones. */
function copiedShare(name: TextProvider, stream: string, passes = false): number {
  let copied = 0
  let decoded = 0
  const sink = {
    event: ({ type }: { readonly type: string }) => {
      if (type === 'text' || type === 'reasoning') decoded++
    },
    texts: (insides: readonly string[]) => {
      copied += insides.length
    },
  }
  const decoder = new DecodeStream(fresh(name, passes), sink)
  decoder.push(Buffer.from(stream))
  return copied / (copied + decoded)
}

const FRAMES = Array.from({ length: 128 }, (_, at) => at)

describe('nearly all frames are copied', () => {
  const chat = (at: number, more: string) =>
    `data: {"id":"c","choices":[{"index":0,"delta":{"content":"w${at} "},"finish_reason":null}]${more}}\n\n`
  test.each([
    ['plain', (at: number) => chat(at, '')],
    ['padding of random length', (at: number) => chat(at, `,"obfuscation":"${'x'.repeat(1 + ((at * 7) % 16))}"`)],
    ['usage in every frame', (at: number) => chat(at, `,"usage":{"prompt_tokens":9,"completion_tokens":${at}}`)],
    ['a time', (at: number) => chat(at, `,"created":${1_763_650_000 + (at >> 4)}`)],
    ['a time with a fraction', (at: number) => chat(at, `,"timings":{"ms":${at}.25}`)],
    ['text that is not ASCII', (at: number) => chat(at, '').replace('w', '世界')],
  ])('openai: %s', (_, frame) => {
    expect(copiedShare('openai', FRAMES.map(frame).join(''))).toBeGreaterThan(0.95)
  })

  const pad = (at: number) => 'x'.repeat(1 + ((at * 7) % 16))
  test.each([
    [
      'as OpenAI writes them',
      (at: number) =>
        `"content_index":0,"delta":"w${at}","item_id":"msg_1","logprobs":[],"obfuscation":"${pad(at)}",` +
        `"output_index":1,"sequence_number":${at}`,
    ],
    [
      'with the number first',
      (at: number) =>
        `"sequence_number":${at},"item_id":"msg_1","output_index":1,"content_index":0,"delta":"w${at}","logprobs":[]`,
    ],
  ])('openai-responses: %s', (_, members) => {
    const frame = (at: number) =>
      `event: response.output_text.delta\ndata: {"type":"response.output_text.delta",${members(at)}}\n\n`
    expect(copiedShare('openai-responses', FRAMES.map(frame).join(''))).toBeGreaterThan(0.95)
  })

  test('gemini: usage in every frame, line ends CRLF', () => {
    const frame = (at: number) =>
      `data: {"candidates": [{"content": {"parts": [{"text": "w${at}"}],"role": "model"}}],"usageMetadata": ` +
      `{"promptTokenCount": 12,"candidatesTokenCount": ${at},"totalTokenCount": ${12 + at}}}\r\n\r\n`
    expect(copiedShare('gemini', FRAMES.map(frame).join(''))).toBeGreaterThan(0.95)
  })

  test('bedrock: padding of random length', () => {
    const frame = (at: number) =>
      'event: contentBlockDelta\n' +
      `data: {"contentBlockIndex":0,"delta":{"text":"w${at}"},"p":"${'a'.repeat(at % 9)}"}\n\n`
    expect(copiedShare('bedrock', FRAMES.map(frame).join(''))).toBeGreaterThan(0.95)
  })
})

describe('nearly all frames of thoughts are copied, and of the text after them', () => {
  const event = (name: string, members: object) =>
    `event: ${name}\ndata: ${JSON.stringify({ type: name, ...members })}\n\n`
  const chat = (delta: object) => `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta }] })}\n\n`
  const block = (index: number, type: string, field: string) => [
    event('content_block_start', { index, content_block: { type, [field]: '' } }),
    ...FRAMES.map((at) =>
      event('content_block_delta', { index, delta: { type: `${field}_delta`, [field]: `w${at}` } }),
    ),
    event('content_block_stop', { index }),
  ]
  const claude = [...block(0, 'thinking', 'thinking'), ...block(1, 'text', 'text')].join('')
  const part = (text: string, thought: object) =>
    `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text, ...thought }], role: 'model' } }] })}\n\n`
  const delta = (contentBlockIndex: number, delta: object) =>
    `event: contentBlockDelta\ndata: ${JSON.stringify({ contentBlockIndex, delta })}\n\n`
  test.each([
    ['openai', FRAMES.map((at) => chat({ reasoning_content: `w${at}` })).join('')],
    ['openai', FRAMES.map((at) => chat({ content: null, reasoning: `w${at}` })).join('')],
    ['anthropic', claude],
    [
      'openai-responses',
      FRAMES.map((at) =>
        event('response.reasoning_summary_text.delta', { delta: `w${at}`, item_id: 'rs_1', sequence_number: at }),
      ).join(''),
    ],
    ['gemini', FRAMES.map((at) => part(`w${at}`, { thought: true })).join('')],
    ['bedrock', FRAMES.map((at) => delta(0, { reasoningContent: { text: `w${at}` } })).join('')],
  ] as const)('%s', (name, thoughts) => {
    expect(copiedShare(name, thoughts)).toBeGreaterThan(0.9)
  })

  test('of Anthropic, also while its own blocks pass', () => {
    expect(copiedShare('anthropic', claude, true)).toBeGreaterThan(0.9)
  })

  test('words that a server sends twice leave the text after them as it is', () => {
    const twice = (at: number) =>
      chat({ reasoning: `w${at}`, reasoning_details: [{ type: 'reasoning.text', text: `w${at}` }] })
    const stream = [...FRAMES.map(twice), ...FRAMES.map((at) => chat({ content: `w${at}` }))].join('')
    expect(copiedShare('openai', stream)).toBeGreaterThan(0.45)
  })
})

describe('what a decoder reads is no hole', () => {
  test.each([
    ['a finish reason', '"finish_reason":"a"', '"finish_reason":"length"'],
    ['the index of the choice', '"index":0', '"index":1'],
    ['an error', '"object":"chunk"', '"object":"error"'],
    ['reasoning', '"reasoning":"a"', '"reasoning":"b"'],
  ])('%s', (_, value, other) => {
    const frame = (at: number, member: string) =>
      `data: {"choices":[{"delta":{"content":"w${at}"${member.startsWith('"reas') ? `,${member}` : ''}}` +
      `${/finish|index/.test(member) ? `,${member}` : ''}}]${member.startsWith('"obj') ? `,${member}` : ''}}\n\n`
    const bytes = Buffer.from(FRAMES.map((at) => frame(at, at % 5 === 4 ? other : value)).join(''))
    const slow = outcome(fresh('openai'), [bytes], 0, 'decoded')
    expect(outcome(fresh('openai'), [bytes], 0, 'spliced')).toEqual(slow)
  })
})

test('streams whose shape always differs soon cause no more proofs', () => {
  let made = 0
  const counting = {
    framer: openai.framer,
    decoder: () => {
      made++
      return openai.decoder()
    },
  }
  const stream = (from: number) =>
    FRAMES.map((at) => {
      return `data: {"choices":[{"index":0,"delta":{"content":"w${at}"}}],"x${from + at}":true}\n\n`
    }).join('')
  const read = (from: number) => {
    const decoder = new DecodeStream(counting, { event() {}, texts() {} })
    decoder.push(Buffer.from(stream(from)))
  }
  for (let streams = 0; streams < 100; streams++) read(streams * 64)
  made = 0
  read(0)
  expect(made).toBe(1)
})
