/**
 * Whose figures are charged and shown: the provider's if they are usable, else our own count, which is marked as one.
 */

import { describe, expect, test } from 'bun:test'
import { isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { type Answer, ask } from '../support/caller.ts'
import * as does from '../support/scenarios.ts'
import { lastingUpstream } from '../support/served.ts'
import { Serving } from '../support/serving.ts'
import type { Scenario } from '../support/upstream.ts'
import { chat, lastingStage, STREAM, seen } from './stage.ts'

/** Our own count of the content below. */
const OWN = { input: 6, output: 3 }

interface Row {
  readonly name: string
  /** The usage that the provider reports, report by report. */
  readonly reports: readonly JsonValue[]
  readonly usage: 'provider' | 'estimated'
  readonly input: number
  readonly cached?: number
  readonly output: number
}

const report = (prompt_tokens: JsonValue, completion_tokens: JsonValue, more: JsonObject = {}): JsonObject => ({
  ...{ prompt_tokens, completion_tokens },
  ...more,
})

const rows: readonly Row[] = [
  { name: 'both', reports: [report(11, 22)], usage: 'provider', input: 11, output: 22 },
  { name: 'zero', reports: [report(0, 0)], usage: 'estimated', ...OWN },
  { name: 'absurd', reports: [report(10 ** 12, 10 ** 12)], usage: 'estimated', ...OWN },
  {
    name: 'cached',
    reports: [report(1000, 5, { prompt_tokens_details: { cached_tokens: 900 } })],
    ...{ usage: 'provider', input: 1000, cached: 900, output: 5 },
  },
  {
    name: 'reasoning',
    reports: [report(11, 500, { completion_tokens_details: { reasoning_tokens: 490 } })],
    ...{ usage: 'provider', input: 11, output: 500 },
  },
  { name: 'none', reports: [], usage: 'estimated', ...OWN },
  { name: 'null', reports: [null], usage: 'estimated', ...OWN },
  { name: 'empty', reports: [{}], usage: 'estimated', ...OWN },
  { name: 'nulls', reports: [report(null, null)], usage: 'estimated', ...OWN },
  { name: 'negative', reports: [report(-1, -5)], usage: 'estimated', ...OWN },
  { name: 'strings', reports: [report('11', '22')], usage: 'estimated', ...OWN },
  { name: 'fractions', reports: [report(1.5, 2.5)], usage: 'estimated', ...OWN },
  { name: 'beyond-numbers', reports: [report(1e300, 2 ** 53)], usage: 'estimated', ...OWN },
  { name: 'input-only', reports: [report(11, null)], usage: 'estimated', input: 11, output: OWN.output },
  { name: 'output-only', reports: [report(null, 22)], usage: 'estimated', input: OWN.input, output: 22 },
  { name: 'twice', reports: [report(1, 1), report(11, 22)], usage: 'provider', input: 11, output: 22 },
  { name: 'null-last', reports: [report(11, 22), null], usage: 'provider', input: 11, output: 22 },
]

const [role = '', hello = '', finish = '', done = ''] = does.chatFrames(['Hello there'], { usage: false })

/** Usage in a whole body, or in events of its own before the content, after it, and after the finish. */
function reporting(reports: readonly JsonValue[]): Scenario {
  return (call) => {
    const chunks = reports.map((usage) => `data: ${JSON.stringify({ choices: [], usage })}\n\n`)
    const [early, ...late] = chunks.length > 1 ? chunks : ['', ...chunks]
    const body = { ...JSON.parse(does.chatBody('Hello there')), usage: reports.at(-1) }
    if (call.json['stream'] === true)
      return does.stream([role + early, hello, finish, late.join(''), done].filter((one) => one !== ''))(call)
    return does.json(200, JSON.stringify(body))(call)
  }
}

const THOUGHT = 'I ponder '.repeat(150)
const thought = (field: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { [field]: THOUGHT } }] })}\n\n`
const usageChunk = (usage: JsonValue) => `data: ${JSON.stringify({ choices: [], usage })}\n\n`

/** Thinks before it answers, and reports no usage. */
function thinking(field: string): Scenario {
  return (call) => {
    if (call.json['stream'] === true) return does.stream([role, thought(field), hello, finish, done])(call)
    const message = { role: 'assistant', content: 'Hello there', [field]: THOUGHT }
    return does.json(200, JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] }))(call)
  }
}

const cutting = rows.map(({ name, reports }) => {
  const usage = reports.map((one) => `data: ${JSON.stringify({ choices: [], usage: one })}\n\n`)
  return [`${name}-cut`, does.stalls([role, ...usage, hello])] as const
})
const stage = await lastingStage({
  ...Object.fromEntries(rows.map(({ name, reports }) => [name, reporting(reports)] as const)),
  ...Object.fromEntries(cutting),
  ...Object.fromEntries(
    ['reasoning_content', 'reasoning'].map((field) => [`thinks-${field}`, thinking(field)] as const),
  ),
  'thinks-and-reports': does.stream([role, thought('reasoning'), hello, finish, usageChunk(report(11, 320)), done]),
  'thinks-cut': does.stalls([role, thought('reasoning'), hello]),
  'grows-cut': does.stalls([role, `data: ${JSON.stringify({ choices: [], usage: report(11, 1) })}\n\n`, hello, hello]),
})

function charged({ input, cached = 0, output }: Pick<Row, 'input' | 'cached' | 'output'>): JsonObject {
  const cost = Math.ceil(input - cached + cached * 0.1 + output * 10)
  return { input_tokens: input, cached_input_tokens: cached, output_tokens: output, cost_micro_usd: cost }
}

describe('figures in the log line and in the answer', () => {
  test.each(rows)('$name', async (row) => {
    const streamed = await stage.ask(row.name, { ...STREAM, stream_options: { include_usage: true } })
    expect(seen(streamed.text)).toEqual({ text: 'Hello there', finish: 'stop', done: true })
    expect(await stage.lineOf(streamed)).toMatchObject({ usage: row.usage, ...charged(row), outcome: 'completed' })
    const shown = { prompt_tokens: row.input, completion_tokens: row.output, total_tokens: row.input + row.output }
    expect(usageIn(streamed.text)).toMatchObject(shown)
    const without = await stage.ask(row.name, STREAM)
    expect(without.text).not.toContain('usage')
    expect(await stage.lineOf(without)).toMatchObject(charged(row))
    // A body has but one report, and its last is null: our own count.
    if (row.name === 'null-last') return
    const whole = await stage.ask(row.name)
    expect(whole.json()).toMatchObject({ usage: shown })
    expect(await stage.lineOf(whole)).toMatchObject({ usage: row.usage, ...charged(row) })
  })
})

describe('a stream that breaks off', () => {
  test.each(rows)('$name', async (row) => {
    const answer = await cutAfter(`${row.name}-cut`, 1)
    // A figure that the provider reported before the last content is too small.
    const output = Math.max(row.output, OWN.output)
    const usage = row.usage === 'provider' && output === row.output ? 'provider' : 'estimated'
    expect(await stage.lineOf(answer)).toMatchObject({ outcome: 'provider_cut', usage, ...charged({ ...row, output }) })
  })

  test('what came after the last report counts', async () => {
    const answer = await cutAfter('grows-cut', 2)
    const line = await stage.lineOf(answer)
    expect(line).toMatchObject({ usage: 'estimated', input_tokens: 11 })
    // Rounded once: the count is that of the whole text, wherever its pieces were cut.
    expect(line['output_tokens']).toBe(2 * OWN.output - 1)
  })
})

test('a stream that fails is charged what the provider reports with its failure', async () => {
  const usage = { input_tokens: 11, output_tokens: 22 }
  const failure = { status: 'failed', error: { code: 'server_error', message: 'boom' }, usage }
  const events = [
    { type: 'response.created', response: {} },
    { type: 'response.output_text.delta', delta: 'Hello there' },
    { type: 'response.failed', response: failure },
  ]
  const upstream = await lastingUpstream({
    m: does.stream(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)),
  })
  const up = { dialect: 'openai', api: 'responses', base_url: upstream.url, api_key: 'provider-key' }
  await using weir = new Serving({ providers: { up }, models: { m: ['up/m'] } })
  const answer = await ask(weir.port, chat('m', STREAM))
  expect([answer.text.includes('Hello there'), answer.end]).toEqual([true, 'cut'])
  const line = await weir.lineOf(answer.header('x-request-id'))
  expect(line).toMatchObject({ outcome: 'provider_cut', usage: 'provider', ...charged({ input: 11, output: 22 }) })
})

describe('thoughts are not shown, and are charged', () => {
  test.each(['reasoning_content', 'reasoning'])('%s of a provider that reports nothing', async (field) => {
    for (const stream of [true, false]) {
      const answer = await stage.ask(`thinks-${field}`, { stream })
      expect([answer.status, answer.text.includes('Hello there'), answer.text.includes('ponder')]).toEqual([
        200,
        true,
        false,
      ])
      const line = await stage.lineOf(answer)
      expect(line).toMatchObject({ usage: 'estimated', outcome: 'completed' })
      // 300 words of thought, and the answer's.
      expect(Number(line['output_tokens'])).toBeWithin(250, 900)
    }
  })

  test('a report of the provider counts instead', async () => {
    const answer = await stage.ask('thinks-and-reports', STREAM)
    expect(await stage.lineOf(answer)).toMatchObject({ usage: 'provider', output_tokens: 320 })
  })

  test('a stream that breaks off after its thoughts', async () => {
    const line = await stage.lineOf(await cutAfter('thinks-cut', 1))
    expect(line).toMatchObject({ outcome: 'provider_cut', usage: 'estimated' })
    expect(Number(line['output_tokens'])).toBeWithin(250, 900)
  })
})

/** The answer of a provider that disconnects after the caller has seen this many pieces. */
async function cutAfter(model: string, pieces: number): Promise<Answer> {
  await using caller = await stage.caller(model, STREAM)
  while ((await caller.until('Hello there')).split('Hello there').length <= pieces) await Bun.sleep(1)
  ;(await stage.call(model)).close()
  const answer = await caller.answer()
  expect(answer.end).toBe('cut')
  return answer
}

/** The usage of the last chunk that has one. */
function usageIn(text: string): JsonValue | undefined {
  const chunks = text
    .split('\n\n')
    .flatMap((event) => (event.startsWith('data: {') ? [JSON.parse(event.slice(6))] : []))
  return chunks.map((chunk) => chunk.usage).findLast(isObject)
}
