/** A provider's error response (status, headers, and a body of many shapes) → a `ProviderError`. */

import { isArray, isObject, type JsonObject, type JsonValue, numberOf, stringOf } from '../core/json.ts'
import { ProviderError, type ProviderErrorDetail, type ProviderErrorKind } from '../core/provider-error.ts'
import { shapeProblem } from '../wire/json-shape.ts'
import { isCreditExhausted } from './credit-error.ts'
import type { ResponseHeaders } from './provider.ts'
import { rateLimitedMs, retryAfterMs } from './retry-after.ts'
import { scrub } from './scrub.ts'

/** Codes that help a caller and reveal nothing about the operator. Others are not shown. */
const SHOWN_CODES: ReadonlySet<string> = new Set([
  'context_length_exceeded',
  'content_filter',
  'content_policy_violation',
  'invalid_image_url',
  'invalid_image',
  'image_too_large',
  'image_parse_error',
  'invalid_type',
  'invalid_value',
  'missing_required_parameter',
  'unsupported_parameter',
  'unsupported_value',
  'unknown_parameter',
  'string_above_max_length',
  'array_above_max_length',
  'integer_above_max_value',
  'integer_below_min_value',
  'invalid_function_parameters',
  'moderation_blocked',
])

/** Agents compact a conversation when they see the code; most servers send only a message, each in its own words. */
const CONTEXT_EXCEEDED = new RegExp(
  [
    'context (?:length|window|size|limit)',
    'maximum (?:prompt|model) length',
    'prompt (?:is too long|exceeds max length)',
    'too many (?:input )?tokens',
    'exceeded model token limit',
    'reduce the length of the messages',
    'range of input length',
    '`inputs` tokens',
  ].join('|'),
  'i',
)

interface ErrorText {
  readonly message: string
  readonly type: string
  readonly code: string
  readonly hasNumericCode?: boolean | undefined
  readonly param: string
  /** Whether it names a part of the request as the cause, such as a file that the request refers to. */
  readonly ofContent: boolean
}

/** The longest code that the log shows; those of providers are words. */
const CODE_CHARS_MAX = 100

const NO_TEXT: ErrorText = { message: '', type: '', code: '', param: '', ofContent: false }

/** The error of a response with an error status. `body` may be JSON of any known shape, HTML or empty. */
export function responseError(status: number, headers: ResponseHeaders, body: string): ProviderError {
  const text = errorText(errorJson(body))
  const kind = status === 404 && text.ofContent ? 'rejected' : kindOf(status, text)
  const detail = {
    status,
    code: shownCode(kind, text),
    param: text.param || undefined,
    retryAfterMs: status === 429 ? rateLimitedMs(headers) : retryAfterMs(headers),
    ...ownWords(text),
  }
  return new ProviderError(kind, scrub(text.message) || `the provider answered ${status}`, detail)
}

/** The error in an answer with status 200. A numeric code counts as a status. */
export function reportedError(chunk: JsonObject): ProviderError {
  const text = errorText(chunk)
  const status = Number(text.code)
  const kind = status >= 400 && status < 600 ? kindOf(status, text) : kindOfType(text)
  return new ProviderError(kind, scrub(text.message) || 'the provider reported an error', {
    code: shownCode(kind, text),
    ...ownWords(text),
  })
}

type OwnWords = Pick<ProviderErrorDetail, 'providerCode' | 'providerMessage' | 'ownType' | 'ownCode' | 'hasNumericCode'>

/** The words of the provider itself. */
function ownWords({ code, type, message, hasNumericCode }: ErrorText): OwnWords {
  return {
    // Some repeat the status there.
    providerCode: scrub(/^(?:[45]\d\d)?$/.test(code) ? type : code).slice(0, CODE_CHARS_MAX) || undefined,
    providerMessage: scrub(message) || undefined,
    ownType: scrub(type).slice(0, CODE_CHARS_MAX) || undefined,
    ownCode: scrub(code).slice(0, CODE_CHARS_MAX) || undefined,
    hasNumericCode,
  }
}

/**
 * The text of an error: `{error: {…}}` (OpenAI, Anthropic, Gemini), the same in an array, `{error: "…"}`, `{detail}`,
 * `{message}`, or flat.
 */
export function errorText(body: JsonValue | undefined): ErrorText {
  const outer = isArray(body) ? body[0] : body
  if (!isObject(outer)) return NO_TEXT
  const error = outer['error'] ?? outer
  if (typeof error === 'string') return { ...NO_TEXT, message: error, code: wordOf(outer['code']) }
  if (!isObject(error)) return NO_TEXT
  const message =
    wrappedMessage(error) ?? stringOf(error['message']) ?? stringOf(error['detail']) ?? stringOf(error['Message'])
  const param = stringOf(error['param']) ?? ''
  return {
    message: explained(message ?? (error['detail'] === undefined ? '' : JSON.stringify(error['detail'])), param),
    type: wordOf(error['type']) || wordOf(error['status']),
    code: wordOf(error['code']),
    hasNumericCode: numberOf(error['code']) !== undefined || undefined,
    param,
    ofContent: isOfContent(param, message ?? ''),
  }
}

/** Xiaomi's message is always "Param Incorrect", and its `param` is the sentence that explains it. */
function explained(message: string, param: string): string {
  return param.includes(' ') ? `${message}: ${param}` : message
}

/**
 * OpenRouter's own message only reports that a provider returned an error, which it wraps as text in `metadata.raw`;
 * undefined if that has no message.
 */
function wrappedMessage({ metadata }: JsonObject): string | undefined {
  const raw = isObject(metadata) ? stringOf(metadata['raw']) : undefined
  const body = raw === undefined ? undefined : errorJson(raw)
  const error = isObject(body) && isObject(body['error']) ? body['error'] : body
  return isObject(error) ? stringOf(error['message']) || undefined : undefined
}

/** Every field but `model` is the caller's. Servers that name no field mention a file or an image in the message. */
function isOfContent(param: string, message: string): boolean {
  if (param !== '') return param !== 'model' && param !== 'deployment'
  return /^(?:no such )?(?:file|image|document)\b|\b(?:file|image|document) (?:\S+ )?(?:was )?not found/i.test(message)
}

/** Google answers 400 for a wrong key, on its Chat Completions endpoint too; no caller can fix that. */
export const OUR_KEY = /^API key (?:not valid|expired|not found)/i

function kindOf(status: number, text: ErrorText): ProviderErrorKind {
  if (isCreditExhausted(status, text)) return 'credit_exhausted'
  switch (status) {
    case 400:
    case 422:
      return OUR_KEY.test(text.message) ? 'credential' : 'rejected'
    case 401:
    case 403:
      return 'credential'
    case 404:
      // Not about content: the operator's model or deployment does not exist, which is not the caller's mistake.
      return 'failed'
    case 413:
      return 'too_large'
    case 429:
      return 'rate_limited'
    case 408:
    case 504:
    case 524:
      return 'timeout'
    case 503:
    case 529:
      return 'overloaded'
    default:
      return text.type === 'overloaded_error' ? 'overloaded' : 'failed'
  }
}

/** Error events have a type instead of a status. */
function kindOfType(text: ErrorText): ProviderErrorKind {
  if (isCreditExhausted(undefined, text)) return 'credit_exhausted'
  const words = `${text.type} ${text.code}`.toLowerCase()
  if (/rate_limit|resource_exhausted|throttl/.test(words)) return 'rate_limited'
  if (/overloaded|unavailable|slow_down/.test(words)) return 'overloaded'
  if (/timeout|deadline/.test(words)) return 'timeout'
  if (/authentication|permission|invalid_api_key/.test(words)) return 'credential'
  if (/invalid_request|invalid_argument|badrequest|validation|context_length/.test(words)) return 'rejected'
  return 'failed'
}

function shownCode(kind: ProviderErrorKind, { code, message }: ErrorText): string | undefined {
  if (SHOWN_CODES.has(code)) return code
  return kind === 'rejected' && CONTEXT_EXCEEDED.test(message) ? 'context_length_exceeded' : undefined
}

/** The JSON of an error's body; undefined if it is not JSON, or nested deeper than any error. */
export function errorJson(body: string): JsonValue | undefined {
  if (shapeProblem(body) !== undefined) return undefined
  try {
    const value: JsonValue = JSON.parse(body)
    return value
  } catch {
    // HTML of a proxy, or an empty body: the status is all there is.
    return undefined
  }
}

function wordOf(value: JsonValue | undefined): string {
  const number = numberOf(value)
  return number === undefined ? (stringOf(value) ?? '') : String(number)
}
