/** Exactly one authentication header → the key that it names (inference-api.md 5, decisions.md 1). */

import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { KeyRing } from '../keys/key-ring.ts'

/**
 * `Authorization: Bearer KEY` or `x-api-key: KEY`, on every path. Throws `multiple_credentials` for both, or one given twice (which
 * arrives joined by a comma; no key holds one), and `unauthenticated` with one text for every key that is not to be used.
 */
export function authenticate(headers: Headers, keys: Pick<KeyRing, 'find'>, nowMs: number): Key {
  const authorization = headers.get('authorization')
  const apiKey = headers.get('x-api-key')
  if ((authorization !== null && apiKey !== null) || authorization?.includes(',') || apiKey?.includes(',')) {
    const cause = 'Setting both ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN is the usual cause: unset one.'
    // Without the name of the header: where an error has it, Claude Code shows words of its own instead ("Invalid API key").
    throw new CallerError('multiple_credentials', `Send exactly one credential, in one authentication header. ${cause}`)
  }
  if (authorization === null && apiKey === null) {
    throw unauthenticated(`The request carries no API key. ${SEND_KEY}`)
  }
  if (authorization !== null && isBareKey(authorization)) {
    throw unauthenticated("The Authorization header is without 'Bearer': send 'Authorization: Bearer <API_KEY>'.")
  }
  const token = apiKey ?? bearer(authorization ?? '')
  const key = token === undefined ? undefined : keys.find(token.trim(), nowMs)
  if (key === undefined) throw unauthenticated(SEND_KEY)
  return key
}

const SEND_KEY = "Send a valid key as 'Authorization: Bearer <API_KEY>' or 'x-api-key: <API_KEY>'."

/** LiteLLM and others recognise the failure by the first sentence, which is OpenAI's. */
function unauthenticated(hint: string): CallerError {
  return new CallerError('unauthenticated', `Incorrect API key provided. ${hint}`)
}

/** One word, which is not the scheme. Whether it is a key is not looked at, so that the answer tells nothing of it. */
function isBareKey(value: string): boolean {
  return /^\S+$/.test(value) && value.toLowerCase() !== 'bearer'
}

function bearer(value: string): string | undefined {
  return /^bearer +(\S+) *$/i.exec(value)?.[1]
}
