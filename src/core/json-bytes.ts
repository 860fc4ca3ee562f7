/** The bytes of JSON's own characters, which are their UTF-16 code units, too. */

export const QUOTE = 0x22
export const COMMA = 0x2c
export const COLON = 0x3a
export const BACKSLASH = 0x5c
export const OPEN_LIST = 0x5b
export const CLOSE_LIST = 0x5d
export const OPEN = 0x7b
export const CLOSE = 0x7d
/** After a backslash, four hexadecimal digits follow it. */
export const LETTER_U = 0x75
export const MINUS = 0x2d
export const ZERO = 0x30
const NINE = 0x39

export function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE
}

/** Beside digits: signs, the point and the exponent. */
export function isInNumber(byte: number): boolean {
  return isDigit(byte) || byte === MINUS || byte === 0x2b || byte === 0x2e || byte === 0x45 || byte === 0x65
}

/** Whether backslashes before a character escape it; `from`: the first that may. */
export function isEscaped(text: string, at: number, from = 0): boolean {
  let first = at
  while (first > from && text.charCodeAt(first - 1) === BACKSLASH) first--
  return (at - first) % 2 === 1
}

export function hasBackslash(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] === BACKSLASH) return true
  return false
}
