/**
 * Every error that a caller can get: one row for each kind, and one class. Status, code and type are decided here and
 * nowhere else; `dialects/error-body.ts` only arranges them.
 */

/**
 * `body`: an error of the body itself. On Messages paths these have the Chat shape, and all others the Messages shape.
 */
type Stage = 'body' | 'request'

interface Row {
  readonly status: number
  /** `error.code` in the Chat shape. */
  readonly code: string | null
  /** `error.type` in the Chat shape. */
  readonly type: string
  /** `error.type` in the Messages shape. */
  readonly messagesType: string
  readonly stage: Stage
  /** Headers that every error of this kind carries. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

function row(
  status: number,
  code: string | null,
  type: string,
  messagesType: string,
  stage: Stage,
  headers?: Readonly<Record<string, string>>,
): Row {
  return { status, code, type, messagesType, stage, headers }
}

const INVALID = 'invalid_request_error'
const STOP_RETRYING = { 'x-should-retry': 'false' } as const

/** By kind. `dialects/error-body.ts` writes `status`, `code` and `type` into the body. */
export const CALLER_ERRORS = {
  /** The body is not UTF-8, not JSON, not an object, nested too deep, has too many values, or ended early. */
  malformed_body: row(400, null, INVALID, INVALID, 'body'),
  /** A required field is missing. `param` names it. */
  missing_field: row(400, 'missing_required_parameter', INVALID, INVALID, 'body'),
  /** A field has a wrong type or value, or refers to an item that is not stored. `param` names it. */
  invalid_field: row(400, 'invalid_value', INVALID, INVALID, 'body'),
  /** A field that only the operator may set, such as `api_key`. */
  forbidden_field: row(400, 'forbidden_field', INVALID, INVALID, 'body'),
  /** The body arrived too slowly. The connection is closed, because the rest of the body may still follow. */
  body_timeout: row(408, 'request_timeout', INVALID, INVALID, 'body', { ...STOP_RETRYING, connection: 'close' }),
  /** The body, or the body with the items that it refers to, is larger than 10 MiB. */
  too_large: row(413, 'request_too_large', INVALID, 'request_too_large', 'body'),
  /** The body is compressed. */
  unsupported_encoding: row(415, 'unsupported_content_encoding', INVALID, INVALID, 'body'),
  /** A form on a path that takes JSON, or the reverse. */
  unsupported_media_type: row(400, 'unsupported_content_type', INVALID, INVALID, 'body'),

  /** No key, or a key that is malformed, unknown, revoked, disabled or expired. */
  unauthenticated: row(401, 'invalid_api_key', INVALID, 'authentication_error', 'request', {
    ...STOP_RETRYING,
    'www-authenticate': 'Bearer',
  }),
  /** Two authentication headers, or one of them twice. */
  multiple_credentials: row(400, 'multiple_credentials', INVALID, INVALID, 'request'),
  /** A tag of `X-Gateway-Tags` that is not configured, has a value that none may have, or comes twice. */
  invalid_tags: row(400, 'invalid_tags', INVALID, INVALID, 'request'),
  /** A tag that every request must have. */
  missing_tag: row(400, 'missing_tag', INVALID, INVALID, 'request'),
  /** Not exactly one valid `Host` header. */
  invalid_host: row(400, 'invalid_host', INVALID, INVALID, 'request'),
  /** No endpoint at this path. */
  unknown_path: row(404, 'unknown_url', INVALID, 'not_found_error', 'request'),
  /** The path takes another method; the `allow` header names it. */
  method_not_allowed: row(405, 'method_not_supported', INVALID, INVALID, 'request'),
  /** A WebSocket was requested at a path that has none, or the operator has switched them off. */
  upgrade_required: row(426, 'upgrade_required', INVALID, INVALID, 'request'),

  /** No such model, an ambiguous alias, or `auto` for a key that may not use it. */
  model_not_found: row(404, 'model_not_found', INVALID, 'not_found_error', 'request'),
  /** The model exists, but this key may not use it. */
  model_not_allowed: row(403, 'model_not_allowed', INVALID, 'permission_error', 'request'),
  /** The key may only use `auto`, and the request names a model. */
  auto_required: row(403, 'auto_required', INVALID, 'permission_error', 'request'),
  /** No candidate of `auto` can serve this request. The message has a reason for each. */
  auto_resolution_failed: row(400, 'auto_resolution_failed', INVALID, INVALID, 'request'),
  /** An image model on a chat endpoint, or the reverse. */
  wrong_endpoint: row(400, 'model_not_supported', INVALID, INVALID, 'request'),
  /** Responses: the model does not support `cache_control`, or not with this TTL. */
  unsupported_cache: row(400, 'unsupported_cache_control', INVALID, INVALID, 'request'),
  /** No target of the model follows a schema for its answer. */
  unsupported_schema: row(400, 'unsupported_structured_output', INVALID, INVALID, 'request'),
  /** No target of the model takes documents. */
  unsupported_documents: row(400, 'unsupported_documents', INVALID, INVALID, 'request'),
  /** A spend limit holds, and the tier that the request asks for has no price. */
  unpriced_service_tier: row(400, 'unpriced_service_tier', INVALID, INVALID, 'request'),
  /** A spend limit holds, and no row of the model's `price.images` fits the order. */
  unpriced_image: row(400, 'unpriced_image', INVALID, INVALID, 'request'),
  /** A spend limit holds, and a field that changes the price has none in `price.fields`. */
  unpriced_field: row(400, 'unpriced_field', INVALID, INVALID, 'request'),
  /** A spend limit holds, and a tool of the provider has no price in `price.tools`. */
  unpriced_tool: row(400, 'unpriced_tool', INVALID, INVALID, 'request'),
  /** Messages: `thread` continues a stored conversation, and weir stores none. */
  thread_not_found: row(404, 'thread_not_found', INVALID, 'not_found_error', 'request'),

  /**
   * A rate limit, or a spend limit that other running requests have reserved. Waiting helps; `type` names the limit.
   */
  rate_limited: row(429, 'rate_limit_exceeded', 'requests', 'rate_limit_error', 'request'),
  /** The request alone is larger than a rate limit. Waiting does not help. */
  exceeds_limit: row(429, 'rate_limit_exceeded', 'tokens', 'rate_limit_error', 'request', STOP_RETRYING),
  /** A budget counts by values of the callers, and has as many counters as it may have. */
  too_many_values: row(429, 'too_many_values', 'budgets', 'rate_limit_error', 'request', STOP_RETRYING),
  /** A spend limit is used up until its window ends. */
  quota_exhausted: row(429, 'insufficient_quota', 'insufficient_quota', 'rate_limit_error', 'request', STOP_RETRYING),

  /** The provider rejected the request. The message is the provider's, without secrets. */
  upstream_rejected: row(400, null, INVALID, INVALID, 'request'),
  /** The provider rejected the size of the request. */
  upstream_too_large: row(413, 'request_too_large', INVALID, 'request_too_large', 'request'),
  /** Every provider of the model is rate limited. */
  upstream_rate_limited: row(429, 'upstream_rate_limited', 'requests', 'rate_limit_error', 'request'),
  /** The provider failed, gave an invalid answer, or rejected weir's own credential. */
  upstream_failed: row(502, 'upstream_failed', 'server_error', 'api_error', 'request'),
  /** The providers are overloaded or resting, or weir has no memory or connections left. */
  overloaded: row(503, 'overloaded', 'server_error', 'overloaded_error', 'request'),
  /** The ledger cannot be reached, so nothing can be reserved. */
  ledger_unavailable: row(503, 'ledger_unavailable', 'server_error', 'overloaded_error', 'request'),
  /** weir is stopping. */
  shutting_down: row(503, 'shutting_down', 'server_error', 'overloaded_error', 'request'),
  /** No provider answered in time. */
  upstream_timeout: row(504, 'upstream_timeout', 'server_error', 'timeout_error', 'request'),
  /** A bug in weir. */
  internal_error: row(500, 'internal_error', 'server_error', 'api_error', 'request'),
} as const satisfies Record<string, Row>

export type CallerErrorKind = keyof typeof CALLER_ERRORS

/** The names are those of the error's body. */
interface Quota {
  readonly limit: number
  readonly spent: number
  readonly window: string
  /** `organization:acme`, `key:ci`. */
  readonly scope: string
  /** RFC 3339; null if waiting does not help. */
  readonly resets_at: string | null
}

/** What a provider answered about the caller's request. */
interface PassedError {
  readonly status: number
  readonly type: string | undefined
  readonly code: string | null
  /** The code is a number. */
  readonly hasNumericCode?: boolean | undefined
}

interface CallerErrorDetail {
  /** The invalid field as a path: `messages[3].content[0].type`. */
  readonly param?: string | undefined
  /** Replaces the row's `code`: a provider's code that callers know, such as `context_length_exceeded`. */
  readonly code?: string | undefined
  /** Replaces the row's `type`: the name of the limit that was exceeded. */
  readonly type?: string | undefined
  /** Replaces the row's `status`, `type` (in both shapes) and `code`: the provider's error is passed on as it is. */
  readonly passed?: PassedError | undefined
  /** For the log: the limit by its key in the configuration (`spend.day`), and whose it is (`organization:acme`). */
  readonly limit?: { readonly name: string; readonly of: string } | undefined
  /** The place of the counter among those of the request, if a budget refuses it. */
  readonly counter?: number | undefined
  /** The budget that is used up, beside the four keys of the error; money in dollars. */
  readonly quota?: Quota | undefined
  /** For the log: the key that was sent, if it is known and not accepted. */
  readonly refusedKey?: { readonly id: string; readonly state: string } | undefined
  /** Whole seconds; sent as `retry-after`, at least 1 and at most 60. */
  readonly retryAfterSeconds?: number | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** `error.details` in the Messages shape. */
  readonly details?: Readonly<Record<string, string>> | undefined
  readonly cause?: unknown
}

/**
 * An error on its way to the caller. The caller reads `message`: what is wrong, where, and what to do. It must hold
 * nothing secret.
 */
export class CallerError extends Error {
  readonly row: Row

  constructor(
    readonly kind: CallerErrorKind,
    message: string,
    readonly detail: CallerErrorDetail = {},
  ) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause })
    this.name = 'CallerError'
    this.row = CALLER_ERRORS[kind]
  }

  get status(): number {
    return this.detail.passed?.status ?? this.row.status
  }

  get code(): string | null {
    const { passed } = this.detail
    if (passed !== undefined) return passed.code
    return this.detail.code ?? this.row.code
  }

  get type(): string {
    return this.detail.passed?.type ?? this.detail.type ?? this.row.type
  }

  /** `error.type` in the Messages shape. */
  get messagesType(): string {
    return this.detail.passed?.type ?? this.row.messagesType
  }
}
