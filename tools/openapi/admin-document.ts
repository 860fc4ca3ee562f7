/** The OpenAPI document of the admin API, from its table of operations and the schemas of its answers. */

import { type SchemaName, schemas } from '../../src/admin/api-schemas.ts'
import type { Operation } from '../../src/admin/operation.ts'
import { OPERATIONS } from '../../src/admin/operations.ts'
import type { Parameter } from '../../src/reports/parameters.ts'
import { simplified } from './simplified-schema.ts'

/** The document, ready for `JSON.stringify`. */
export function adminOpenApi() {
  const paths: Record<string, Record<string, object>> = {}
  for (const operation of OPERATIONS.filter(({ isLocal }) => isLocal !== true)) {
    const path = operation.path.replace(':id', '{id}')
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: described(operation) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'weir admin API',
      version: 'v1',
      description:
        'For operators, on the admin port. Money is in micro-dollars unless it is described otherwise, times are RFC ' +
        '3339 in UTC, and a figure that is not known is null.',
    },
    servers: [{ url: 'http://127.0.0.1:9090' }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer', description: '`admin.token`, if it is set.' } },
      schemas: simplified(schemas),
    },
  }
}

function described({ method, path, summary, parameters = [], body, answers, errors = [] }: Operation): object {
  const id = { name: 'id', in: 'path', required: true, schema: { type: 'string' } }
  const all = path.includes(':id') ? [id, ...parameters.map(queryParameter)] : parameters.map(queryParameter)
  const failures = Object.fromEntries([...errors, 400, 401, 403, 503].map((status) => [status, 'Error' as const]))
  const byStatus: Operation['answers'] = { ...failures, ...answers }
  const responses = Object.entries(byStatus).map(([status, names]) => {
    const type = path === '/api/events' && status === '200' ? 'text/event-stream' : 'application/json'
    const description = Number(status) < 300 ? summary : 'What is wrong, and what to do'
    return [status, { description, content: { [type]: { schema: schemaOf(names) } } }]
  })
  return {
    operationId: operationId(method.toLowerCase(), path),
    summary,
    ...(all.length === 0 ? {} : { parameters: all }),
    ...(body === undefined ? {} : { requestBody: { content: { 'application/json': { schema: bodySchema(body) } } } }),
    responses: Object.fromEntries(responses),
  }
}

function queryParameter({ name, value, choices = [], about, isRequired = false, range, alias }: Parameter): object {
  const [min, max] = range ?? []
  const notes = [
    ...(value === undefined ? ['`true` or `false`'] : []),
    ...(about.includes(choices.at(-1) ?? '') ? [] : [choices.join(', ')]),
    ...(range === undefined ? [] : [`from ${min} to ${max}`]),
    ...(alias === undefined ? [] : [`\`${alias}\` is the same`]),
  ]
  const text = [about.replace(/(?<!\S)--(?=[a-z])/g, ''), ...notes].join('; ')
  const description = text.slice(0, 1).toUpperCase() + text.slice(1)
  return { name, in: 'query', description, required: isRequired, schema: { type: 'string' } }
}

/** `postApiKeysIdRotate` */
function operationId(method: string, path: string): string {
  const words = path.split(/\W+/).filter((word) => word !== '')
  return method + words.map((word) => word[0]?.toUpperCase() + word.slice(1)).join('')
}

function bodySchema(fields: Readonly<Record<string, string>>): object {
  const properties = Object.entries(fields).map(([name, description]) => [name, { description }])
  return { type: 'object', properties: Object.fromEntries(properties), additionalProperties: false }
}

function schemaOf(names: SchemaName | readonly SchemaName[]): object {
  const references = [names].flat().map((name) => ({ $ref: `#/components/schemas/${name}` }))
  const [only] = references
  return references.length === 1 && only !== undefined ? only : { anyOf: references }
}
