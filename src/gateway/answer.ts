/** What becomes of a request, for the transport that it came by. */

import type { RequestEnd } from './access-log.ts'
import type { Content } from './provider-call.ts'

export interface Answer {
  readonly content: Content
  /** The content is server-sent events, whether it comes as a stream or whole. */
  readonly isStream: boolean
  readonly requestedModel: string
  readonly servedModel: string
  readonly fallbacks: number
  /** How the model was chosen; absent unless the operator lets callers see it. */
  readonly route: string | undefined
}

/** Hears what becomes of a request: `answered` and then `ended`, or `failed` alone. None of them may throw. */
export interface FlowListener {
  answered(answer: Answer): void
  /** The `CallerError` that the caller gets, or a bug. */
  failed(error: unknown): void
  /** A whole answer is complete, or nothing more will be written of a stream, and its settlement has been sent. */
  ended(end: RequestEnd): void
}
