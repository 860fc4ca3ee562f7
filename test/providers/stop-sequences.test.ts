/** Which of the caller's stop sequences each provider receives. */

import { expect, test } from 'bun:test'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { sentText } from './conformance.ts'
import { endpoint, plainRequest } from './requests.ts'

const CLAUDE = 'anthropic.claude-sonnet-4-5'

function stopsOf(provider: Provider, model: string, stop: readonly string[]): unknown {
  const sent = provider.request(plainRequest({ stop }), { endpoint: endpoint(), model })
  const body: JsonObject = JSON.parse(sentText(sent.body))
  const { stop: openaiStop, stop_sequences: anthropicStop, inferenceConfig, generationConfig } = body
  const config = inferenceConfig ?? generationConfig
  return openaiStop ?? anthropicStop ?? (isObject(config) ? config['stopSequences'] : undefined)
}

const ALL = ['', ' ', '\n\n', 'END', ' a ']

test.each<[name: string, provider: Provider, model: string]>([
  ['openai', openai, 'gpt'],
  ['gemini', gemini, 'gemini'],
  ['gemini on vertex', vertexGemini, 'gemini'],
  ['another model on bedrock', bedrock, 'meta.llama3-70b'],
])('%s receives blank ones, and no empty ones', (_, provider, model) => {
  expect(stopsOf(provider, model, ALL)).toEqual([' ', '\n\n', 'END', ' a '])
  expect(stopsOf(provider, model, [''])).toBeUndefined()
})

test.each<[name: string, provider: Provider]>([
  ['anthropic', anthropic],
  ['vertex', vertexClaude],
  ['bedrock', bedrock],
])('claude on %s receives none that is blank', (_, provider) => {
  expect(stopsOf(provider, CLAUDE, ALL)).toEqual(['END', ' a '])
  expect(stopsOf(provider, CLAUDE, ['', '\n'])).toBeUndefined()
})
