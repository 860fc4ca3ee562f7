/** What an import from another gateway could not carry over. */

/** Takes a line for everything that is not carried over, or was assumed. */
export interface Notes {
  add(place: string, line: string): void
}
