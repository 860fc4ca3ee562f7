/**
 * The laws of thoughts, for random answers of every API with thoughts, in every dialect whose caller sees them: a
 * stream, however it is cut, has what the whole answer has; a stream that breaks off has no end; and what a caller
 * sends back reaches its issuer as the issuer wrote it.
 */

import { describe, expect } from 'bun:test'
import { compatibilityOf } from '../../src/core/compatibility.ts'
import { Fold } from '../../src/core/completion.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import { isObject, type JsonObject, type JsonValue, objectOf } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import type { ThoughtForm } from '../../src/core/thoughts.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import type { Dialect, DialectName, Exchange } from '../../src/dialects/dialect.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { DecodeStream } from '../../src/gateway/decode-stream.ts'
import { EncodeStream } from '../../src/gateway/encode-stream.ts'
import { EventCheck } from '../../src/gateway/event-check.ts'
import { OwnThoughts, thoughtsFor, withThoughts } from '../../src/gateway/own-thoughts.ts'
import { ShownThoughts, ThoughtSeals } from '../../src/gateway/shown-thoughts.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import { Sealer } from '../../src/items/sealer.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider, Target } from '../../src/providers/provider.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { sentText } from '../providers/conformance.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { endpoint } from '../providers/requests.ts'
import { answerText, bytesOf } from '../support/bytes.ts'
import { atOnce } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'
import { cuts } from '../support/streams.ts'
import { ANSWERS, contentOf, converseBlock, dataOf, listOf, outputOf } from '../support/thoughtful-answers.ts'

const CASES = 25
const SERVED = { model: 'm', createdAt: 1_763_650_000 }
const SEALER = new Sealer([Buffer.alloc(32, 7).toString('base64')])
const SEALS = new ThoughtSeals(SEALER, 'o')
const CALLER = {
  organization: 'o',
  compatibility: compatibilityOf({ mode: 'native', betas: 'off', tools: 'functions' }),
}

/** What the model of a provider writes, in Anthropic's words. */
type Blocks = readonly JsonObject[]

interface Api {
  readonly provider: Provider
  readonly model: string
  readonly form: ThoughtForm
  readonly answer: (blocks: Blocks) => { readonly whole: JsonObject; readonly stream: readonly (string | Uint8Array)[] }
  /** The answer in a body that gives it back, and how it must stand there. */
  readonly read: (body: JsonObject) => unknown
  readonly expected: (blocks: Blocks) => unknown
}

/** The blocks that hold thoughts and calls, in their order. */
const isNoText = ({ type }: JsonObject) => type !== 'text'

const APIS: Readonly<Record<string, Api>> = {
  anthropic: {
    ...{ provider: anthropic, model: 'claude-sonnet-4-5', form: 'messages' },
    answer: (blocks) => ANSWERS.anthropic(...blocks),
    read: ({ messages: turns }) => listOf(listOf(turns)[1]?.['content']).filter(isNoText),
    expected: (blocks) => blocks.filter(isNoText),
  },
  bedrock: {
    ...{ provider: bedrock, model: 'anthropic.claude-sonnet-4-5-v1:0', form: 'converse' },
    answer: (blocks) => ANSWERS.converse(...blocks),
    read: ({ messages: turns }) => listOf(listOf(turns)[1]?.['content']).filter((block) => block['text'] === undefined),
    expected: (blocks) => blocks.filter(isNoText).map(converseBlock),
  },
  'openai-responses': {
    ...{ provider: openaiResponses, model: 'gpt-5.1', form: 'responses' },
    answer: (blocks) => ANSWERS.responses(...itemsOf(blocks)),
    read: ({ input }) => listOf(input).filter(({ type }) => type === 'reasoning'),
    expected: (blocks) => itemsOf(blocks).filter(({ type }) => type === 'reasoning'),
  },
  gemini: {
    ...{ provider: gemini, model: 'gemini-3-pro', form: 'gemini' },
    answer: geminiAnswer,
    read: ({ contents }) => signaturesOf(listOf(listOf(contents)[1]?.['parts'])),
    expected: (blocks) => signaturesOf(partsOf(blocks)),
  },
  openai: {
    ...{ provider: openai, model: 'deep', form: 'chat' },
    answer: chatWith,
    read: ({ messages: turns }) => objectOf(listOf(turns)[1])?.['reasoning_content'],
    expected: (blocks) => wordsOf(blocks),
  },
}

const wordsOf = (blocks: Blocks) => blocks.map(({ thinking }) => thinking ?? '').join('')
const textOf = (blocks: Blocks) => blocks.map(({ text }) => text ?? '').join('')

function itemsOf(blocks: Blocks): JsonObject[] {
  return blocks.flatMap((block, at): JsonObject[] => {
    const { type, thinking, signature, text, id, name, input } = block
    if (type === 'thinking')
      return [
        {
          ...{ type: 'reasoning', id: `rs_${at}` },
          summary: String(thinking)
            .split('|')
            .map((part) => ({ type: 'summary_text', text: part })),
          encrypted_content: signature,
        },
      ]
    if (type === 'text')
      return [
        {
          type: 'message',
          id: `msg_${at}`,
          role: 'assistant',
          content: [{ type: 'output_text', text, annotations: [] }],
        },
      ]
    if (type !== 'tool_use') return []
    return [{ type: 'function_call', id: `fc_${at}`, call_id: id, name, arguments: JSON.stringify(input) }]
  })
}

/** Servers of Chat Completions get thoughts back with calls. */
function chatWith(blocks: Blocks) {
  const made = blocks.find(({ type }) => type === 'tool_use') ?? {}
  const { whole, stream } = ANSWERS.chat(wordsOf(blocks), textOf(blocks))
  const call = { name: made['name'], arguments: JSON.stringify(made['input']) }
  const tool_calls = [{ index: 0, id: made['id'], type: 'function', function: call }]
  const message = { ...whole.choices[0]?.message, tool_calls }
  const choices = [{ index: 0, delta: { tool_calls }, finish_reason: null }]
  const chunk = `data: ${JSON.stringify({ id: 'c', choices })}\n\n`
  return {
    whole: { ...whole, choices: [{ index: 0, message, finish_reason: 'tool_calls' }] },
    stream: [...stream.slice(0, -2), chunk, ...stream.slice(-2)],
  }
}

/** Texts of an even length are signed. A signature of a thought belongs to the call after it. */
function partsOf(blocks: Blocks): JsonObject[] {
  let waiting: JsonValue | undefined
  return blocks.flatMap(({ type, thinking, signature, text, id, name, input }): JsonObject[] => {
    if (type === 'thinking') {
      waiting = signature
      return [{ text: thinking, thought: true }]
    }
    if (type === 'text')
      return [{ text, ...(String(text).length % 2 === 0 && { thoughtSignature: `c2ln${String(text).length}` }) }]
    if (type !== 'tool_use') return []
    const part = {
      functionCall: { id, name, args: input },
      ...(waiting !== undefined && { thoughtSignature: waiting }),
    }
    waiting = undefined
    return [part]
  })
}

function signaturesOf(parts: readonly JsonObject[]): unknown[] {
  const calls = parts.filter((part) => part['functionCall'] !== undefined)
  const texts = parts.filter((part) => part['functionCall'] === undefined && part['thought'] !== true)
  return [
    ...texts.map((part) => part['thoughtSignature']),
    ...calls.map((part, at) => part['thoughtSignature'] ?? (at === 0 ? 'skip_thought_signature_validator' : undefined)),
  ]
}

function geminiAnswer(blocks: Blocks) {
  const chunk = (parts: readonly JsonObject[]) => ({
    candidates: [{ index: 0, finishReason: 'STOP', content: { role: 'model', parts: [...parts] } }],
  })
  const parts = partsOf(blocks)
  return { whole: chunk(parts), stream: parts.map((part) => `data: ${JSON.stringify(chunk([part]))}\n\n`) }
}

/** An answer with a text or a call, and thoughts before some of them. */
function randomBlocks(random: Random, isChat: boolean): Blocks {
  const words = () =>
    random.list(6, () => random.pick(['Hm', ' é', '"', '\\', ' 日本', '\n', '|', 'so', '👩‍👧', '\u2028'])).join('')
  const thought = (at: number): JsonObject =>
    !isChat && random.chance(0.15)
      ? { type: 'redacted_thinking', data: `cmVk${at}` }
      : { type: 'thinking', thinking: `T${at} ${words()}.`, signature: `c2ln${at}` }
  const call = (at: number) => ({
    ...{ type: 'tool_use', id: `toolu_${String(at).padStart(20, '0')}` },
    ...{ name: 'look', input: { at: words() } },
  })
  if (isChat) return [thought(0), { type: 'text', text: `A${words()}z` }, call(2)]
  const blocks: JsonObject[] = [thought(0)]
  if (random.chance(0.6)) blocks.push({ type: 'text', text: `A${words()}z` })
  for (let calls = random.below(3) + (blocks.length === 1 ? 1 : 0); calls > 0; calls--) {
    const at = blocks.length
    if (random.chance(0.4)) blocks.push(thought(at))
    blocks.push(call(at))
  }
  return blocks
}

const tool = { name: 'look', description: '', parameters: { type: 'object' } }
const QUESTION = { role: 'user', content: 'hi' }

interface Caller {
  readonly dialect: Dialect
  /** The request, with an answer and what follows it. */
  readonly body: (answer: JsonObject | undefined) => JsonObject
  /** What a caller makes of an answer, without the ids that differ from one answer to the next. */
  readonly read: (text: string, isStream: boolean) => unknown
  readonly last: string
}

const result = (id: JsonValue | undefined) => id ?? null

const CALLERS: Readonly<Record<DialectName, Caller>> = {
  messages: {
    dialect: messages({ toolResultImages: 'refuse' }),
    last: 'event: message_stop',
    body: (answer) => {
      const content = listOf(answer?.['content'])
      const results = content
        .filter(({ type }) => type === 'tool_use')
        .map(({ id }) => ({ type: 'tool_result', tool_use_id: result(id), content: 'seen' }))
      const turn = [
        { role: 'assistant', content },
        { role: 'user', content: results.length > 0 ? results : 'and?' },
      ]
      return {
        ...{ model: 'm', max_tokens: 20_000, thinking: { type: 'enabled', budget_tokens: 2000 } },
        tools: [{ name: 'look', input_schema: { type: 'object' } }],
        messages: [QUESTION, ...(answer === undefined ? [] : turn)],
      }
    },
    read: (text, isStream) => withoutSeals(contentOf(text, isStream)),
  },
  responses: {
    dialect: responses({ sealer: SEALER }),
    last: 'event: response.completed',
    body: (answer) => {
      const items = listOf(answer?.['output'])
      const results = items
        .filter(({ type }) => type === 'function_call')
        .map(({ call_id: id }) => ({ type: 'function_call_output', call_id: result(id), output: 'seen' }))
      return {
        ...{ model: 'm', reasoning: { summary: 'auto', effort: 'high' }, include: ['reasoning.encrypted_content'] },
        tools: [{ type: 'function', ...tool }],
        input: [QUESTION, ...items, ...(answer === undefined ? [] : results.length > 0 ? results : [QUESTION])],
      }
    },
    read: (text, isStream) => withoutSeals(outputOf(text, isStream)),
  },
  chat: {
    dialect: chat({ imageUrls: 'public' }),
    last: 'data: [DONE]',
    body: (answer) => {
      const message = objectOf(listOf(answer?.['choices'])[0]?.['message'])
      const results = listOf(message?.['tool_calls']).map(({ id }) => ({
        role: 'tool',
        tool_call_id: result(id),
        content: 'seen',
      }))
      const turn = message === undefined ? [] : [message, ...results]
      const tools = [{ type: 'function', function: tool }]
      return { model: 'm', reasoning_effort: 'high', tools, messages: [QUESTION, ...turn] }
    },
    read: chatAnswer,
  },
}

function chatAnswer(text: string, isStream: boolean): unknown {
  const parts = isStream
    ? dataOf(text).map(({ choices }) => objectOf(objectOf(listOf(choices)[0])?.['delta']) ?? {})
    : [objectOf(listOf(JSON.parse(text)['choices'])[0]?.['message']) ?? {}]
  const joined = (name: string) => parts.map((part) => part[name] ?? '').join('')
  const calls = parts.flatMap(({ tool_calls: made }) =>
    listOf(made).map((call) => objectOf(call['function'])?.['arguments']),
  )
  return [joined('reasoning_content'), joined('content'), calls.join('')]
}

/** Seals and ids differ each time; that there is one does not. */
function withoutSeals(value: JsonValue): JsonValue {
  return JSON.parse(
    JSON.stringify(value, (name, member) =>
      /^(?:signature|data|encrypted_content|id|call_id)$/.test(name)
        ? typeof member === 'string' && member !== ''
        : member,
    ),
  )
}

function exchangeOf({ dialect, body }: Caller, answer?: JsonObject, stream = false): Exchange {
  const bytes = Buffer.from(JSON.stringify({ ...body(answer), stream }))
  return atOnce(dialect.read(readRequestBody(bytes, dialect.unparsed), CALLER))
}

class Answering {
  readonly issuer: { readonly id: string; readonly form: ThoughtForm }

  constructor(
    private readonly api: Api,
    private readonly caller: Caller,
  ) {
    this.issuer = { id: 'there', form: api.form }
  }

  private shown(exchange: Exchange): ShownThoughts {
    const shows = exchange.request.reasoning?.shows
    if (shows === undefined) throw new Error('the caller sees no thoughts')
    return new ShownThoughts(shows, this.issuer, SEALS)
  }

  whole(body: JsonObject): string {
    const exchange = exchangeOf(this.caller)
    const fold = new Fold()
    const sink = { event: (event: StreamEvent) => fold.add(event), texts() {} }
    const check = new EventCheck(sink, undefined, undefined, this.shown(exchange))
    for (const event of this.api.provider.events(body)) check.event(event)
    if (fold.completion === undefined) throw new Error('the answer is not whole')
    const usage = { input: 1, output: 1, ...fold.completion.usage }
    return answerText(exchange.answer({ ...fold.completion, usage }, SERVED))
  }

  /** The caller's stream of these chunks, as far as they go. */
  stream(chunks: readonly Uint8Array[]): string {
    const exchange = exchangeOf(this.caller, undefined, true)
    const meter = new UsageMeter(1, 20_000)
    const encoded = new EncodeStream(exchange.encoder(SERVED, meter), meter)
    const check = new EventCheck(encoded, undefined, undefined, this.shown(exchange))
    const decoder = new DecodeStream({ ...this.api.provider }, check)
    try {
      for (const chunk of chunks) decoder.push(chunk)
      if (!decoder.ended) decoder.close()
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
    }
    return Buffer.from(encoded.take()).toString()
  }

  /** What the issuer gets of its answer, which the caller sends back. */
  sentBack(answer: string): JsonObject {
    const { request } = exchangeOf(this.caller, JSON.parse(answer))
    const own = OwnThoughts.open(request.conversation, SEALS)
    const target: Target = { endpoint: endpoint(), model: this.api.model }
    const thoughts = thoughtsFor(this.issuer, request.conversation, undefined, own)
    const body: unknown = JSON.parse(sentText(this.api.provider.request(withThoughts(request, thoughts), target).body))
    if (!isObject(body)) throw new Error('the body is not an object')
    return body
  }
}

const DIALECTS = ['messages', 'responses', 'chat'] as const

describe.each(Object.keys(APIS))('thoughts of %s', (name) => {
  const api = APIS[name]
  if (api === undefined) throw new Error('no such API')

  property('a stream has what the whole answer has, however it is cut, and no end before its own', CASES, (random) => {
    const dialect = random.pick(DIALECTS)
    const caller = CALLERS[dialect]
    const answering = new Answering(api, caller)
    const { whole, stream } = api.answer(randomBlocks(random, name === 'openai'))
    const expected = caller.read(answering.whole(whole), false)
    const bytes = Buffer.concat(stream.map((piece) => (typeof piece === 'string' ? bytesOf(piece) : piece)))
    for (const { name: cutting, chunks } of cuts(bytes, random, 0)) {
      const text = answering.stream(chunks)
      expect([dialect, cutting, caller.read(text, true), text.includes(caller.last)]).toEqual([
        dialect,
        cutting,
        expected,
        true,
      ])
    }
    const pieces = stream
      .slice(0, random.below(stream.length))
      .map((piece) => (typeof piece === 'string' ? bytesOf(piece) : piece))
    // Gemini has no final marker but a reason and the end of the bytes; the last piece of others is not needed to end.
    if (name !== 'gemini' && pieces.length < stream.length - 2)
      expect([dialect, answering.stream(pieces).includes(caller.last)]).toEqual([dialect, false])
  })

  const HOLDERS = api.form === 'chat' ? DIALECTS : (['messages', 'responses'] as const)
  property('what a caller sends back reaches the issuer as it wrote it', CASES, (random) => {
    const dialect = random.pick<DialectName>([HOLDERS[0], ...HOLDERS])
    const answering = new Answering(api, CALLERS[dialect])
    const blocks = randomBlocks(random, name === 'openai')
    const body = answering.sentBack(answering.whole(api.answer(blocks).whole))
    expect([dialect, api.read(body)]).toEqual([dialect, api.expected(blocks)])
  })
})
