/**
 * The laws over every recorded stream of every provider, in all three dialects of callers: what the manifest states
 * comes out, in the strict grammar, whatever the cuts between the chunks, with the learnt text path and without it, and
 * never a made-up end.
 */

import { describe, expect, test } from 'bun:test'
import type { Completion } from '../../src/core/completion.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { chatAnswer } from '../../src/dialects/chat/answer.ts'
import { ChatEncoder } from '../../src/dialects/chat/stream.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { messagesAnswer } from '../../src/dialects/messages/answer.ts'
import { MessagesEncoder } from '../../src/dialects/messages/stream.ts'
import { DecodeStream } from '../../src/gateway/decode-stream.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import type { TextKind } from '../../src/wire/template.ts'
import { accept, plain, SERVED } from '../dialects/responses/setting.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { answerText, sha256 } from '../support/bytes.ts'
import { fold } from '../support/decode.ts'
import { Encoding } from '../support/encoding.ts'
import { type Fixture, fixtures, type Wanted } from '../support/fixtures.ts'
import { Random } from '../support/random.ts'
import { cuts } from '../support/streams.ts'
import { type Meaning, meaningOf } from './reading.ts'

const PROVIDERS: Readonly<Record<string, Provider>> = {
  ...{ openai, azure, anthropic, gemini, bedrock },
  'vertex-gemini': vertexGemini,
  'openai-responses': openaiResponses,
  'vertex-claude': vertexClaude,
}
const STREAMS = ['text/event-stream', 'application/vnd.amazon.eventstream']
const DIALECTS: readonly DialectName[] = ['chat', 'responses', 'messages']

/** Above this many bytes only some cuts are tried, and only some beginnings. */
const MANY_BYTES = 3000

const ENCODERS: Readonly<Record<DialectName, () => Encoding>> = {
  chat: () => new Encoding(() => new ChatEncoder(SERVED, true, 'chatcmpl-1')),
  responses: () => Encoding.of(accept({ input: 'x', stream: true }), SERVED),
  messages: () => new Encoding((meter) => new MessagesEncoder(SERVED, meter, 'msg_1')),
}

const ANSWERS: Readonly<Record<DialectName, (completion: Completion) => JsonObject>> = {
  chat: (completion) => chatAnswer(completion, SERVED),
  responses: (completion) => JSON.parse(answerText(accept({ input: 'x' }).answer(completion, SERVED))),
  messages: (completion) => messagesAnswer(completion, SERVED),
}

/** What a provider's bytes are to an encoder: its calls, in order. They are the same for every dialect. */
type Step = StreamEvent | readonly string[]

interface Reading {
  readonly steps: readonly Step[]
  readonly error: ProviderError | undefined
}

/** Reads chunks that end cleanly after the last one. */
function read(provider: Provider, chunks: readonly Uint8Array[], splice: 'spliced' | 'decoded' = 'spliced'): Reading {
  const steps: Step[] = []
  const sink = {
    event: (event: StreamEvent) => void steps.push(event),
    texts(insides: readonly string[], _: string, kind: TextKind) {
      if (kind === 'text') steps.push([...insides])
      else steps.push(...insides.map((inside) => ({ type: kind, text: JSON.parse(`"${inside}"`) })))
    },
  }
  const decoder = new DecodeStream(provider, sink, splice)
  try {
    for (const chunk of chunks) if (!decoder.ended) decoder.push(chunk)
    if (!decoder.ended) decoder.close()
    return { steps, error: undefined }
  } catch (error) {
    if (error instanceof ProviderError) return { steps, error }
    throw error
  }
}

/** A step as the events that it stands for. */
const eventsOf = (step: Step): readonly StreamEvent[] =>
  isTexts(step) ? step.map((inside) => ({ type: 'text', text: JSON.parse(`"${inside}"`) })) : [step]

const isTexts = (step: Step): step is readonly string[] => Array.isArray(step)

function written(dialect: DialectName, { steps }: Reading): string {
  const encoding = ENCODERS[dialect]()
  return steps.map((step) => (isTexts(step) ? encoding.copy(step) : encoding.add(step))).join('')
}

/** The same bytes of all dialects, with what is made up anew each time out of the way. */
function allWritten(reading: Reading): string {
  return DIALECTS.map((dialect) => plain(written(dialect, reading)))
    .join('')
    .replace(/call_[\w-]{24}/g, 'call_minted')
}

const ENDS: Readonly<Record<DialectName, RegExp>> = {
  chat: /^data: \[DONE\]$|[^\\]"finish_reason":"/m,
  responses: /^event: response\.completed$/m,
  messages: /^event: message_(?:delta|stop)$/m,
}

function checkMeaning(meaning: Meaning, wanted: Wanted, provider: string): void {
  const text = meaning.text
  if (wanted.text_sha256 === undefined) expect(text).toBe((wanted.text ?? '') + (wanted.refusal ?? ''))
  else expect(sha256(text)).toBe(wanted.text_sha256)
  const made = wanted.tool_calls ?? []
  expect(meaning.calls.map(({ name }) => name)).toEqual(made.map(({ name }) => name))
  for (const [index, call] of made.entries()) {
    const got = meaning.calls[index]
    if (call.arguments !== undefined) expect(got?.input).toEqual(JSON.parse(call.arguments || '{}'))
    // Calls of Gemini that carry a signature get an id of ours.
    if (call.id && provider !== 'gemini') expect(got?.id).toBe(call.id)
  }
}

/** The bytes up to here, for every place, or for some of all kinds if there are many. */
function* beginnings(bytes: Uint8Array): Generator<Uint8Array> {
  const step = bytes.length > MANY_BYTES ? Math.ceil(bytes.length / 50) : 1
  for (let end = 0; end < bytes.length; end += step) yield bytes.subarray(0, end)
  if (step > 1) for (let back = 1; back < 60; back++) yield bytes.subarray(0, bytes.length - back)
}

function laws(name: string, provider: Provider, fixture: Fixture): void {
  const { bytes, expect: wanted } = fixture
  const whole = read(provider, [bytes])

  test.each(DIALECTS)('order and fold: %s', (dialect) => {
    const text = written(dialect, whole)
    expect(whole.error === undefined).toBe(wanted.terminal)
    expect(ENDS[dialect].test(text)).toBe(wanted.terminal)
    if (!wanted.terminal) return
    const meaning = meaningOf(dialect, true, text)
    checkMeaning(meaning, wanted, name)
    // Fold: a whole answer of the same events means the same.
    const body = JSON.stringify(ANSWERS[dialect](fold(whole.steps.flatMap(eventsOf))))
    expect(meaningOf(dialect, false, body)).toEqual(meaning)
  })

  test('what the model thought comes out apart, to be counted', () => {
    const thought = whole.steps
      .flatMap((step) => (!isTexts(step) && step.type === 'reasoning' ? [step.text] : []))
      .join('')
    expect(thought).toBe(wanted.reasoning ?? '')
    for (const dialect of DIALECTS) if (thought !== '') expect(written(dialect, whole)).not.toContain(thought)
  })

  test('splice', () => {
    const decoded = read(provider, [bytes], 'decoded')
    expect(allWritten(whole) === allWritten(decoded)).toBe(true)
    expect(whole.error?.message).toBe(decoded.error?.message)
  })

  test('chunking', () => {
    const expected = allWritten(whole)
    for (const { name: cutting, chunks } of cuts(bytes, new Random(1), 800)) {
      if (bytes.length > 64 * 1024 && cutting === 'byte by byte') continue
      const cut = read(provider, chunks)
      expect({ cutting, same: allWritten(cut) === expected, error: cut.error?.kind }).toEqual({
        cutting,
        same: true,
        error: whole.error?.kind,
      })
    }
  })

  test('cut', () => {
    for (const part of beginnings(bytes)) {
      const reading = read(provider, [part])
      for (const dialect of DIALECTS) {
        const ended = ENDS[dialect].test(written(dialect, reading))
        expect({ at: part.length, dialect, ended }).toEqual({
          at: part.length,
          dialect,
          ended: reading.error === undefined,
        })
      }
      // A beginning that is taken for whole means all that the whole means.
      if (reading.error !== undefined || !wanted.terminal) continue
      const meaning = meaningOf('messages', true, written('messages', reading))
      checkMeaning(meaning, wanted, name)
    }
  })
}

for (const [name, provider] of Object.entries(PROVIDERS)) {
  const folder = name === 'azure' ? 'openai/azure' : `${name}/`
  const all = fixtures(folder)

  describe(name, () => {
    test('its fixtures are there', () => expect(all.length).toBeGreaterThan(2))

    describe.each(
      all.filter(({ content_type }) => STREAMS.includes(content_type)).map((each) => [each.file, each] as const),
    )('%s', (_, fixture) => laws(name, provider, fixture))

    test.each(
      all.filter(({ content_type }) => content_type === 'application/json').map((each) => [each.file, each] as const),
    )('as a whole answer: %s', (_, { bytes, expect: wanted }) => {
      const steps = provider.events(JSON.parse(Buffer.from(bytes).toString()))
      for (const dialect of DIALECTS)
        checkMeaning(meaningOf(dialect, true, written(dialect, { steps, error: undefined })), wanted, name)
    })
  })
}
