/** What of a provider's words a caller sees: what helps to mend a request stays, what is the operator's own goes. */

import { describe, expect, test } from 'bun:test'
import { scrub } from '../../src/providers/scrub.ts'

describe('what goes', () => {
  test.each([
    ['the key sk-proj-abc***xyz is wrong', 'abc'],
    ['key=abcd1234efgh', 'abcd'],
    ['api_key: hunter2hunter2', 'hunter'],
    ["x-api-key 'hunter2hunter2'", 'hunter'],
    ['access token: ab12.cd34.ef56', 'cd34'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123', 'eyJ'],
    ['signed with wJalrXUtnrFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', 'MDENG'],
    ['vllm-worker-3:8000 refused', 'worker'],
    ['host vllm-0.vllm.prod.svc:8000', 'vllm'],
    ['api.acme.tech says no', 'acme'],
    ['connect to [fe80::1ff:fe23:4567:890a]:80', 'fe'],
    ['connect to ::1', '::1'],
    ['connect to 2001:db8:0:0:0:0:0:1', 'db8'],
    ['projects/acme-prod/locations/us-central1 is not there', 'acme'],
    ['/var/lib/models/secret.gguf not found', 'secret'],
    ['Organization acme-ai exceeded its quota', 'acme'],
  ])('%s', (text, secret) => expect(scrub(text)).not.toContain(secret))
})

describe('what stays', () => {
  test.each([
    "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens (5000 in the messages).",
    "Invalid value: 'foo'. Supported values are: 'low', 'medium'.",
    'messages.3.content.0.type: Input should be "text"',
    '/messages/0/content must be a string',
    'max_tokens: 128000 is too large, max_tokens:4096 at most',
    'unknown key: temperature',
    'Unexpected token < in JSON at position 4',
    'std::invalid_argument at 12:30:45',
    'tool get_weather.v1 is unknown to gpt-4.1-mini',
    'The API deployment for this resource does not exist',
  ])('%s', (text) => expect(scrub(text)).toBe(text))
})

test('nor is it slow on what was made to be', () => {
  for (const piece of ['a', 'a-', 'a.', 'a:', '1:', 'ab1', 'key ', '/var/', 'A1/'])
    expect(scrub(piece.repeat(10_000)).length).toBeLessThanOrEqual(500)
})
