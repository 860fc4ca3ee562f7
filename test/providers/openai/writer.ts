/** Writes an answer as Chat Completions, streamed and whole. */

import type { JsonObject } from '../../../src/core/json.ts'
import { pieces, SPEECH_USAGE, type SpeechWriter, sse } from '../../support/speech-writer.ts'

const { input, output } = SPEECH_USAGE
const CHAT_FINISH = { stop: 'stop', length: 'length', filter: 'content_filter', calls: 'tool_calls' } as const
const CHAT_USAGE = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }

export const openaiWriter: SpeechWriter = {
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
