/** Bedrock's errors. The type is in a header, or in the exception frame of a stream. */

import { isObject, type JsonValue, stringOf } from '../core/json.ts'
import { ProviderError, type ProviderErrorKind } from '../core/provider-error.ts'
import { errorJson, errorText, responseError } from './error-response.ts'
import type { ResponseHeaders } from './provider.ts'
import { scrub } from './scrub.ts'

/**
 * The error of a response with an error status. The type overrides the status: an expired token is a 400 here and a 403
 * there.
 */
export function bedrockResponseError(status: number, headers: ResponseHeaders, body: string): ProviderError {
  const error = responseError(status, headers, body)
  if (error.kind === 'credit_exhausted') return error
  const { message, json } = words(body)
  const type = headers.get('x-amzn-errortype') ?? stringOf(json['__type']) ?? ''
  const kind = kindOf(typeName(type), message)
  return kind === undefined
    ? error
    : new ProviderError(kind, error.message, {
        ...error.detail,
        code: codeOf(kind, message),
        providerCode: bareType(type),
      })
}

/** The model's own error, which Bedrock quotes. */
export function innerError(error: ProviderError): ProviderError {
  const message = error.message.replace(QUOTING, '')
  return message === error.message ? error : new ProviderError(error.kind, message, error.detail)
}

const QUOTING = /^the model returned the following errors:\s*/i

/** The error of an exception frame: its type, and its payload as text. */
export function bedrockException(type: string, payload: string): ProviderError {
  const { message } = words(payload)
  const kind = kindOf(typeName(type), message) ?? 'failed'
  return new ProviderError(kind, scrub(message) || `the provider ended the answer early: ${typeName(type)}`, {
    code: codeOf(kind, message),
    providerCode: bareType(type),
    providerMessage: scrub(message) || undefined,
  })
}

/**
 * `ThrottlingException:http://internal…`, `com.amazon.coral#ThrottlingException` and `throttlingException` are one
 * type.
 */
function typeName(type: string): string {
  return bareType(type)
    .replace(/Exception$/, '')
    .toLowerCase()
}

/** Without the address after it, and the name space before it. */
function bareType(type: string): string {
  return (type.split(':')[0] ?? '').replace(/^.*#/, '').slice(0, 100)
}

function kindOf(type: string, message: string): ProviderErrorKind | undefined {
  switch (type) {
    case 'throttling':
    case 'toomanyrequests':
    case 'servicequotaexceeded':
      return 'rate_limited'
    case 'serviceunavailable':
    case 'modelnotready':
      return 'overloaded'
    case 'modeltimeout':
      return 'timeout'
    case 'internalserver':
    case 'internalfailure':
    case 'modelerror':
    case 'modelstreamerror':
    case 'resourcenotfound':
      return 'failed'
    case 'validation':
      return isOurs(message) ? 'failed' : 'rejected'
    case 'accessdenied':
    case 'unrecognizedclient':
    case 'expiredtoken':
    case 'invalidsignature':
    case 'incompletesignature':
    case 'missingauthenticationtoken':
    case 'invalidclienttokenid':
      return 'credential'
    default:
      return undefined
  }
}

/** A validation error about the model's name is about the operator's configuration. */
function isOurs(message: string): boolean {
  return /model identifier is invalid|on-demand throughput isn.t supported|end of its life/i.test(message)
}

function codeOf(kind: ProviderErrorKind, message: string): string | undefined {
  if (kind !== 'rejected') return undefined
  return /input is too long|too many (?:input )?tokens|context (?:window|length)|prompt is too long/i.test(message)
    ? 'context_length_exceeded'
    : undefined
}

function words(body: string): {
  readonly message: string
  readonly json: { readonly [key: string]: JsonValue | undefined }
} {
  const value = errorJson(body)
  return { message: errorText(value).message, json: isObject(value) ? value : {} }
}
