/** What the readers of unparsed messages share. */

import { END, type JsonCursor, UNKNOWN, unusual, type Words } from '../wire/json-cursor.ts'

/** The members of the object that is next in the cursor after its brace. Values of unknown names are skipped. */
export class Members {
  hasUnknown = false
  private seen = 0

  constructor(
    private readonly cursor: JsonCursor,
    private readonly names: Words,
    /** How many containers the members are in, this object included. */
    private readonly depth: number,
  ) {}

  /**
   * The index of the next known name, whose value is next in the cursor, or `END`. Throws `Unusual` for a name that is
   * there twice: which of the two counts would depend on the parser.
   */
  next(): number {
    const { cursor } = this
    for (;;) {
      const name = cursor.member(this.names)
      if (name === END) return END
      if (name === UNKNOWN) {
        this.hasUnknown = true
        cursor.value(this.depth)
        continue
      }
      if ((this.seen & (1 << name)) !== 0) unusual()
      this.seen |= 1 << name
      return name
    }
  }
}

const NAME_BYTES_MAX = 64

/**
 * True for the name of a tool that every provider accepts as it is: at most 64 letters, digits, `_` and `-`, of which
 * the first is a letter.
 */
export function isLegalName(bytes: Uint8Array, from: number, to: number): boolean {
  if (from === to || to - from > NAME_BYTES_MAX || (bytes[from] ?? 0) < 0x41) return false
  for (let at = from; at < to; at++) {
    const byte = bytes[at] ?? 0
    const isLetter = (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a
    if (!isLetter && !(byte >= 0x30 && byte <= 0x39) && byte !== 0x5f && byte !== 0x2d) return false
  }
  return true
}
