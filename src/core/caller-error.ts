/**
 * Every way in which a request can fail: one row a failure, one class of error. Statuses, codes and words are decided here and nowhere
 * else; `dialects/error-body.ts` only lays them out.
 */

/** At which stage a failure is found decides the shape of its body on Messages paths (decisions.md, Errors). */
type Stage = 'body' | 'request'

interface Row {
  readonly status: number
  /** `error.code` of the Chat shape. */
  readonly code: string | null
  /** `error.type` of the Chat shape. */
  readonly type: string
  /** `error.type` of the Messages shape. */
  readonly messagesType: string
  readonly stage: Stage
  /** Headers that always go with this failure. */
  readonly headers?: Readonly<Record<string, string>>
}

function row(
  status: number,
  code: string | null,
  type: string,
  messagesType: string,
  stage: Stage,
  headers?: Readonly<Record<string, string>>,
): Row {
  return headers === undefined
    ? { status, code, type, messagesType, stage }
    : { status, code, type, messagesType, stage, headers }
}

const INVALID = 'invalid_request_error'
const STOP_RETRYING = { 'x-should-retry': 'false' } as const

/** Sources: inference-api.md 7, decisions.md 1, 2 and 5, wire.md C2. */
export const CALLER_ERRORS = {
  malformed_body: row(400, null, INVALID, INVALID, 'body'),
  missing_field: row(400, 'missing_required_parameter', INVALID, INVALID, 'body'),
  invalid_field: row(400, 'invalid_value', INVALID, INVALID, 'body'),
  forbidden_field: row(400, 'forbidden_field', INVALID, INVALID, 'body'),
  body_timeout: row(408, 'request_timeout', INVALID, INVALID, 'body', { ...STOP_RETRYING, connection: 'close' }),
  too_large: row(413, 'request_too_large', INVALID, 'request_too_large', 'body'),
  unsupported_encoding: row(415, 'unsupported_content_encoding', INVALID, INVALID, 'body'),
  unsupported_media_type: row(400, 'unsupported_content_type', INVALID, INVALID, 'body'),

  unauthenticated: row(401, 'invalid_api_key', INVALID, 'authentication_error', 'request', {
    ...STOP_RETRYING,
    'www-authenticate': 'Bearer',
  }),
  multiple_credentials: row(400, 'multiple_credentials', INVALID, INVALID, 'request'),
  invalid_host: row(400, 'invalid_host', INVALID, INVALID, 'request'),
  unknown_path: row(404, 'unknown_url', INVALID, 'not_found_error', 'request'),
  method_not_allowed: row(405, 'method_not_supported', INVALID, INVALID, 'request'),
  upgrade_required: row(426, 'upgrade_required', INVALID, INVALID, 'request'),

  model_not_found: row(404, 'model_not_found', INVALID, 'not_found_error', 'request'),
  model_not_allowed: row(403, 'model_not_allowed', INVALID, 'permission_error', 'request'),
  auto_required: row(403, 'auto_required', INVALID, 'permission_error', 'request'),
  auto_resolution_failed: row(400, 'auto_resolution_failed', INVALID, INVALID, 'request'),
  wrong_endpoint: row(400, 'model_not_supported', INVALID, INVALID, 'request'),
  unsupported_cache: row(400, 'unsupported_cache_control', INVALID, INVALID, 'request'),
  thread_not_found: row(404, 'thread_not_found', INVALID, 'not_found_error', 'request'),

  rate_limited: row(429, 'rate_limit_exceeded', 'requests', 'rate_limit_error', 'request'),
  exceeds_limit: row(429, 'rate_limit_exceeded', 'tokens', 'rate_limit_error', 'request', STOP_RETRYING),
  quota_exhausted: row(429, 'insufficient_quota', 'insufficient_quota', 'rate_limit_error', 'request', STOP_RETRYING),

  upstream_rejected: row(400, null, INVALID, INVALID, 'request'),
  upstream_too_large: row(413, 'request_too_large', INVALID, 'request_too_large', 'request'),
  upstream_rate_limited: row(429, 'upstream_rate_limited', 'requests', 'rate_limit_error', 'request'),
  upstream_failed: row(502, 'upstream_failed', 'server_error', 'api_error', 'request'),
  overloaded: row(503, 'overloaded', 'server_error', 'overloaded_error', 'request'),
  ledger_unavailable: row(503, 'ledger_unavailable', 'server_error', 'overloaded_error', 'request'),
  shutting_down: row(503, 'shutting_down', 'server_error', 'overloaded_error', 'request'),
  upstream_timeout: row(504, 'upstream_timeout', 'server_error', 'timeout_error', 'request'),
  internal_error: row(500, 'internal_error', 'server_error', 'api_error', 'request'),
} as const satisfies Record<string, Row>

type CallerErrorKind = keyof typeof CALLER_ERRORS

interface CallerErrorDetail {
  /** The field at fault as a path: `messages[3].content[0].type`. */
  readonly param?: string | undefined
  /** Takes the row's `code` over, where the provider gave one that is on our list. */
  readonly code?: string | undefined
  /** Takes the row's `type` over: which of our rate limits it was. */
  readonly type?: string | undefined
  /** Whole seconds; sent as `retry-after`, at least 1 and at most 60. */
  readonly retryAfterSeconds?: number | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** `error.details` of the Messages shape. */
  readonly details?: Readonly<Record<string, string>> | undefined
  readonly cause?: unknown
}

/** A failure on its way to the caller. `message` is shown: it says what, where and what to do, and nothing secret. */
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

  get code(): string | null {
    return this.detail.code ?? this.row.code
  }

  get type(): string {
    return this.detail.type ?? this.row.type
  }
}
