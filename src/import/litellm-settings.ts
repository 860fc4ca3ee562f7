/** The providers of LiteLLM that weir can call, and `litellm_params` of a model → an entry of `providers` of weir. */

import { DAY_MS } from '../core/durations.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import type { ProviderDialect } from '../core/provider-dialect.ts'
import type { Notes } from './litellm-notes.ts'

/** A provider of LiteLLM that weir can call. */
interface LitellmProvider {
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

/** By the prefix of `litellm_params.model`. */
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

interface Entry {
  readonly place: string
  readonly name: string
  readonly params: JsonObject
}

/** The entry; undefined if it lacks an address, after a note. */
export function providerOf(
  known: LitellmProvider,
  { place, name, params }: Entry,
  notes: Notes,
): JsonObject | undefined {
  if (known.dialect === 'bedrock') return bedrockOf(params, place, notes)
  if (known.dialect === 'vertex') return vertexOf(params, place, notes)
  const base = reference(params['api_base'] ?? params['base_url'])
  const key = reference(params['api_key'])
  const settings: Record<string, JsonValue> = { dialect: known.dialect }
  const address = base === undefined ? known.baseUrl : withoutEndpoint(base, known)
  if (known.dialect === 'azure') settings['base_url'] = address ?? variable('AZURE_API_BASE')
  else if (address !== undefined) settings['base_url'] = address
  else if (known.keyVariable === undefined) {
    notes.lost(place, `${name} is not carried over: it has no api_base`)
    return undefined
  }
  if (key !== undefined) settings['api_key'] = key
  else if (known.keyVariable !== undefined) settings['api_key'] = variable(known.keyVariable)
  if (known.dialect === 'azure') settings['api_version'] = versionOf(params, place, notes)
  const headers = headersOf(params)
  if (headers !== undefined) settings['headers'] = headers
  const timeout = params['timeout']
  if (typeof timeout === 'number' && timeout > 0)
    settings['total_timeout_ms'] = Math.min(DAY_MS, Math.max(1, Math.round(timeout * 1000)))
  return settings
}

const AZURE_VERSION = '2025-04-01-preview'

function versionOf(params: JsonObject, place: string, notes: Notes): string {
  const written = reference(params['api_version'])
  if (written !== undefined) return written
  notes.assumed(place, `has no api_version; weir uses ${AZURE_VERSION}`)
  return AZURE_VERSION
}

/** An address as weir has it: without the path that the adapter appends. */
function withoutEndpoint(base: string, { dialect }: LitellmProvider): string {
  const address = base.replace(/\/+$/, '')
  const endpoint = /\/(?:chat\/completions|completions|responses|messages|v1\/messages)$/
  const bare = address.replace(endpoint, '')
  if (dialect === 'anthropic') return bare.replace(/\/v1$/, '')
  if (dialect === 'gemini') return bare.replace(/\/v1(?:beta)?$/, '')
  // LiteLLM passes the address of OpenAI's client on, which appends no /v1; Ollama's own API is elsewhere.
  return dialect === 'openai' && /:11434$/.test(bare) ? `${bare}/v1` : bare
}

/** What names an identity that the machine has or may take. */
const MACHINE_IDENTITY = ['aws_role_name', 'aws_profile_name', 'aws_web_identity_token']
const NEEDS_REGION = 'us-east-1'

function bedrockOf(params: JsonObject, place: string, notes: Notes): JsonObject {
  const region = reference(params['aws_region_name'] ?? params['aws_region'])
  if (region === undefined) notes.assumed(place, `has no aws_region_name; weir uses ${NEEDS_REGION}`)
  const settings: JsonObject = { dialect: 'bedrock', region: region ?? NEEDS_REGION }
  const key = reference(params['api_key'])
  if (key !== undefined) return { ...settings, api_key: key }
  const found = MACHINE_IDENTITY.filter((name) => reference(params[name]) !== undefined)
  const hasKeys = params['aws_access_key_id'] !== undefined || params['aws_secret_access_key'] !== undefined
  if (found.length > 0 && !hasKeys) {
    const named = found.map((name) => `${name} (${reference(params[name])})`).join(', ')
    notes.toDo(place, `credentials: default takes the identity of the machine; give it that of ${named}`)
    return { ...settings, credentials: 'default' }
  }
  for (const name of found) notes.lost(place, `${name} is not carried over, because there are keys of AWS`)
  const token = reference(params['aws_session_token'])
  return {
    ...settings,
    access_key_id: reference(params['aws_access_key_id']) ?? variable('AWS_ACCESS_KEY_ID'),
    secret_access_key: reference(params['aws_secret_access_key']) ?? variable('AWS_SECRET_ACCESS_KEY'),
    ...(token === undefined ? {} : { session_token: token }),
  }
}

const NEEDS_LOCATION = 'us-central1'

/** LiteLLM takes credentials as the path of a file or as JSON. Without them it uses those of the machine. */
function vertexOf(params: JsonObject, place: string, notes: Notes): JsonObject {
  const location = reference(params['vertex_location'] ?? params['vertex_ai_location'])
  if (location === undefined) notes.assumed(place, `has no vertex_location; weir uses ${NEEDS_LOCATION}`)
  const settings = {
    dialect: 'vertex',
    project: reference(params['vertex_project'] ?? params['vertex_ai_project']) ?? variable('VERTEXAI_PROJECT'),
    location: location ?? NEEDS_LOCATION,
  }
  const written = params['vertex_credentials'] ?? params['vertex_ai_credentials']
  if (isObject(written)) return { ...settings, service_account: JSON.stringify(written) }
  const key = reference(written)
  if (key === undefined) return { ...settings, credentials: 'default' }
  const isReference = key !== written
  if (isReference)
    notes.toDo(place, `service_account takes the JSON of the key itself, not a path; see that ${key} has it`)
  return { ...settings, service_account: isReference || key.startsWith('{') ? key : variable(`file:${key}`) }
}

function headersOf(params: JsonObject): JsonObject | undefined {
  const given = params['extra_headers'] ?? params['headers']
  const headers = Object.entries(isObject(given) ? given : {}).map(([name, value]) => [name, reference(value) ?? ''])
  const organization = reference(params['organization'])
  if (organization !== undefined) headers.push(['OpenAI-Organization', organization])
  return headers.length === 0 ? undefined : Object.fromEntries(headers)
}

/** `os.environ/NAME` → NAME. */
export function variableOf(written: string): string | undefined {
  return /^os\.environ\/([A-Za-z_]\w*)$/.exec(written)?.[1]
}

/** `os.environ/NAME` → a reference; undefined if there is no value. */
function reference(value: JsonValue | undefined): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  const text = String(value)
  const name = variableOf(text)
  return name === undefined ? text : variable(name)
}

/** A reference of weir's configuration. */
function variable(name: string): string {
  return `\${${name}}`
}

/** Providers by name. Entries that are equal share one. */
export class Providers {
  readonly all: Record<string, JsonValue> = {}

  nameOf(provider: string, settings: JsonObject): string {
    const base = provider.replaceAll('_', '-')
    for (let number = 1; ; number++) {
      const name = number === 1 ? base : `${base}-${number}`
      const known = this.all[name]
      if (known === undefined) this.all[name] = settings
      if (known === undefined || Bun.deepEquals(known, settings)) return name
    }
  }
}
