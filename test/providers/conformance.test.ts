/** Runs the suite of `conformance.ts` for every provider; the meaning of every recorded error response. */

import { describe, expect, test } from 'bun:test'
import type { ProviderErrorKind } from '../../src/core/provider-error.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { fixtureBytes, manifest } from '../support/fixtures.ts'
import { conforms } from './conformance.ts'
import { DIALECTS } from './dialects.ts'

for (const { conformance } of Object.values(DIALECTS)) for (const conformant of conformance) conforms(conformant)

type Row = readonly [
  file: string,
  provider: Provider,
  kind: ProviderErrorKind,
  more?: { code?: string; retryAfterMs?: number },
]

const ERRORS: readonly Row[] = [
  ['openai-401.json', openai, 'credential'],
  ['openai-404-model.json', openai, 'failed'],
  ['openai-400-context.json', openai, 'rejected', { code: 'context_length_exceeded' }],
  ['openai-429-rate.json', openai, 'rate_limited', { retryAfterMs: 1536 }],
  ['openai-429-quota.json', openai, 'credit_exhausted'],
  ['openai-503.json', openai, 'overloaded'],
  ['azure-400-content-filter.json', azure, 'rejected', { code: 'content_filter' }],
  ['azure-429.json', azure, 'rate_limited', { retryAfterMs: 6000 }],
  ['anthropic-529.json', anthropic, 'overloaded'],
  ['anthropic-429.json', anthropic, 'rate_limited', { retryAfterMs: 12_000 }],
  ['anthropic-400.json', anthropic, 'rejected'],
  ['anthropic-400-temperature.json', anthropic, 'rejected'],
  ['anthropic-413.json', anthropic, 'too_large'],
  ['gemini-429.json', gemini, 'rate_limited', { retryAfterMs: 31_000 }],
  ['gemini-400.json', gemini, 'credential'],
  ['gemini-503-array.json', gemini, 'overloaded'],
  ['bedrock-429.json', bedrock, 'rate_limited'],
  ['vertex-401.json', vertexGemini, 'credential'],
  ['vertex-403.json', vertexGemini, 'credential'],
  ['vertex-404.json', vertexGemini, 'failed'],
  ['vertex-429.json', vertexGemini, 'rate_limited'],
  ['vertex-400-precondition.json', vertexGemini, 'failed'],
  ['vertex-400-array.json', vertexGemini, 'rejected'],
  ['vertex-claude-400.json', vertexClaude, 'rejected', { code: 'context_length_exceeded' }],
  ['vertex-claude-404.json', vertexClaude, 'failed'],
  ['vertex-claude-429.json', vertexClaude, 'rate_limited', { retryAfterMs: 4500 }],
  ['vertex-claude-529.json', vertexClaude, 'overloaded'],
  ['openrouter-502.json', openai, 'failed'],
  ['vllm-400.json', openai, 'rejected'],
  ['cloudflare-524.html', openai, 'timeout'],
]

describe('error responses', () => {
  test('are all in the table', () => {
    const files = manifest.flatMap(({ file }) => (file.startsWith('errors/') ? [file.slice('errors/'.length)] : []))
    expect(ERRORS.map(([file]) => file).sort()).toEqual(files.sort())
  })

  test.each([...ERRORS])('%s', (file, provider, kind, more = {}) => {
    const fixture = manifest.find((each) => each.file === `errors/${file}`)
    const body = Buffer.from(fixtureBytes(`errors/${file}`)).toString()
    const error = provider.responseError(fixture?.status ?? 0, new Headers(fixture?.headers), body)
    expect(error.kind).toBe(kind)
    expect(error.detail.status).toBe(fixture?.status)
    expect(error.detail.code).toBe(more.code)
    expect(error.detail.retryAfterMs).toBe(more.retryAfterMs)
    expect(error.message).not.toBe('')
  })
})
