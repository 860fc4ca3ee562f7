/** Errors in the reference: their two shapes, and the answers of each status with the codes that it may have. */

import { Type } from '@sinclair/typebox'
import { CALLER_ERRORS } from '../../src/core/caller-error.ts'
import { FORBIDDEN_FIELDS } from '../../src/dialects/forbidden-fields.ts'
import { headerRefs } from './answer-headers.ts'
import { anyOf, type Components, described, orNull, ref } from './schema-parts.ts'

export type ErrorKind = keyof typeof CALLER_ERRORS

/** What an error means to a caller. */
interface ErrorText {
  readonly meaning: string
  readonly advice: string
}

/** By `error.code`, `null` for errors without one. */
export type ErrorTexts = ReadonlyMap<string, ErrorText>

/** A caller's family of paths, which decides the shape of errors. */
export type Family = 'chat' | 'messages'

/** Kinds that every path may answer with. */
export const EVERYWHERE: readonly ErrorKind[] = [
  'invalid_host',
  'unauthenticated',
  'multiple_credentials',
  'invalid_tags',
  'overloaded',
  'ledger_unavailable',
  'shutting_down',
  'internal_error',
]

/** Kinds of every path with a body and a model. */
export const INFERENCE: readonly ErrorKind[] = [
  ...EVERYWHERE,
  ...(['malformed_body', 'missing_field', 'invalid_field', 'forbidden_field', 'body_timeout', 'too_large'] as const),
  ...(['unsupported_encoding', 'unsupported_media_type'] as const),
  ...(['model_not_found', 'model_not_allowed', 'auto_required', 'auto_resolution_failed', 'wrong_endpoint'] as const),
  ...(['missing_tag', 'rate_limited', 'exceeds_limit', 'too_many_values', 'quota_exhausted'] as const),
  ...(['upstream_rejected', 'upstream_too_large', 'upstream_rate_limited', 'upstream_failed'] as const),
  'upstream_timeout',
]

/** Kinds of the paths whose bodies may ask for a service tier. */
/** What is not served under a spend limit. */
export const UNPRICED: readonly ErrorKind[] = ['unpriced_service_tier', 'unpriced_field', 'unpriced_tool']

export const CONVERSATION: readonly ErrorKind[] = [
  ...INFERENCE,
  ...UNPRICED,
  'unsupported_schema',
  'unsupported_documents',
]

/** Kinds of every Messages path with a body and a model. */
export const MESSAGES_INFERENCE: readonly ErrorKind[] = [...INFERENCE, 'thread_not_found']

/** The kinds that most paths of a family share. */
const SHARED: Readonly<Record<Family, readonly ErrorKind[]>> = { chat: INFERENCE, messages: MESSAGES_INFERENCE }

/** Kinds that share the code of another kind, or have the provider's. */
const OWN_TEXTS: Readonly<Partial<Record<ErrorKind, ErrorText>>> = {
  exceeds_limit: {
    meaning: 'the request alone is larger than the whole limit, so that no waiting helps',
    advice: 'send less',
  },
  upstream_rejected: {
    meaning:
      "the provider rejected the request; the message is the provider's, and so is the code if it is a well-known " +
      'one, such as `context_length_exceeded`',
    advice: 'correct the request',
  },
  upstream_too_large: { meaning: 'the provider rejected the size of the request', advice: 'send less' },
}

const WAIT: ReadonlySet<number> = new Set([429, 503])

const STATUS_NAMES: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  408: 'RequestTimeout',
  413: 'TooLarge',
  415: 'UnsupportedMediaType',
  429: 'TooManyRequests',
  500: 'InternalError',
  502: 'UpstreamFailed',
  503: 'Unavailable',
  504: 'UpstreamTimeout',
}

const forbidden = (names: readonly string[]) => ({
  description:
    'Fields that a request must not have at its top level, whatever their value: ' +
    `${names.map((name) => `\`${name}\``).join(', ')}. Routing and credentials are the operator's. A request with ` +
    'one of them is a 400 `forbidden_field`.',
  anyOf: names.map((name) => ({ required: [name] })),
  'x-weir-forbidden': names,
})

const names = [...FORBIDDEN_FIELDS]

const quota = {
  limit: Type.Optional(Type.Number({ description: 'With `insufficient_quota`: the limit, in dollars.' })),
  spent: Type.Optional(Type.Number({ description: 'What of it is spent, in dollars.' })),
  window: Type.Optional(Type.String({ description: '`day`, `month` or `total`.' })),
  scope: Type.Optional(Type.String({ description: 'Whose limit it is: `organization:acme`, `key:ci`.' })),
  resets_at: Type.Optional(orNull(Type.String(), 'When it renews; null if waiting does not help.')),
}

const errorDetail = Type.Object(
  {
    message: Type.String({ description: 'What is wrong, where, and what to do.' }),
    type: Type.String({ description: 'The kind of error, or the limit that was exceeded.' }),
    param: orNull(Type.String(), 'The field as a path, such as `messages[3].content[0].type`.'),
    code: orNull(Type.String(), 'The code. Programs should decide by this and by the status.'),
    ...quota,
  },
  { description: 'What went wrong.' },
)

const requestId = Type.String({ description: 'The value of `x-request-id`.' })

export const errorComponents: Components = {
  ForbiddenFields: Type.Unsafe(forbidden(names)),
  ForbiddenMessagesFields: Type.Unsafe(forbidden(names.filter((name) => name !== 'metadata'))),
  ErrorDetail: errorDetail,
  Error: Type.Object({ error: ref('ErrorDetail') }, { description: 'An error on all paths but those of Messages.' }),
  MessagesError: Type.Object(
    {
      type: Type.Literal('error'),
      error: Type.Object({
        type: Type.String({ description: 'The kind of error.' }),
        message: Type.String({ description: 'What is wrong, where, and what to do.' }),
        ...quota,
        details: Type.Optional(
          Type.Object(
            { error_code: Type.String() },
            { description: 'For SDKs: `thread_not_found` makes them send the whole history.' },
          ),
        ),
      }),
      request_id: requestId,
    },
    { description: 'An error on Messages paths, except errors of the body.' },
  ),
  MessagesBodyError: Type.Object(
    { type: Type.Literal('error'), error: ref('ErrorDetail'), request_id: requestId },
    { description: 'An error of the body on Messages paths: its JSON, its fields, its size, its encoding.' },
  ),
  MessagesPathError: described(
    anyOf([ref('MessagesError'), ref('MessagesBodyError')]),
    'An error on Messages paths, in one of its two shapes.',
  ),
}

/** One row of an answer's list of errors. */
interface ErrorRow extends ErrorText {
  readonly kind: ErrorKind
  readonly code: string | null
  /** `error.type` on all paths but those of Messages, and in errors of the body there. */
  readonly type: string
  /** `error.type` on Messages paths, except in errors of the body. */
  readonly messages_type: string
  readonly shape: 'Error' | 'MessagesError' | 'MessagesBodyError'
}

function rowOf(kind: ErrorKind, family: Family, texts: ErrorTexts): ErrorRow {
  const { code, type, messagesType, stage } = CALLER_ERRORS[kind]
  const text = OWN_TEXTS[kind] ?? texts.get(String(code))
  if (text === undefined) throw new Error(`the error '${String(code)}' has no row in docs/errors.md`)
  const shape = family === 'chat' ? 'Error' : stage === 'body' ? 'MessagesBodyError' : 'MessagesError'
  return { kind, code, type, messages_type: messagesType, shape, ...text }
}

/** An answer of one status. */
function responseOf(status: number, rows: readonly ErrorRow[], family: Family): object {
  const lines = rows.map(({ code, meaning, advice }) => `- \`${code}\`: ${meaning}. ${sentence(advice)}`)
  const shape = family === 'chat' ? 'Error' : 'MessagesPathError'
  return {
    description: lines.join('\n'),
    headers: headerRefs(
      ...['x-request-id', 'request-id', 'cache-control', 'x-should-retry'],
      ...(WAIT.has(status) ? ['retry-after'] : []),
      ...(status === 401 ? ['www-authenticate'] : []),
    ),
    content: { 'application/json': { schema: { $ref: `#/components/schemas/${shape}` } } },
    'x-weir-errors': rows,
  }
}

function sentence(advice: string): string {
  return `${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`
}

type Responses = Readonly<Record<string, object>>

function responsesOf(kinds: readonly ErrorKind[], family: Family, texts: ErrorTexts): Responses {
  const statuses = [...new Set(kinds.map((kind) => CALLER_ERRORS[kind].status))].sort((a, b) => a - b)
  return Object.fromEntries(
    statuses.map((status) => {
      const rows = kinds.filter((kind) => CALLER_ERRORS[kind].status === status)
      return [
        status,
        responseOf(
          status,
          rows.map((kind) => rowOf(kind, family, texts)),
          family,
        ),
      ]
    }),
  )
}

const PREFIXES = { chat: '', messages: 'Messages' } as const

function nameOf(family: Family, status: string): string {
  return `${PREFIXES[family]}${STATUS_NAMES[Number(status)] ?? status}`
}

/** The answers that most paths share, by their names in the document. */
export function sharedResponses(texts: ErrorTexts): Responses {
  const families: readonly Family[] = ['chat', 'messages']
  return Object.fromEntries(
    families.flatMap((family) =>
      Object.entries(responsesOf(SHARED[family], family, texts)).map(
        ([status, response]) => [nameOf(family, status), response] as const,
      ),
    ),
  )
}

/** The errors of one path by status. Those that most paths share are references. */
export function errorResponses(kinds: readonly ErrorKind[], family: Family, texts: ErrorTexts): Responses {
  const shared = responsesOf(SHARED[family], family, texts)
  return Object.fromEntries(
    Object.entries(responsesOf(kinds, family, texts)).map(([status, response]) => [
      status,
      JSON.stringify(response) === JSON.stringify(shared[status])
        ? { $ref: `#/components/responses/${nameOf(family, status)}` }
        : response,
    ]),
  )
}

/** All errors, for the overview of the document. */
export function allErrors(texts: ErrorTexts): readonly object[] {
  return (Object.keys(CALLER_ERRORS) as ErrorKind[]).map((kind) => {
    const { shape: _, ...row } = rowOf(kind, 'chat', texts)
    const { status, stage } = CALLER_ERRORS[kind]
    return { status, ...row, of_body: stage === 'body' }
  })
}
