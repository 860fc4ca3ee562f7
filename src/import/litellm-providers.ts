/** The providers of LiteLLM that weir can call, by the prefix of `litellm_params.model`. */

import type { ProviderDialect } from '../core/provider-dialect.ts'

export interface LitellmProvider {
  readonly dialect: ProviderDialect
  /** Absent: the dialect's own, or `api_base` is required. */
  readonly baseUrl?: string
  /** The variable that LiteLLM reads if the file names no key. */
  readonly keyVariable?: string
}

/** A server that speaks Chat Completions. */
function openai(baseUrl: string, keyVariable?: string): LitellmProvider {
  return { dialect: 'openai', baseUrl, ...(keyVariable === undefined ? {} : { keyVariable }) }
}

export const LITELLM_PROVIDERS: Readonly<Record<string, LitellmProvider>> = {
  openai: { dialect: 'openai', keyVariable: 'OPENAI_API_KEY' },
  azure: { dialect: 'azure', keyVariable: 'AZURE_API_KEY' },
  anthropic: { dialect: 'anthropic', keyVariable: 'ANTHROPIC_API_KEY' },
  gemini: { dialect: 'gemini', keyVariable: 'GEMINI_API_KEY' },
  bedrock: { dialect: 'bedrock' },
  vertex_ai: { dialect: 'vertex' },
  vertex_ai_beta: { dialect: 'vertex' },
  groq: openai('https://api.groq.com/openai/v1', 'GROQ_API_KEY'),
  mistral: openai('https://api.mistral.ai/v1', 'MISTRAL_API_KEY'),
  deepseek: openai('https://api.deepseek.com/v1', 'DEEPSEEK_API_KEY'),
  together_ai: openai('https://api.together.xyz/v1', 'TOGETHERAI_API_KEY'),
  fireworks_ai: openai('https://api.fireworks.ai/inference/v1', 'FIREWORKS_AI_API_KEY'),
  openrouter: openai('https://openrouter.ai/api/v1', 'OPENROUTER_API_KEY'),
  perplexity: openai('https://api.perplexity.ai', 'PERPLEXITYAI_API_KEY'),
  xai: openai('https://api.x.ai/v1', 'XAI_API_KEY'),
  cerebras: openai('https://api.cerebras.ai/v1', 'CEREBRAS_API_KEY'),
  nvidia_nim: openai('https://integrate.api.nvidia.com/v1', 'NVIDIA_NIM_API_KEY'),
  deepinfra: openai('https://api.deepinfra.com/v1/openai', 'DEEPINFRA_API_KEY'),
  sambanova: openai('https://api.sambanova.ai/v1', 'SAMBANOVA_API_KEY'),
  moonshot: openai('https://api.moonshot.ai/v1', 'MOONSHOT_API_KEY'),
  dashscope: openai('https://dashscope-intl.aliyuncs.com/compatible-mode/v1', 'DASHSCOPE_API_KEY'),
  ollama: openai('http://localhost:11434/v1'),
  ollama_chat: openai('http://localhost:11434/v1'),
  hosted_vllm: { dialect: 'openai' },
  vllm: { dialect: 'openai' },
  lm_studio: { dialect: 'openai' },
  llamafile: { dialect: 'openai' },
  litellm_proxy: { dialect: 'openai' },
  custom_openai: { dialect: 'openai' },
}

/** Whose models LiteLLM knows without a prefix. */
const BARE: readonly (readonly [pattern: RegExp, provider: string])[] = [
  [/^claude-/i, 'anthropic'],
  [/^gemini-/i, 'gemini'],
  [/^(?:anthropic|amazon|meta|cohere|mistral|ai21)\./i, 'bedrock'],
]

/** The provider of `litellm_params.model` and the rest of the name: `azure/my-deployment`, `gpt-4o`. */
export function splitModel(
  written: string,
  custom: string | undefined,
): { readonly provider: string; readonly model: string } {
  const [, prefix, rest] = /^([^/]+)\/(.*)$/s.exec(written) ?? []
  if (custom !== undefined) return { provider: custom, model: prefix === custom ? (rest ?? '') : written }
  if (prefix !== undefined) return { provider: prefix, model: rest ?? '' }
  return { provider: BARE.find(([pattern]) => pattern.test(written))?.[1] ?? 'openai', model: written }
}
