/** The test data of dialect `gemini`. */

import { gemini } from '../../../src/providers/gemini/gemini.ts'
import { type Conformant, count, type DialectUnderTest, list } from '../conformance.ts'
import { endpoint } from '../requests.ts'
import { geminiRules } from '../rules.ts'
import { geminiWriter } from './writer.ts'

export const geminiConformant: Conformant = {
  name: 'gemini',
  provider: gemini,
  target: { endpoint: endpoint(), model: 'gemini-3-pro' },
  reasons: { MAX_TOKENS: 'length', SAFETY: 'content-filter', content_filter: 'content-filter' },
  usage: (counts) => ({
    input: count(counts, 'prompt'),
    output: Number(counts['candidates']) + (count(counts, 'thoughts') ?? 0),
    reasoning: count(counts, 'thoughts'),
  }),
  rules: geminiRules,
  turns: (body) => list(body['contents']),
}

export const geminiDialect: DialectUnderTest = {
  conformance: [geminiConformant],
  fixtures: 'gemini/',
  writer: geminiWriter,
  configurations: [
    {
      entry: {},
      more: ['api_key', 'base_url'],
      baseUrl: 'https://generativelanguage.googleapis.com',
      header: ['x-goog-api-key', /^k$/],
    },
  ],
}
