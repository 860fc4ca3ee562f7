/**
 * Holds one exchange to `docs/openapi.json`: the status, the headers and the body of the answer, the code of an error,
 * and the body of a request that was answered.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { checkSent, checkStream, DOCUMENT, objectAt, requestProblem, resolved, valueAt } from './api-schema.ts'

type HeaderFields = ReadonlyMap<string, string>

export interface RecordedRequest {
  readonly method: string
  /** Without its query. */
  readonly path: string
  readonly headers: HeaderFields
  readonly body: string
}

export interface RecordedAnswer {
  readonly status: number
  readonly headers: HeaderFields
  readonly body: string
  /** False if the connection ended within the body. */
  readonly isWhole: boolean
}

/** What does not match; undefined if all does. */
export function problemOfExchange(request: RecordedRequest, answer: RecordedAnswer): string | undefined {
  if (request.method === 'HEAD') return undefined
  try {
    const operation = operationOf(request)
    if (operation === undefined) checkElsewhere(request, answer)
    else checkOperation(operation, request, answer)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function operationOf({ path, method }: RecordedRequest): JsonObject | undefined {
  const methods = objectAt(DOCUMENT, 'paths')[path]
  const operation = isObject(methods) ? methods[method.toLowerCase()] : undefined
  return isObject(operation) ? operation : undefined
}

function isOfMessages(path: string): boolean {
  return path.startsWith('/anthropic/') || path.startsWith('/v1/messages')
}

/** Other paths and methods: errors in the shape of their family, with a code of the document. */
function checkElsewhere({ path }: RecordedRequest, { status, body }: RecordedAnswer): void {
  const json = JSON.parse(body)
  checkSent(isOfMessages(path) ? 'MessagesPathError' : 'Error', json)
  const rows = rowsOf(DOCUMENT)
  if (!rows.some((row) => row['status'] === status)) throw new Error('the document has no error of this status')
}

function checkOperation(operation: JsonObject, request: RecordedRequest, answer: RecordedAnswer): void {
  const { status, headers, body, isWhole } = answer
  const responses = objectAt(operation, 'responses')
  const described = responses[String(status)]
  if (!isObject(described)) throw new Error('the operation has no answer of this status')
  const response = resolved(described)
  checkHeaders(objectAt(response, 'headers'), headers)
  const type = (headers.get('content-type') ?? '').split(';')[0] ?? ''
  const schema = objectAt(response, 'content', type, 'schema')
  if (type === 'text/event-stream') {
    // For standard tools the body is text.
    if (schema['type'] !== 'string') throw new Error('the body of a stream is text')
    checkStream(schemaName(valueAt(schema, 'x-weir-event-data')), body)
  } else if (isWhole) checkSent(schemaName(schema), JSON.parse(body))
  if (status >= 400) checkError(rowsOf(response), JSON.parse(body))
  else checkRequest(operation, request)
}

function schemaName(schema: JsonValue): string {
  if (!isObject(schema) || typeof schema['$ref'] !== 'string') throw new Error('the schema has no name')
  return schema['$ref'].slice(schema['$ref'].lastIndexOf('/') + 1)
}

function rowsOf(response: JsonObject): readonly JsonObject[] {
  const rows = response['x-weir-errors']
  return isArray(rows) ? rows.filter(isObject) : []
}

/** Headers of ours, or that callers act on. The others are those of HTTP. */
const OURS = /^(?:x-(?!accel-buffering)|request-id|retry-after|www-authenticate)/

function checkHeaders(described: JsonObject, headers: HeaderFields): void {
  const byName = new Map(Object.entries(described).map(([name, header]) => [name.toLowerCase(), header]))
  const unknown = [...headers.keys()].filter((name) => OURS.test(name) && !byName.has(name))
  if (unknown.length > 0) throw new Error(`headers that the document does not have: ${unknown.join(', ')}`)
  for (const [name, header] of byName) {
    if (!isObject(header)) continue
    const { required, schema } = resolved(header)
    const value = headers.get(name)
    if (value === undefined && required === true) throw new Error(`the header ${name} is missing`)
    if (value !== undefined && isObject(schema)) checkHeader(name, schema, value)
  }
}

function checkHeader(name: string, { type, minimum, maximum, pattern, enum: values }: JsonObject, value: string): void {
  const number = Number(value)
  const isWrong =
    (type === 'integer' && !/^\d+$/.test(value)) ||
    (typeof minimum === 'number' && number < minimum) ||
    (typeof maximum === 'number' && number > maximum) ||
    (typeof pattern === 'string' && !new RegExp(pattern).test(value)) ||
    (isArray(values) && !values.includes(value))
  if (isWrong) throw new Error(`the header ${name} has the value ${value}`)
}

/** The code must be one of the answer's, unless it is the provider's; Messages errors have only a type. */
function checkError(rows: readonly JsonObject[], body: JsonValue): void {
  const error = objectAt(body, 'error')
  if (!('code' in error)) {
    if (rows.some((row) => row['messages_type'] === error['type'] && row['shape'] === 'MessagesError')) return
    throw new Error(`the document has no error of type ${String(error['type'])} here`)
  }
  const own = rows.filter((row) => row['shape'] !== 'MessagesError')
  if (own.some((row) => row['code'] === error['code'] || row['kind'] === 'upstream_rejected')) return
  throw new Error(`the document has no error ${String(error['code'])} here`)
}

/** A request that was answered is one that the document describes. Forms are not read here. */
function checkRequest(operation: JsonObject, { headers, body }: RecordedRequest): void {
  if (!('requestBody' in operation) || headers.get('content-type')?.startsWith('multipart/') === true) return
  const name = schemaName(valueAt(operation, 'requestBody', 'content', 'application/json', 'schema'))
  const problem = requestProblem(name, JSON.parse(body))
  if (problem !== undefined) throw new Error(`a request that was answered does not match ${name}: ${problem}`)
}
