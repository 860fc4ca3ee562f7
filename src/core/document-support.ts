/** Which models take documents that are files, by the documentation of each provider, as of November 2026. */

import type { ProviderDialect } from './provider-dialect.ts'

/** Claude 3.5 was the first to take PDFs. */
const OLD_CLAUDE = /claude-(?:instant|v?[12](?!\d)|3-(?:haiku|opus|sonnet))/
/** Models of OpenAI without sight. */
const BLIND_GPT = /^(?:.*\/)?(?:gpt-3\.5|gpt-4(?:-32k|-\d{4}|$)|o1-mini|o1-preview|o3-mini)/
/** Models on Bedrock that Converse's table of features has no documents for. */
const BLIND_ON_BEDROCK = /nova-micro|ai21\.j2|stability\./
const BLIND_GEMINI = /gemini-1\.0|gemini-pro$|gemma/

/** Servers with OpenAI's API may have any models: those that are not known take what callers send. */
export function takesDocuments(dialect: ProviderDialect, model: string): boolean {
  switch (dialect) {
    case 'anthropic':
      return !OLD_CLAUDE.test(model)
    case 'bedrock':
      return !OLD_CLAUDE.test(model) && !BLIND_ON_BEDROCK.test(model)
    case 'vertex':
      return model.includes('claude') ? !OLD_CLAUDE.test(model) : !BLIND_GEMINI.test(model)
    case 'gemini':
      return !BLIND_GEMINI.test(model)
    case 'openai':
    case 'azure':
      return !BLIND_GPT.test(model)
  }
}
