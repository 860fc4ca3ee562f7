/** One answer in the words of each provider, streamed and whole: what the five APIs write for the same thing said. */

import { EventStreamCodec } from '@smithy/eventstream-codec'
import type { ProviderDialect } from '../../src/config/provider-dialects.ts'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import * as does from './scenarios.ts'
import type { Call, Scenario } from './upstream.ts'

export interface Spoken {
  readonly id: string
  readonly name: string
  /** The arguments as JSON. */
  readonly json: string
}

export interface Speech {
  readonly text: string
  readonly calls: readonly Spoken[]
  readonly finish: 'stop' | 'length' | 'filter' | 'calls'
}

export const SPEECH_USAGE = { input: 11, output: 7 } as const

/** How a provider writes. Streams come in pieces, one a packet. */
interface Language {
  readonly streamType: string
  whole(speech: Speech): JsonObject
  streamed(speech: Speech): readonly (string | Uint8Array)[]
  /** Whether a request is for a stream. */
  streams(call: Call): boolean
}

const { input, output } = SPEECH_USAGE

/** Text and arguments in pieces that cut characters of two halves. */
function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,5}/g) ?? []
}

const sse = (data: JsonObject) => `data: ${JSON.stringify(data)}\n\n`

const CHAT_FINISH = { stop: 'stop', length: 'length', filter: 'content_filter', calls: 'tool_calls' } as const
const CHAT_USAGE = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }

const chat: Language = {
  streamType: 'text/event-stream',
  streams: (call) => call.json['stream'] === true,
  whole({ text, calls, finish }) {
    const tool_calls = calls.map(({ id, name, json }) => ({
      id,
      type: 'function',
      function: { name, arguments: json },
    }))
    const message = { role: 'assistant', content: text === '' ? null : text, ...(calls.length > 0 && { tool_calls }) }
    const choice = { index: 0, message, finish_reason: CHAT_FINISH[finish] }
    return {
      id: 'chatcmpl-up',
      object: 'chat.completion',
      created: 1,
      model: 'up',
      choices: [choice],
      usage: CHAT_USAGE,
    }
  },
  streamed({ text, calls, finish }) {
    const head = { id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 1, model: 'up' }
    const chunk = (delta: JsonObject, finish_reason: string | null = null) =>
      sse({ ...head, choices: [{ index: 0, delta, finish_reason }] })
    const tool = (index: number, more: JsonObject) => chunk({ tool_calls: [{ index, ...more }] })
    return [
      chunk({ role: 'assistant', content: '' }),
      ...pieces(text).map((content) => chunk({ content })),
      ...calls.flatMap(({ id, name, json }, index) => [
        tool(index, { id, type: 'function', function: { name, arguments: '' } }),
        ...pieces(json).map((piece) => tool(index, { function: { arguments: piece } })),
      ]),
      chunk({}, CHAT_FINISH[finish]),
      sse({ ...head, choices: [], usage: CHAT_USAGE }),
      'data: [DONE]\n\n',
    ]
  },
}

const CLAUDE_FINISH = { stop: 'end_turn', length: 'max_tokens', filter: 'refusal', calls: 'tool_use' } as const

const anthropic: Language = {
  streamType: 'text/event-stream',
  streams: (call) => call.json['stream'] === true,
  whole({ text, calls, finish }) {
    const said = text === '' ? [] : [{ type: 'text', text }]
    const used = calls.map(({ id, name, json }) => ({ type: 'tool_use', id, name, input: JSON.parse(json) }))
    return {
      id: 'msg_up',
      type: 'message',
      role: 'assistant',
      model: 'up',
      content: [...said, ...used],
      stop_reason: CLAUDE_FINISH[finish],
      stop_sequence: null,
      usage: { input_tokens: input, output_tokens: output },
    }
  },
  streamed({ text, calls, finish }) {
    const event = (type: string, more: JsonObject) => `event: ${type}\n${sse({ type, ...more })}`
    const block = (index: number, content_block: JsonObject, deltas: readonly JsonObject[]) => [
      event('content_block_start', { index, content_block }),
      ...deltas.map((delta) => event('content_block_delta', { index, delta })),
      event('content_block_stop', { index }),
    ]
    const deltas = pieces(text).map((piece) => ({ type: 'text_delta', text: piece }))
    const said = text === '' ? [] : block(0, { type: 'text', text: '' }, deltas)
    const used = calls.flatMap(({ id, name, json }, at) => {
      const parts = pieces(json).map((partial_json) => ({ type: 'input_json_delta', partial_json }))
      return block(at + (text === '' ? 0 : 1), { type: 'tool_use', id, name, input: {} }, parts)
    })
    const message = { id: 'msg_up', type: 'message', role: 'assistant', model: 'up', content: [] }
    const usage = { input_tokens: input, output_tokens: 1 }
    return [
      event('message_start', { message: { ...message, stop_reason: null, stop_sequence: null, usage } }),
      event('ping', {}),
      ...said,
      ...used,
      event('message_delta', {
        delta: { stop_reason: CLAUDE_FINISH[finish], stop_sequence: null },
        usage: { output_tokens: output },
      }),
      event('message_stop', {}),
    ]
  },
}

/** Calls do not change Gemini's word for the finish. */
const GEMINI_FINISH = { stop: 'STOP', length: 'MAX_TOKENS', filter: 'SAFETY', calls: 'STOP' } as const
const GEMINI_USAGE = { promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output }

function geminiChunk(parts: readonly JsonObject[], more: JsonObject = {}, outer: JsonObject = {}): JsonObject {
  const content = parts.length > 0 ? { content: { role: 'model', parts } } : {}
  return { candidates: [{ index: 0, ...content, ...more }], modelVersion: 'up', ...outer }
}

const functionCall = ({ id, name, json }: Spoken) => ({ functionCall: { id, name, args: JSON.parse(json) } })

const gemini: Language = {
  streamType: 'text/event-stream',
  streams: (call) => call.path.includes(':streamGenerateContent'),
  whole({ text, calls, finish }) {
    const said = text === '' ? [] : [{ text }]
    const parts = [...said, ...calls.map(functionCall)]
    return geminiChunk(parts, { finishReason: GEMINI_FINISH[finish] }, { usageMetadata: GEMINI_USAGE })
  },
  streamed({ text, calls, finish }) {
    const crlf = (chunk: JsonObject) => `data: ${JSON.stringify(chunk)}\r\n\r\n`
    return [
      ...pieces(text).map((piece) => crlf(geminiChunk([{ text: piece }]))),
      ...(calls.length > 0 ? [crlf(geminiChunk(calls.map(functionCall)))] : []),
      crlf(geminiChunk([], { finishReason: GEMINI_FINISH[finish] }, { usageMetadata: GEMINI_USAGE })),
    ]
  },
}

const CONVERSE_FINISH = { stop: 'end_turn', length: 'max_tokens', filter: 'guardrail_intervened', calls: 'tool_use' }
const CONVERSE_USAGE = { inputTokens: input, outputTokens: output, totalTokens: input + output }
const codec = new EventStreamCodec(
  (bytes) => new TextDecoder().decode(bytes),
  (text) => new TextEncoder().encode(text),
)

/** One frame of the binary event stream. */
function frame(type: string, payload: JsonObject): Uint8Array {
  const word = (value: string) => ({ type: 'string' as const, value })
  return codec.encode({
    headers: {
      ':event-type': word(type),
      ':content-type': word('application/json'),
      ':message-type': word('event'),
    },
    body: new TextEncoder().encode(JSON.stringify(payload)),
  })
}

const bedrock: Language = {
  streamType: 'application/vnd.amazon.eventstream',
  streams: (call) => call.path.endsWith('/converse-stream'),
  whole({ text, calls, finish }) {
    const said = text === '' ? [] : [{ text }]
    const used = calls.map(({ id, name, json }) => ({ toolUse: { toolUseId: id, name, input: JSON.parse(json) } }))
    const message = { role: 'assistant', content: [...said, ...used] }
    return { output: { message }, stopReason: CONVERSE_FINISH[finish], usage: CONVERSE_USAGE }
  },
  streamed({ text, calls, finish }) {
    const delta = (contentBlockIndex: number, what: JsonObject) =>
      frame('contentBlockDelta', { contentBlockIndex, delta: what })
    const said = pieces(text).map((piece) => delta(0, { text: piece }))
    const used = calls.flatMap(({ id, name, json }, at) => {
      const contentBlockIndex = at + (text === '' ? 0 : 1)
      return [
        frame('contentBlockStart', { contentBlockIndex, start: { toolUse: { toolUseId: id, name } } }),
        ...pieces(json).map((piece) => delta(contentBlockIndex, { toolUse: { input: piece } })),
        frame('contentBlockStop', { contentBlockIndex }),
      ]
    })
    return [
      frame('messageStart', { role: 'assistant' }),
      ...said,
      ...(said.length > 0 ? [frame('contentBlockStop', { contentBlockIndex: 0 })] : []),
      ...used,
      frame('messageStop', { stopReason: CONVERSE_FINISH[finish] }),
      frame('metadata', { usage: CONVERSE_USAGE, metrics: { latencyMs: 1 } }),
    ]
  },
}

const LANGUAGES: Readonly<Record<ProviderDialect, Language>> = { openai: chat, azure: chat, anthropic, gemini, bedrock }

/** A provider that answers every request with what `choose` says, streamed or whole as it is asked. */
export function speaks(dialect: ProviderDialect, choose: (call: Call) => Speech): Scenario {
  const language = LANGUAGES[dialect]
  return (call) => {
    const speech = choose(call)
    if (!language.streams(call)) return call.answer(200, JSON.stringify(language.whole(speech)))
    return does.stream(language.streamed(speech), { 'content-type': language.streamType })(call)
  }
}

export const says = (text: string, finish: Speech['finish'] = 'stop'): Speech => ({ text, calls: [], finish })
export const calls = (text: string, ...made: readonly Spoken[]): Speech => ({ text, calls: made, finish: 'calls' })

/** A model behind Chat Completions that takes a step more whenever a turn's results have come; the last step stays. */
export function inSteps(...steps: readonly [Speech, ...Speech[]]): Scenario {
  return speaks('openai', ({ json }) => {
    const turns = isArray(json['messages']) ? json['messages'].filter(isObject) : []
    const made = turns.filter(({ role, tool_calls }) => role === 'assistant' && isArray(tool_calls)).length
    return steps[Math.min(made, steps.length - 1)] ?? steps[0]
  })
}
