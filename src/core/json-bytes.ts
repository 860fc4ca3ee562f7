/** The bytes of JSON's own characters. */

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
