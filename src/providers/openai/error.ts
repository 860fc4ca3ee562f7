/**
 * Errors of Chat Completions servers that must not be judged by their status: a 400 that is no mistake of the caller's,
 * so that another candidate is asked, or the caller may try again.
 */

import type { JsonObject } from '../../core/json.ts'
import { ProviderError, type ProviderErrorKind } from '../../core/provider-error.ts'
import { errorJson, errorText, reportedError, responseError } from '../error-response.ts'
import type { ResponseHeaders } from '../provider.ts'

/**
 * The address of an API that an error names as the remedy. Addresses are removed from messages, because callers must
 * not see where a provider is; the path shows what to learn.
 */
const REMEDY_HOST = /https:\/\/(?:[\w-]+\.)*(?:openai|azure)\.com(?:\/openai)?(?=\/v1\/responses\b)/gi

export function openaiResponseError(status: number, headers: ResponseHeaders, body: string): ProviderError {
  const shown = body.replace(REMEDY_HOST, '')
  return judged(responseError(status, headers, shown), errorText(errorJson(shown)))
}

/** The error in an answer with status 200. */
export function openaiReportedError(chunk: JsonObject): ProviderError {
  return judged(reportedError(chunk), errorText(chunk))
}

type Words = Pick<ReturnType<typeof errorText>, 'code' | 'type' | 'message'>

function judged(error: ProviderError, words: Words): ProviderError {
  const kind = error.kind === 'rejected' ? kindOf(words) : undefined
  return kind === undefined ? error : new ProviderError(kind, error.message, error.detail)
}

/**
 * The whole message is compared, or its beginning: servers quote callers within others, and a caller could rest a
 * target with words of its own.
 */
const OF_MODEL = [
  // OpenRouter.
  /^\S+ is not a valid model ID$/,
  // DeepSeek.
  /^Model Not Exist$/i,
  // A vLLM that was started without tools.
  /^"auto" tool choice requires --enable-auto-tool-choice/,
]
/** OpenAI: "… to stream this model". */
const UNVERIFIED = /^Your organization must be verified to /

function kindOf({ code, type, message }: Words): ProviderErrorKind | undefined {
  switch (code) {
    // Groq: the model's output was no call, or not the JSON that was asked for.
    case 'tool_use_failed':
    case 'json_validate_failed':
      return 'broken'
    case 'model_not_found':
    // Azure: the deployment's model cannot chat.
    case 'OperationNotSupported':
      return 'failed'
  }
  if (UNVERIFIED.test(message)) return 'credential'
  // Mistral.
  return type === 'invalid_model' || OF_MODEL.some((words) => words.test(message)) ? 'failed' : undefined
}
