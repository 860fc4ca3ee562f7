/** Agents shorten a conversation that is too long for a model, if they can see that it is. */

import { expect, test } from 'bun:test'
import { openai } from '../../src/providers/openai/openai.ts'

/** What servers of Chat Completions say, each in its own words. */
const MESSAGES = {
  OpenAI: 'Your input exceeds the context window of this model. Please adjust your input and try again.',
  'OpenAI, earlier': "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens.",
  xAI: "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
  Groq: 'Please reduce the length of the messages or completion.',
  Mistral: 'Prompt contains 65673 tokens, too large for model with 32768 maximum context length',
  Moonshot: 'Invalid request: Your request exceeded model token limit: 262144',
  Zhipu: 'Prompt exceeds max length',
  MiniMax: 'invalid params, context window exceeds limit',
  Qwen: 'Range of input length should be [1, 98304]',
  Together: 'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097.',
  'llama.cpp': 'the request exceeds the available context size, try increasing it',
  'LM Studio': 'The number of tokens to keep from the initial prompt is greater than the context length.',
  SGLang: "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
  vLLM: 'The decoder prompt (length 40000) is longer than the maximum model length of 32768.',
  'Anthropic, with the output': 'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000',
}

test.each(Object.entries(MESSAGES))('%s: a conversation that is too long has its code', (_, message) => {
  const error = openai.responseError(400, new Headers(), JSON.stringify({ error: { message } }))
  expect([error.kind, error.detail.code]).toEqual(['rejected', 'context_length_exceeded'])
  const inStream = openai.events.bind(undefined, { error: { message, code: 400 } })
  const detail = expect.objectContaining({ code: 'context_length_exceeded' })
  expect(inStream).toThrow(expect.objectContaining({ kind: 'rejected', detail }))
})

test.each([
  "Invalid value for 'temperature': must be at most 2.",
  'tool_use ids were found without tool_result blocks immediately after',
])('other messages have none: %s', (message) => {
  expect(openai.responseError(400, new Headers(), JSON.stringify({ error: { message } })).detail.code).toBeUndefined()
})

test('the message of an error that OpenRouter wraps is shown, instead of its own', () => {
  const raw = JSON.stringify({
    type: 'error',
    error: { type: 'invalid_request_error', message: 'prompt is too long: 9 > 8' },
  })
  const wrapped = (given: string, message = 'Provider returned error') =>
    openai.responseError(
      400,
      new Headers(),
      JSON.stringify({ error: { message, code: 400, metadata: { raw: given, provider_name: 'Anthropic' } } }),
    )
  expect(wrapped(raw)).toMatchObject({
    message: 'prompt is too long: 9 > 8',
    detail: { code: 'context_length_exceeded' },
  })
  // No JSON, nothing in it, or another one wrapped in it.
  for (const other of ['<html>', '{}', '', JSON.stringify({ error: { metadata: { raw } } })])
    expect(wrapped(other).message).toBe('Provider returned error')
  expect(wrapped('{"error":{"message":"x sk-abcdefgh12345678"}}').message).toBe('x [redacted]')
})
