/** One inference request at the edge: who asks, what the body says, and the answer as a response. */

import type { Server } from 'bun'
import type { Key } from '../catalog/catalog.ts'
import { Failure } from '../core/error.ts'
import type { JsonObject } from '../core/json.ts'
import { ticker } from '../core/ticker.ts'
import type { Dialect } from '../dialects/dialect.ts'
import { refuseForbidden } from '../dialects/forbidden.ts'
import { type Answer, infer } from '../gateway/infer.ts'
import type { Trace } from '../gateway/trace.ts'
import { parseBody, readBody } from '../wire/body.ts'
import { admit, type Handled, type Visit } from './edge.ts'
import { answerHeaders, STREAM_HEADERS } from './headers.ts'

/** A body that trickles in is not waited for longer than this. */
const BODY_MS = 60_000

/** A request whose caller is known and whose body was read and looked through. */
export interface Received {
  readonly key: Key
  readonly body: JsonObject
}

/** A body into an exchange: a dialect's own `accept`, or another of its ways in. */
export type Accept = Dialect['accept']

export async function handleInference(visit: Visit, accept: Accept, server: Server<undefined>): Promise<Handled> {
  const { parts, trace, flight } = visit
  const { key, body } = await receive(visit, server)
  const accepted = accept(body, { organization: key.organization.id })
  const exchange = accepted instanceof Promise ? await accepted : accepted
  return respond(await infer(parts.gateway, { key, exchange, flight, trace }), trace)
}

/** The steps that every JSON request of the public port has in common, in the order of decisions.md 1. */
export async function receive(visit: Visit, server: Server<undefined>): Promise<Received> {
  const { key, bytes } = await receiveBytes(visit, server)
  const body = parseBody(bytes)
  refuseForbidden(body, visit.family === 'messages' ? 'accepted' : 'forbidden')
  if (typeof body['model'] === 'string') visit.trace.requestedModel = body['model']
  return { key, body }
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
  const reading = readBody(request)
  const isThere = Bun.peek.status(reading) === 'fulfilled'
  const bytes = await (isThere ? reading : ticker.within(BODY_MS, reading, bodyTimeout))
  request.signal.addEventListener('abort', () => flight.interrupt('caller_left'), { once: true })
  if (request.signal.aborted) flight.interrupt('caller_left')
  return { key, bytes }
}

function respond(answer: Answer, trace: Trace): Handled {
  const headers = answerHeaders(trace, answer)
  if (answer.kind === 'whole') {
    headers['content-type'] = 'application/json'
    return { response: new Response(bodyOf(JSON.stringify(answer.body)), { headers }), ends: 'now' }
  }
  const { pump } = answer
  const whole = pump.takeWhole()
  if (whole !== undefined) {
    return { response: new Response(bodyOf(whole), { headers: Object.assign(headers, STREAM_HEADERS) }), ends: 'later' }
  }
  // A direct stream writes straight to the socket: one write a chunk, and the rejection of `pull` is the cut.
  const body = new ReadableStream({ type: 'direct', pull: (sink) => pump.attach(sink) })
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
  throw new Failure(
    'unsupported_encoding',
    'Send the body without Content-Encoding; compressed bodies are not supported.',
  )
}

function bodyTimeout(): Failure {
  return new Failure('body_timeout', `The request body did not arrive within ${BODY_MS / 1000} seconds.`)
}
