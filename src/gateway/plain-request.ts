/**
 * The plain request in one step: a request of nothing but texts and numbers, which most small ones are, is written as
 * the text of the provider's JSON, without the objects that the text stands for. It is only an optimisation: a property
 * test proves that the bytes are those of the usual way.
 */

import type { ChatRequest } from '../core/chat-request.ts'
import type { Provider, Target, UpstreamRequest } from '../providers/provider.ts'

/** Undefined if the request is more than texts and numbers, or the adapter has no such way. */
export function plainRequest(
  request: ChatRequest,
  provider: Pick<Provider, 'plainRequest'>,
  target: Target,
): UpstreamRequest | undefined {
  // Reading the tools of a large request would parse them.
  return request.longTexts === undefined && isPlain(request) ? provider.plainRequest?.(request, target) : undefined
}

/** True if everything but the messages is a text or a number. */
function isPlain({ tools, toolChoice, stop, sampling, hints, cache }: ChatRequest): boolean {
  return (
    tools.length === 0 &&
    stop.length === 0 &&
    toolChoice === undefined &&
    cache === undefined &&
    sampling.logitBias === undefined &&
    sampling.responseFormat === undefined &&
    hints.promptCacheOptions === undefined
  )
}
