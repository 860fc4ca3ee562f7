/** The test data of dialect `anthropic`. */

import { anthropic } from '../../../src/providers/anthropic/anthropic.ts'
import { type Conformant, count, type DialectUnderTest, list } from '../conformance.ts'
import { endpoint } from '../requests.ts'
import { anthropicRules } from '../rules.ts'
import { anthropicWriter } from './writer.ts'

export const anthropicConformant: Conformant = {
  name: 'anthropic',
  provider: anthropic,
  target: { endpoint: endpoint(), model: 'claude-sonnet-4-5' },
  reasons: { max_tokens: 'length', model_context_window_exceeded: 'length', refusal: 'content-filter' },
  usage: (counts) => ({
    input:
      Number(counts['input_tokens']) +
      (count(counts, 'cache_read_input_tokens') ?? 0) +
      (count(counts, 'cache_creation_input_tokens') ?? 0),
    cachedInput: count(counts, 'cache_read_input_tokens'),
    output: count(counts, 'output_tokens'),
  }),
  rules: anthropicRules,
  turns: (body) => list(body['messages']),
}

export const anthropicDialect: DialectUnderTest = {
  conformance: [anthropicConformant],
  fixtures: 'anthropic/',
  writer: anthropicWriter,
  configurations: [
    { entry: {}, more: ['api_key', 'base_url'], baseUrl: 'https://api.anthropic.com', header: ['x-api-key', /^k$/] },
  ],
}
