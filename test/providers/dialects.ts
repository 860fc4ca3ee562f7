/** The test data of every provider dialect. */

import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import { anthropicDialect } from './anthropic/dialect.ts'
import { bedrockDialect } from './bedrock/dialect.ts'
import type { DialectUnderTest } from './conformance.ts'
import { geminiDialect } from './gemini/dialect.ts'
import { azureDialect, openaiDialect } from './openai/dialect.ts'
import { vertexDialect } from './vertex/dialect.ts'

export const DIALECTS: Readonly<Record<ProviderDialect, DialectUnderTest>> = {
  openai: openaiDialect,
  azure: azureDialect,
  anthropic: anthropicDialect,
  gemini: geminiDialect,
  bedrock: bedrockDialect,
  vertex: vertexDialect,
}
