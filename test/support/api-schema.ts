/**
 * Validates what callers send and get with `docs/openapi.json`. Answers are held to it strictly: a field that the
 * document does not have is an error, so that the document cannot fall out of date.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv2020, { type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'

const FILE = join(import.meta.dir, '../../docs/openapi.json')

export const DOCUMENT: JsonObject = JSON.parse(readFileSync(FILE, 'utf8'))

/** The value at a path of names. Throws if there is none. */
export function valueAt(document: JsonValue, ...path: readonly string[]): JsonValue {
  let value: JsonValue | undefined = document
  for (const name of path) value = isObject(value) ? value[name] : undefined
  if (value === undefined) throw new Error(`docs/openapi.json has nothing at ${path.join(' ')}`)
  return value
}

export function objectAt(document: JsonValue, ...path: readonly string[]): JsonObject {
  const value = valueAt(document, ...path)
  if (!isObject(value)) throw new Error(`docs/openapi.json has no object at ${path.join(' ')}`)
  return value
}

/** Follows a reference within the document. */
export function resolved(value: JsonObject): JsonObject {
  const { $ref } = value
  return typeof $ref === 'string' ? objectAt(DOCUMENT, ...$ref.slice(2).split('/')) : value
}

export const SCHEMAS = objectAt(DOCUMENT, 'components', 'schemas')

/** The validator takes no `mapping`: it reads the values from the variants. */
function withoutMapping(schema: JsonValue): JsonValue {
  if (isArray(schema)) return schema.map(withoutMapping)
  if (!isObject(schema)) return schema
  const copy: JsonObject = Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [name, value === undefined ? null : withoutMapping(value)]),
  )
  const { discriminator } = copy
  return isObject(discriminator)
    ? { ...copy, discriminator: { propertyName: discriminator['propertyName'] ?? null } }
    : copy
}

/** Every object with listed members has no others, unless its schema allows them. */
function closed(schema: JsonValue): JsonValue {
  if (isArray(schema)) return schema.map(closed)
  if (!isObject(schema)) return schema
  const copy: JsonObject = Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [name, value === undefined ? null : closed(value)]),
  )
  return isObject(copy['properties']) && copy['type'] === 'object' && !('additionalProperties' in copy)
    ? { ...copy, additionalProperties: false }
    : copy
}

function validatorOf(schemas: JsonValue) {
  const ajv = new Ajv2020({ discriminator: true, strictTypes: false, strictRequired: false, validateFormats: false })
  ajv.addVocabulary(['components', 'x-weir-ignored', 'x-weir-forbidden'])
  return ajv.addSchema({ $id: 'weir', components: { schemas: withoutMapping(schemas) } })
}

let open: Ajv2020 | undefined
let strict: Ajv2020 | undefined

function compiled(ajv: Ajv2020, name: string): ValidateFunction {
  const validate = ajv.getSchema(`weir#/components/schemas/${name}`)
  if (validate === undefined) throw new Error(`docs/openapi.json has no schema ${name}`)
  return validate
}

/** The first complaint about a body that callers send; undefined if the schema accepts it. */
export function requestProblem(name: string, body: unknown): string | undefined {
  open ??= validatorOf(SCHEMAS)
  return problemOf(compiled(open, name), body)
}

/** Throws if something that weir sends does not match the schema, or has more than the schema. */
export function checkSent(name: string, value: unknown): void {
  strict ??= validatorOf(closed(SCHEMAS))
  const problem = problemOf(compiled(strict, name), value)
  if (problem === undefined) return
  throw new Error(`docs/openapi.json, ${name}: ${problem}\n${JSON.stringify(value).slice(0, 2000)}`)
}

function problemOf(validate: ValidateFunction, value: unknown): string | undefined {
  return validate(value) ? undefined : wordsOf(validate.errors?.[0])
}

function wordsOf(error: ErrorObject | undefined): string {
  return `${error?.instancePath || '/'} ${error?.message} ${JSON.stringify(error?.params)}`
}

/** Throws unless every whole event of the text matches the schema. `[DONE]` and comments are no events. */
export function checkStream(name: string, text: string): void {
  for (const frame of text.split('\n\n').slice(0, -1)) {
    const lines = frame.split('\n').filter((line) => !line.startsWith(':'))
    const fieldOf = (field: string) =>
      lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + ': '.length)
    const data = fieldOf('data')
    if (data === undefined || data === '[DONE]') continue
    const event: unknown = JSON.parse(data)
    const named = fieldOf('event')
    if (named !== undefined && (!isObject(event) || event['type'] !== named))
      throw new Error(`the event ${named} has another type: ${data.slice(0, 200)}`)
    checkSent(name, event)
  }
}
