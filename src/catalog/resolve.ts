/** From the name that a caller wrote to the candidates that may answer, in order, or one of the model errors (decisions.md, Models). */

import { CallerError } from '../core/caller-error.ts'
import { lacks, type Needs } from './capability.ts'
import { AUTO, type Catalog, type Key, kindOf, type Model, type ModelKind, type TargetRef } from './catalog.ts'

const NOT_ALLOWED = 'is not allowed for this API key'

/** What is asked for. */
export interface Ask {
  /** `model` as the caller wrote it. */
  readonly name: string
  /** Which endpoint was called. */
  readonly kind: ModelKind
  /** Decides which candidates of `auto` and which fallbacks there are; `noNeeds` for images. */
  readonly needs: Needs
}

export interface Candidate {
  readonly model: Model
  readonly target: TargetRef
}

/** A model of the list that is none of this request's candidates. `reason` follows its name: `takes no images`. */
export interface Exclusion {
  readonly model: Model
  readonly reason: string
}

export interface Resolution {
  /** Never empty. */
  readonly candidates: readonly Candidate[]
  readonly excluded: readonly Exclusion[]
}

/** Models in order, and those that were left out. */
interface Choice {
  readonly models: readonly Model[]
  readonly excluded: readonly Exclusion[]
}

/**
 * The candidates of a request: the targets of the model in order, then those of its fallbacks that the key may use, that answer the
 * same endpoint and that can do what the request needs. Fallbacks of fallbacks are not followed: the model's own list is the whole
 * order. For `auto` the targets of every candidate that the key may use and that can do what the request needs; a fallback list does
 * not add to them.
 *
 * Throws `model_not_found`, `model_not_allowed`, `auto_required`, `auto_resolution_failed` or `wrong_endpoint`. That a target rests
 * rules nothing out here, because it passes.
 */
export function resolve(catalog: Catalog, key: Key, ask: Ask): Resolution {
  const { models, excluded } = ask.name === AUTO ? automatic(catalog, key, ask) : named(catalog, key, ask)
  return { candidates: models.flatMap((model) => model.targets.map((target) => ({ model, target }))), excluded }
}

/** The model of that name and its fallbacks. */
function named(catalog: Catalog, key: Key, ask: Ask): Choice {
  if (key.auto === 'mandatory') {
    const message = `Automatic selection is mandatory for this API key: 'model' must be '${AUTO}', not '${shown(ask.name)}'.`
    throw new CallerError('auto_required', message, { param: 'model' })
  }
  const model = catalog.lookup(ask.name)
  if (model === 'unknown') throw notFound(ask.name)
  if (model === 'ambiguous') {
    const message = `The alias '${shown(ask.name)}' stands for several models and none is guessed; use a name that GET /v1/models lists.`
    throw new CallerError('model_not_found', message, { param: 'model' })
  }
  if (!catalog.may(key, model)) {
    const message = `The model '${shown(ask.name)}' is not among those allowed for this API key; GET /v1/models lists them.`
    throw new CallerError('model_not_allowed', message, { param: 'model' })
  }
  if (kindOf(model) !== ask.kind) throw wrongEndpoint(ask.name, kindOf(model))
  const fallbacks = model.fallbacks.flatMap((name) => catalog.model(name) ?? [])
  const { models, excluded } = divide(fallbacks, (other) => unfit(catalog, key, ask, model, other))
  return { models: [model, ...models], excluded }
}

/**
 * Why a fallback is none for this request. An answer without the pictures, or cut off by a small window, would be worse than none. But
 * where the model that was asked for lacks the same, its configuration says too little to judge by: then the provider decides.
 */
function unfit(catalog: Catalog, key: Key, { kind, needs }: Ask, asked: Model, other: Model): string | undefined {
  if (!catalog.may(key, other)) return NOT_ALLOWED
  if (kindOf(other) !== kind) return kind === 'image' ? 'makes no images' : 'makes images only'
  if (kind === 'image') return undefined
  return lacks(other, {
    ...needs,
    images: needs.images && asked.supports.has('images'),
    tools: needs.tools && asked.supports.has('tools'),
    // A fallback that does not cache is asked without the marks: an answer without the discount beats none.
    cache: false,
    ttls: [],
  })
}

/** The candidates of `auto` that this request can be given to. */
function automatic(catalog: Catalog, key: Key, ask: Ask): Choice {
  if (key.auto === 'off') throw notFound(ask.name)
  const choice = divide(catalog.autoCandidates, (model) => ruledOut(catalog, key, model, ask))
  if (choice.models.length > 0) return choice
  const each = choice.excluded.map(({ model, reason }) => `'${model.name}' ${reason}`)
  const why = each.length === 0 ? 'none is configured' : each.join('; ')
  const message = `No candidate of automatic selection can run this request: ${why}.`
  throw new CallerError('auto_resolution_failed', message, { param: 'model' })
}

function divide(models: readonly Model[], reasonOf: (model: Model) => string | undefined): Choice {
  const judged = models.map((model) => ({ model, reason: reasonOf(model) }))
  return {
    models: judged.flatMap(({ model, reason }) => (reason === undefined ? [model] : [])),
    excluded: judged.flatMap(({ model, reason }) => (reason === undefined ? [] : [{ model, reason }])),
  }
}

function ruledOut(catalog: Catalog, key: Key, model: Model, ask: Ask): string | undefined {
  if (!catalog.may(key, model)) return NOT_ALLOWED
  if (ask.kind === 'chat') return lacks(model, ask.needs)
  return kindOf(model) === 'image' ? undefined : 'makes no images'
}

function notFound(name: string): CallerError {
  const message = `The model '${shown(name)}' does not exist; GET /v1/models lists those that this API key may use.`
  return new CallerError('model_not_found', message, { param: 'model' })
}

function wrongEndpoint(name: string, kind: ModelKind): CallerError {
  const message =
    kind === 'image'
      ? `The model '${shown(name)}' makes images; use it at POST /v1/images/generations or /v1/images/edits.`
      : `The model '${shown(name)}' is a chat model; use it at POST /v1/chat/completions, /v1/responses or /v1/messages.`
  return new CallerError('wrong_endpoint', message, { param: 'model' })
}

/** A name may be as long as a body; no configured one is longer than this. */
const SHOWN_MAX = 128

function shown(name: string): string {
  return name.length <= SHOWN_MAX ? name : `${name.slice(0, SHOWN_MAX)}…`
}
