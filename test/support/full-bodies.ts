/** A request of each dialect with every field that weir accepts, also those without effect. */

import type { JsonObject } from '../../src/core/json.ts'

const mark = { type: 'ephemeral', ttl: '5m' }
const png = 'iVBORw0KGgo='
const schema = { type: 'object', properties: {} }

export const CHAT: JsonObject = {
  model: 'm',
  messages: [
    { role: 'system', content: [{ type: 'text', text: 's', cache_control: mark }], name: 'n' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'u', cache_control: mark },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${png}`, detail: 'low' }, cache_control: mark },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,AA==', filename: 'f.pdf' } },
      ],
      cache_control: mark,
    },
    {
      role: 'assistant',
      content: 'a',
      refusal: 'r',
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'c', content: 'result', cache_control: mark },
  ],
  max_tokens: 5,
  max_completion_tokens: 6,
  stop: ['x'],
  tools: [
    {
      type: 'function',
      function: { name: 'f', description: 'd', parameters: schema, strict: true },
      cache_control: mark,
    },
    { type: 'custom', function: { name: 'g' } },
  ],
  tool_choice: {
    type: 'allowed_tools',
    allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'f' } }] },
  },
  parallel_tool_calls: false,
  stream: true,
  stream_options: { include_usage: true },
  ...{ temperature: 1, top_p: 0.5, frequency_penalty: 1, presence_penalty: 1, seed: 1, reasoning_effort: 'low' },
  ...{ verbosity: 'low', logit_bias: { 1: 1 }, logprobs: true, top_logprobs: 2, user: 'u', safety_identifier: 's' },
  response_format: { type: 'json_object' },
  ...{
    service_tier: 'auto',
    prompt_cache_key: 'k',
    prompt_cache_retention: '24h',
    prompt_cache_options: { ttl: '30m' },
  },
  ...{ n: 2, store: true, modalities: ['text'], functions: [], function_call: 'auto' },
}

export const MESSAGES: JsonObject = {
  model: 'm',
  system: [{ type: 'text', text: 's', cache_control: mark, citations: [] }],
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'u', cache_control: mark },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: png }, cache_control: mark },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'a' },
        { type: 'tool_use', id: 't', name: 'f', input: {}, cache_control: mark },
      ],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 't',
          content: [{ type: 'text', text: 'r' }],
          is_error: true,
          cache_control: mark,
        },
      ],
    },
  ],
  max_tokens: 5,
  ...{
    temperature: 1,
    top_p: 0.5,
    top_k: 3,
    stop_sequences: ['x'],
    stream: true,
    service_tier: 'auto',
    cache_control: mark,
  },
  tools: [
    {
      name: 'f',
      description: 'd',
      input_schema: schema,
      type: 'custom',
      strict: true,
      cache_control: mark,
      defer_loading: true,
    },
  ],
  tool_choice: { type: 'any', disable_parallel_tool_use: true },
  ...{
    thinking: { type: 'enabled' },
    metadata: { user_id: 'u' },
    prompt_cache_key: 'k',
    prompt_cache_retention: '24h',
  },
  ...{ thread: { type: 'create' }, output_config: { effort: 'low' } },
}

const tool = { type: 'function', name: 'f', description: 'd', parameters: schema, strict: true }
export const RESPONSES: JsonObject = {
  model: 'm',
  instructions: 'i',
  input: [
    { type: 'additional_tools', tools: [tool] },
    {
      type: 'message',
      role: 'user',
      id: 'msg_1',
      status: 'completed',
      content: [{ type: 'input_text', text: 'u', cache_control: mark }],
    },
    { role: 'assistant', content: 'a', phase: 'commentary' },
    {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'c',
      name: 'f',
      namespace: 'n',
      arguments: '{}',
      status: 'completed',
    },
    {
      type: 'function_call_output',
      id: 'o',
      call_id: 'c',
      output: [{ type: 'input_text', text: 'r' }],
      status: 'completed',
    },
    { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'x' },
  ],
  max_output_tokens: 16,
  ...{ temperature: 1, top_p: 0.5, tool_choice: 'required', parallel_tool_calls: false, truncation: 'auto' },
  tools: [
    { ...tool, name: 'g' },
    { type: 'namespace', name: 'n', description: 'd', tools: [tool] },
    { type: 'web_search' },
  ],
  ...{
    reasoning: { effort: 'low' },
    text: { format: { type: 'text' } },
    stream: true,
    service_tier: 'auto',
    user: 'u',
  },
  ...{ prompt_cache_key: 'k', prompt_cache_retention: '24h', previous_response_id: 'r', store: true, include: [] },
}

export const IMAGES: JsonObject = {
  model: 'm',
  prompt: 'p',
  ...{ n: 1, size: '1024x1024', quality: 'low', background: 'auto', output_format: 'png', output_compression: 50 },
  ...{ moderation: 'low', response_format: 'b64_json', style: 'vivid', stream: true, partial_images: 1, user: 'u' },
}

/** Every field of the embeddings endpoint. */
export const EMBEDDINGS: JsonObject = {
  model: 'embed-small',
  input: ['a weir', 'flow'],
  encoding_format: 'float',
  dimensions: 256,
  user: 'u',
}
