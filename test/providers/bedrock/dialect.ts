/** The test data of dialect `bedrock`. */

import { bedrock } from '../../../src/providers/bedrock/bedrock.ts'
import { count, type DialectUnderTest, list } from '../conformance.ts'
import { endpoint } from '../requests.ts'
import { bedrockRules } from '../rules.ts'
import { bedrockWriter } from './writer.ts'

export const bedrockDialect: DialectUnderTest = {
  conformance: [
    {
      name: 'bedrock',
      provider: bedrock,
      target: { endpoint: endpoint(), model: 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0' },
      reasons: {},
      usage: (counts) => ({ input: count(counts, 'inputTokens'), output: count(counts, 'outputTokens') }),
      rules: bedrockRules,
      turns: (body) => list(body['messages']),
    },
  ],
  fixtures: 'bedrock/',
  writer: bedrockWriter,
  configurations: [
    {
      entry: { region: 'eu-west-1', api_key: 'k' },
      more: ['base_url'],
      baseUrl: 'https://bedrock-runtime.eu-west-1.amazonaws.com',
      header: ['authorization', /^Bearer k$/],
    },
    {
      entry: { region: 'eu-west-1', access_key_id: 'i', secret_access_key: 's' },
      more: ['base_url', 'session_token'],
      baseUrl: 'https://bedrock-runtime.eu-west-1.amazonaws.com',
      header: ['authorization', /^AWS4-HMAC-SHA256 Credential=i\//],
    },
  ],
}
