/** One inference request at the edge: who asks, what the body says, and the answer as a response. */

import type { Server } from 'bun'
import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { JsonObject } from '../core/json.ts'
import { ticker } from '../core/ticker.ts'
import type { Dialect } from '../dialects/dialect.ts'
import { refuseForbidden } from '../dialects/forbidden-fields.ts'
import { type Answer, infer } from '../gateway/infer.ts'
import { parseBody, readBody } from '../wire/body.ts'
import { isForm } from '../wire/multipart.ts'
import { admit, type Handled, type Visit } from './edge.ts'
import { answerHeaders, STREAM_HEADERS } from './headers.ts'

/** A body that trickles in is not waited for longer than this, and a declared one not longer than it takes at 1 KiB/s. */
const BODY_MS_MAX = 60_000
const BODY_MS_MIN = 15_000

/** How long a connection may stay silent once an answer is on its way: a caller that takes nothing of it, or asks for nothing more. */
const SILENCE_SECONDS = 120

/** A request whose caller is known and whose body was read and looked through. */
interface Received {
  readonly key: Key
  readonly body: JsonObject
}

/** A body into an exchange: a dialect's own `accept`, or another of its ways in. */
type Accept = Dialect['accept']

export async function handleInference(visit: Visit, accept: Accept, server: Server<undefined>): Promise<Handled> {
  const { parts, trace, flight } = visit
  const { key, body } = await receive(visit, server)
  const accepted = accept(body, { organization: key.organization.id })
  const exchange = accepted instanceof Promise ? await accepted : accepted
  trace.ignored = exchange.ignored
  return respond(await infer(parts.gateway, { key, exchange, flight, trace }), visit)
}

/** The steps that every JSON request of the public port has in common, in the order of decisions.md 1. */
export async function receive(visit: Visit, server: Server<undefined>): Promise<Received> {
  const { key, bytes } = await receiveBytes(visit, server)
  if (isForm(visit.request.headers.get('content-type'))) throw formRefused()
  const body = parseBody(bytes)
  refuseForbidden(body, visit.family === 'messages' ? 'accepted' : 'forbidden')
  if (typeof body['model'] === 'string') visit.trace.requestedModel = body['model']
  return { key, body }
}

/** A form's bytes are no JSON, and the parser's complaint about them would not say why. */
export function formRefused(): CallerError {
  const message = 'This path does not take forms: send JSON. multipart/form-data is for POST /v1/images/edits alone.'
  return new CallerError('unsupported_media_type', message)
}

/** The steps before the body is looked into: who asks, and all of its bytes. From here on the caller may leave. */
export async function receiveBytes(
  visit: Visit,
  server: Server<undefined>,
): Promise<{ readonly key: Key; readonly bytes: Uint8Array }> {
  const { request, flight } = visit
  const key = admit(visit)
  refuseEncoded(request.headers)
  // Silence is ours to bound from here on: Bun would end an upload below 16 KiB/s, and a stream that says nothing, after 10 s.
  server.timeout(request, 0)
  visit.limitSilence = () => server.timeout(request, SILENCE_SECONDS)
  const share = visit.bodies.share(key.organization.id)
  flight.carry(share)
  const reading = readBody(request, (bytes) => share.take(bytes))
  const isThere = Bun.peek.status(reading) === 'fulfilled'
  const bytes = await (isThere ? reading : ticker.within(bodyMs(request), reading, bodyTimeout))
  request.signal.addEventListener('abort', () => flight.interrupt('caller_left'), { once: true })
  if (request.signal.aborted) flight.interrupt('caller_left')
  return { key, bytes }
}

function respond(answer: Answer, { trace, limitSilence }: Visit): Handled {
  const headers = answerHeaders(trace, answer)
  if (answer.kind === 'whole') {
    headers['content-type'] = 'application/json'
    return { response: new Response(bodyOf(JSON.stringify(answer.body)), { headers }), ends: 'now' }
  }
  const { pump } = answer
  const whole = pump.takeWhole()
  if (whole !== undefined) {
    limitSilence?.()
    return { response: new Response(bodyOf(whole), { headers: Object.assign(headers, STREAM_HEADERS) }), ends: 'later' }
  }
  // A direct stream writes straight to the socket: one write a chunk, and the rejection of `pull` is the cut.
  const body = new ReadableStream({ type: 'direct', pull: (sink) => pump.attach(sink, limitSilence) })
  return { response: new Response(body, { headers: Object.assign(headers, STREAM_HEADERS) }), ends: 'later' }
}

/**
 * Bun gathers an answer in a buffer of 16 KiB. Where head and body do not fit, it writes every name and value of the head with a system
 * call of its own: 245 µs an answer instead of 75 as a direct stream, which is not dearer for what fits either.
 */
const PLAIN_BYTES_MAX = 14 * 1024

/** The body of an answer whose text is all there. */
function bodyOf(text: string): string | ReadableStream {
  if (Buffer.byteLength(text) <= PLAIN_BYTES_MAX) return text
  return new ReadableStream({
    type: 'direct',
    pull(sink) {
      sink.write(text)
      sink.end()
    },
  })
}

/** Bun does not inflate request bodies, and a limit on what is inflated would be another one. */
function refuseEncoded(headers: Headers): void {
  const encoding = headers.get('content-encoding')
  if (encoding === null || encoding.trim() === '' || encoding.trim().toLowerCase() === 'identity') return
  throw new CallerError(
    'unsupported_encoding',
    'Send the body without Content-Encoding; compressed bodies are not supported.',
  )
}

function bodyMs(request: Request): number {
  const declared = request.headers.get('content-length')
  if (declared === null) return BODY_MS_MAX
  return Math.min(BODY_MS_MAX, Math.max(BODY_MS_MIN, (Number(declared) / 1024) * 1000))
}

function bodyTimeout(): CallerError {
  return new CallerError(
    'body_timeout',
    'The request body did not arrive in time: it came slower than 1 KiB a second, or took a minute.',
  )
}
