/** A filter by words: every word must occur in the text. */

/** The words of what was typed, in lower case. */
export function wordsOf(typed: string): readonly string[] {
  return typed.toLowerCase().split(/\s+/).filter(Boolean)
}

/** True if the text, in lower case, has all of the words. */
export function hasWords(text: string, words: readonly string[]): boolean {
  return words.every((word) => text.includes(word))
}
