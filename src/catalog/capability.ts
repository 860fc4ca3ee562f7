/** What a request needs, what a model lacks for it, and how much output a model is asked for. */

import type { ChatRequest } from '../core/chat-request.ts'
import * as Kind from '../core/entry-kinds.ts'
import { kindOf, type Model } from './catalog.ts'
import { type Marks, marksOf } from './request-marks.ts'

export interface Needs extends Marks {
  /** Whether any message holds an image. */
  readonly images: boolean
  /** Whether any message holds a document that is a file: one of text goes to every model. */
  readonly documents: boolean
  readonly tools: boolean
  /** Our estimate of the input. Together with the output limit it must fit into the context window. */
  readonly inputTokens: number
  readonly maxOutputTokens: number | undefined
  readonly limitsOutput: boolean
  /**
   * Whether the answer must follow a schema: models that cannot are passed over if others can (`preferred`), or are no
   * candidates at all (`required`).
   */
  readonly schema: 'preferred' | 'required' | undefined
  /** Whether that is any JSON, without a schema. */
  readonly anyJson: boolean
  /** Whether a cache mark that the model cannot honour is an error. */
  readonly cache: boolean
}

/** The needs of a request for images, and those that `explain` starts from. */
export const noNeeds: Needs = {
  images: false,
  documents: false,
  tools: false,
  inputTokens: 0,
  maxOutputTokens: undefined,
  limitsOutput: false,
  schema: undefined,
  anyJson: false,
  cache: false,
  ttls: [],
  isMarked: false,
}

/**
 * Reads the whole history, once per request. `inputTokens` is the estimate that the ledger reserves, too. `schemas`:
 * whether models are chosen by whether they follow a schema.
 */
export function needsOf(request: ChatRequest, inputTokens: number, schemas = false): Needs {
  const marks = marksOf(request)
  const { conversation } = request
  return {
    images: conversation.has(Kind.IMAGE) || conversation.has(Kind.IMAGE_URL),
    documents: conversation.has(Kind.DOCUMENT) || conversation.has(Kind.DOCUMENT_URL),
    tools: !request.tools.isEmpty,
    inputTokens,
    maxOutputTokens: request.maxOutputTokens,
    limitsOutput: request.limitsOutput,
    schema: schemas ? schemaNeed(request) : undefined,
    anyJson: request.sampling.responseFormat?.['type'] === 'json_object',
    cache: request.cacheStrict && marks.isMarked,
    ttls: marks.ttls,
    isMarked: marks.isMarked,
  }
}

function schemaNeed({ sampling: { responseFormat, requiresFormat } }: ChatRequest): Needs['schema'] {
  if (responseFormat === undefined || responseFormat['type'] === 'text') return undefined
  return requiresFormat === true ? 'required' : 'preferred'
}

/** Why a model of another kind serves no chat request. */
const NOT_FOR_CHAT = { image: 'makes images only', embedding: 'makes embeddings only' } as const

/** Why a chat model cannot serve a request, in words that follow its name (`takes no images`); undefined if it can. */
export function lacks(model: Model, needs: Needs): string | undefined {
  const kind = kindOf(model)
  if (kind !== 'chat') return NOT_FOR_CHAT[kind]
  if (needs.images && !model.supports.has('images')) return 'takes no images'
  if (needs.tools && !model.supports.has('tools')) return 'takes no tools'
  return lacksRoom(model, needs) ?? lacksCache(model, needs)
}

function lacksRoom(model: Model, needs: Needs): string | undefined {
  const output = outputLimit(model, needs) ?? 0
  if (model.contextWindow === undefined || needs.inputTokens + output <= model.contextWindow) return undefined
  const needed = `an estimated ${needs.inputTokens} of input and ${output} of output`
  return `has a context window of ${model.contextWindow} tokens, too few for ${needed}`
}

function lacksCache(model: Model, needs: Needs): string | undefined {
  if (needs.cache && !model.promptCache.explicit) return 'does not support cache_control'
  const ttl = needs.ttls.find((wanted) => !model.promptCache.explicit || !model.promptCache.ttls.has(wanted))
  return ttl === undefined ? undefined : `does not support a cache TTL of ${ttl}`
}

interface AskedOutput {
  readonly maxOutputTokens?: number | undefined
  readonly limitsOutput: boolean
}

/**
 * The most output tokens that a model is asked for: the caller's limit, or the model's default if the dialect has one,
 * lowered to the model's maximum. Undefined if neither is set; then the model's own limit applies.
 */
export function outputLimit(model: Model, asked: AskedOutput): number | undefined {
  const wanted = asked.maxOutputTokens ?? (asked.limitsOutput ? model.defaultOutputTokens : undefined)
  if (wanted === undefined || model.maxOutputTokens === undefined) return wanted
  return Math.min(wanted, model.maxOutputTokens)
}

/**
 * The output limit under a strict spend limit. If the caller sets none, it is the model's maximum, lowered to what the
 * context window leaves after the input.
 */
export function strictOutputLimit(model: Model, asked: AskedOutput, inputTokens: number): number | undefined {
  const set = outputLimit(model, asked)
  if (set !== undefined || model.maxOutputTokens === undefined) return set
  const room = (model.contextWindow ?? Number.POSITIVE_INFINITY) - inputTokens
  return room >= 1 ? Math.min(model.maxOutputTokens, room) : model.maxOutputTokens
}
