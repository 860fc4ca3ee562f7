/**
 * Thoughts that callers hold, against providers that reject what they have not issued: a conversation that goes from
 * one provider to another and back, and callers that alter, forge and replay.
 */

import { beforeEach, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf } from '../../../src/core/json.ts'
import { invoked } from '../../providers/bedrock/writer.ts'
import { ask, requestBytes } from '../../support/caller.ts'
import { KEY } from '../../support/gateway.ts'
import { Random } from '../../support/random.ts'
import { stream as streams } from '../../support/scenarios.ts'
import { SEED } from '../../support/seed.ts'
import { served } from '../../support/served.ts'
import { ANSWERS, contentOf, listOf, outputOf } from '../../support/thoughtful-answers.ts'
import type { Call } from '../../support/upstream.ts'

const OTHER_KEY = 'other-key-0123456789abcdefgh'
const CLAUDE_ON_BEDROCK = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const NAMES = ['claude', 'twin', 'gpt', 'gem', 'aws'] as const
type Name = (typeof NAMES)[number]

const { upstream, gateway } = await served((url) => {
  const at = (name: Name) => ({ base_url: url, api_key: `secret-of-${name}` })
  return {
    providers: {
      claude: { dialect: 'anthropic', ...at('claude') },
      twin: { dialect: 'anthropic', ...at('twin') },
      gpt: { dialect: 'openai', api: 'responses', ...at('gpt') },
      gem: { dialect: 'gemini', ...at('gem') },
      aws: { dialect: 'bedrock', region: 'us-east-1', ...at('aws') },
    },
    models: {
      claude: ['claude/claude-sonnet-4-5'],
      twin: ['twin/claude-sonnet-4-5'],
      gpt: ['gpt/gpt-5.1'],
      gem: ['gem/gemini-3-pro'],
      aws: [`aws/${CLAUDE_ON_BEDROCK}`],
      'claude-first': { targets: [{ provider: 'claude', model: 'claude-sonnet-4-5' }], fallbacks: ['twin', 'gpt'] },
      'gem-first': { targets: [{ provider: 'gem', model: 'gemini-3-pro' }], fallbacks: ['aws', 'claude'] },
    },
    config: {
      compatibility: { mode: 'native' },
      // What callers send back must do: weir keeps nothing.
      continuity: { keep_seconds: 0 },
      organizations: [
        { id: 'test', keys: [{ id: 'program', key: KEY }] },
        { id: 'other', keys: [{ id: 'other', key: OTHER_KEY }] },
      ],
    },
  }
})

/** What a provider signs, in base64, with its name in clear: what reaches another is seen at once. */
function signed(name: Name, words: string): string {
  const mark = createHmac('sha256', `key of ${name}`).update(words).digest('hex')
  return Buffer.from(`signed by ${name}: ${mark}`).toString('base64')
}

/** The providers' view: which of them answers, what they reject, and how many thoughts of their own they got back. */
const world = { serving: 'claude' as Name, turn: 0, problems: [] as string[], returned: 0 }

beforeEach(() => {
  world.turn = 0
  world.problems = []
  upstream.otherwise(answer)
})

function nameOf(call: Call): Name {
  const key = `${call.header('x-api-key')} ${call.header('authorization')} ${call.header('x-goog-api-key')}`
  const name = NAMES.find((one) => key.includes(`secret-of-${one}`))
  if (name === undefined) throw new Error('a call without a key')
  return name
}

/** One provider: down unless it serves; strict about all that it gets. */
function answer(call: Call): void | Promise<void> {
  const name = nameOf(call)
  const form = call.path.includes('/converse') ? 'converse' : FORMS[name]
  const problem = problemsIn(name, form, call.json)
  if (problem !== undefined) {
    world.problems.push(`${name}: ${problem}`)
    return call.answer(400, JSON.stringify({ error: { type: 'invalid_request_error', message: problem } }))
  }
  if (name !== world.serving) return call.answer(529, '{"error":{"type":"overloaded_error","message":"busy"}}')
  const words = `${name} thinks "${world.turn}".`
  const id = `${name}-${String(world.turn++).padStart(20, '0')}`
  const isStream = call.json['stream'] === true || /[Ss]tream/.test(call.path)
  const { whole, stream } = ANSWERING[form](name, words, id)
  if (!isStream) return call.answer(200, JSON.stringify(whole))
  if (name !== 'aws') return streams(stream)(call)
  const frames = stream.flatMap((one) => (typeof one === 'string' ? invoked([one]) : [one]))
  return streams(frames, { 'content-type': 'application/vnd.amazon.eventstream' })(call)
}

type Form = 'messages' | 'converse' | 'responses' | 'gemini'
const FORMS = { claude: 'messages', twin: 'messages', gpt: 'responses', gem: 'gemini', aws: 'messages' } as const

const ANSWERING: Readonly<
  Record<
    Form,
    (name: Name, words: string, id: string) => { readonly whole: JsonObject; readonly stream: (string | Uint8Array)[] }
  >
> = {
  messages: (name, words, id) => ANSWERS.anthropic(...blocksOf(name, words, id)),
  converse: (name, words, id) => ANSWERS.converse(...blocksOf(name, words, id)),
  responses: (name, words, id) =>
    ANSWERS.responses(
      {
        ...{ type: 'reasoning', id: `rs_${id}`, summary: [{ type: 'summary_text', text: words }] },
        encrypted_content: signed(name, words),
      },
      {
        type: 'function_call',
        id: `fc_${id}`,
        call_id: `call_${id}`,
        name: 'look',
        arguments: JSON.stringify({ at: id }),
      },
    ),
  gemini: (name, words, id) => {
    const call = { functionCall: { id, name: 'look', args: { at: id } }, thoughtSignature: signed(name, id) }
    const chunk = (...parts: readonly JsonObject[]) => ({
      candidates: [{ index: 0, finishReason: 'STOP', content: { role: 'model', parts: [...parts] } }],
    })
    const thought = { text: words, thought: true }
    const text = { text: `I look at ${id}.`, thoughtSignature: signed(name, `I look at ${id}.`) }
    const stream = [chunk(thought), chunk(text), chunk(call)].map((each) => `data: ${JSON.stringify(each)}\n\n`)
    return { whole: chunk(thought, text, call), stream }
  },
}

function blocksOf(name: Name, words: string, id: string): readonly JsonObject[] {
  return [
    { type: 'thinking', thinking: words, signature: signed(name, words) },
    { type: 'text', text: 'I look.' },
    { type: 'redacted_thinking', data: signed(name, 'redacted') },
    { type: 'tool_use', id: `toolu_${id}`, name: 'look', input: { at: id } },
  ]
}

/** What a provider rejects: all that it has not signed, and turns without the thoughts that it requires. */
function problemsIn(name: Name, form: Form, json: JsonObject): string | undefined {
  const others = NAMES.find((one) => one !== name && JSON.stringify(signaturesIn(json)).includes(`signed by ${one}:`))
  if (others !== undefined) return `a signature of ${others}`
  if (form === 'gemini') return geminiProblem(json)
  if (form === 'responses') return responsesProblem(name, json)
  if (form === 'converse') return converseProblem(name, json)
  const messages = listOf(json['messages'])
  for (const { content } of messages)
    for (const block of listOf(content)) {
      if (block['type'] !== 'thinking' && block['type'] !== 'redacted_thinking') continue
      const isOwn =
        block['type'] === 'thinking'
          ? block['signature'] === signed(name, String(block['thinking']))
          : block['data'] === signed(name, 'redacted')
      if (!isOwn) return 'messages.1.content.0: Invalid `signature` in `thinking` block'
      world.returned++
    }
  const [before, last] = messages.slice(-2)
  const isResult = listOf(last?.['content'])[0]?.['type'] === 'tool_result'
  const starts = String(listOf(before?.['content'])[0]?.['type'])
  const isOn = objectOf(json['thinking'])?.['type'] === 'enabled'
  return isOn && isResult && !starts.includes('thinking') ? 'Expected `thinking`, but found another block' : undefined
}

function converseProblem(name: Name, json: JsonObject): string | undefined {
  for (const { content } of listOf(json['messages']))
    for (const block of listOf(content)) {
      const reasoning = objectOf(block['reasoningContent'])
      if (reasoning === undefined) continue
      const { text, signature } = objectOf(reasoning['reasoningText']) ?? {}
      const data = reasoning['redactedContent']
      const isOwn = data === undefined ? signature === signed(name, String(text)) : data === signed(name, 'redacted')
      if (!isOwn) return 'Invalid signature in a reasoning block'
      world.returned++
    }
  return undefined
}

function responsesProblem(name: Name, json: JsonObject): string | undefined {
  const input = listOf(json['input'])
  for (const [at, item] of input.entries()) {
    if (item['type'] !== 'reasoning') continue
    const words = listOf(item['summary']).map(({ text }) => text)
    if (item['encrypted_content'] !== signed(name, words.join('|')))
      return 'The encrypted content could not be verified'
    if (input[at + 1] === undefined || input[at + 1]?.['role'] === 'user') return 'reasoning without its following item'
    world.returned++
  }
  return undefined
}

function geminiProblem(json: JsonObject): string | undefined {
  for (const { role, parts } of listOf(json['contents']))
    for (const [at, part] of listOf(parts).entries()) {
      const call = objectOf(part['functionCall'])
      const signature = part['thoughtSignature']
      if (role !== 'model' || call === undefined) {
        const isOwn = role === 'model' && signature === signed('gem', String(part['text']))
        if (signature !== undefined && !isOwn) return 'a signature that belongs to no call and no text'
        if (isOwn) world.returned++
        continue
      }
      const id = String(objectOf(call['args'])?.['at'])
      const isFirst = !listOf(parts)
        .slice(0, at)
        .some((one) => one['functionCall'] !== undefined)
      if (signature === signed('gem', id)) world.returned++
      else if (signature !== 'skip_thought_signature_validator' && (signature !== undefined || isFirst))
        return 'Thought signature is not valid.'
    }
  return undefined
}

/** Every string that is base64 of a signature, decoded. */
function signaturesIn(value: JsonValue | undefined): string[] {
  if (typeof value === 'string') return /^[\w+/=]{40,}$/.test(value) ? [Buffer.from(value, 'base64').toString()] : []
  if (isArray(value)) return value.flatMap(signaturesIn)
  return isObject(value) ? Object.values(value).flatMap(signaturesIn) : []
}

/** How a caller of a dialect asks, and sends an answer back with the result of its call. */
const CALLERS = {
  '/v1/messages': {
    body: { max_tokens: 20_000, thinking: { type: 'enabled', budget_tokens: 4000 } },
    tools: [{ name: 'look', input_schema: { type: 'object' } }],
    history: 'messages',
    read: contentOf,
    back: (blocks: readonly JsonObject[]): JsonObject[] => {
      const id = blocks.find(({ type }) => type === 'tool_use')?.['id'] ?? null
      return [
        { role: 'assistant', content: [...blocks] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'seen' }] },
      ]
    },
  },
  '/v1/responses': {
    body: {
      ...{ store: false, reasoning: { effort: 'high', summary: 'auto' }, max_output_tokens: 20_000 },
      include: ['reasoning.encrypted_content'],
    },
    tools: [{ type: 'function', name: 'look', parameters: { type: 'object' } }],
    history: 'input',
    read: outputOf,
    back: (items: readonly JsonObject[]): JsonObject[] => {
      const call = items.find(({ type }) => type === 'function_call')?.['call_id'] ?? null
      return [...items, { type: 'function_call_output', call_id: call, output: 'seen' }]
    },
  },
} as const
const PATHS = ['/v1/messages', '/v1/responses'] as const
type Path = (typeof PATHS)[number]

async function asked(path: Path, model: string, history: readonly JsonObject[], stream: boolean, key = KEY) {
  const caller = CALLERS[path]
  const body = { model, stream, tools: caller.tools, ...caller.body, [caller.history]: history }
  return ask(gateway.port, requestBytes(path, { key, body }))
}

/** Who answers, one turn after the other. No target fails so often, three times in a row or half of the
 * time, that it is skipped. */
const TURNS: Readonly<Record<string, readonly Name[]>> = {
  'claude-first': ['claude', 'twin', 'claude', 'gpt', 'claude', 'claude', 'twin', 'claude', 'gpt', 'claude', 'claude'],
  'gem-first': ['gem', 'aws', 'gem', 'claude', 'gem', 'gem', 'aws', 'gem', 'claude', 'gem', 'aws', 'gem', 'gem'],
  'another model each time': [
    'claude',
    'gem',
    'gpt',
    'aws',
    'twin',
    'gem',
    'claude',
    'aws',
    'gpt',
    'gem',
    'twin',
    'aws',
  ],
}

describe.each(PATHS)('%s', (path) => {
  test.each(Object.entries(TURNS))(
    'providers in turn under one conversation accept every turn: %s',
    async (model, turns) => {
      const random = new Random(5)
      const caller = CALLERS[path]
      const history: JsonObject[] = [{ role: 'user', content: 'hi' }]
      const issued = new Map<Name, number>()
      for (const serving of turns) {
        world.serving = serving
        world.returned = 0
        const stream = random.chance(0.5)
        const got = await asked(path, model.endsWith('-first') ? model : serving, history, stream)
        expect([serving, got.status, world.problems]).toEqual([serving, 200, []])
        // The provider that answers got back all that it has issued; with a fallback, those before it did, too.
        expect([serving, world.returned >= (issued.get(serving) ?? 0)]).toEqual([serving, true])
        const thoughts = serving === 'gpt' ? 1 : 2
        issued.set(serving, (issued.get(serving) ?? 0) + thoughts)
        history.push(...caller.back(caller.read(got.text, stream)))
      }
    },
  )
})

/** Where the seals of an answer are: the objects that hold them, and in which member. */
function sealsIn(value: JsonValue): { readonly holder: Record<string, JsonValue>; readonly name: string }[] {
  if (isArray(value)) return value.flatMap(sealsIn)
  if (!isObject(value)) return []
  const own = ['signature', 'data', 'encrypted_content'].flatMap((name) =>
    typeof value[name] === 'string' ? [{ holder: value as Record<string, JsonValue>, name }] : [],
  )
  return [...own, ...Object.values(value).flatMap((member) => sealsIn(member ?? null))]
}

const ODD: readonly [JsonValue, ...JsonValue[]] = [
  null,
  0,
  '',
  ' ',
  [],
  {},
  true,
  '\ud800',
  'Zm9yZ2Vk',
  'A'.repeat(70_000),
]

/** A history with up to three changes of its thoughts. */
function forged(history: readonly JsonObject[], foreign: readonly string[], random: Random): JsonObject[] {
  const copy: JsonObject[] = structuredClone([...history])
  for (let changes = random.between(1, 3); changes > 0; changes--) {
    const seals = sealsIn(copy)
    const one = seals[random.below(seals.length)]
    if (one === undefined) break
    const { holder, name } = one
    const seal = String(holder[name])
    const at = random.below(seal.length + 1)
    const other = seals[random.below(seals.length)] ?? one
    const [theirs = ''] = foreign.slice(random.below(foreign.length))
    const bytes = Buffer.from(seal, 'base64')
    if (bytes.length > 0) bytes[random.below(bytes.length)] = random.below(256)
    holder[name] = random.pick<JsonValue>([
      ...([
        seal.slice(0, at),
        seal + seal,
        `${seal.slice(0, at)}=${seal.slice(at)}`,
        seal.replaceAll('+', '-'),
      ] as const),
      ...([bytes.toString('base64'), other.holder[other.name] ?? null, theirs, random.pick(ODD)] as const),
    ])
    if (random.chance(0.2)) {
      const words = random.pick(['thinking', 'summary', 'type', 'id'])
      if (holder[words] !== undefined) holder[words] = random.pick<JsonValue>(['Other words.', random.pick(ODD)])
    }
  }
  return copy
}

const FORGED = 300

describe.each(PATHS)('forged, foreign and replayed seals: %s', (path) => {
  test('reach nobody but their issuer, and are never an error of ours', async () => {
    const caller = CALLERS[path]
    const question: JsonObject[] = [{ role: 'user', content: 'hi' }]
    const histories: JsonObject[][] = []
    for (const [key, name] of [
      ...NAMES.map((each) => [KEY, each] as const),
      ...NAMES.map((each) => [OTHER_KEY, each] as const),
    ]) {
      world.serving = name
      const got = await asked(path, name, question, false, key)
      expect(got.status).toBe(200)
      histories.push([...question, ...caller.back(caller.read(got.text, false))])
    }
    const foreign = histories.flatMap((history) => sealsIn(history).map(({ holder, name }) => String(holder[name])))
    const statuses = new Map<number, number>()
    const random = new Random(SEED)
    for (let at = 0; at < FORGED; at++) {
      const history = forged(histories[random.below(NAMES.length)] ?? question, foreign, random)
      const target = random.pick(NAMES)
      world.serving = target
      const got = await asked(path, target, history, random.chance(0.5), random.pick([KEY, KEY, OTHER_KEY]))
      statuses.set(got.status, (statuses.get(got.status) ?? 0) + 1)
      if (got.status !== 200 && got.status !== 400)
        throw new Error(`seed ${SEED}, case ${at}: ${got.status} ${got.text}`)
      expect({ seed: SEED, at, problems: world.problems }).toEqual({ seed: SEED, at, problems: [] })
      expect(
        signaturesIn([...got.text.matchAll(/"([\w+/=]{40,})"/g)].map(([, text = '']) => text)).join(),
      ).not.toContain('signed by')
    }
    // Most changes leave a valid request, which is answered without the thought.
    expect(statuses.get(200) ?? 0).toBeGreaterThan(FORGED / 2)
  })
})
