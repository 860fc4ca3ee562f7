/** `docs/openapi.json` is current, valid, and names everything that the gateway knows. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { CALLER_ERRORS } from '../../src/core/caller-error.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { FORBIDDEN_FIELDS } from '../../src/dialects/forbidden-fields.ts'
import { IGNORED_FIELDS } from '../../src/dialects/ignored-fields.ts'
import { GENERATION_FIELDS, STREAM_FIELDS } from '../../src/dialects/images/schema.ts'
import { createApp } from '../../src/http/app.ts'
import { openApiText } from '../../tools/openapi/document-source.ts'
import { DOCUMENT, objectAt, requestProblem, SCHEMAS, valueAt } from '../support/api-schema.ts'

test('it is current: bun scripts/write-openapi.ts', () => {
  const committed = readFileSync(join(import.meta.dir, '../../docs/openapi.json'), 'utf8')
  expect(committed === openApiText()).toBe(true)
})

test('it is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  const result = await validator.validate(JSON.parse(JSON.stringify(DOCUMENT)))
  expect([validator.version, result.errors ?? []]).toEqual(['3.1', []])
})

test.each(Object.keys(SCHEMAS))('the schema %s compiles, with all that it refers to', (name) => {
  expect(() => requestProblem(name, {})).not.toThrow()
})

/** Every value of a JSON value, itself included. */
function* within(value: JsonValue): Generator<JsonValue> {
  yield value
  if (isArray(value)) for (const each of value) yield* within(each)
  else if (isObject(value)) for (const each of Object.values(value)) if (each !== undefined) yield* within(each)
}

test('every named schema, header and answer is used', () => {
  const texts = [...within(DOCUMENT)].flatMap((value) =>
    isObject(value) && typeof value['$ref'] === 'string' ? [value['$ref']] : [],
  )
  const used = new Set(texts)
  const named = ['schemas', 'headers', 'responses'].flatMap((kind) =>
    Object.keys(objectAt(DOCUMENT, 'components', kind)).map((name) => `#/components/${kind}/${name}`),
  )
  expect(named.filter((name) => !used.has(name))).toEqual([])
})

test('every schema of an object and every field of a request has a description', () => {
  const requests = ['ChatRequest', 'ResponsesRequest', 'MessagesRequest', 'ImageGenerationRequest', 'ImageEditForm']
  const bare = requests.flatMap((name) =>
    Object.entries(objectAt(SCHEMAS, name, 'properties')).flatMap(([field, schema]) =>
      isObject(schema) && typeof schema['description'] === 'string' ? [] : [`${name}.${field}`],
    ),
  )
  const objects = Object.entries(SCHEMAS).filter(([, schema]) => isObject(schema) && schema['type'] === 'object')
  const nameless = objects.filter(([, schema]) => !isObject(schema) || typeof schema['description'] !== 'string')
  expect([...bare, ...nameless.map(([name]) => name)]).toEqual([])
})

test('it has the endpoints of the public port, and no others', () => {
  const { routes } = createApp(Object.create(null))
  const served = Object.entries(routes).flatMap(([path, methods]) =>
    Object.keys(methods).flatMap((method) => (method === 'HEAD' ? [] : [`${method} ${path}`])),
  )
  const documented = Object.entries(objectAt(DOCUMENT, 'paths')).flatMap(([path, methods]) =>
    isObject(methods) ? Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`) : [],
  )
  // OpenAPI has no words for a WebSocket; docs/api.md describes the one at /v1/responses.
  expect([...documented, 'GET /v1/responses'].sort()).toEqual(served.sort())
})

test('every operation has a curl, a Python and a TypeScript example', () => {
  const samples = Object.values(objectAt(DOCUMENT, 'paths')).flatMap((methods) =>
    isObject(methods)
      ? Object.values(methods).map((operation) =>
          isObject(operation) && isArray(operation['x-codeSamples'])
            ? operation['x-codeSamples'].map((sample) => (isObject(sample) ? sample['label'] : undefined))
            : [],
        )
      : [],
  )
  for (const labels of samples) expect(labels).toEqual(expect.arrayContaining(['curl', 'Python', 'TypeScript']))
  expect(samples.length).toBeGreaterThan(9)
})

const DIALECTS = [
  ['chat', 'ChatRequest'],
  ['responses', 'ResponsesRequest'],
  ['messages', 'MessagesRequest'],
] as const

test.each(DIALECTS)('%s: every field without effect is marked', (dialect, name) => {
  // Parts of a field without effect, and fields of which only some values have none.
  const partly = new Set(['text.format', 'text.verbosity', 'tool_choice'])
  const fields = objectAt(SCHEMAS, name, 'properties')
  const marked = Object.entries(fields).filter(([, schema]) => isObject(schema) && schema['x-weir-ignored'] === true)
  const names = marked.map(([field]) => field)
  expect(Object.keys(IGNORED_FIELDS[dialect]).filter((field) => !partly.has(field) && !names.includes(field))).toEqual(
    [],
  )
})

test('image generations have the fields that are passed on', () => {
  const fields = Object.keys(objectAt(SCHEMAS, 'ImageGenerationRequest', 'properties'))
  expect(fields.sort()).toEqual([...GENERATION_FIELDS, ...STREAM_FIELDS].sort())
})

test('every forbidden field is named, and rejected by the schemas', () => {
  const named = valueAt(SCHEMAS, 'ForbiddenFields', 'x-weir-forbidden')
  expect(named).toEqual([...FORBIDDEN_FIELDS])
  const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
  const rejected = (schema: string, field: string) => requestProblem(schema, { ...chat, [field]: null }) !== undefined
  expect(requestProblem('ChatRequest', chat)).toBeUndefined()
  expect([...FORBIDDEN_FIELDS].filter((field) => !rejected('ChatRequest', field))).toEqual([])
  expect([...FORBIDDEN_FIELDS].filter((field) => !rejected('MessagesRequest', field))).toEqual(['metadata'])
})

test('every kind of error is in an answer of an operation, or belongs to none', () => {
  const kindsOf = (value: JsonValue) =>
    [...within(value)].flatMap((each): readonly JsonObject[] => {
      const rows = isObject(each) ? each['x-weir-errors'] : undefined
      return isArray(rows) ? rows.filter(isObject) : []
    })
  const found = kindsOf([objectAt(DOCUMENT, 'paths'), objectAt(DOCUMENT, 'components')])
  const kinds = new Set(found.map(({ kind }) => kind))
  // Other paths, other methods and WebSockets are no operations.
  for (const kind of ['unknown_path', 'method_not_allowed', 'upgrade_required']) kinds.add(kind)
  expect(Object.keys(CALLER_ERRORS).filter((kind) => !kinds.has(kind))).toEqual([])
  expect(kindsOf(DOCUMENT).filter(({ meaning, advice }) => !meaning || !advice)).toEqual([])
})
