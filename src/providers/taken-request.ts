/** A request as one provider takes it: what only the caller's own API has goes to providers of that API alone. */

import type { ChatRequest } from '../core/chat-request.ts'
import type { OwnFields } from '../core/own-fields.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Provider, Target } from './provider.ts'

/** A request for a provider of another API, and which fields of it that provider does not get. */
interface TakenRequest {
  readonly request: ChatRequest
  readonly leftOut: readonly string[]
}

/**
 * The request without what only the caller's own API takes. Throws `ProviderError` `rejected` with `unsent` if the
 * model would have to answer without something that the user has sent.
 */
function withoutOwn(request: ChatRequest, own: OwnFields): TakenRequest {
  const { conversation, tools, toolChoice } = request
  const isChosen = toolChoice?.mode !== 'tool' || tools.only(new Set([toolChoice.name])).isEmpty === false
  const kept = conversation.withoutOwnBlocks()
  if (kept === undefined) throw new ProviderError('rejected', UNSUPPORTED_BLOCK, { unsent: true })
  const leftOut = [...Object.keys(own.members), ...own.tools.map(({ kind }) => `tools.${kind}`)]
  if (own.betas.length > 0) leftOut.push('anthropic-beta')
  if (kept !== conversation) leftOut.push('messages.content')
  return {
    request: {
      ...request,
      conversation: kept,
      toolChoice: tools.isEmpty || !isChosen ? undefined : toolChoice,
      own: undefined,
    },
    leftOut,
  }
}

/** What Messages answers for every block of an unknown type. */
const UNSUPPORTED_BLOCK = 'Unsupported Anthropic content block'

/**
 * The request as a provider takes it: without what only another API has, and which fields these are. Throws
 * `ProviderError` `rejected` with `unsent` if the model would have to answer without something that the user has sent.
 */
export function takenBy(provider: Pick<Provider, 'ownForm'>, request: ChatRequest, target: Target): TakenRequest {
  const { own } = request
  if (own === undefined || takesOwn(provider, request, target)) return { request, leftOut: NOTHING }
  return withoutOwn(request, own)
}

export function takesOwn(provider: Pick<Provider, 'ownForm'>, request: ChatRequest, target: Target): boolean {
  return request.own !== undefined && provider.ownForm?.(target, request) === request.own.form
}

const NOTHING: readonly string[] = []
