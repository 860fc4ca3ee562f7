/**
 * From the `model` of a request to its candidates in order: `selectModel` finds the model, `candidatesOf` the
 * candidates.
 */

import { CallerError } from '../core/caller-error.ts'
import { beginningOf } from '../core/error-message.ts'
import type { TargetRef } from '../core/model-config.ts'
import { lacks, type Needs } from './capability.ts'
import { AUTO, type Catalog, type Key, kindOf, type Model, type ModelKind, publicName } from './catalog.ts'

/** Why a model of another kind does not serve these endpoints. */
const LACKS_KIND = { image: 'makes no images', embedding: 'makes no embeddings' } as const

const NOT_ALLOWED = 'is not allowed for this API key'

/** The model that a request names, or automatic selection. */
type Selection = Model | typeof AUTO

/** What the candidates depend on besides the model. */
export interface Requirements {
  /** The kind of endpoint that was called. */
  readonly kind: ModelKind
  /** `noNeeds` for images. */
  readonly needs: Needs
}

export interface Ask extends Requirements {
  /** `model` as the caller wrote it. */
  readonly name: string
}

export interface Candidate {
  readonly model: Model
  readonly target: TargetRef
}

/**
 * A fallback, or a model of automatic selection, that cannot serve this request. `reason` follows its name: `takes no
 * images`.
 */
export interface Exclusion {
  readonly model: Model
  readonly reason: string
}

export interface Resolution {
  /** Of `resolve` never empty. */
  readonly candidates: readonly Candidate[]
  readonly excluded: readonly Exclusion[]
}

/** Models in order, and those that were left out. */
interface Choice {
  readonly models: readonly Model[]
  readonly excluded: readonly Exclusion[]
}

/**
 * The model of that name. It reads nothing of the request but the name, so that a request for a wrong model is rejected
 * before its input is estimated.
 *
 * Throws `CallerError` `model_not_found`, `model_not_allowed`, `auto_required` or `wrong_endpoint`.
 */
export function selectModel(catalog: Catalog, key: Key, name: string, kind: ModelKind): Selection {
  if (name === AUTO) {
    if (key.auto === 'off') throw notFound(name)
    return AUTO
  }
  if (key.auto === 'mandatory') {
    const wrong = `'model' must be '${AUTO}', not '${shown(name)}'`
    const message = `Automatic selection is mandatory for this API key: ${wrong}.`
    throw new CallerError('auto_required', message, { param: 'model' })
  }
  const model = catalog.lookup(name)
  if (model === 'unknown') throw notFound(name)
  if (model === 'ambiguous') {
    const message = `The alias '${shown(name)}' stands for several models. Use a name that GET /v1/models lists.`
    throw new CallerError('model_not_found', message, { param: 'model' })
  }
  if (!catalog.may(key, model)) {
    const message = `The model '${shown(name)}' is not among those allowed for this API key; GET /v1/models lists them.`
    throw new CallerError('model_not_allowed', message, { param: 'model' })
  }
  if (kindOf(model) !== kind) throw wrongEndpoint(name, kindOf(model))
  return model
}

/**
 * The candidates of a request: the targets of the selected model in order, then those of its fallbacks that the key may
 * use, that serve the same kind of endpoint and that can do what the request needs. Fallbacks of fallbacks are not
 * followed. For `auto`: the targets of every model of automatic selection that meets the same conditions; fallback
 * lists add nothing.
 *
 * A target that the circuit breaker rests is a candidate, too, because the rest ends.
 *
 * Throws `CallerError` `auto_resolution_failed`, `unsupported_schema` or `unsupported_documents`.
 */
export function candidatesOf(catalog: Catalog, key: Key, selected: Selection, required: Requirements): Resolution {
  const { schema, documents } = required.needs
  const found = allCandidates(catalog, key, selected, required)
  return documents || schema !== undefined ? thatMeet(catalog, selected, found, required) : found
}

/** Those of the candidates that take the documents of a request, and answer in the form that it asks for. */
function thatMeet(catalog: Catalog, selected: Selection, all: Resolution, { needs }: Requirements): Resolution {
  const { schema, anyJson, documents } = needs
  let found = all
  if (documents) found = thatCan(selected, found, DOCUMENTS, (one) => catalog.takesDocuments(one.model, one.target))
  if (schema !== undefined) {
    const ability = schema === 'required' ? SCHEMAS : { ...SCHEMAS, error: undefined }
    found = thatCan(selected, found, ability, ({ model, target }) => catalog.followsSchema(model, target, anyJson))
  }
  return found
}

function allCandidates(catalog: Catalog, key: Key, selected: Selection, required: Requirements): Resolution {
  if (selected !== AUTO && selected.fallbacks.length === 0) return withoutFallbacks(selected)
  const { models, excluded } =
    selected === AUTO ? automatic(catalog, key, required) : withFallbacks(catalog, key, selected, required)
  return { candidates: models.flatMap((model) => model.targets.map((target) => ({ model, target }))), excluded }
}

/** Something that targets can do or not. */
interface Ability {
  /** Why a model is passed over, after its name. */
  readonly reason: string
  /** The same of automatic selection, if none is left. */
  readonly ofNone: string
  /** If none of a named model is left. Absent: the model is kept, and the provider decides. */
  readonly error: { readonly kind: 'unsupported_schema' | 'unsupported_documents'; readonly text: string } | undefined
}

const SCHEMAS: Ability = {
  reason: 'follows no schema',
  ofNone: 'can follow a schema for its answer',
  error: { kind: 'unsupported_schema', text: 'follows no schema for its answer; send none' },
}
const DOCUMENTS: Ability = {
  reason: 'takes no documents',
  ofNone: 'takes documents',
  error: { kind: 'unsupported_documents', text: 'takes no documents; send their text' },
}

/** Those of the candidates that can do what the request needs. */
function thatCan(
  selected: Selection,
  { candidates, excluded }: Resolution,
  { reason, ofNone, error }: Ability,
  can: (candidate: Candidate) => boolean,
): Resolution {
  const kept = candidates.filter(can)
  if (kept.length > 0) {
    const models = new Set(candidates.map(({ model }) => model))
    for (const { model } of kept) models.delete(model)
    return { candidates: kept, excluded: [...excluded, ...[...models].map((model) => ({ model, reason }))] }
  }
  if (selected === AUTO) {
    const message = `No candidate of automatic selection ${ofNone}.`
    throw new CallerError('auto_resolution_failed', message, { param: 'model' })
  }
  if (error === undefined) return { candidates, excluded }
  throw new CallerError(error.kind, `The model '${publicName(selected)}' ${error.text}.`, { param: 'model' })
}

const alone = new WeakMap<Model, Resolution>()

/** Made once for a model without fallbacks, because it depends on nothing else: 25 objects less for each request. */
function withoutFallbacks(model: Model): Resolution {
  return alone.get(model) ?? madeAlone(model)
}

function madeAlone(model: Model): Resolution {
  const resolution = { candidates: model.targets.map((target) => ({ model, target })), excluded: [] }
  alone.set(model, resolution)
  return resolution
}

/** Both steps at once, if the needs are known. Throws what either throws. */
export function resolve(catalog: Catalog, key: Key, ask: Ask): Resolution {
  return candidatesOf(catalog, key, selectModel(catalog, key, ask.name, ask.kind), ask)
}

function withFallbacks(catalog: Catalog, key: Key, model: Model, { kind, needs }: Requirements): Choice {
  const fallbacks = model.fallbacks.flatMap((name) => catalog.model(name) ?? [])
  const { models, excluded } = divided(catalog, key, fallbacks, { kind, needs: fallbackNeeds(model, needs) })
  return { models: [model, ...models], excluded }
}

/**
 * What a fallback must be able to do: an answer that ignores the images, or is cut off by a small context window, is
 * worse than an error. If the requested model is configured without the same capability, that is not checked; then the
 * provider decides.
 */
function fallbackNeeds({ supports }: Model, needs: Needs): Needs {
  return {
    ...needs,
    images: needs.images && supports.has('images'),
    tools: needs.tools && supports.has('tools'),
    // A fallback that does not cache is sent the request without its marks: an answer at the full price is better than
    // an error.
    cache: false,
    ttls: [],
  }
}

function automatic(catalog: Catalog, key: Key, required: Requirements): Choice {
  const choice = divided(catalog, key, catalog.autoCandidates, required)
  if (choice.models.length > 0) return choice
  const each = choice.excluded.map(({ model, reason }) => `'${model.name}' ${reason}`)
  const why = each.length === 0 ? 'none is configured' : each.join('; ')
  const message = `No candidate of automatic selection can run this request: ${why}.`
  throw new CallerError('auto_resolution_failed', message, { param: 'model' })
}

function divided(catalog: Catalog, key: Key, models: readonly Model[], required: Requirements): Choice {
  const judged = models.map((model) => ({ model, reason: exclusion(catalog, key, model, required) }))
  return {
    models: judged.flatMap(({ model, reason }) => (reason === undefined ? [model] : [])),
    excluded: judged.flatMap(({ model, reason }) => (reason === undefined ? [] : [{ model, reason }])),
  }
}

/** Why a model is no candidate of this request. */
function exclusion(catalog: Catalog, key: Key, model: Model, { kind, needs }: Requirements): string | undefined {
  if (!catalog.may(key, model)) return NOT_ALLOWED
  if (kind === 'chat') return lacks(model, needs)
  return kindOf(model) === kind ? undefined : LACKS_KIND[kind]
}

function notFound(name: string): CallerError {
  const message = `The model '${shown(name)}' does not exist; GET /v1/models lists those that this API key may use.`
  return new CallerError('model_not_found', message, { param: 'model' })
}

const ENDPOINTS: Readonly<Record<ModelKind, string>> = {
  chat: 'is a chat model; use it at POST /v1/chat/completions, /v1/responses or /v1/messages',
  image: 'makes images; use it at POST /v1/images/generations or /v1/images/edits',
  embedding: 'makes embeddings; use it at POST /v1/embeddings',
}

function wrongEndpoint(name: string, kind: ModelKind): CallerError {
  return new CallerError('wrong_endpoint', `The model '${shown(name)}' ${ENDPOINTS[kind]}.`, { param: 'model' })
}

/**
 * The most characters of a caller's model name that an error shows: a name may be as long as the body. No configured
 * name is longer.
 */
const SHOWN_MAX = 128

function shown(name: string): string {
  return beginningOf(name, SHOWN_MAX)
}
