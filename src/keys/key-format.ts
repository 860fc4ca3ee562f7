/**
 * Keys that `weir keys create` makes: `gwk_` + 8 characters that name the key in a leak report + `_` + 43 random ones + 6 of a checksum, all
 * of them letters and digits. So a scanner knows one when it sees one, a double click takes it whole, and a mistyped one is refused
 * without a look-up.
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
  /** Shown once, stored nowhere. */
  readonly token: string
  /** Hex; what is stored. */
  readonly sha256: string
  /** The part that may be shown later: prefix and name. */
  readonly shown: string
}

/** A new key, with 256 bits of secret. */
export function newToken(): NewToken {
  const body = `${PREFIX}${randomDigits(NAME_LENGTH)}_${randomDigits(SECRET_LENGTH)}`
  const token = body + checksum(body)
  const sha256 = createHash('sha256').update(token).digest('hex')
  return { token, sha256, shown: token.slice(0, PREFIX.length + NAME_LENGTH) }
}

/** True for what begins like one of these keys. */
export function hasForm(token: string): boolean {
  return token.startsWith(PREFIX)
}

/** True for what looks like one of these keys and cannot be one: cut short, or with a wrong character. No need to look it up. */
export function isMistyped(token: string): boolean {
  if (!hasForm(token)) return false
  if (token.length !== LENGTH) return true
  const end = LENGTH - CHECKSUM_LENGTH
  return token.slice(end) !== checksum(token.slice(0, end))
}

/** Each digit even over the alphabet: bytes from 248 on are drawn again. */
function randomDigits(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += DIGITS[byte % 62]
    }
  }
  return text
}

/** CRC-32 of the text, in six digits to the base 62. */
function checksum(text: string): string {
  let rest = Bun.hash.crc32(text)
  let digits = ''
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = DIGITS[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}
