/** What the admin port reads of a request beyond its query: a usable address, and a body within its bound. */

import { type JsonObject, parseObject } from '../core/json.ts'
import { readCounted } from '../wire/body.ts'
import { AdminError } from './json-answers.ts'

/** A request body of the admin API is a few hundred bytes. */
const BODY_BYTES_MAX = 64 * 1024

/**
 * The request with an address that can be parsed. Bun makes the address from `Host`: without one, as in the HTTP/1.0 of
 * many health checks, it is a bare path, and with an invalid one it is no URL. `Host` itself stays as it was sent.
 */
export function addressed(request: Request): Request {
  if (URL.canParse(request.url)) return request
  const target = request.url.replace(/^https?:\/\/[^/?#]*/i, '')
  return new Request(`http://localhost${target.startsWith('/') ? target : '/'}`, request)
}

/** Throws `AdminError` 404 if a `%` in the path is no escape of UTF-8, because routing decodes it. */
export function checkPath(path: string): void {
  try {
    decodeURIComponent(path)
  } catch (error) {
    if (!(error instanceof URIError)) throw error
    throw notFound()
  }
}

export function notFound(): AdminError {
  return new AdminError(404, 'not_found', 'There is nothing at this path. GET /api/openapi.json lists the paths.')
}

/** Throws `AdminError` 413 if the declared length of the body is too large. */
export function checkLength({ headers }: Request): void {
  if (Number(headers.get('content-length') ?? 0) > BODY_BYTES_MAX) throw tooLarge()
}

/** An empty body is an empty object. Throws `AdminError` 400 for anything else that is no object of JSON, and 413. */
export async function bodyOf(request: Request): Promise<JsonObject> {
  const text = await textOf(request)
  if (text.trim() === '') return {}
  const body = parseObject(text)
  if (body === undefined) throw new AdminError(400, 'invalid_json', 'The body must be a JSON object.')
  return body
}

/** Counts while it reads: a body in chunks declares no length. */
async function textOf({ body }: Request): Promise<string> {
  if (body === null) return ''
  const bytes = await readCounted(body, (_, size) => {
    if (size > BODY_BYTES_MAX) throw tooLarge()
  })
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()
}

function tooLarge(): AdminError {
  return new AdminError(413, 'body_too_large', `A body of the admin API has at most ${BODY_BYTES_MAX} bytes.`)
}
