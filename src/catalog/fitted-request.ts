/** A request fitted to one model: with its output limit, without cache keys and marks that it does not support. */

import { CallerError } from '../core/caller-error.ts'
import type { ChatRequest, Hints } from '../core/chat-request.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { CacheMark } from '../core/entry-marks.ts'
import type { Ttl } from '../core/model-config.ts'
import { outputLimit } from './capability.ts'
import type { Model } from './catalog.ts'
import { forEachMark, type Marks } from './request-marks.ts'

/**
 * The request fitted to a model: the output limit resolved and lowered, cache keys and marks that the model does not
 * support removed. A mark with an unsupported TTL keeps its place and gets the provider's default TTL. Returns the same
 * object if nothing changes. `marks` are those that `needsOf` has read: once per request, not per model.
 *
 * Throws `CallerError` `unsupported_cache` if the dialect is strict about marks.
 */
export function fit(request: ChatRequest, model: Model, marks: Marks): ChatRequest {
  const maxOutputTokens = outputLimit(model, request)
  const hints = model.promptCache.key ? request.hints : withoutCacheKey(request.hints)
  const change = marks.isMarked ? markChange(request, model, marks) : undefined
  const limited =
    maxOutputTokens === request.maxOutputTokens && hints === request.hints
      ? request
      : { ...request, maxOutputTokens, hints }
  const formed = withFormat(limited, model)
  return change === undefined ? formed : remark(formed, change)
}

/** A schema for the answer, or for the arguments of tools. */
function withFormat(request: ChatRequest, { supports }: Model): ChatRequest {
  const { sampling } = request
  if (!supports.has('structured_output') || !(sampling.passesFormat === true || request.tools.has(Kind.STRICT)))
    return request
  return { ...request, sampling: { ...sampling, followsFormat: true } }
}

function withoutCacheKey(hints: Hints): Hints {
  const { promptCacheKey: key, promptCacheRetention: retention, promptCacheOptions: options } = hints
  if (key === undefined && retention === undefined && options === undefined) return hints
  return { ...hints, promptCacheKey: undefined, promptCacheRetention: undefined, promptCacheOptions: undefined }
}

/** What replaces a cache mark; undefined removes it. */
type Remarking = (mark: CacheMark) => CacheMark | undefined

/** Undefined if every mark may stay as it is. */
function markChange(request: ChatRequest, model: Model, marks: Marks): Remarking | undefined {
  const { explicit, ttls } = model.promptCache
  const refused = marks.ttls.find((ttl) => !ttls.has(ttl))
  if (explicit && refused === undefined) return undefined
  if (request.cacheStrict) throw unsupported(request, model, explicit ? refused : undefined)
  return explicit ? (mark) => (mark.ttl === undefined || ttls.has(mark.ttl) ? mark : {}) : () => undefined
}

/** `ttl`: the unsupported one; undefined if the model supports no marks at all. */
function unsupported(request: ChatRequest, model: Model, ttl: Ttl | undefined): CallerError {
  const paths: string[] = []
  forEachMark(request, ({ ttl: wanted, path }) => {
    if (path !== undefined && (ttl === undefined || ttl === wanted)) paths.push(path)
  })
  const [param] = paths
  if (ttl === undefined) {
    const message = `The model '${model.name}' does not support cache_control; leave it out.`
    return new CallerError('unsupported_cache', message, { param })
  }
  const others = [...model.promptCache.ttls].map((known) => `'${known}'`)
  const known = others.length === 0 ? 'It takes no ttl' : `It takes ${others.join(' and ')}, or none`
  const message = `The model '${model.name}' does not support a cache ttl of '${ttl}'. ${known}.`
  return new CallerError('unsupported_cache', message, { param: param && `${param}.ttl` })
}

/** A copy with every mark changed. Whatever carries no mark keeps its bytes. */
function remark(request: ChatRequest, change: Remarking): ChatRequest {
  return {
    ...request,
    conversation: request.conversation.remarked(change),
    tools: request.tools.remarked(change),
    cache: request.cache && change(request.cache),
  }
}
