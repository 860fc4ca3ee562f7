import { expect, test } from 'bun:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { conceal } from '../../src/providers/scrub.ts'

const endpoint: Endpoint = {
  name: 'p',
  baseUrl: 'http://models-internal:8000/tenant-path/v1',
  apiKey: 'opaque words',
  aws: {
    region: 'eu-west-1',
    keys: { accessKeyId: 'key-one', secretAccessKey: 'secret-two', sessionToken: 'token-three' },
  },
  headers: { 'x-own': 'header-four' },
  deadlines: { connectMs: 1, firstByteMs: { stream: 1, whole: 1 }, idleMs: 1, totalMs: 1 },
}

test.each([
  'opaque words',
  'key-one',
  'secret-two',
  'token-three',
  'header-four',
  'models-internal:8000',
  'models-internal',
  '/tenant-path/v1',
  'localhost:18181',
  'bob@example.com',
  'my-secret-deployment',
])('a caller never sees %s in an error', (word) => {
  const shown = conceal(new ProviderError('rejected', `The deployment ${word} rejects it.`, { status: 400 }), endpoint)
  expect(shown.message).not.toContain(word)
  expect([shown.kind, shown.detail.status]).toEqual(['rejected', 400])
})
