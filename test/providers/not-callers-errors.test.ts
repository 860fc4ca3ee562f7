/** A 400 that is no mistake of the caller's: another candidate is asked, and the caller may try again. */

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import type { ProviderErrorKind } from '../../src/core/provider-error.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'

const type = 'invalid_request_error'

const ROWS: Readonly<Record<string, readonly [kind: ProviderErrorKind, body: JsonObject]>> = {
  'Groq, a malformed call': [
    'broken',
    { error: { message: "Failed to call a function. See 'failed_generation'.", type, code: 'tool_use_failed' } },
  ],
  'Groq, malformed JSON': [
    'broken',
    { error: { message: 'Failed to generate JSON.', type, code: 'json_validate_failed' } },
  ],
  'OpenAI, no money': [
    'credit_exhausted',
    { error: { message: 'Billing hard limit has been reached.', type, code: 'billing_hard_limit_reached' } },
  ],
  'OpenAI, no verification': [
    'credential',
    {
      error: {
        message: 'Your organization must be verified to stream this model.',
        type,
        param: 'stream',
        code: 'unsupported_value',
      },
    },
  ],
  'OpenRouter, no such model': ['failed', { error: { message: 'acme/none is not a valid model ID', code: 400 } }],
  'DeepSeek, no such model': ['failed', { error: { message: 'Model Not Exist', type, param: null, code: type } }],
  'Mistral, no such model': ['failed', { object: 'error', message: 'Invalid model: none', type: 'invalid_model' }],
  'a server that has a code': ['failed', { error: { message: 'none?', type, code: 'model_not_found' } }],
  'vLLM without tools': [
    'failed',
    {
      object: 'error',
      message: '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
      type: 'BadRequestError',
      code: 400,
    },
  ],
  'Azure, a deployment of another kind': [
    'failed',
    {
      error: { message: 'The chatCompletion operation does not work with this model.', code: 'OperationNotSupported' },
    },
  ],
}

describe.each(Object.entries(ROWS))('%s', (_, [kind, body]) => {
  test('by its status', () => {
    for (const provider of [openai, azure])
      expect(provider.responseError(400, new Headers(), JSON.stringify(body)).kind).toBe(kind)
  })

  test('within an answer with status 200', () => {
    expect(() => openai.events(body)).toThrow(expect.objectContaining({ kind }))
  })
})

test.each([
  "Invalid value: 'x is not a valid model ID'.",
  "Invalid value: 'Model Not Exist'",
  "Invalid value: 'Your organization must be verified to stream'.",
])('the words of a caller within another error change nothing: %s', (message) => {
  const body = JSON.stringify({ error: { message, type, code: 'invalid_value' } })
  expect(openai.responseError(400, new Headers(), body).kind).toBe('rejected')
})
