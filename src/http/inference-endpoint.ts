/**
 * `POST /v1/chat/completions`, `/v1/responses` and `/v1/messages`: a request of any dialect, and its answer as a
 * response.
 */

import type { Server } from 'bun'
import type { Dialect } from '../dialects/dialect.ts'
import { ChatWork } from '../gateway/chat-work.ts'
import { type Answer, Flow } from '../gateway/flow.ts'
import { Pump } from '../gateway/pump.ts'
import type { Handled, RequestContext } from './edge.ts'
import { answerHeaders, STREAM_HEADERS } from './headers.ts'
import { receiveJson } from './receive.ts'

/** Converts a body: a dialect's `accept`, or that of one of its other endpoints. */
type Accept = Dialect['accept']

export async function handleInference(
  context: RequestContext,
  accept: Accept,
  server: Server<undefined>,
): Promise<Handled> {
  const { parts, log, running } = context
  const { key, body } = await receiveJson(context, server)
  const accepted = accept(body, { organization: key.organization.id })
  const exchange = accepted instanceof Promise ? await accepted : accepted
  log.ignored = exchange.ignored
  const work = new ChatWork(parts.gateway, key, exchange, log)
  const answer = await new Flow(parts.gateway, key, work, running, log).run()
  return { response: responseOf(answer, context), end: answer.end }
}

function responseOf(answer: Answer, context: RequestContext): Response {
  const { content } = answer
  const headers = answerHeaders(context.log.requestId, context.running.limitHeaders, answer)
  if (!(content instanceof Pump)) {
    context.limitSilence()
    headers['content-type'] = 'application/json'
    return new Response(bodyOf(content), { headers })
  }
  Object.assign(headers, STREAM_HEADERS)
  const whole = content.takeWhole()
  if (whole !== undefined) {
    context.limitSilence()
    return new Response(bodyOf(whole), { headers })
  }
  // A direct stream writes straight to the socket: one write a chunk, and the rejection of `pull` is the cut.
  return new Response(new ReadableStream({ type: 'direct', pull: (sink) => content.attach(sink, context) }), {
    headers,
  })
}

/**
 * Bun gathers an answer in a buffer of 16 KiB. If head and body do not fit, it writes each name and value of the head
 * with a system call of its own: 245 µs an answer instead of 75 as a direct stream, which costs no more for what fits.
 */
const PLAIN_BYTES_MAX = 14 * 1024

/** The body of an answer whose text is complete. */
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
