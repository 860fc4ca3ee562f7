/** Runs the suite of `conformance.ts` for every dialect. */

import { isObject, type JsonObject } from '../../src/core/json.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { conforms, TOOL } from './conformance.ts'
import { dialect as responses } from './responses/setting.ts'

const { name, description, parameters } = TOOL
const json = '{"q":"Oslo"}'
const usageOf = (body: JsonObject) => (isObject(body['usage']) ? body['usage'] : undefined)

conforms({
  dialect: chat({ imageUrls: 'public' }),
  hello: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] },
  conversation: {
    model: 'm',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Weather in Oslo?' },
      {
        role: 'assistant',
        content: 'Let me check.',
        tool_calls: [{ id: 'call_a1', type: 'function', function: { name, arguments: json } }],
      },
      { role: 'tool', tool_call_id: 'call_a1', content: 'rain' },
      { role: 'user', content: [{ type: 'text', text: 'And Rome?' }] },
    ],
    tools: [{ type: 'function', function: { name, description, parameters } }],
  },
  history: 'messages',
  optional: [
    ...['max_tokens', 'max_completion_tokens', 'stop', 'tools', 'tool_choice', 'parallel_tool_calls', 'stream'],
    ...['stream_options', 'temperature', 'top_p', 'seed', 'response_format', 'user', 'service_tier', 'n', 'store'],
  ],
  ignored: ['n', 2],
  reasons: { stop: 'stop', length: 'length', 'content-filter': 'content_filter' },
  reasonOfCalls: 'tool_calls',
  terminator: /^data: \[DONE\]$/m,
  usage: usageOf,
  usages: [
    [{}, chatUsage(0, 0, 0, 0, 0)],
    [{ input: 9, output: 3 }, chatUsage(9, 3, 0, 0, 0)],
    [{ input: 9, cachedInput: 4, cacheWrite5m: 1, cacheWrite1h: 2, output: 3, reasoning: 2 }, chatUsage(9, 3, 4, 3, 2)],
  ],
})

function chatUsage(input: number, output: number, cached: number, written: number, reasoning: number): JsonObject {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached, audio_tokens: 0, cache_write_tokens: written },
    completion_tokens_details: {
      reasoning_tokens: reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  }
}

conforms({
  dialect: responses,
  hello: { model: 'm', input: 'Hello' },
  conversation: {
    model: 'm',
    instructions: 'Be brief.',
    input: [
      { role: 'user', content: 'Weather in Oslo?' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Let me check.' }] },
      { type: 'function_call', call_id: 'call_a1', name, arguments: json },
      { type: 'function_call_output', call_id: 'call_a1', output: 'rain' },
      { role: 'user', content: [{ type: 'input_text', text: 'And Rome?' }] },
    ],
    tools: [{ type: 'function', name, description, parameters }],
  },
  history: 'input',
  optional: [
    ...['instructions', 'max_output_tokens', 'temperature', 'top_p', 'tools', 'tool_choice', 'parallel_tool_calls'],
    ...['reasoning', 'text', 'truncation', 'stream', 'service_tier', 'user', 'previous_response_id', 'include'],
  ],
  ignored: ['previous_response_id', 'resp_1'],
  reasons: { stop: 'completed', length: 'completed', 'content-filter': 'completed' },
  reasonOfCalls: 'completed',
  terminator: /^event: response\.completed$/m,
  usage: (body) => usageOf(isObject(body['response']) ? body['response'] : body),
  usages: [
    [{}, responsesUsage(0, 0, 0, 0, 0)],
    [{ input: 9, output: 3 }, responsesUsage(9, 3, 0, 0, 0)],
    [
      { input: 9, cachedInput: 4, cacheWrite5m: 1, cacheWrite1h: 2, output: 3, reasoning: 2 },
      responsesUsage(9, 3, 4, 3, 2),
    ],
  ],
})

function responsesUsage(input: number, output: number, cached: number, written: number, reasoning: number): JsonObject {
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input + output,
  }
}

conforms({
  dialect: messages({ toolResultImages: 'refuse' }),
  hello: { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] },
  conversation: {
    model: 'm',
    max_tokens: 100,
    system: 'Be brief.',
    messages: [
      { role: 'user', content: 'Weather in Oslo?' },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Let me check.' },
          { type: 'tool_use', id: 'call_a1', name, input: { q: 'Oslo' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'call_a1', content: 'rain' },
          { type: 'text', text: 'And Rome?' },
        ],
      },
    ],
    tools: [{ name, description, input_schema: parameters }],
  },
  history: 'messages',
  optional: [
    ...['system', 'temperature', 'top_p', 'stop_sequences', 'tools', 'tool_choice', 'stream', 'service_tier'],
    ...['top_k', 'thinking', 'metadata', 'container', 'thread'],
  ],
  ignored: ['top_k', 40],
  reasons: { stop: 'end_turn', length: 'max_tokens', 'content-filter': 'stop_sequence' },
  reasonOfCalls: 'tool_use',
  terminator: /^event: message_stop$/m,
  usage: usageOf,
  usages: [
    [{}, { input_tokens: 0, output_tokens: 0 }],
    [
      { input: 9, output: 3 },
      { input_tokens: 9, output_tokens: 3 },
    ],
    [
      { input: 9, cachedInput: 4, cacheWrite5m: 1, cacheWrite1h: 2, output: 3, reasoning: 2 },
      {
        input_tokens: 2,
        cache_creation_input_tokens: 3,
        cache_read_input_tokens: 4,
        cache_creation: { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 },
        output_tokens: 3,
      },
    ],
  ],
})
