/** A frame that begins no turn of a WebSocket. It is logged and counted as a `POST` that is refused. */

import type { CallerError } from '../core/caller-error.ts'
import type { RequestHead } from '../gateway/request-trace.ts'
import { type ApiPath, type EdgeState, RequestLife, type Responder } from './request-life.ts'
import { errorFrame } from './socket-frames.ts'

export const TURN_ENDPOINT: ApiPath = { family: 'chat', dialect: 'responses' }

/** The connection that the frame came on. */
interface FrameOrigin {
  readonly id: string
  readonly head: RequestHead
  readonly remote: string
}

export class RefusedTurn implements Responder {
  private readonly life: RequestLife

  /** `send`: sends the error to the caller. `hasLeft`: whether the caller is gone by then. */
  constructor(
    state: EdgeState,
    { id, head, remote }: FrameOrigin,
    private readonly lane: string | undefined,
    private readonly send: (frame: string) => void,
    readonly hasLeft: boolean,
  ) {
    this.life = new RequestLife(state, this, head, remote, TURN_ENDPOINT)
    this.life.log.socket = id
  }

  /** Whose key it was is found first, and its own errors come first, as for a `POST`. */
  end(error: CallerError): void {
    const { life } = this
    try {
      life.begin(() => undefined)
      life.failed(error)
    } catch (keyError) {
      life.failed(keyError)
    }
  }

  answered(): never {
    throw new Error('a frame that begins no turn has no answer')
  }

  failed(error: CallerError): void {
    const { log, running } = this.life
    this.send(errorFrame(error, log.requestId, running.limitHeaders, this.lane))
  }

  ended(): void {}
}
