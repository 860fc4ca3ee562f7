/**
 * Errors of Google's APIs, if they differ from what their status means: a wrong key is a 400, and the delay before a
 * retry is in the body.
 */

import { isArray, isObject, type JsonObject, stringOf } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import { errorJson, OUR_KEY, reportedError, responseError } from './error-response.ts'
import type { ResponseHeaders } from './provider.ts'

export function googleResponseError(status: number, headers: ResponseHeaders, body: string): ProviderError {
  return refined(responseError(status, headers, body), errorIn(body))
}

/** The error in an answer with status 200. */
export function googleReportedError(chunk: JsonObject): ProviderError {
  return refined(reportedError(chunk), isObject(chunk['error']) ? chunk['error'] : {})
}

function refined(error: ProviderError, body: JsonObject): ProviderError {
  const { detail } = error
  const message = stringOf(body['message']) ?? ''
  if (reasonsOf(body).includes('BILLING_DISABLED')) return new ProviderError('credit_exhausted', error.message, detail)
  if (error.kind === 'rejected') {
    if (isKeyError(body, message)) return new ProviderError('credential', error.message, detail)
    // A region, a billing account, an API that is switched off: the operator's project is at fault.
    if (body['status'] === 'FAILED_PRECONDITION') return new ProviderError('failed', error.message, detail)
    if (/input token count.*exceeds/i.test(message))
      return new ProviderError('rejected', error.message, { ...detail, code: 'context_length_exceeded' })
  }
  const retryAfterMs = detail.retryAfterMs ?? retryDelayMs(body)
  return retryAfterMs === undefined ? error : new ProviderError(error.kind, error.message, { ...detail, retryAfterMs })
}

function isKeyError(error: JsonObject, message: string): boolean {
  return reasonsOf(error).includes('API_KEY_INVALID') || OUR_KEY.test(message)
}

/** `google.rpc.ErrorInfo`. */
function reasonsOf(error: JsonObject): readonly unknown[] {
  return details(error).map((detail) => detail['reason'])
}

/** `google.rpc.RetryInfo`: `"31s"`, `"0.5s"`. */
function retryDelayMs(error: JsonObject): number | undefined {
  for (const detail of details(error)) {
    const seconds = /^(\d+(?:\.\d+)?)s$/.exec(stringOf(detail['retryDelay']) ?? '')?.[1]
    if (seconds !== undefined) return Math.ceil(Number(seconds) * 1000)
  }
  return undefined
}

function details(error: JsonObject): readonly JsonObject[] {
  return isArray(error['details']) ? error['details'].filter(isObject) : []
}

/** The error object of a body; without `alt=sse` it is in an array. */
function errorIn(body: string): JsonObject {
  const value = errorJson(body)
  const outer = isArray(value) ? value[0] : value
  return isObject(outer) && isObject(outer['error']) ? outer['error'] : {}
}
