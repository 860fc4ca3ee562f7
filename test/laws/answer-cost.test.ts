/**
 * No answer blocks other requests, whatever a provider sends: deep or many values, many calls, many blocks. Reading
 * takes time in proportion to its size, and ends as an answer or as a provider error, never as an error of weir.
 */

import { describe, test } from 'bun:test'
import { Fold } from '../../src/core/completion.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { chatAnswer } from '../../src/dialects/chat/answer.ts'
import { ChatEncoder } from '../../src/dialects/chat/stream.ts'
import { messagesAnswer } from '../../src/dialects/messages/answer.ts'
import { MessagesEncoder } from '../../src/dialects/messages/stream.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { DecodeStream } from '../../src/gateway/decode-stream.ts'
import { EventCheck } from '../../src/gateway/event-check.ts'
import { parseJson } from '../../src/gateway/provider-call.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { responsesReader } from '../../src/providers/openai/responses-request.ts'
import { stoppedReader } from '../../src/providers/openai/stop-decoder.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { Encoding } from '../support/encoding.ts'
import { readAtOnce } from '../support/literal.ts'
import { partOf } from '../support/part.ts'
import { ORGANIZATION, sealer, threadMs } from '../support/request-path.ts'

const LARGE = 4 * 1024 * 1024
const MS_MAX = 500
const GROWTH_MAX = 7
const NOISE_MS = 25
const TRIES = 4
const SLICE = 64 * 1024
const served = { model: 'm', createdAt: 1 }

const toResponses = readAtOnce(responses({ sealer }), { model: 'm', input: 'Hi' }, { organization: ORGANIZATION })
const ENCODERS = {
  chat: () => new Encoding(() => new ChatEncoder(served, true)),
  messages: () => new Encoding((meter) => new MessagesEncoder(served, meter)),
  responses: () => Encoding.of(toResponses, served),
}
const DIALECTS = ['chat', 'messages', 'responses'] as const

type Make = (bytes: number) => string

interface Hostile {
  readonly name: string
  readonly provider: Provider
  readonly whole?: Make
  readonly stream?: Make
}

const times = (unit: string, bytes: number) => unit.repeat(Math.ceil(bytes / unit.length))
const each = (bytes: number, unit: (index: number) => string, between = '') =>
  Array.from({ length: Math.ceil(bytes / (unit(99_999).length + between.length)) }, (_, index) => unit(index)).join(
    between,
  )
/** Generators of values of about `bytes` characters. */
const VALUES: Readonly<Record<string, Make>> = {
  'lists within lists': (bytes) => `{"a":${'['.repeat(bytes / 2)}${']'.repeat(bytes / 2)}}`,
  'objects within objects': (bytes) => `${'{"a":'.repeat(bytes / 6)}1${'}'.repeat(bytes / 6)}`,
  'many values': (bytes) => `{"a":[${times('1,', bytes)}1]}`,
  'many objects': (bytes) => `{"a":[${times('{"a":{}},', bytes)}1]}`,
  'one long text': (bytes) => `{"a":"${times('word ', bytes)}"}`,
  'one text of escapes': (bytes) => `{"a":"${times('\\"', bytes)}"}`,
}
const frame = (value: string) => `data: ${value}\n\n`
const delta = (value: string) => frame(`{"choices":[{"index":0,"delta":${value}}]}`)
const chatCall = (index: number | undefined, id: string, name: string, json: string) =>
  `{${index === undefined ? '' : `"index":${index},`}"id":"${id}",` +
  `"function":{"name":"${name}","arguments":${JSON.stringify(json)}}}`
const chatEnd = `${frame('{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}')}data: [DONE]\n\n`
const anthropicFrame = (type: string, more: string) => `event: ${type}\ndata: {"type":"${type}",${more}}\n\n`
const anthropicStart = anthropicFrame('message_start', '"message":{}')
const anthropicEnd =
  anthropicFrame('message_delta', '"delta":{"stop_reason":"tool_use"}') + anthropicFrame('message_stop', '"a":1')
const candidate = (parts: string, finish = '') => `{"candidates":[{"content":{"parts":[${parts}]}${finish}}]}`
/** A value split into frames of at most 10,000 characters. */
const inPieces = (json: string, piece: (text: string) => string) =>
  Array.from({ length: Math.ceil(json.length / 10_000) }, (_, at) =>
    piece(json.slice(at * 10_000, (at + 1) * 10_000)),
  ).join('')

const converse = (content: string) => `{"output":{"message":{"content":[${content}]}},"stopReason":"tool_use"}`

const hostile: Hostile[] = []
for (const [name, value] of Object.entries(VALUES)) {
  hostile.push(
    {
      name: `openai: arguments of ${name}`,
      provider: openai,
      whole: (bytes) => `{"choices":[{"message":{"tool_calls":[${chatCall(undefined, 'a', 'f', value(bytes))}]}}]}`,
      stream: (bytes) =>
        delta(`{"tool_calls":[${chatCall(0, 'a', 'f', '')}]}`) +
        inPieces(value(bytes), (text) =>
          delta(`{"tool_calls":[{"index":0,"function":{"arguments":${JSON.stringify(text)}}}]}`),
        ) +
        chatEnd,
    },
    {
      name: `openai: arguments as an object of ${name}`,
      provider: openai,
      whole: (bytes) =>
        `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":${value(bytes)}}}]}}]}`,
      stream: (bytes) =>
        delta(
          `{"tool_calls":[{"index":0,"id":"a",` +
            `"function":{"name":"f","arguments":${value(Math.min(bytes, 900_000))}}}]}`,
        ) + chatEnd,
    },
    {
      name: `openai: an error of ${name}`,
      provider: openai,
      whole: (bytes) => `{"error":{"detail":${value(bytes)}}}`,
      stream: (bytes) => frame(`{"error":{"detail":${value(Math.min(bytes, 900_000))}}}`),
    },
    {
      name: `anthropic: input of ${name}`,
      provider: anthropic,
      whole: (bytes) =>
        `{"content":[{"type":"tool_use","id":"a","name":"f","input":${value(bytes)}}],"stop_reason":"tool_use"}`,
      stream: (bytes) =>
        anthropicStart +
        anthropicFrame('content_block_start', '"index":0,"content_block":{"type":"tool_use","id":"a","name":"f"}') +
        inPieces(value(bytes), (text) =>
          anthropicFrame(
            'content_block_delta',
            `"index":0,"delta":{"type":"input_json_delta","partial_json":${JSON.stringify(text)}}`,
          ),
        ) +
        anthropicEnd,
    },
    {
      name: `anthropic: input of ${name} in the start of a block`,
      provider: anthropic,
      stream: (bytes) =>
        anthropicStart +
        anthropicFrame(
          'content_block_start',
          '"index":0,"content_block":{"type":"tool_use","id":"a","name":"f",' +
            `"input":${value(Math.min(bytes, 900_000))}}`,
        ) +
        anthropicEnd,
    },
    {
      name: `bedrock: input of ${name}`,
      provider: bedrock,
      whole: (bytes) => converse(`{"toolUse":{"toolUseId":"a","name":"f","input":${value(bytes)}}}`),
    },
    {
      name: `gemini: arguments of ${name}`,
      provider: gemini,
      whole: (bytes) => candidate(`{"functionCall":{"name":"f","args":${value(bytes)}}}`, ',"finishReason":"STOP"'),
      stream: (bytes) =>
        frame(
          candidate(
            `{"functionCall":{"name":"f","args":${value(Math.min(bytes, 900_000))}}}`,
            ',"finishReason":"STOP"',
          ),
        ),
    },
  )
}
const responsesCall = (index: number) => `{"type":"function_call","call_id":"c${index}","name":"f","arguments":""}`
const responsesEvent = (type: string, more: string) => frame(`{"type":"response.${type}",${more}}`)
const responsesEnd = (output: string) =>
  responsesEvent('completed', `"response":{"status":"completed","output":[${output}],"usage":{}}`)
/** The most and the longest that are taken. */
const STOP = Array.from({ length: 64 }, (_, at) => `${'a'.repeat(1020)}${at}`)

hostile.push(
  {
    name: 'openai: many calls',
    provider: openai,
    whole: (bytes) =>
      `{"choices":[{"message":{"tool_calls":[${each(bytes, (i) => chatCall(undefined, `a${i}`, 'f', '{}'), ',')}]}}]}`,
    stream: (bytes) => each(bytes, (i) => delta(`{"tool_calls":[${chatCall(i, `a${i}`, 'f', '{}')}]}`)) + chatEnd,
  },
  {
    name: 'openai: calls that only their ids distinguish',
    provider: openai,
    stream: (bytes) =>
      each(bytes, (i) => delta(`{"tool_calls":[${chatCall(undefined, `a${i % 4000}`, 'f', '{}')}]}`)) + chatEnd,
  },
  {
    name: 'openai: a name with each piece of the arguments',
    provider: openai,
    stream: (bytes) =>
      delta(`{"tool_calls":[${chatCall(0, 'a', 'f', '{"a":[')}]}`) +
      each(bytes, () => delta(`{"tool_calls":[${chatCall(0, 'a', 'f', '{},{}')}]}`)) +
      chatEnd,
  },
  {
    name: 'openai: a call that is summed up again and again',
    provider: openai,
    stream: (bytes) =>
      inPieces(`{"a":"${'x'.repeat(bytes / 2)}"}`, (text) => delta(`{"tool_calls":[${chatCall(0, 'a', 'f', text)}]}`)) +
      each(bytes / 2, () => delta(`{"tool_calls":[${chatCall(0, 'a', 'f', '{}')}]}`)) +
      chatEnd,
  },
  {
    name: 'openai: blanks as arguments',
    provider: openai,
    stream: (bytes) => each(bytes, () => delta(`{"tool_calls":[${chatCall(0, 'a', 'f', '  ')}]}`)) + chatEnd,
  },
  {
    name: 'openai: fresh ids for one call',
    provider: openai,
    stream: (bytes) =>
      delta(`{"tool_calls":[${chatCall(0, 'a', 'f', '{"a":"')}]}`) +
      each(bytes, (i) => delta(`{"tool_calls":[${chatCall(0, `b${i}`, 'f', 'xxxxxx}')}]}`)) +
      chatEnd,
  },
  {
    name: 'openai: texts that can and texts that cannot be copied in turn',
    provider: openai,
    stream: (bytes) =>
      each(bytes, (i) => delta(`{"content":"${i % 2 ? 'word' : '\\u00e9'}"}`)) + chatEnd.replace('tool_calls', 'stop'),
  },
  {
    name: 'openai: texts of escapes',
    provider: openai,
    stream: (bytes) => each(bytes, () => delta('{"content":"\\u4e16\\u754c"}')) + chatEnd.replace('tool_calls', 'stop'),
  },
  {
    name: 'anthropic: many blocks',
    provider: anthropic,
    whole: (bytes) => `{"content":[${each(bytes, () => '{"type":"text","text":"a"}', ',')}],"stop_reason":"end_turn"}`,
    stream: (bytes) =>
      anthropicStart +
      each(bytes, (i) =>
        anthropicFrame(
          'content_block_start',
          `"index":${i},"content_block":{"type":"tool_use","id":"a${i}","name":"f"}`,
        ),
      ) +
      anthropicEnd,
  },
  {
    name: 'anthropic: many calls',
    provider: anthropic,
    whole: (bytes) =>
      `{"content":[${each(bytes, () => '{"type":"tool_use","id":"a","name":"f","input":{}}', ',')}],` +
      '"stop_reason":"tool_use"}',
  },
  {
    name: 'bedrock: many calls',
    provider: bedrock,
    whole: (bytes) => converse(each(bytes, () => '{"toolUse":{"toolUseId":"a","name":"f","input":{}}}', ',')),
  },
  {
    name: 'gemini: many parts',
    provider: gemini,
    whole: (bytes) =>
      candidate(
        each(bytes, () => '{"text":"a"}', ','),
        ',"finishReason":"STOP"',
      ),
    stream: (bytes) =>
      each(bytes, () => frame(candidate('{"text":"a"},{"functionCall":{"name":"f"}}'))) +
      frame(candidate('', ',"finishReason":"STOP"')),
  },
  {
    name: 'gemini: many signed calls',
    provider: gemini,
    whole: (bytes) =>
      candidate(
        each(bytes, () => '{"functionCall":{"name":"f"},"thoughtSignature":"a"}', ','),
        ',"finishReason":"STOP"',
      ),
  },
  {
    name: 'openai-responses: texts beside calls without arguments',
    provider: openaiResponses,
    whole: (bytes) => `{"status":"completed","output":[${each(bytes, (i) => responsesCall(i), ',')}]}`,
    stream: (bytes) =>
      each(bytes / 4, (i) =>
        responsesEvent('output_item.added', `"output_index":${i % 4000},"item":${responsesCall(i)}`),
      ) +
      each(bytes / 2, () => responsesEvent('output_text.delta', '"output_index":9999,"delta":"a"')) +
      responsesEnd(''),
  },
  {
    name: 'openai-responses: a last event of escapes',
    provider: openaiResponses,
    stream: (bytes) =>
      responsesEvent('output_text.delta', '"delta":"a"') +
      responsesEnd(`{"type":"message","content":[{"type":"output_text","text":"${times('\\\\\\"', bytes)}"}]}`),
  },
  {
    name: 'openai-responses: texts that begin stop sequences',
    provider: { ...openaiResponses, ...stoppedReader(responsesReader, STOP) },
    stream: (bytes) => each(bytes / 4, () => responsesEvent('output_text.delta', '"delta":"aaaa"')) + responsesEnd(''),
  },
  { name: 'empty lines', provider: openai, stream: (bytes) => '\n'.repeat(bytes) },
  { name: 'empty data', provider: openai, stream: (bytes) => times('data:\n', bytes) },
  { name: 'comments', provider: openai, stream: (bytes) => times(':\r', bytes) },
)

type Case = readonly [name: string, prepare: (bytes: number) => () => void]

const cases = hostile.flatMap(({ name, provider, whole, stream }): readonly Case[] => [
  ...(whole === undefined ? [] : [[`${name}, whole`, (bytes: number) => readWhole(provider, whole(bytes))] as const]),
  ...(stream === undefined ? [] : DIALECTS).map(
    (dialect): Case => [
      `${name}, streamed to ${dialect}`,
      (bytes) => readStream(provider, stream?.(bytes) ?? '', dialect),
    ],
  ),
])

describe('the cost of an answer', () => {
  // Neighbours are the same answer in other dialects: the part has each in one of them at least.
  test.each(partOf(cases, 2))('%s', (_, prepare) => {
    const least = GROWTH_MAX * NOISE_MS
    const read = prepare(LARGE)
    const first = best(read, least, 1)
    // Most take so little time that no smaller one is needed to compare with.
    if (first <= least) return
    const small = best(prepare(LARGE / 4), NOISE_MS)
    const allowed = Math.min(MS_MAX, GROWTH_MAX * Math.max(small, NOISE_MS))
    const large = Math.min(first, best(read, allowed))
    if (large > allowed) throw new Error(`${Math.round(large)} ms after ${Math.round(small)} ms for a quarter of it`)
  })
})

/** The shortest of several times; stops at one that is short enough. */
function best(read: () => void, enough: number, most = TRIES): number {
  let least = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < most && least > enough; tries++) {
    const from = threadMs()
    try {
      read()
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
    }
    least = Math.min(least, threadMs() - from)
  }
  return least
}

function readWhole(provider: Provider, text: string): () => void {
  return () => {
    const [fold, meter] = [new Fold(), new UsageMeter(1)]
    const event = (each: StreamEvent) => {
      meter.add(each)
      fold.add(each)
    }
    const check = new EventCheck({ event, texts: () => {} }, undefined)
    for (const each of provider.events(parseJson(text, 200))) check.event(each)
    const { completion } = fold
    if (completion === undefined) throw new Error('the events have no end')
    JSON.stringify(chatAnswer(completion, served))
    JSON.stringify(messagesAnswer(completion, served))
    toResponses.answer(completion, served)
  }
}

function readStream(provider: Provider, text: string, dialect: keyof typeof ENCODERS): () => void {
  const bytes = Buffer.from(text)
  return () => {
    const encoding = ENCODERS[dialect]()
    const meter = new UsageMeter(1)
    let written = 0
    const decoder = new DecodeStream(provider, {
      event(event: StreamEvent) {
        meter.add(event)
        written += encoding.add(event).length
      },
      texts(insides, joined, kind) {
        if (kind === 'reasoning') return meter.addThought(joined)
        meter.addInsides(insides.length, joined)
        written += encoding.copy(insides).length
      },
    })
    for (let at = 0; at < bytes.length && !decoder.ended; at += SLICE) decoder.push(bytes.subarray(at, at + SLICE))
    if (!decoder.ended) decoder.close()
    if (written < 0) throw new Error('nothing was written')
  }
}
