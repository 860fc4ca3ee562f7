/** The test data of dialect `openai`. */

import { isObject } from '../../../src/core/json.ts'
import { openai } from '../../../src/providers/openai/openai.ts'
import { responsesReader } from '../../../src/providers/openai/responses-request.ts'
import type { Provider } from '../../../src/providers/provider.ts'
import type { Call } from '../../support/upstream.ts'
import { count, type DialectUnderTest, list } from '../conformance.ts'
import { openaiRules } from '../openai-rules.ts'
import { endpoint } from '../requests.ts'
import { responsesRules } from '../responses-rules.ts'
import { responsesWriter } from './responses-writer.ts'
import { openaiWriter } from './writer.ts'

/** The adapter as it is with `api: responses`. */
export const openaiResponses: Provider = {
  ...openai,
  ...responsesReader,
  request: (request, target) => openai.request(request, { ...target, api: 'responses' }),
}

const openaiWriterFor = ({ path }: Call) => (/\/responses(?:\?|$)/.test(path) ? responsesWriter : openaiWriter)

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
    {
      name: 'openai-responses',
      provider: openaiResponses,
      target: { endpoint: endpoint(), model: 'gpt-test' },
      reasons: { max_output_tokens: 'length', content_filter: 'content-filter' },
      usage: (counts) => ({
        input: count(counts, 'input_tokens'),
        output: count(counts, 'output_tokens'),
        cachedInput: count(counts, 'cached_tokens'),
        reasoning: count(counts, 'reasoning_tokens'),
      }),
      rules: responsesRules,
      turns: (body) => list(body['input']),
    },
  ],
  fixtures: 'openai/',
  writer: openaiWriter,
  writerFor: openaiWriterFor,
  configurations: [
    {
      entry: {},
      more: ['api_key', 'base_url', 'api'],
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
  writerFor: openaiWriterFor,
  configurations: [
    {
      entry: { base_url: 'https://a.test', api_version: '2025-04-01-preview' },
      more: ['api_key', 'api'],
      baseUrl: 'https://a.test',
      header: ['api-key', /^k$/],
    },
  ],
}
