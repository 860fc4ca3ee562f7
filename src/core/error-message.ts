/** What error messages show of what others have thrown or written. */

/** The message of whatever was thrown, which need not be an `Error`. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The beginning of a text that somebody may have made as long as they like. */
export function beginningOf(text: string, charsMax = 64): string {
  return text.length <= charsMax ? text : `${text.slice(0, charsMax)}…`
}
