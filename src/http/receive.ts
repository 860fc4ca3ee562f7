/**
 * The first steps of every endpoint with a body: authenticate, refuse an encoding, read the bytes within a deadline.
 */

import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import { refuseForbidden } from '../dialects/forbidden-fields.ts'
import type { BodyShare } from '../gateway/body-memory.ts'
import { type BodyReceiver, readBody } from '../wire/body.ts'
import { isForm } from '../wire/multipart.ts'
import { type RequestBody, readRequestBody, type UnparsedMembers } from '../wire/request-body.ts'
import type { RequestContext } from './edge.ts'

/** The longest wait for a body. A declared one has as long as it takes at 1 KiB/s, and at least the minimum. */
const BODY_MS_MAX = 60_000
const BODY_MS_MIN = 15_000

/**
 * What an endpoint does with the bytes of a body; `given` is the endpoint's own. What it throws, or its promise rejects
 * with, fails the request.
 */
type BodyHandler<Given> = (context: RequestContext, key: Key, bytes: Uint8Array, given: Given) => void | Promise<void>

/**
 * Gives the key and the bytes of the body to `handle`, once they have arrived. From then on a caller that leaves
 * interrupts the request. Throws `CallerError`.
 */
export function receive<Given>(context: RequestContext, given: Given, handle: BodyHandler<Given>): void {
  const { request, running, bodies } = context
  const key = context.authenticate()
  rejectEncoded(request.headers)
  context.awaitBody(bodyMs(request))
  const share = bodies.share(key.organization.id)
  running.holds(share)
  // Bun gives the body after this has returned, even if it came in one packet with the head.
  readBody(request, new Reception(context, key, share, handle, given))
}

/** One object per request instead of a closure for each step. */
class Reception<Given> implements BodyReceiver {
  constructor(
    private readonly context: RequestContext,
    private readonly key: Key,
    private readonly share: BodyShare,
    private readonly handle: BodyHandler<Given>,
    private readonly given: Given,
  ) {}

  take(bytes: number): void {
    this.share.take(bytes)
  }

  body(bytes: Uint8Array): void {
    const { context, key, handle, given } = this
    try {
      if (!context.bodyArrived()) return
      const handled = handle(context, key, bytes, given)
      if (handled instanceof Promise) this.failWith(handled)
    } catch (error) {
      context.failed(error)
    }
  }

  failed(error: unknown): void {
    this.context.failed(error)
  }

  private failWith(handled: Promise<void>): void {
    handled.catch((error: unknown) => this.context.failed(error))
  }
}

/** A JSON body without forbidden fields, whose long lists are not parsed. Throws `CallerError`. */
export function readDocument(context: RequestContext, bytes: Uint8Array, unparsed: UnparsedMembers): RequestBody {
  if (isForm(context.request.headers.get('content-type'))) throw formRejected()
  const body = readRequestBody(bytes, unparsed)
  const { settings } = body
  refuseForbidden(settings, context.family === 'messages' ? 'accepted' : 'forbidden')
  if (typeof settings['model'] === 'string') context.log.requestedModel = settings['model']
  return body
}

/** For a path that takes JSON only: the JSON parser's error about a form would not show the mistake. */
export function formRejected(): CallerError {
  const message = 'This path does not take forms: send JSON. multipart/form-data is for POST /v1/images/edits alone.'
  return new CallerError('unsupported_media_type', message)
}

/** Bun does not decompress request bodies, and decompressed bytes would need a limit of their own. */
function rejectEncoded(headers: Headers): void {
  const encoding = headers.get('content-encoding')
  if (encoding === null || encoding.trim() === '' || encoding.trim().toLowerCase() === 'identity') return
  const message = 'Send the body without Content-Encoding; compressed bodies are not supported.'
  throw new CallerError('unsupported_encoding', message)
}

function bodyMs(request: Request): number {
  const declared = request.headers.get('content-length')
  if (declared === null) return BODY_MS_MAX
  return Math.min(BODY_MS_MAX, Math.max(BODY_MS_MIN, (Number(declared) / 1024) * 1000))
}
