/**
 * The first steps of every endpoint with a body: authenticate, refuse an encoding, read the bytes within a deadline.
 */

import type { Server } from 'bun'
import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { JsonObject } from '../core/json.ts'
import { ticker } from '../core/ticker.ts'
import { refuseForbidden } from '../dialects/forbidden-fields.ts'
import { parseBody, readBody } from '../wire/body.ts'
import { isForm } from '../wire/multipart.ts'
import type { RequestContext } from './edge.ts'

/** The longest wait for a body. A declared one has as long as it takes at 1 KiB/s, and at least the minimum. */
const BODY_MS_MAX = 60_000
const BODY_MS_MIN = 15_000

/**
 * How long a connection may be silent after its answer began: the caller reads nothing, or sends no further request.
 */
const SILENCE_SECONDS = 120

const ONCE = { once: true } as const

interface ReceivedBytes {
  readonly key: Key
  readonly bytes: Uint8Array
}

interface ReceivedJson {
  readonly key: Key
  readonly body: JsonObject
}

/**
 * The key and the bytes of the body. From here on a caller that leaves interrupts the request. Throws `CallerError`.
 */
export async function receiveBytes(context: RequestContext, server: Server<undefined>): Promise<ReceivedBytes> {
  const { request, running, bodies } = context
  const key = context.authenticate()
  rejectEncoded(request.headers)
  // Bun would end an upload slower than 16 KiB/s, and a silent stream, after 10 s. From here on silence is ours to
  // limit.
  server.timeout(request, 0)
  context.limitSilence = () => server.timeout(request, SILENCE_SECONDS)
  const share = bodies.share(key.organization.id)
  running.holds(share)
  const reading = readBody(request, (bytes) => share.take(bytes))
  const hasArrived = Bun.peek.status(reading) === 'fulfilled'
  const bytes = await (hasArrived ? reading : ticker.within(bodyMs(request), reading, bodyTimeout))
  request.signal.addEventListener('abort', () => running.interrupt('caller_left'), ONCE)
  if (request.signal.aborted) running.interrupt('caller_left')
  return { key, bytes }
}

/** The key and a JSON body without forbidden fields. Throws `CallerError`. */
export async function receiveJson(context: RequestContext, server: Server<undefined>): Promise<ReceivedJson> {
  const { key, bytes } = await receiveBytes(context, server)
  if (isForm(context.request.headers.get('content-type'))) throw formRejected()
  const body = parseBody(bytes)
  refuseForbidden(body, context.family === 'messages' ? 'accepted' : 'forbidden')
  if (typeof body['model'] === 'string') context.log.requestedModel = body['model']
  return { key, body }
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

function bodyTimeout(): CallerError {
  const message = 'The request body did not arrive in time: it came slower than 1 KiB a second, or took a minute.'
  return new CallerError('body_timeout', message)
}
