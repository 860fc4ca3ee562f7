/** Which providers hold a model to a JSON schema for its answer, by the documentation of each, as of November 2026. */

import type { ProviderDialect } from './provider-dialect.ts'

/** Claude 4.5 and later have structured outputs. */
const CLAUDE = /claude-[a-z]+-(?:4-[5-9]|4-\d\d(?!\d)|[5-9](?!\d)|\d\d(?!\d))/

/** Open models that Converse holds to a schema. */
const BEDROCK = /qwen3|gpt-oss|deepseek\.v3|gemma-3|minimax|kimi|nemotron|ministral|magistral|mistral-large-3/

/** Gemini 3 and later take a schema together with tools. */
export function isStructuredBesideTools(model: string): boolean {
  return /gemini-(?:[3-9]|\d\d)/.test(model)
}

/** Whether a Claude model takes `output_config.format` and `strict` tools. Earlier ones reject the fields. */
export function isStructuredClaude(model: string): boolean {
  return CLAUDE.test(model)
}

/** The same of JSON without a schema: Claude has no such mode. */
export function takesJsonMode(dialect: ProviderDialect, model: string): boolean {
  switch (dialect) {
    case 'anthropic':
    case 'bedrock':
      return false
    case 'vertex':
      return !model.includes('claude')
    case 'openai':
    case 'azure':
    case 'gemini':
      return true
  }
}

/**
 * Whether a model of a provider takes a schema. OpenAI, Azure and the servers with their API do, as far as one can know
 * by name.
 */
export function takesSchema(dialect: ProviderDialect, model: string): boolean {
  switch (dialect) {
    case 'bedrock':
      return model.includes('claude') ? isStructuredClaude(model) : BEDROCK.test(model)
    case 'anthropic':
      return isStructuredClaude(model)
    case 'vertex':
      return !model.includes('claude') || isStructuredClaude(model)
    case 'openai':
    case 'azure':
    case 'gemini':
      return true
  }
}
