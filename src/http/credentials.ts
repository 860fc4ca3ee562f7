/** Exactly one authentication header → the key that it names. */

import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { KeyFinder, RefusedKey } from '../keys/key-ring.ts'

/**
 * Takes `Authorization: Bearer KEY` or `x-api-key: KEY`, on every path.
 *
 * Throws `CallerError` `multiple_credentials` for both headers, or for one that was sent twice: its values arrive
 * joined by a comma, which no key contains. Throws `unauthenticated`, with the same text whether a key is unknown,
 * disabled or expired. The log line shows which.
 */
export function authenticate(headers: Headers, keys: KeyFinder, nowMs: number): Key {
  const authorization = headers.get('authorization')
  const apiKey = headers.get('x-api-key')
  if ((authorization !== null && apiKey !== null) || authorization?.includes(',') || apiKey?.includes(',')) {
    const cause = 'Setting both ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN is the usual cause: unset one.'
    // The message does not name the header: Claude Code replaces an error that does with its own ("Invalid API key").
    throw new CallerError('multiple_credentials', `Send exactly one credential, in one authentication header. ${cause}`)
  }
  if (authorization === null && apiKey === null) {
    throw unauthenticated(`The request carries no API key. ${SEND_KEY}`)
  }
  if (authorization !== null && !authorization.startsWith(SCHEME) && isBareKey(authorization)) {
    throw unauthenticated("The Authorization header is without 'Bearer': send 'Authorization: Bearer <API_KEY>'.")
  }
  const token = apiKey ?? bearer(authorization ?? '')
  const key = token === undefined ? undefined : keys.find(token.trim(), nowMs)
  if (key === undefined) throw refusedKeyError(token && keys.refused(token.trim(), nowMs))
  return key
}

/** As nearly all clients write it. */
const SCHEME = 'Bearer '

const SEND_KEY = "Send a valid key as 'Authorization: Bearer <API_KEY>' or 'x-api-key: <API_KEY>'."

/** The error of a key that is unknown or cannot be used. */
export function refusedKeyError(refusedKey?: RefusedKey | ''): CallerError {
  return unauthenticated(SEND_KEY, refusedKey)
}

/** The first sentence is OpenAI's: LiteLLM and others recognize the error by it. */
function unauthenticated(hint: string, refusedKey?: RefusedKey | ''): CallerError {
  const detail = refusedKey ? { refusedKey } : {}
  return new CallerError('unauthenticated', `Incorrect API key provided. ${hint}`, detail)
}

/** One word that is not the scheme. It is not looked up, so that the error does not show whether it is a key. */
function isBareKey(value: string): boolean {
  return /^\S+$/.test(value) && value.toLowerCase() !== 'bearer'
}

function bearer(value: string): string | undefined {
  // The usual form, without the array and the strings of a match.
  if (value.startsWith(SCHEME) && !value.includes(' ', SCHEME.length)) return value.slice(SCHEME.length)
  return /^bearer +(\S+) *$/i.exec(value)?.[1]
}
