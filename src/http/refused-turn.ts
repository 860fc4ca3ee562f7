/** A frame that begins no turn of a WebSocket. It is logged and counted as a `POST` that is refused. */

import type { CallerError } from '../core/caller-error.ts'
import type { RequestHead } from '../gateway/request-trace.ts'
import { type ApiPath, type EdgeState, RequestLife, type Responder } from './request-life.ts'

export const TURN_ENDPOINT: ApiPath = { family: 'chat', dialect: 'responses' }

/** The connection that the frame came on. */
interface FrameOrigin {
  readonly id: string
  readonly head: RequestHead
  readonly remote: string
}

/**
 * Whose key it was is found first, and its own errors come first, as for a `POST`. `hasLeft`: whether the caller is
 * gone by then. `send`: sends the error to the caller.
 */
export function refuseTurn(
  state: EdgeState,
  { id, head, remote }: FrameOrigin,
  refusal: CallerError,
  hasLeft: boolean,
  send: (error: CallerError, life: RequestLife) => void,
): void {
  const responder: Responder = {
    hasLeft,
    answered() {
      throw new Error('a frame that begins no turn has no answer')
    },
    failed: (error) => send(error, life),
    ended() {},
  }
  const life = new RequestLife(state, responder, head, remote, TURN_ENDPOINT)
  life.log.socket = id
  try {
    life.begin(() => undefined)
    life.failed(refusal)
  } catch (keyError) {
    life.failed(keyError)
  }
}
