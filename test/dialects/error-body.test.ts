/** The shape of Messages has no code: its clients know a conversation that is too long by Anthropic's words. */

import { expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import { errorBody } from '../../src/dialects/error-body.ts'

const body = (message: string, family: 'chat' | 'messages', code?: string) =>
  errorBody(new CallerError('upstream_rejected', message, { code }), family, 'req_1')['error']

const LONG = "This model's maximum context length is 8192 tokens."
const CODE = 'context_length_exceeded'

test.each([
  [LONG, CODE, `prompt is too long: ${LONG}`],
  ['prompt is too long: 9 tokens > 8 maximum', CODE, 'prompt is too long: 9 tokens > 8 maximum'],
  // Claude Code reads the figures, and asks for less output.
  ['input length and `max_tokens` exceed context limit: 6 + 5 > 8', CODE, undefined],
  ['temperature: at most 2', undefined, undefined],
])('%s', (message, code, expected = message) => {
  expect(body(message, 'messages', code)).toEqual({ type: 'invalid_request_error', message: expected })
  expect(body(message, 'chat', code)).toMatchObject({ message, code: code ?? null })
})
