/** The providers of LiteLLM that weir can call, by the prefix of `litellm_params.model`. */

import type { ProviderDialect } from '../config/provider-dialects.ts'

export interface LitellmProvider {
  readonly dialect: ProviderDialect
  /** Absent: the dialect's own, or `api_base` is required. */
  readonly baseUrl?: string
  /** The variable that LiteLLM reads if the file names no key. */
  readonly keyVariable?: string
}

export const LITELLM_PROVIDERS: Readonly<Record<string, LitellmProvider>> = {
  openai: { dialect: 'openai', keyVariable: 'OPENAI_API_KEY' },
  azure: { dialect: 'azure', keyVariable: 'AZURE_API_KEY' },
  anthropic: { dialect: 'anthropic', keyVariable: 'ANTHROPIC_API_KEY' },
  gemini: { dialect: 'gemini', keyVariable: 'GEMINI_API_KEY' },
  bedrock: { dialect: 'bedrock' },
  vertex_ai: { dialect: 'vertex' },
  vertex_ai_beta: { dialect: 'vertex' },
  groq: { dialect: 'openai', baseUrl: 'https://api.groq.com/openai/v1', keyVariable: 'GROQ_API_KEY' },
  mistral: { dialect: 'openai', baseUrl: 'https://api.mistral.ai/v1', keyVariable: 'MISTRAL_API_KEY' },
  deepseek: { dialect: 'openai', baseUrl: 'https://api.deepseek.com/v1', keyVariable: 'DEEPSEEK_API_KEY' },
  together_ai: { dialect: 'openai', baseUrl: 'https://api.together.xyz/v1', keyVariable: 'TOGETHERAI_API_KEY' },
  fireworks_ai: {
    dialect: 'openai',
    baseUrl: 'https://api.fireworks.ai/inference/v1',
    keyVariable: 'FIREWORKS_AI_API_KEY',
  },
  openrouter: { dialect: 'openai', baseUrl: 'https://openrouter.ai/api/v1', keyVariable: 'OPENROUTER_API_KEY' },
  perplexity: { dialect: 'openai', baseUrl: 'https://api.perplexity.ai', keyVariable: 'PERPLEXITYAI_API_KEY' },
  xai: { dialect: 'openai', baseUrl: 'https://api.x.ai/v1', keyVariable: 'XAI_API_KEY' },
  cerebras: { dialect: 'openai', baseUrl: 'https://api.cerebras.ai/v1', keyVariable: 'CEREBRAS_API_KEY' },
  nvidia_nim: {
    dialect: 'openai',
    baseUrl: 'https://integrate.api.nvidia.com/v1',
    keyVariable: 'NVIDIA_NIM_API_KEY',
  },
  deepinfra: { dialect: 'openai', baseUrl: 'https://api.deepinfra.com/v1/openai', keyVariable: 'DEEPINFRA_API_KEY' },
  sambanova: { dialect: 'openai', baseUrl: 'https://api.sambanova.ai/v1', keyVariable: 'SAMBANOVA_API_KEY' },
  moonshot: { dialect: 'openai', baseUrl: 'https://api.moonshot.ai/v1', keyVariable: 'MOONSHOT_API_KEY' },
  dashscope: {
    dialect: 'openai',
    baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    keyVariable: 'DASHSCOPE_API_KEY',
  },
  ollama: { dialect: 'openai', baseUrl: 'http://localhost:11434/v1' },
  ollama_chat: { dialect: 'openai', baseUrl: 'http://localhost:11434/v1' },
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
