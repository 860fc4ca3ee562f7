/** Writes an answer as Messages, streamed and whole. */

import type { JsonObject } from '../../../src/core/json.ts'
import { pieces, SPEECH_USAGE, type SpeechWriter, sse } from '../../support/speech-writer.ts'

const { input, output } = SPEECH_USAGE
const CLAUDE_FINISH = { stop: 'end_turn', length: 'max_tokens', filter: 'refusal', calls: 'tool_use' } as const

export const anthropicWriter: SpeechWriter = {
  streamType: 'text/event-stream',
  streams: (call) => call.json['stream'] === true,
  whole({ text, calls, finish }) {
    const texts = text === '' ? [] : [{ type: 'text', text }]
    const used = calls.map(({ id, name, json }) => ({ type: 'tool_use', id, name, input: JSON.parse(json) }))
    return {
      id: 'msg_up',
      type: 'message',
      role: 'assistant',
      model: 'up',
      content: [...texts, ...used],
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
    const texts = text === '' ? [] : block(0, { type: 'text', text: '' }, deltas)
    const used = calls.flatMap(({ id, name, json }, at) => {
      const parts = pieces(json).map((partial_json) => ({ type: 'input_json_delta', partial_json }))
      return block(at + (text === '' ? 0 : 1), { type: 'tool_use', id, name, input: {} }, parts)
    })
    const message = { id: 'msg_up', type: 'message', role: 'assistant', model: 'up', content: [] }
    const usage = { input_tokens: input, output_tokens: 1 }
    return [
      event('message_start', { message: { ...message, stop_reason: null, stop_sequence: null, usage } }),
      event('ping', {}),
      ...texts,
      ...used,
      event('message_delta', {
        delta: { stop_reason: CLAUDE_FINISH[finish], stop_sequence: null },
        usage: { output_tokens: output },
      }),
      event('message_stop', {}),
    ]
  },
}
