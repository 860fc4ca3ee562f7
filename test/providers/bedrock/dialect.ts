/** The test data of dialect `bedrock`. */

import type { ChatRequest } from '../../../src/core/chat-request.ts'
import { ProviderError } from '../../../src/core/provider-error.ts'
import { withInvokeModel } from '../../../src/providers/anthropic/bedrock-claude.ts'
import { bedrock } from '../../../src/providers/bedrock/bedrock.ts'
import { SseFramer } from '../../../src/wire/frames.ts'
import { anthropicConformant } from '../anthropic/dialect.ts'
import { type Conformant, count, type DialectUnderTest, list } from '../conformance.ts'
import { endpoint, plainRequest } from '../requests.ts'
import { bedrockClaudeRules, bedrockRules } from '../rules.ts'
import { bedrockWriter, invoked } from './writer.ts'

const OWN = { form: 'messages', betas: [], members: {}, tools: [] } as const
const both = withInvokeModel(bedrock)
const target = { endpoint: endpoint(), model: 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0' }
const invoking = (request: ChatRequest) => both.request({ ...request, own: OWN }, target)

/** A recorded stream of Anthropic's, as far as it has whole events. */
function invokedStream(stream: Uint8Array): Uint8Array {
  const frames: string[] = []
  const framer = new SseFramer()
  const take = (_: string, data: string) => frames.push(`data: ${data}`)
  try {
    framer.push(stream, take)
    framer.close(take)
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
  }
  return Buffer.concat(invoked(frames))
}

/** Claude by InvokeModel, whose streams are those of Anthropic in frames of AWS. */
const invokeConformant: Conformant = {
  ...anthropicConformant,
  name: 'bedrock-claude',
  fixtures: 'anthropic',
  framed: invokedStream,
  provider: { ...both, ...invoking(plainRequest({})).reader, request: invoking },
  target,
  rules: bedrockClaudeRules,
}

export const bedrockDialect: DialectUnderTest = {
  conformance: [
    invokeConformant,
    {
      name: 'bedrock',
      provider: bedrock,
      target,
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
