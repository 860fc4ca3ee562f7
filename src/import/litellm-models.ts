/** The models of a LiteLLM file → providers and models of weir. */

import { MODEL_NAME } from '../config/field-types.ts'
import { amountProblem } from '../config/spend-limits.ts'
import { shifted } from '../core/decimal.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../core/json.ts'
import { addAliases, addFallbacks, DOES, type Kind } from './litellm-links.ts'
import type { Notes } from './litellm-notes.ts'
import { isTokenPrice, litellmPrice, type PartialPrice } from './litellm-prices.ts'
import { LITELLM_PROVIDERS, Providers, providerOf, splitModel } from './litellm-settings.ts'

interface Entry {
  /** Of the list of models; that of its pattern for a model that only the file of prices names. */
  readonly place: string
  readonly isOfPattern?: boolean
  readonly name: string
  readonly params: JsonObject
  readonly info: JsonObject
}

interface Target {
  readonly provider: string
  readonly model: string
  readonly weight?: number
}

interface Model {
  readonly targets: Target[]
  readonly kind: Kind
  /** The entries that share this name. */
  readonly entries: Entry[]
  readonly fallbacks: string[]
  readonly aliases: string[]
}

/** `prices`: LiteLLM's file of model prices, by name. */
export function litellmModels(
  file: JsonObject,
  prices: JsonObject,
  notes: Notes,
): { readonly providers: JsonObject; readonly models: readonly JsonObject[] } {
  const providers = new Providers()
  const models = new Map<string, Model>()
  for (const entry of entriesOf(file, prices, notes)) {
    const target = targetOf(entry, providers, notes)
    if (target === undefined) continue
    const kind = kindOf(modeOf(entry)) ?? 'chat'
    const known = models.get(entry.name)
    if (known === undefined) {
      models.set(entry.name, { targets: [target], kind, entries: [entry], fallbacks: [], aliases: [] })
    } else if (known.kind !== kind) {
      notes.lost(entry.place, `is not carried over: another ${entry.name} ${DOES[known.kind]}; give one another name`)
    } else {
      known.entries.push(entry)
      if (!known.targets.some((other) => other.provider === target.provider && other.model === target.model))
        known.targets.push(target)
    }
    if (entry.isOfPattern !== true) noteParameters(entry, notes)
  }
  addFallbacks(file, models, notes)
  addAliases(file, models, notes)
  const named = Array.from(models, ([name, model]) => modelOf(name, model, notes))
  return { providers: providers.all, models: named }
}

/** The entries with a name that weir can have, and with the credentials that they refer to. */
function entriesOf(file: JsonObject, prices: JsonObject, notes: Notes): readonly Entry[] {
  const list = isArray(file['model_list']) ? file['model_list'] : []
  return list.flatMap((one, index) => {
    const place = `model_list[${index}]`
    const written = isObject(one) ? stringOf(one['model_name']) : undefined
    if (!isObject(one) || written === undefined || !isObject(one['litellm_params'])) {
      notes.lost(place, 'is not carried over: it has no model_name or no litellm_params')
      return []
    }
    if (/[*]./.test(written)) {
      notes.lost(place, `${written} is not carried over: a pattern of weir has its * at the end`)
      return []
    }
    const name = publicName(written)
    if (name !== written) notes.assumed(place, `${written} became ${name}: weir cannot have that name`)
    const own = isObject(one['model_info']) ? one['model_info'] : {}
    const params = withCredential(file, one['litellm_params'], place, notes)
    const info = { ...published(prices, params, own), ...own }
    noteTiers(name, info, notes)
    const entry = { place, name, params, info }
    return name.endsWith('*') ? withPublished(entry, list, prices, notes) : [entry]
  })
}

/**
 * The models of a pattern that the file of prices has, each with its own price, and the pattern for all others, with
 * the highest of those prices: LiteLLM charges each model what the file has. A name of the list stays what it is there.
 */
function withPublished(entry: Entry, list: readonly JsonValue[], prices: JsonObject, notes: Notes): readonly Entry[] {
  const { name, params, info } = entry
  const { provider, model } = splitModel(stringOf(params['model']) ?? '', stringOf(params['custom_llm_provider']))
  // Deployments of Azure have names of their own, and prices of another provider would be wrong.
  if (!model.endsWith('*') || litellmPrice({ ...info, ...params }) !== undefined || provider === 'azure') return [entry]
  const listed = new Set(list.map((one) => (isObject(one) ? stringOf(one['model_name']) : undefined)))
  const start = model.slice(0, -1)
  const found = new Map<string, Entry>()
  for (const [key, value] of Object.entries(prices)) {
    if (!isObject(value) || !isOfProvider(key, value, provider)) continue
    const bare = key.startsWith(`${provider}/`) ? key.slice(provider.length + 1) : key
    const own = name.slice(0, -1) + bare.slice(start.length)
    const isFit = bare.startsWith(start) && /^[\w.@:-]+$/.test(bare.slice(start.length)) && publicName(own) === own
    if (!isFit || listed.has(own) || litellmPrice(value) === undefined) continue
    const of = { ...params, model: `${provider}/${bare}` }
    found.set(own, { ...entry, name: own, params: of, info: { ...value, ...info }, isOfPattern: true })
  }
  if (found.size === 0) return [entry]
  notes.assumed(name, `${found.size} models of the price file have their own price; others have the highest of these`)
  return [...found.values(), { ...entry, info: { ...highest([...found.values()]), ...info } }]
}

/** Chat models alone: a pattern has one kind. `vertex_ai-language-models` is of `vertex_ai`. */
function isOfProvider(key: string, value: JsonObject, provider: string): boolean {
  const [mode, of = ''] = [stringOf(value['mode']) ?? 'chat', stringOf(value['litellm_provider'])]
  const isSame = of === provider || of === `${provider}_converse` || of.startsWith(`${provider}-`)
  return (mode === 'chat' || mode === 'responses') && isSame && key.split('/').length <= 2
}

/** The highest price of each kind. */
function highest(entries: readonly Entry[]): JsonObject {
  const most: Record<string, number> = {}
  for (const { info } of entries) {
    for (const [field, cost] of Object.entries(info)) {
      if (isTokenPrice(field) && typeof cost === 'number') most[field] = Math.max(most[field] ?? 0, cost)
    }
  }
  return most
}

/** A name that weir can have. */
export function publicName(written: string): string {
  const name = written.replaceAll(/[^\x21-\x2b\x2d-\x7e]+/g, '-').slice(0, 128)
  const isFit = new RegExp(MODEL_NAME).test(name) && name !== 'auto'
  return isFit ? name : `${name || 'model'}-1`
}

/** What the file of prices has of a model: under its base model, its whole name, or the name without the provider. */
function published(prices: JsonObject, params: JsonObject, info: JsonObject): JsonObject {
  const written = stringOf(params['model']) ?? ''
  const { provider, model } = splitModel(written, stringOf(params['custom_llm_provider']))
  const bare = LITELLM_PROVIDERS[provider]?.dialect === 'bedrock' ? splitBedrock(model).model : model
  const base = stringOf(info['base_model']) ?? stringOf(params['base_model'])
  const names = [...(base === undefined ? [] : [base, `${provider}/${base}`]), written, `${provider}/${bare}`, bare]
  const found = names.map((name) => (Object.hasOwn(prices, name) ? prices[name] : undefined)).find(isObject)
  return found ?? {}
}

/** Prices that weir has nothing for. */
function noteTiers(name: string, info: JsonObject, notes: Notes): void {
  const priced = /_above_\d|_batches$|_flex$|_priority$|_audio_token|search_context_cost/
  const lost = Object.keys(info).filter((name) => priced.test(name) && info[name] != null && !isTokenPrice(name))
  if (lost.length > 0) notes.lost(name, `${lost.join(', ')}: weir has no such price`)
}

function withCredential(file: JsonObject, params: JsonObject, place: string, notes: Notes): JsonObject {
  const name = stringOf(params['litellm_credential_name'])
  if (name === undefined) return params
  const list = isArray(file['credential_list']) ? file['credential_list'].filter(isObject) : []
  const values = list.find((each) => each['credential_name'] === name)?.['credential_values']
  if (isObject(values)) return { ...values, ...params }
  notes.toDo(place, `the credential ${name} is not in credential_list; set api_key of its provider`)
  return params
}

/** `converse/eu-west-3/anthropic.claude-…`: the route and the region are optional. */
function splitBedrock(written: string): { readonly region?: string; readonly model: string } {
  const [, region, model = ''] =
    /^(?:(?:converse|invoke|converse_like)\/)?(?:([a-z]{2}(?:-[a-z]+)+-\d)\/)?(.*)$/s.exec(written) ?? []
  return region === undefined ? { model } : { region, model }
}

const IMAGE = /^(?:dall-e|gpt-image|chatgpt-image)/i
/** What weir has no endpoint for. */
const EMBEDDING = /embed/i
const OTHER = /whisper|tts|rerank|moderation|transcri|speech|realtime|sora|veo|imagen/i

function modeOf({ params, info }: Entry): string {
  const mode = stringOf(info['mode'])
  if (mode !== undefined) return mode === 'image_generation' ? 'image' : mode === 'responses' ? 'chat' : mode
  const { model } = splitModel(stringOf(params['model']) ?? '', undefined)
  const name = model.split('/').at(-1) ?? ''
  if (EMBEDDING.test(name)) return 'embedding'
  return IMAGE.test(name) ? 'image' : OTHER.test(name) ? 'of another endpoint' : 'chat'
}

function kindOf(mode: string): Kind | undefined {
  return mode === 'chat' || mode === 'image' || mode === 'embedding' ? mode : undefined
}

function targetOf(entry: Entry, providers: Providers, notes: Notes): Target | undefined {
  const { place, name, params } = entry
  const lost = (why: string) => {
    notes.lost(place, `${name} is not carried over: ${why}`)
    return undefined
  }
  const mode = modeOf(entry)
  const kind = kindOf(mode)
  if (kind === undefined) return lost(`mode ${mode}; weir serves chat, image generation and embeddings`)
  const { provider, model } = splitModel(stringOf(params['model']) ?? '', stringOf(params['custom_llm_provider']))
  const known = Object.hasOwn(LITELLM_PROVIDERS, provider) ? LITELLM_PROVIDERS[provider] : undefined
  if (known === undefined) return lost(`weir has no adapter for provider ${provider}`)
  if (kind !== 'chat' && known.dialect !== 'openai' && known.dialect !== 'azure')
    return lost(`weir ${DOES[kind]} with openai and azure only, not ${provider}`)
  const { region, model: inner } = known.dialect === 'bedrock' ? splitBedrock(model) : { model }
  const isPattern = name.endsWith('*')
  if (inner === '' || /[*]./.test(inner) || inner.endsWith('*') !== isPattern)
    return lost(`litellm_params.model ${inner} does not fit the name: both end in *, or neither`)
  if (known.dialect === 'vertex' && !/^(?:gemini|claude)-/.test(inner))
    return lost('weir calls Gemini and Claude on Vertex AI, and no other models')
  // LiteLLM prefers the region of the parameters to that of the name.
  const placed = region === undefined ? params : { aws_region_name: region, ...params }
  const settings = providerOf(known, { ...entry, params: placed }, notes)
  if (settings === undefined) return undefined
  const { weight } = params
  const isWeight = typeof weight === 'number' && weight >= 0
  return { provider: providers.nameOf(provider, settings), model: inner, ...(isWeight ? { weight } : {}) }
}

/** The members of `litellm_params` that the target and the model are made of. */
const CARRIED: ReadonlySet<string> = new Set([
  ...['model', 'api_key', 'api_base', 'base_url', 'api_version', 'custom_llm_provider', 'extra_headers', 'headers'],
  ...['aws_region_name', 'aws_region', 'aws_access_key_id', 'aws_secret_access_key', 'aws_session_token', 'timeout'],
  ...['aws_role_name', 'aws_profile_name', 'aws_web_identity_token', 'litellm_credential_name'],
  ...['vertex_project', 'vertex_location', 'vertex_credentials', 'organization'],
  ...['vertex_ai_project', 'vertex_ai_location', 'vertex_ai_credentials'],
  ...['drop_params', 'region_name', 'weight', 'max_tokens'],
  ...['output_cost_per_image', 'input_cost_per_image', 'base_model'],
])

function noteParameters({ place, params }: Entry, notes: Notes): void {
  for (const name of Object.keys(params)) {
    if (CARRIED.has(name) || isTokenPrice(name) || params[name] === null) continue
    const isRate = name === 'rpm' || name === 'tpm'
    const advice = isRate ? '; weir limits organisations and keys (requests_per_minute, tokens_per_minute)' : ''
    notes.lost(`${place}.litellm_params.${name}`, `is not carried over${advice}`)
  }
}

const SUPPORTS: Readonly<Partial<Record<Kind, string[]>>> = { image: ['image_generation'], embedding: ['embeddings'] }

function modelOf(name: string, model: Model, notes: Notes): JsonObject {
  const { targets, kind, entries, fallbacks, aliases } = model
  const { price, partial = [] } = priceOf(entries, kind) ?? {}
  for (const { tier, above, lacks } of partial) notes.toDo(name, partText(tier, above, lacks))
  if (price === undefined)
    notes.toDo(name, 'has no price; without one it cannot be used under a spend limit, and costs nothing')
  if (targets.length > 1)
    notes.assumed(
      name,
      'its targets got spread: weighted, so that a conversation stays with one; remove it to try them in order',
    )
  const window = numberIn(entries, 'max_input_tokens')
  // The older name; providers that count input, too, have the other as well.
  const output = numberIn(entries, 'max_output_tokens') ?? numberIn(entries, 'max_tokens')
  const usual = usualOutput(name, entries, output, notes)
  const isFit = output !== undefined && (window === undefined || output <= window)
  return {
    name,
    ...(aliases.length > 0 ? { aliases } : {}),
    targets: targets.map(({ provider, model, weight }) => ({
      ...{ provider, model },
      ...(targets.length > 1 && weight !== undefined ? { weight } : {}),
    })),
    ...(targets.length > 1 ? { spread: 'weighted' } : {}),
    ...(fallbacks.length > 0 ? { fallbacks } : {}),
    ...(price === undefined ? {} : { price }),
    ...(window === undefined || kind !== 'chat' ? {} : { context_window: window }),
    ...(isFit && kind === 'chat' ? { max_output_tokens: output } : {}),
    ...(usual === undefined || kind !== 'chat' ? {} : { default_output_tokens: usual }),
    supports: SUPPORTS[kind] ?? supportsOf(name, entries, notes),
  }
}

/** `max_tokens` of the parameters, which LiteLLM sends for requests that have none. */
function usualOutput(
  name: string,
  entries: readonly Entry[],
  most: number | undefined,
  notes: Notes,
): number | undefined {
  const found = entries.map(({ params }) => params['max_tokens']).find((value) => Number.isSafeInteger(value))
  if (typeof found !== 'number' || found < 1) return undefined
  notes.assumed(name, `max_tokens became default_output_tokens ${found}, for Responses and Messages`)
  return most === undefined ? found : Math.min(found, most)
}

function supportsOf(name: string, entries: readonly Entry[], notes: Notes): string[] {
  const words = [
    ['supports_function_calling', 'tools'],
    ['supports_vision', 'images'],
  ] as const
  const isKnown = entries.some(({ info }) => words.some(([field]) => typeof info[field] === 'boolean'))
  if (!isKnown) notes.assumed(name, 'supports: [tools, images] is assumed; correct it')
  return words.flatMap(([field, word]) => (!isKnown || entries.some(({ info }) => info[field] === true) ? [word] : []))
}

/** A whole number of `model_info` of one of the entries. */
function numberIn(entries: readonly Entry[], field: string): number | undefined {
  return entries
    .map(({ info }) => info[field])
    .find((value): value is number => typeof value === 'number' && Number.isInteger(value) && value > 0)
}

/** What an operator has to find out about a price that LiteLLM has in part. */
function partText(tier: string | undefined, above: number, lacks: PartialPrice['lacks']): string {
  const length = above === 0 ? '' : ` above ${above} tokens`
  const what = `has no ${lacks.join(' and no ')} price${tier === undefined ? '' : ` of tier ${tier}`}${length}`
  const isLeftOut = tier !== undefined && above === 0
  return isLeftOut ? `${what}, so the tier is left out; add it to price.tiers` : `${what}; add it`
}

/** Prices of `litellm_params`, and those of `model_info` that these lack: of the first entry that has any. */
function priceOf(entries: readonly Entry[], kind: Kind): Partial<ReturnType<typeof litellmPrice>> {
  const written = entries.toReversed().map(({ params, info }) => ({ ...stated(info), ...stated(params) }))
  const all: JsonObject = Object.assign({}, ...written)
  const image = [all['output_cost_per_image'], all['input_cost_per_image']]
    .map((cost) => Number(shifted(cost, 0) ?? Number.NaN))
    .find((cost) => cost >= 0)
  if (kind === 'image' && image !== undefined && amountProblem(image) === undefined) return { price: { image } }
  if (kind !== 'embedding') return litellmPrice(all)
  const input = litellmPrice({ ...all, output_cost_per_token: 0 })?.price['input']
  return input === undefined ? undefined : { price: { input } }
}

function stated(values: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null))
}
