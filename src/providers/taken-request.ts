/** A request as one provider takes it: what only the caller's own API has goes to providers of that API alone. */

import type { ChatRequest } from '../core/chat-request.ts'
import { ENTRY_INTS } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { OwnFields } from '../core/own-fields.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Provider, Target } from './provider.ts'

/** A request for a provider, and which fields of it that provider does not get. */
export interface TakenRequest {
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
  const spoken = own.form === 'responses' ? withoutItems(request) : withoutBlocks(request)
  const leftOut = [...Object.keys(own.members), ...new Set(own.tools.map(({ kind }) => `tools.${kind}`))]
  if (own.betas.length > 0) leftOut.push('anthropic-beta')
  if (spoken.conversation !== conversation) leftOut.push(own.form === 'responses' ? 'input' : 'messages.content')
  return {
    request: {
      ...request,
      ...spoken,
      toolChoice: tools.isEmpty || !isChosen ? undefined : toolChoice,
      own: undefined,
    },
    leftOut,
  }
}

type Spoken = Pick<ChatRequest, 'conversation' | 'thoughts'>

function withoutBlocks({ conversation, thoughts }: ChatRequest): Spoken {
  const kept = conversation.withoutOwnBlocks()
  if (kept === undefined) throw new ProviderError('rejected', UNSUPPORTED_BLOCK, { unsent: true })
  return { conversation: kept, thoughts }
}

/** By the specification, items of unknown types are as if they had not been sent. */
function withoutItems({ conversation, thoughts }: ChatRequest): Spoken {
  if (!conversation.has(Kind.OWN_BLOCK)) return { conversation, thoughts }
  const { kept, places } = conversation.withoutOwnMessages()
  if (kept.isEmpty)
    throw new ProviderError('rejected', 'The input holds no item that this model takes.', { unsent: true })
  const placeOf = (entry: number) => places[entry / ENTRY_INTS] ?? entry
  return {
    conversation: kept,
    thoughts: thoughts && {
      form: thoughts.form,
      before: (entry) => thoughts.before(placeOf(entry)),
      with: (entry) => thoughts.with(placeOf(entry)),
    },
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
