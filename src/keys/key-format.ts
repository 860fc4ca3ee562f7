/**
 * The format of keys that `weir keys create` makes: `gwk_`, 8 characters that identify the key in a leak report, `_`,
 * 43 random characters and a checksum of 6. All are letters and digits: secret scanners recognize a key, a double click
 * selects all of it, and a mistyped key is rejected without a look-up.
 */

import { createHash, randomBytes } from 'node:crypto'

const PREFIX = 'gwk_'
const NAME_LENGTH = 8
/** 62^43 is just above 2^256. */
const SECRET_LENGTH = 43
const CHECKSUM_LENGTH = 6
const LENGTH = PREFIX.length + NAME_LENGTH + 1 + SECRET_LENGTH + CHECKSUM_LENGTH
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

interface NewToken {
  /** Printed once and never stored. */
  readonly token: string
  /** Hex. The store has only this hash. */
  readonly sha256: string
  /** Prefix and name, which are no secret. */
  readonly shown: string
}

/** A new key, with 256 bits of secret. */
export function newToken(): NewToken {
  const body = `${PREFIX}${randomDigits(NAME_LENGTH)}_${randomDigits(SECRET_LENGTH)}`
  const token = body + checksum(body)
  const sha256 = createHash('sha256').update(token).digest('hex')
  return { token, sha256, shown: token.slice(0, PREFIX.length + NAME_LENGTH) }
}

/** True if a token starts like a key of this format. */
export function hasForm(token: string): boolean {
  return token.startsWith(PREFIX)
}

/** Whether a whole key, or most of it, was given where its id belongs: it must not be repeated in a message. */
export function isKeyForId(id: string): boolean {
  return hasForm(id) && id.length > PREFIX.length + NAME_LENGTH + 1
}

export const KEY_FOR_ID = 'this is a key and not its id; `weir keys list` shows the ids'

/** True if a token starts like a key of this format but has a wrong length or checksum. It needs no look-up. */
export function isMistyped(token: string): boolean {
  if (!hasForm(token)) return false
  if (token.length !== LENGTH) return true
  const end = LENGTH - CHECKSUM_LENGTH
  return token.slice(end) !== checksum(token.slice(0, end))
}

/** Uniform over the 62 digits: bytes from 248 on are discarded. */
function randomDigits(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += DIGITS[byte % 62]
    }
  }
  return text
}

/** CRC-32 of the text as six base-62 digits. */
function checksum(text: string): string {
  let rest = Bun.hash.crc32(text)
  let digits = ''
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = DIGITS[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}
