/** The test data of dialect `openai`. */

import { isObject } from '../../../src/core/json.ts'
import { openai } from '../../../src/providers/openai/openai.ts'
import { count, type DialectUnderTest, list } from '../conformance.ts'
import { openaiRules } from '../openai-rules.ts'
import { endpoint } from '../requests.ts'
import { openaiWriter } from './writer.ts'

export const openaiDialect: DialectUnderTest = {
  conformance: [
    {
      name: 'openai',
      provider: openai,
      takesNative: true,
      target: { endpoint: endpoint(), model: 'gpt-test' },
      reasons: { length: 'length', content_filter: 'content-filter' },
      usage: (counts) => {
        const details = isObject(counts['prompt_tokens_details']) ? counts['prompt_tokens_details'] : {}
        return {
          input: count(counts, 'prompt_tokens'),
          output: count(counts, 'completion_tokens'),
          cachedInput: count(details, 'cached_tokens'),
        }
      },
      skipped: { 'openai/html-200.html': 'the content type is refused before anything is decoded' },
      rules: openaiRules,
      turns: (body) => list(body['messages']),
    },
  ],
  fixtures: 'openai/',
  writer: openaiWriter,
  configurations: [
    {
      entry: {},
      more: ['api_key', 'base_url'],
      baseUrl: 'https://api.openai.com/v1',
      header: ['authorization', /^Bearer k$/],
    },
  ],
}

export const azureDialect: DialectUnderTest = {
  // It shares the adapter of `openai`; only URLs and a header differ.
  conformance: [],
  fixtures: 'openai/azure',
  writer: openaiWriter,
  configurations: [
    {
      entry: { base_url: 'https://a.test', api_version: '2025-04-01-preview' },
      more: ['api_key'],
      baseUrl: 'https://a.test',
      header: ['api-key', /^k$/],
    },
  ],
}
