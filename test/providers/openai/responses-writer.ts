/** Writes an answer in the Responses API, streamed and whole. */

import type { JsonObject } from '../../../src/core/json.ts'
import { pieces, SPEECH_USAGE, type Speech, type SpeechWriter } from '../../support/speech-writer.ts'

const { input, output } = SPEECH_USAGE
const USAGE = {
  input_tokens: input,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: input + output,
}

function itemsOf({ text, calls }: Speech): JsonObject[] {
  const content = [{ type: 'output_text', annotations: [], logprobs: [], text }]
  return [
    { id: 'rs_up', type: 'reasoning', content: [], encrypted_content: 'gAAAAAB', summary: [] },
    ...(text === '' ? [] : [{ id: 'msg_up', type: 'message', status: 'completed', content, role: 'assistant' }]),
    ...calls.map(({ id, name, json }, at) => ({
      ...{ id: `fc_up${at}`, type: 'function_call', status: 'completed' },
      ...{ arguments: json, call_id: id, name },
    })),
  ]
}

function answerOf(status: string, { finish }: Speech, more: JsonObject): JsonObject {
  const reason = finish === 'length' ? 'max_output_tokens' : 'content_filter'
  return {
    ...{ id: 'resp_up', object: 'response', created_at: 1, status, error: null },
    incomplete_details: status === 'incomplete' ? { reason } : null,
    ...{ instructions: null, model: 'up', output: [], parallel_tool_calls: true, service_tier: 'auto', usage: null },
    ...more,
  }
}

const statusOf = ({ finish }: Speech) => (finish === 'length' || finish === 'filter' ? 'incomplete' : 'completed')

export const responsesWriter: SpeechWriter = {
  streamType: 'text/event-stream',
  streams: (call) => call.json['stream'] === true,
  whole: (speech) =>
    answerOf(statusOf(speech), speech, { output: itemsOf(speech), service_tier: 'default', usage: USAGE }),
  streamed(speech) {
    const events: string[] = []
    const say = (type: string, more: JsonObject) => {
      const data = { type, ...more, sequence_number: events.length }
      events.push(`event: ${type}\ndata: ${JSON.stringify(data)}\n\n`)
    }
    const deltas = (type: string, id: string, at: number, text: string, more: JsonObject) => {
      for (const delta of pieces(text))
        say(type, { ...more, delta, item_id: id, obfuscation: 'x7Lm2Zk9Tb', output_index: at })
    }
    say('response.created', { response: answerOf('in_progress', speech, {}) })
    say('response.in_progress', { response: answerOf('in_progress', speech, {}) })
    const items = itemsOf(speech)
    for (const [at, item] of items.entries()) {
      const id = String(item['id'])
      say('response.output_item.added', {
        item: {
          ...item,
          status: 'in_progress',
          ...(item['type'] === 'function_call' ? { arguments: '' } : { content: [] }),
        },
        output_index: at,
      })
      if (item['type'] === 'message')
        deltas('response.output_text.delta', id, at, speech.text, { content_index: 0, logprobs: [] })
      if (item['type'] === 'message')
        say('response.output_text.done', { content_index: 0, item_id: id, output_index: at, text: speech.text })
      if (item['type'] === 'function_call')
        deltas('response.function_call_arguments.delta', id, at, String(item['arguments']), {})
      say('response.output_item.done', { item, output_index: at })
    }
    const status = statusOf(speech)
    say(`response.${status}`, {
      response: answerOf(status, speech, { output: items, service_tier: 'default', usage: USAGE }),
    })
    return events
  },
}
