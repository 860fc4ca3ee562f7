/** What the admin port reads of a request: a usable address, its query, and a body within its bound. */

import { didYouMean, quoted } from '../config/problems.ts'
import { type JsonObject, parseObject } from '../core/json.ts'
import type { Given, Parameter } from '../reports/parameters.ts'
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

/** The parameters of a request. Each of them is known, comes once and has a valid value. Throws `AdminError` 400. */
export function queryOf(url: string, parameters: readonly Parameter[]): Given {
  const query: Record<string, string | boolean> = {}
  const names = parameters.map(({ name }) => name)
  for (const [name, value] of new URL(url).searchParams) {
    const parameter = parameters.find((each) => each.name === name || each.alias === name)
    if (parameter === undefined) {
      const takes = names.length === 0 ? 'this path takes none' : `known are ${names.join(', ')}`
      throw badQuery(`unknown parameter ${quoted(name)}${didYouMean(name, names) || `; ${takes}`}`)
    }
    if (Object.hasOwn(query, parameter.name)) throw badQuery(`${parameter.name} comes twice`)
    if (value === '') throw badQuery(`${name} needs a value`)
    query[parameter.name] = checkedValue(parameter, value)
  }
  const missing = parameters.find(({ name, isRequired }) => isRequired === true && query[name] === undefined)
  if (missing !== undefined) throw badQuery(`${missing.name} is required`)
  return query
}

function checkedValue({ name, value, range }: Parameter, given: string): string | boolean {
  if (value === undefined) {
    if (given === 'true' || given === 'false') return given === 'true'
    throw badQuery(`${name} must be true or false, not ${quoted(given)}`)
  }
  if (range === undefined) return given
  const [min, max] = range
  if (/^\d{1,15}$/.test(given) && Number(given) >= min && Number(given) <= max) return given
  throw badQuery(`${name} must be a whole number from ${min} to ${max}, not ${quoted(given)}`)
}

export function badQuery(message: string): AdminError {
  return new AdminError(400, 'invalid_parameter', message)
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
