/**
 * The law of what a socket keeps: a turn that continues others, of which nothing is read or written again, comes to the
 * same request, error and estimate as the body of a POST with the whole history.
 */

import { expect, test } from 'bun:test'
import { forEachMark } from '../../src/catalog/request-marks.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import { compatibilityOf } from '../../src/core/compatibility.ts'
import { isArray, type JsonObject, type JsonValue, parseObject } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import type { Caller } from '../../src/dialects/dialect.ts'
import { type ReadInput, readRights } from '../../src/dialects/responses/earlier-input.ts'
import { responses, type Turn } from '../../src/dialects/responses/responses.ts'
import { continuedBody, keptInput, type TurnBody } from '../../src/http/continued-body.ts'
import { readFrame } from '../../src/http/socket-frames.ts'
import { estimateInput } from '../../src/ledger/estimate.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider, Target } from '../../src/providers/provider.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { CALLER, sealer } from '../dialects/responses/setting.ts'
import { sentText } from '../providers/conformance.ts'
import { endpoint } from '../providers/requests.ts'
import { atOnce } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'
import { bodyOf, USUAL } from './large-bodies.ts'
import { isCallerError } from './versions.ts'

const dialect = responses({ sealer })
type Asked = readonly [Provider, Target]
const OPENAI = 'https://api.openai.com/v1'
const TARGETS: readonly [Asked, ...Asked[]] = [
  [openai, { model: 'gpt-4.1', endpoint: endpoint({ apiKey: 'k', baseUrl: OPENAI, api: 'responses' }) }],
  [openai, { model: 'gpt-5', endpoint: endpoint({ apiKey: 'k', baseUrl: OPENAI, api: 'responses' }) }],
  [openai, { model: 'gpt-4.1', endpoint: endpoint({ apiKey: 'k', baseUrl: OPENAI, api: 'chat' }) }],
  [anthropic, { model: 'claude-sonnet-4-5', endpoint: endpoint({ apiKey: 'k', baseUrl: 'https://provider.test' }) }],
]
/** One whose key passes more than the specification has. */
const NATIVE: Caller = {
  ...CALLER,
  compatibility: { ...compatibilityOf({}), content: 'pass', tools: 'pass', reasoning: 'pass' },
}

/** What one turn comes to, and what was read of its input. */
interface Reading {
  readonly outcome: JsonObject
  readonly read: ReadInput | undefined
}

const turnOf = (body: TurnBody, read: Turn['read']): Turn => ({
  ...{ previousResponseId: null, earlier: body.earlier?.read, read },
  encodes() {},
  made() {},
})

function readingOf(body: TurnBody, caller: Caller, targets: readonly Asked[]): Reading {
  let read: ReadInput | undefined
  const turn = turnOf(body, (input) => {
    read = input
  })
  try {
    const { request } = atOnce(dialect.readTurn(readRequestBody(body.bytes, dialect.unparsed), caller, turn))
    const sent = targets.map(([provider, target]) => sentOrError(() => provider.request(request, target).body))
    return { outcome: { sent, estimate: estimateInput(request), marks: marksOf(request) }, read }
  } catch (error) {
    if (!isCallerError(error)) throw error
    return { outcome: { error: error.message, status: error.status }, read: undefined }
  }
}

/** The fields of the cache marks, which the error names if a model does not take one. */
function marksOf(request: ChatRequest): JsonValue[] {
  const marks: JsonValue[] = []
  forEachMark(request, ({ ttl, path }) => marks.push([ttl ?? null, path ?? null]))
  return marks
}

function sentOrError(body: () => Parameters<typeof sentText>[0]): JsonValue {
  try {
    return parseObject(sentText(body())) ?? null
  } catch (error) {
    if (error instanceof ProviderError) return error.message
    throw error
  }
}

/** Texts are no turns of an agent: now and then an input is one. */
function inputsOf(random: Random, items: readonly JsonValue[]): JsonValue[] {
  const inputs: JsonValue[] = []
  for (let at = 0; at < items.length; ) {
    if (random.chance(0.1)) inputs.push(random.pick(['And then?', '', 'x'.repeat(9000)]))
    const end = at + random.between(1, random.chance(0.3) ? items.length : 4)
    inputs.push(items.slice(at, end))
    at = end
  }
  return inputs
}

const itemsOf = (input: JsonValue): readonly JsonValue[] =>
  isArray(input) ? input : [{ type: 'message', role: 'user', content: input }]

function expectContinued(random: Random, text: string): void {
  const body = parseObject(text)
  if (body === undefined || !isArray(body['input'])) return
  const { stream: _, previous_response_id: __, ...settings } = body
  expectTurns(random, settings, inputsOf(random, body['input']), random.pick([CALLER, NATIVE]))
}

/** All but the input is of each turn alone. */
const OTHER_SETTINGS: readonly [JsonObject, ...JsonObject[]] = [
  { reasoning: { effort: 'low' } },
  { instructions: 'Other words.' },
  { instructions: null },
  { tools: [] },
  { tools: [{ type: 'custom', name: 'f' }] },
  // A call of `f` in the namespace `n` was sent under the first name until now.
  {
    tools: [
      { type: 'function', name: 'n__f' },
      { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'f' }] },
    ],
  },
]

/**
 * Each turn continues the one before, or an earlier one, whose last items are its output. A reload may have given the
 * key of the caller other rights in between.
 */
function expectTurns(random: Random, usual: JsonObject, inputs: readonly JsonValue[], usualCaller: Caller): void {
  const known: {
    readonly input: ReturnType<typeof keptInput>
    readonly output: string
    readonly items: JsonValue[]
  }[] = []
  for (const input of inputs) {
    const settings = random.chance(0.2) ? { ...usual, ...random.pick(OTHER_SETTINGS) } : usual
    const caller: Caller = random.chance(0.1) ? random.pick([CALLER, NATIVE]) : usualCaller
    const parent = random.chance(0.1) ? random.pick([undefined, ...known]) : known.at(-1)
    const targets = random.chance(0.2) ? [random.pick(TARGETS)] : TARGETS
    const frame = readFrame(JSON.stringify({ ...settings, type: 'response.create', input }))
    if ('reply' in frame) throw new Error('no turn')
    const whole = [...(parent?.items ?? []), ...itemsOf(input)]
    const posted = {
      bytes: Buffer.from(JSON.stringify({ ...settings, type: 'response.create', input: whole })),
      input: undefined,
    }
    let turn: TurnBody
    try {
      turn = parent === undefined ? frame : continuedBody(frame, parent, readRights(caller.compatibility, 'public'))
    } catch (error) {
      // A result without a call, which a POST may have.
      if (!isCallerError(error)) throw error
      continue
    }
    const { outcome, read } = readingOf(turn, caller, targets)
    expect(outcome).toEqual(readingOf(posted, caller, targets).outcome)
    if (outcome['error'] !== undefined) continue
    const output = random.chance(0.3)
      ? []
      : [{ type: 'message', role: 'assistant', content: random.pick(['Yes', 'é"']) }]
    const items = [...whole, ...output]
    known.push({ input: keptInput(turn, read), output: output.map((item) => JSON.stringify(item)).join(), items })
  }
}

property('turns of what agents send', 25, (random) => expectContinued(random, USUAL.responses(random)))
property('turns of unusual bodies', 200, (random) => expectContinued(random, bodyOf('responses', random, 2000)))
property('turns of small bodies', 200, (random) => expectContinued(random, bodyOf('responses', random, 40)))

const call: JsonObject = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
/** So many items of a kind as one request may have, and what comes before them. */
const LIMITED: readonly { readonly most: number; readonly item: JsonValue; readonly before?: JsonValue }[] = [
  { most: 4096, item: call },
  { most: 4096, item: { type: 'function_call_output', call_id: 'c', output: '' }, before: call },
  { most: 1024, item: { role: 'user', content: [{ type: 'input_image', image_url: 'https://example.com/a.png' }] } },
  // Values in the arguments of calls, and structural bytes of the whole body: 250,000 of each.
  { most: 2, item: { ...call, arguments: JSON.stringify(Array.from({ length: 120_000 }, () => 0)) } },
  { most: 2, item: { type: 'unknown', values: Array.from({ length: 120_000 }, () => 0) } },
]

property('turns with calls of tools in namespaces', 40, (random) => {
  const call = (name: string, namespace: string): JsonObject => ({
    ...{ type: 'function_call', call_id: `c_${random.below(1e6)}`, arguments: '{}' },
    ...{ name, namespace },
  })
  const items = random.list(12, () =>
    random.pick<JsonValue>([
      { role: 'user', content: 'é'.repeat(random.below(900)) },
      call('f', random.pick(['n', 'm m', ''])),
      { type: 'reasoning', summary: [], encrypted_content: 'x' },
      { type: 'custom_tool_call', call_id: `c_${random.below(1e6)}`, name: 'f', input: 'text' },
      { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'q' } },
      { type: 'additional_tools', tools: [{ type: 'function', name: 'n__f' }] },
    ]),
  )
  const tools = [{ type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'f' }] }]
  expectTurns(random, { model: 'm', tools }, inputsOf(random, [{ role: 'user', content: 'Hi' }, ...items]), NATIVE)
})

property('turns that reach a limit of requests together', 10, (random) => {
  const { most, item, before } = LIMITED[random.seed % LIMITED.length] ?? { most: 1, item: call }
  const items = Array.from({ length: most + random.below(2) }, () => item)
  const at = most - random.between(0, Math.min(3, most - 1))
  const first = [{ role: 'user', content: 'Hi' }, ...(before === undefined ? [] : [before]), ...items.slice(0, at - 1)]
  const inputs = [first, items.slice(at - 1, at), items.slice(at)].filter(({ length }) => length > 0)
  expectTurns(random, { model: 'm' }, inputs, NATIVE)
})

test.each(['responses', 'chat'])(
  'what a provider got by %s is not written again, also if every turn has calls',
  (api) => {
    const target: Target = { model: 'gpt-4.1', endpoint: endpoint({ apiKey: 'k', baseUrl: OPENAI, api }) }
    let parent: Parameters<typeof continuedBody>[1] | undefined
    let sent: readonly Uint8Array[] = []
    for (let turns = 0; turns < 100; turns++) {
      const input = [{ type: 'function_call_output', call_id: `call_${turns}`, output: 'x'.repeat(2000) }]
      const text = JSON.stringify({
        type: 'response.create',
        model: 'm',
        input: turns === 0 ? 'x'.repeat(9000) : input,
      })
      const frame = readFrame(text)
      if ('reply' in frame) throw new Error('no turn')
      const body = parent === undefined ? frame : continuedBody(frame, parent, readRights(undefined, 'public'))
      let read: ReadInput | undefined
      const turn = turnOf(body, (one) => {
        read = one
      })
      const exchange = atOnce(dialect.readTurn(readRequestBody(body.bytes, dialect.unparsed), CALLER, turn))
      const { body: written } = openai.request(exchange.request, target)
      if (typeof written === 'string' || written === undefined) throw new Error('a body without pieces')
      const again = [...written].filter((piece) => sent.some((one) => isSame(one, piece)))
      expect(again.length).toBe(sent.length)
      const output = JSON.stringify({ ...call, call_id: `call_${turns + 1}` })
      parent = { input: keptInput(body, read), output }
      sent = parent.input.read?.sent?.written(api)?.bytes.pieces() ?? []
      expect(sent.length).toBeGreaterThan(0)
    }
  },
)

/** The same memory. */
function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.buffer === other.buffer && one.byteOffset === other.byteOffset && one.length === other.length
}
