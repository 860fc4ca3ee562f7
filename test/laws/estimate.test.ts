/**
 * The laws of estimates: a text is estimated at no less than a third of a tokenizer's count, wherever it is in a
 * request, and nothing but image data costs less than a sixteenth of its bytes. What a model wrote is estimated the
 * same however it was split.
 */

import { describe, expect, test } from 'bun:test'
import { Tiktoken } from 'js-tiktoken/lite'
import ranks from 'js-tiktoken/ranks/o200k_base'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import { estimateInput, estimateText } from '../../src/ledger/estimate.ts'
import { jsonInside } from '../../src/wire/sse.ts'
import counts from '../fixtures/ledger/token-counts.json' with { type: 'json' }
import { plainRequest } from '../providers/requests.ts'
import type { Literal, Message } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'

const tokenizer = new Tiktoken(ranks)
/** The tokenizer's time grows with the square of a text without blanks. A cut adds one token at most. */
const CUT = 150

function tokensOf(text: string): number {
  let tokens = 0
  for (let at = 0; at < text.length; at += CUT) tokens += tokenizer.encode(text.slice(at, at + CUT), [], []).length
  return tokens
}

const LOWER = 'abcdefghijklmnopqrstuvwxyz'
const BASE64 = `${LOWER}${LOWER.toUpperCase()}0123456789+/`
/** The first and the last character of common and rare scripts. */
const SCRIPTS = [
  ...['àÿ', 'ΑωΘ', 'Ая', 'Ԁԯ', 'աֆ', 'את', 'ؠي', 'ܐܯ', 'ߊߧ', 'अह', 'অহ', 'ਅਹ', 'અહ', 'அஹ', 'ఆహ', 'ಅಹ', 'അഹ', 'අෆ'],
  ...[
    'กฮ',
    'ກຮ',
    'ཀཬ',
    'ကအ',
    'აჰ',
    'ᄀᇿ',
    'ሀፚ',
    'ᎠᏴ',
    'ᐁᙶ',
    'កហ',
    'ᠠᡷ',
    'ᏸᏽ',
    'ẠỹẤ',
    'ἀῼ',
    '←⋿',
    '⠀⣿',
    '─◿',
    '⺀⻳',
    'ぁゖ',
  ],
  ...[
    'ァヶ',
    '㄀ㄯ',
    '㐀䶵',
    '一龥',
    'ꀀꒌ',
    '가힣',
    '\ue000\uf8ff',
    '豈舘',
    'ﬀﬗ',
    '！～',
    '\u0300\u036f',
    '\u0001\u001f',
    'ɐʯ',
  ],
]

/** A text of a few thousand characters, of a random kind. */
function randomText(random: Random): string {
  const length = random.between(3000, 12_000)
  const of = (letters: string, every = 0) => {
    let text = ''
    for (let i = 0; i < length; i++)
      text += every > 0 && i % every === every - 1 ? ' ' : letters[random.below(letters.length)]
    return text
  }
  const run = (unit: string) => unit.repeat(Math.ceil(length / unit.length)).slice(0, length)
  switch (random.below(10)) {
    case 0:
      return of(LOWER, random.between(0, 12))
    case 1:
      return of(BASE64)
    case 2:
      return of(
        random.pick(['0123456789', '0123456789abcdef', 'aeiou', '{}[]",:', '!#$%&*+-./;<=>?@^_~', LOWER.toUpperCase()]),
        random.between(0, 8),
      )
    case 3:
      return of(random.pick([' \t', ' \n', '\r\n', ' \t\n', '\t\n']))
    case 4:
      return run(
        random.pick([
          'a',
          '=',
          ' ',
          '\n',
          '-',
          'ab',
          '. ',
          'a ',
          '1 ',
          'zq',
          'Ab',
          '{}',
          '","',
          '\n ',
          '字',
          '🙂',
          'é ',
          '0',
          '\\"',
        ]),
      )
    case 5:
    case 6: {
      const script = SCRIPTS[random.below(SCRIPTS.length)] ?? 'az'
      const [first, last] = [script.charCodeAt(0), script.charCodeAt(1)]
      const letters = String.fromCharCode(
        ...Array.from({ length: last - first + 1 }, (_, i) => first + i).slice(0, 5000),
      )
      return of(letters, random.between(0, 9))
    }
    default: {
      const { text } = counts[random.below(counts.length)] ?? { text: 'Hello ' }
      return run(text)
    }
  }
}

const request = (more: Partial<Literal>) => plainRequest({ messages: [], ...more })
const userMessage = (...texts: readonly string[]): Message => ({
  role: 'user',
  parts: texts.map((text) => ({ type: 'text', text })),
})
const called = (name: string, json: string): Message => ({
  role: 'assistant',
  parts: [],
  toolCalls: [{ callId: 'a', name, json }],
})
const schema = (parameters: JsonObject) => request({ tools: [{ name: 'f', parameters }] })
const native = (json: JsonObject) => request({ messages: [{ role: 'user', parts: [{ type: 'native', json }] }] })

function slices(text: string, size: number): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, at) => text.slice(at * size, (at + 1) * size))
}

/** The text with blanks at the positions that fixed windows would sample. */
function between(text: string, windows: number, width: number): string {
  const share = Math.ceil(text.length / (windows - 1))
  return ' '.repeat(width) + slices(text, share).join(' '.repeat(width)) + ' '.repeat(width)
}

const LAYOUTS: Readonly<Record<string, (text: string, random: Random) => ChatRequest>> = {
  'one text': (text) => request({ messages: [userMessage(text)] }),
  'a text of the system': (text) => request({ messages: [{ role: 'system', parts: [{ type: 'text', text }] }] }),
  'a refusal': (text) => request({ messages: [{ role: 'assistant', parts: [], refusal: text, toolCalls: [] }] }),
  'a result': (text) => request({ messages: [{ role: 'tool', callId: 'a', parts: [{ type: 'text', text }] }] }),
  'many tiny texts': (text, random) => request({ messages: [userMessage(...slices(text, random.between(1, 9)))] }),
  'many tiny messages': (text, random) =>
    request({ messages: slices(text, random.between(1, 60)).map((each) => userMessage(each)) }),
  arguments: (text) => request({ messages: [called('f', JSON.stringify({ text }))] }),
  'many arguments': (text, random) =>
    request({
      messages: slices(text, random.between(5, 500)).map((each) => called('f', JSON.stringify({ text: each }))),
    }),
  'the names of calls': (text, random) =>
    request({ messages: slices(text, random.between(5, 500)).map((each) => called(each, '{}')) }),
  'the names of tools': (text, random) =>
    request({ tools: slices(text, random.between(5, 500)).map((name) => ({ name, parameters: {} })) }),
  descriptions: (text) => request({ tools: [{ name: 'f', description: text, parameters: {} }] }),
  'the keys of a schema': (text, random) =>
    schema(Object.fromEntries(slices(text, random.between(20, 2000)).map((each, at) => [`${each}${at}`, 1]))),
  'one key of a schema': (text) => schema({ [text]: { type: 'string' } }),
  'the values of a schema': (text, random) => schema({ enum: slices(text, random.between(2, 3000)) }),
  'lists within lists': (text) =>
    schema({ enum: slices(text, 50).reduce<JsonObject>((inner, each) => ({ a: [each], b: inner }), {}) }),
  'one value of a schema': (text) => schema({ title: text }),
  'a value after what looks encoded': (text) => schema({ title: `${'QUJD'.repeat(400)}${text}` }),
  'the format of the answer': (text) =>
    request({ sampling: { responseFormat: { type: 'json_schema', json_schema: { schema: { [text]: text } } } } }),
  'a file that begins as one': (text) =>
    native({
      type: 'file',
      file: { file_data: `data:application/pdf;base64,${'QUJD'.repeat(400)} ${slices(text, 40).join(' ').repeat(4)}` },
    }),
  'a sound that begins as one': (text) =>
    native({
      type: 'input_audio',
      input_audio: { data: `${'QUJD'.repeat(400)} ${slices(text, 40).join(' ').repeat(4)}`, format: text },
    }),
  'a name of a file': (text) => native({ type: 'file', file: { file_data: 'QUJD', filename: text } }),
  'between sixteen windows': (text) => request({ messages: [userMessage(between(text.repeat(30), 16, 128))] }),
  'between windows of every size': (text, random) =>
    request({ messages: [userMessage(between(text.repeat(30), random.between(4, 400), random.between(16, 256)))] }),
  'at one place of every block': (text, random) => {
    const [block, width] = [random.pick([256, 512, 1024]), random.between(32, 96)]
    const pad = ' '.repeat(width)
    return request({ messages: [userMessage(slices(text.repeat(40), block - width).join(pad))] })
  },
  'after blanks': (text, random) =>
    request({ messages: [userMessage(' '.repeat(random.between(1, 4) * text.length) + text.repeat(20))] }),
  'in the middle of a long text': (text, random) =>
    request({
      messages: [userMessage('a '.repeat(100_000).slice(0, random.between(1, 5) * text.length) + text.repeat(20))],
    }),
}

/** How often a layout repeats the text. */
const TIMES: Readonly<Record<string, number>> = {
  'the format of the answer': 2,
  'a file that begins as one': 4,
  'a sound that begins as one': 5,
  'between sixteen windows': 30,
  'between windows of every size': 30,
  'at one place of every block': 40,
  'after blanks': 20,
  'in the middle of a long text': 20,
}

describe('a text is estimated at a third of its tokens at least, wherever it is', () => {
  for (const [name, layout] of Object.entries(LAYOUTS)) {
    property(name, 12, (random) => {
      const text = randomText(random)
      const real = tokensOf(text) * (TIMES[name] ?? 1)
      const estimated = estimateInput(layout(text, random))
      if (estimated * 3 < real) throw new Error(`${estimated} for ${real}: ${JSON.stringify(text.slice(0, 60))}`)
    })
  }
})

/** Requests with one long string, each in another place that takes one. */
const PLACES: readonly ((text: string) => ChatRequest)[] = [
  (text) => request({ messages: [userMessage(text)] }),
  (text) => request({ messages: [called(text, '')] }),
  (text) =>
    request({ messages: [{ role: 'assistant', parts: [], toolCalls: [{ callId: text, name: 'f', json: '' }] }] }),
  (text) => request({ messages: [{ role: 'tool', callId: text, parts: [] }] }),
  (text) => request({ messages: [{ role: 'user', parts: [{ type: 'image', source: { type: 'url', url: text } }] }] }),
  (text) =>
    request({
      messages: [
        { role: 'user', parts: [{ type: 'image', source: { type: 'base64', mediaType: text, data: 'AAAA' } }] },
      ],
    }),
  (text) =>
    request({
      messages: [
        { role: 'user', parts: [{ type: 'image', source: { type: 'base64', mediaType: 'text/plain', data: text } }] },
      ],
    }),
  (text) => request({ stop: [text] }),
  (text) => request({ hints: { user: text } }),
  (text) => request({ hints: { promptCacheKey: text } }),
  (text) => request({ hints: { serviceTier: text } }),
  (text) => request({ hints: { promptCacheOptions: { a: text } } }),
  (text) => request({ sampling: { logitBias: { [text]: 1 } } }),
  (text) => request({ sampling: { reasoningEffort: text } }),
  (text) => request({ sampling: { verbosity: text } }),
  (text) => request({ toolChoice: { mode: 'tool', name: text } }),
  (text) => request({ toolChoice: { mode: 'allowed', names: [text], required: true } }),
  (text) => schema({ a: text }),
  (text) => native({ type: 'file', file: { file_data: text } }),
  (text) => native({ type: 'input_audio', input_audio: { data: text } }),
]

property('nothing but the data of a picture costs less than a sixteenth of its bytes', 60, (random) => {
  const unit = random.pick([' ', 'a', 'A', '=', 'the word ', '\n', '0', 'é', '字', 'QUJD', '\t'])
  const text = unit.repeat(Math.ceil(random.between(2000, 600_000) / unit.length))
  for (const [place, make] of PLACES.entries()) {
    const tokens = estimateInput(make(text))
    if (tokens < Buffer.byteLength(text) / 16)
      throw new Error(`place ${place}: ${tokens} for ${text.length} of ${unit}`)
  }
})

test('windows are drawn for each process, and stay the same during its life', async () => {
  const program = `
    import { estimateText } from '${import.meta.dir}/../../src/ledger/estimate.ts'
    const text = Array.from({ length: 300_000 }, (_, at) => (at % 7 === 0 ? ' ' : at % 977 < 400 ? 'x' : 'e')).join('')
    console.log(estimateText(text), estimateText(text))`
  const run = async () =>
    await new Response(
      Bun.spawn([process.execPath, '-e', program], { stdio: ['ignore', 'pipe', 'ignore'] }).stdout,
    ).text()
  const figures = await Promise.all([run(), run(), run(), run()])
  for (const figure of figures) expect(new Set(figure.trim().split(' ')).size).toBe(1)
  expect(new Set(figures).size).toBeGreaterThan(1)
})

test('a body of 10 MiB is estimated in a fraction of the time that it takes to parse', () => {
  const text = (counts.find(({ kind }) => kind === 'prose')?.text ?? '').repeat(100).slice(0, 10_000)
  const long = text.repeat(1000)
  const bodies = [
    request({ messages: [userMessage(long)] }),
    request({ messages: slices(long, 2000).map((each) => userMessage(each)) }),
  ]
  for (const body of bodies) {
    const tries = Array.from({ length: 7 }, () => {
      const from = process.threadCpuUsage()
      estimateInput(body)
      const { user, system } = process.threadCpuUsage(from)
      return (user + system) / 1000
    })
    expect(Math.min(...tries)).toBeLessThan(30)
  }
  expect(estimateText(long)).toBeGreaterThan(1_000_000)
})

/** The usage meter's count of an answer that arrives as `texts` and the arguments of one call as `pieces`. */
function outputOf(texts: readonly string[], pieces: readonly string[], how: 'decoded' | 'copied'): number {
  const meter = new UsageMeter(1)
  if (how === 'copied') meter.addInsides(texts.length, texts.map(jsonInside).join(''))
  else for (const text of texts) meter.add({ type: 'text', text })
  meter.add({ type: 'tool-start', index: 0, callId: 'a', name: 'search' })
  for (const json of pieces) meter.add({ type: 'tool-delta', index: 0, json })
  return meter.count(true).usage.output
}

property('an answer is the same figure whole, in pieces, and copied', 100, (random) => {
  const text = randomText(random).repeat(random.chance(0.1) ? 60 : 1)
  const json = JSON.stringify({ text: randomText(random) })
  const whole = outputOf([text], [json], 'decoded')
  const most = random.pick([4, 100, text.length])
  for (const how of ['decoded', 'copied'] as const) {
    const inPieces = outputOf(random.pieces(text, most), random.pieces(json, most), how)
    expect(Math.abs(inPieces - whole)).toBeLessThanOrEqual(0.05 * whole)
  }
})
