/** The JSON of a Google service account's key, as Google Cloud gives it. */

import type { ServiceAccount } from '../core/endpoint.ts'
import { parseObject, stringOf } from '../core/json.ts'

const TOKEN_URI = 'https://oauth2.googleapis.com/token'

/** Undefined for anything but such a key. */
export function readServiceAccount(text: string): ServiceAccount | undefined {
  const json = parseObject(text) ?? {}
  const [email, privateKey] = [stringOf(json['client_email']), stringOf(json['private_key'])]
  const tokenUri = stringOf(json['token_uri']) ?? TOKEN_URI
  if (email === undefined || privateKey === undefined || !/^https?:/.test(tokenUri) || !URL.canParse(tokenUri))
    return undefined
  return { email, privateKey, tokenUri }
}
