/** Answers with thoughts, as providers send them, whole and as streams; and how callers put theirs together. */

import { expect } from 'bun:test'
import { isArray, isObject, type JsonObject, objectOf } from '../../src/core/json.ts'
import { frame } from '../providers/bedrock/writer.ts'

/** One answer of each provider: a thought, a text and a call, whole and as a stream. */
export const THOUGHT = { type: 'thinking', thinking: 'Let "me" see.', signature: 'c2lnbmVk' }
export const REDACTED = { type: 'redacted_thinking', data: 'cmVkYWN0ZWQ=' }
export const TEXT = { type: 'text', text: 'I look.' }
export const CALL = { type: 'tool_use', id: 'toolu_0123456789abcdefgh', name: 'look', input: { at: 'x' } }
export const REASONING = {
  type: 'reasoning',
  id: 'rs_1',
  summary: [
    { type: 'summary_text', text: 'First.' },
    { type: 'summary_text', text: 'Second.' },
  ],
  encrypted_content: 'ZW5jcnlwdGVk',
}
export const CALLED = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_0123456789abcdefgh',
  name: 'look',
  arguments: '{"at":"x"}',
}
export const SPOKEN = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
}

const sse = (events: readonly JsonObject[]) =>
  events.map((event) => `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`)

export const ANSWERS = {
  anthropic(...content: readonly JsonObject[]) {
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'c',
      usage: { input_tokens: 3, output_tokens: 9 },
    }
    const blocks = content.flatMap((block, index): JsonObject[] => {
      const delta = (more: JsonObject) => ({ type: 'content_block_delta', index, delta: more })
      const start = (more: JsonObject) => ({ type: 'content_block_start', index, content_block: more })
      const { type, thinking = '', signature = '', text = '', input = {} } = block
      const stop = { type: 'content_block_stop', index }
      if (type === 'thinking')
        return [
          start({ type, thinking: '', signature: '' }),
          ...String(thinking)
            .split(' ')
            .map((word, at) => delta({ type: 'thinking_delta', thinking: at > 0 ? ` ${word}` : word })),
          delta({ type: 'signature_delta', signature }),
          stop,
        ]
      if (type === 'text') return [start({ type, text: '' }), delta({ type: 'text_delta', text }), stop]
      if (type === 'redacted_thinking') return [start(block), stop]
      return [
        start({ ...block, input: {} }),
        delta({ type: 'input_json_delta', partial_json: JSON.stringify(input) }),
        stop,
      ]
    })
    const stop = {
      stop_reason: content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn',
      stop_sequence: null,
    }
    const events = [
      { type: 'message_start', message: { ...message, content: [], stop_reason: null, stop_sequence: null } },
      ...blocks,
      { type: 'message_delta', delta: stop, usage: { output_tokens: 9 } },
      { type: 'message_stop' },
    ]
    return { whole: { ...message, content: [...content], ...stop }, stream: sse(events) }
  },
  responses(...output: readonly JsonObject[]) {
    const response = {
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      output: [...output],
      usage: { input_tokens: 3, output_tokens: 9 },
    }
    const events = output.flatMap((item, output_index): JsonObject[] => {
      const parts = isArray(item['summary']) ? item['summary'].filter(isObject) : []
      const deltas = parts.flatMap(({ text }, summary_index): JsonObject[] => [
        {
          type: 'response.reasoning_summary_part.added',
          output_index,
          summary_index,
          part: { type: 'summary_text', text: '' },
        },
        { type: 'response.reasoning_summary_text.delta', output_index, summary_index, delta: text ?? '' },
      ])
      const begun =
        item['type'] === 'function_call' ? { ...item, arguments: '' } : { ...item, content: [], summary: [] }
      return [
        { type: 'response.output_item.added', output_index, item: begun },
        ...deltas,
        { type: 'response.output_item.done', output_index, item },
      ]
    })
    const all = [{ type: 'response.created', response }, ...events, { type: 'response.completed', response }]
    return { whole: response, stream: sse(all) }
  },
  /** The same blocks by Converse, whose streams give reasoning in deltas without a start. */
  converse(...content: readonly JsonObject[]) {
    const blocks = content.map(converseBlock)
    const usage = { inputTokens: 3, outputTokens: 9, totalTokens: 12 }
    const stopReason = content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn'
    const deltas = content.flatMap((block, contentBlockIndex) => {
      const delta = (what: JsonObject) => frame('contentBlockDelta', { contentBlockIndex, delta: what })
      const stop = frame('contentBlockStop', { contentBlockIndex })
      if (block['type'] === 'thinking')
        return [
          ...String(block['thinking'])
            .split(/(?= )/)
            .map((text) => delta({ reasoningContent: { text } })),
          delta({ reasoningContent: { signature: String(block['signature']) } }),
          stop,
        ]
      if (block['type'] === 'redacted_thinking')
        return [delta({ reasoningContent: { redactedContent: String(block['data']) } }), stop]
      if (block['type'] === 'text') return [delta({ text: String(block['text']) }), stop]
      const toolUse = { toolUseId: String(block['id']), name: String(block['name']) }
      return [
        frame('contentBlockStart', { contentBlockIndex, start: { toolUse } }),
        delta({ toolUse: { input: JSON.stringify(block['input']) } }),
        stop,
      ]
    })
    return {
      whole: { output: { message: { role: 'assistant', content: blocks } }, stopReason, usage },
      stream: [
        frame('messageStart', { role: 'assistant' }),
        ...deltas,
        frame('messageStop', { stopReason }),
        frame('metadata', { usage, metrics: { latencyMs: 1 } }),
      ],
    }
  },
  chat(reasoning: string, text: string) {
    const delta = (more: JsonObject, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: more, finish_reason }] })}\n\n`
    const message = { role: 'assistant', content: text, reasoning_content: reasoning }
    return {
      whole: { id: 'c', object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }] },
      stream: [
        ...reasoning.split(' ').map((word, at) => delta({ reasoning_content: at > 0 ? ` ${word}` : word })),
        delta({ content: text }),
        delta({}, 'stop'),
        'data: [DONE]\n\n',
      ],
    }
  },
}

/** A block of Anthropic's as Converse has it. */
export function converseBlock({ type, thinking, signature, data, text, id, name, input }: JsonObject): JsonObject {
  if (type === 'thinking') return { reasoningContent: { reasoningText: { text: thinking, signature } } }
  if (type === 'redacted_thinking') return { reasoningContent: { redactedContent: data } }
  return type === 'text' ? { text } : { toolUse: { toolUseId: id, name, input } }
}

export const dataOf = (text: string): JsonObject[] =>
  text.split('\n').flatMap((line) => {
    const value: unknown = line.startsWith('data: {') ? JSON.parse(line.slice(6)) : undefined
    return isObject(value) ? [value] : []
  })

/** The blocks of an answer of Messages, from its stream as SDKs put it together. */
export function contentOf(text: string, isStream: boolean): JsonObject[] {
  if (!isStream) return listOf(JSON.parse(text)['content'])
  const blocks: JsonObject[] = []
  for (const event of dataOf(text)) {
    const index = Number(event['index'])
    const delta = objectOf(event['delta']) ?? {}
    const block = blocks[index] ?? {}
    if (event['type'] === 'content_block_start') blocks[index] = { ...objectOf(event['content_block']) }
    if (delta['type'] === 'thinking_delta')
      blocks[index] = { ...block, thinking: `${block['thinking']}${delta['thinking']}` }
    if (delta['type'] === 'signature_delta')
      blocks[index] = { ...block, signature: `${block['signature']}${delta['signature']}` }
    if (delta['type'] === 'text_delta') blocks[index] = { ...block, text: `${block['text']}${delta['text']}` }
    if (delta['type'] === 'input_json_delta')
      blocks[index] = { ...block, input: JSON.parse(String(delta['partial_json'])) }
  }
  return blocks
}

/** The items of an answer of Responses; of a stream, those that were done must be those at the end. */
export function outputOf(text: string, isStream: boolean): JsonObject[] {
  if (!isStream) return listOf(JSON.parse(text)['output'])
  const events = dataOf(text)
  const done = events.flatMap((event) =>
    event['type'] === 'response.output_item.done' ? [objectOf(event['item']) ?? {}] : [],
  )
  const last = listOf(objectOf(events.at(-1)?.['response'])?.['output'])
  expect(done).toEqual(last)
  expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, at) => at))
  return last
}

export function listOf(value: unknown): JsonObject[] {
  return isArray(value) ? value.filter(isObject) : []
}
