/** The OpenAPI document of the admin API, from the schemas of its answers. */

import { simplified } from './simplified-schema.ts'
import * as shapes from '../../src/admin/api-shapes.ts'

interface Parameter {
  readonly name: string
  readonly description: string
  readonly isRequired?: true
}

interface Operation {
  readonly method: 'get' | 'post' | 'patch' | 'delete'
  readonly path: string
  readonly summary: string
  readonly parameters?: readonly Parameter[]
  /** What the fields of its request body mean, by name. */
  readonly body?: Readonly<Record<string, string>>
  /** Names of schemas, by status. */
  readonly answers: Readonly<Record<number, SchemaName | readonly SchemaName[]>>
  readonly isEvents?: true
}

const schemas = {
  Status: shapes.status,
  Targets: shapes.targets,
  Budgets: shapes.budgets,
  RequestLines: shapes.requestLines,
  AuditRows: shapes.auditRows,
  Usage: shapes.usage,
  Explanation: shapes.explanation,
  Omitted: shapes.omitted,
  Keys: shapes.keys,
  Key: shapes.key,
  ChangedKey: shapes.changedKey,
  KeyWithSecret: shapes.keyWithSecret,
  RevokedKey: shapes.revokedKey,
  Organizations: shapes.organizations,
  ChangedOrganization: shapes.changedOrganization,
  Reloaded: shapes.reloaded,
  RejectedReload: shapes.rejectedReload,
  Error: shapes.error,
} as const

type SchemaName = keyof typeof schemas

const ORG: Parameter = { name: 'org', description: 'Only this organisation' }
const KEY: Parameter = { name: 'key', description: 'Only this key, by its id' }

const KEY_BODY = {
  models: 'Patterns of public names',
  limits: 'As in the configuration; money in dollars',
  expires_at: 'A date, an RFC 3339 time or a duration such as 90d',
  tags: 'Values that hold where a request names none, by name',
}

const DISABLED = '`true`: its keys are rejected'

const reports: readonly Operation[] = [
  {
    method: 'get',
    path: '/api/status',
    summary: 'What this weir is and does now, and what needs attention',
    parameters: [{ name: 'history', description: '`true` adds the figures of the last hour' }],
    answers: { 200: 'Status' },
  },
  { method: 'get', path: '/api/targets', summary: 'The targets with their health', answers: { 200: 'Targets' } },
  {
    method: 'get',
    path: '/api/budgets',
    summary: 'What is used and held of each limit, the fullest first',
    parameters: [
      { name: 'organization', description: 'Only this organisation' },
      KEY,
      { name: 'search', description: 'Only rows whose organisation, key or limit has each of these words' },
    ],
    answers: { 200: 'Budgets' },
  },
  {
    method: 'get',
    path: '/api/requests',
    summary: 'Lines of the audit; with `recent` the log lines of the last requests',
    parameters: [
      { name: 'recent', description: 'The last N requests of the workers, 1 to 200; excludes the others' },
      ORG,
      KEY,
      { name: 'request', description: 'Only this request, by its id' },
      { name: 'since', description: 'A date or an RFC 3339 time; today unless given' },
      { name: 'until', description: 'A date or an RFC 3339 time' },
      { name: 'model', description: 'Only this public model' },
      { name: 'outcome', description: 'Only requests that ended so' },
      { name: 'tag', description: 'NAME=VALUE, or several with commas between them' },
      { name: 'limit', description: 'The last N lines, 1 to 10,000; 100 unless given' },
    ],
    answers: { 200: ['AuditRows', 'RequestLines'] },
  },
  {
    method: 'get',
    path: '/api/usage',
    summary: 'Requests, tokens and spend',
    parameters: [
      ORG,
      KEY,
      { name: 'since', description: 'From this UTC day on; the first of this month unless given' },
      { name: 'until', description: 'Before this UTC day' },
      { name: 'by', description: 'model, key, org, provider, day, hour or tag:NAME, or a list of them' },
    ],
    answers: { 200: 'Usage', 422: 'Error' },
  },
  {
    method: 'get',
    path: '/api/explain',
    summary: 'What would happen to a request',
    parameters: [
      { name: 'key', description: 'The id of the key', isRequired: true },
      { name: 'model', description: 'As the caller would name it', isRequired: true },
      { name: 'images', description: '`true`: the request has images' },
      { name: 'tools', description: '`true`: the request has tools' },
      { name: 'tokens', description: 'Its estimated input tokens' },
      { name: 'output-tokens', description: 'Its output limit (`max_tokens`)' },
      { name: 'ttl', description: '`5m` or `1h` of prompt caching' },
      { name: 'conversation', description: 'The `prompt_cache_key` of the request, for the order of weighted targets' },
    ],
    answers: { 200: 'Explanation', 404: 'Error' },
  },
  {
    method: 'get',
    path: '/api/events',
    summary:
      'Server-sent events: `status` (Status) every second, `request` (a log line) for each request that ends, ' +
      '`omitted` (Omitted)',
    answers: { 200: ['Status', 'RequestLines', 'Omitted'], 409: 'Error' },
    isEvents: true,
  },
]

const changes: readonly Operation[] = [
  {
    method: 'get',
    path: '/api/keys',
    summary: 'The keys and their states',
    parameters: [ORG, { name: 'limit', description: 'The first N keys by id, 1 to 10,000; 10,000 unless given' }],
    answers: { 200: 'Keys' },
  },
  {
    method: 'post',
    path: '/api/keys',
    summary: 'Create a key; the answer has its secret',
    body: { organization: 'Its organisation', id: 'Its name, unique', ...KEY_BODY },
    answers: { 201: 'KeyWithSecret', 409: 'Error', 422: 'Error' },
  },
  {
    method: 'patch',
    path: '/api/keys/{id}',
    summary: 'Change a key: what is absent stays, null removes',
    body: KEY_BODY,
    answers: { 200: 'ChangedKey', 404: 'Error', 409: 'Error', 422: 'Error' },
  },
  {
    method: 'post',
    path: '/api/keys/{id}/rotate',
    summary: 'Give a key a new secret',
    body: { grace: 'How long the old secret is accepted, such as 24h; not at all unless given' },
    answers: { 200: 'KeyWithSecret', 404: 'Error', 409: 'Error', 422: 'Error' },
  },
  {
    method: 'delete',
    path: '/api/keys/{id}',
    summary: 'Revoke a key',
    answers: { 200: 'RevokedKey', 404: 'Error', 409: 'Error' },
  },
  {
    method: 'get',
    path: '/api/organizations',
    summary: 'The organisations of the configuration and of the key store',
    answers: { 200: 'Organizations' },
  },
  {
    method: 'post',
    path: '/api/organizations',
    summary: 'Create an organisation',
    body: { id: 'Its name, unique', models: KEY_BODY.models, limits: KEY_BODY.limits, disabled: DISABLED },
    answers: { 201: 'ChangedOrganization', 409: 'Error', 422: 'Error' },
  },
  {
    method: 'patch',
    path: '/api/organizations/{id}',
    summary: 'Change an organisation: what is absent stays, null removes',
    body: { models: KEY_BODY.models, limits: KEY_BODY.limits, disabled: DISABLED },
    answers: { 200: 'ChangedOrganization', 404: 'Error', 409: 'Error', 422: 'Error' },
  },
  {
    method: 'post',
    path: '/api/reload',
    summary: 'Read the configuration again',
    answers: { 200: 'Reloaded', 422: 'RejectedReload' },
  },
]

/** Every path below `/api` but that of this document. */
export const OPERATIONS = [...reports, ...changes]

/** The document, ready for `JSON.stringify`. */
export function adminOpenApi(): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const operation of OPERATIONS)
    paths[operation.path] = { ...paths[operation.path], [operation.method]: described(operation) }
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

function described({ method, path, summary, parameters = [], body, answers, isEvents }: Operation): object {
  const query = parameters.map(({ name, description, isRequired = false }) => ({
    ...{ name, in: 'query', description, required: isRequired, schema: { type: 'string' } },
  }))
  const id = { name: 'id', in: 'path', required: true, schema: { type: 'string' } }
  const all = path.includes('{id}') ? [id, ...query] : query
  const responses = Object.entries({ ...answers, 400: 'Error', 401: 'Error', 403: 'Error', 503: 'Error' } as const)
  return {
    operationId: operationId(method, path),
    summary,
    ...(all.length === 0 ? {} : { parameters: all }),
    ...(body === undefined ? {} : { requestBody: { content: { 'application/json': { schema: bodySchema(body) } } } }),
    responses: Object.fromEntries(
      responses.map(([status, names]) => [
        status,
        {
          description: Number(status) < 300 ? summary : 'What is wrong, and what to do',
          content: {
            [isEvents === true && status === '200' ? 'text/event-stream' : 'application/json']: {
              schema: schemaOf(names),
            },
          },
        },
      ]),
    ),
  }
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
