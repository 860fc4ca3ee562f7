/** The rules of plain language that a machine can see: words with their replacements, line length, file names, citations. */

import { basename } from 'node:path'

/** The formatter's width, which it does not hold comments, Lua and Markdown to. */
export const LINE_CHARS_MAX = 120

/**
 * Words that made the text slow to read, and what to write instead. They hold for names too: an identifier is read more often than
 * a comment.
 */
const WORDS: readonly { readonly pattern: RegExp; readonly instead: string }[] = [
  {
    pattern: /\b(?:told|tells?)\b/gi,
    instead: '“reports”, “returns”, “logs”, “shows”, “distinguishes”: what is meant',
  },
  { pattern: /[a-z](?:Told|Tells?)(?![a-z])|\b(?:told|tells?)[A-Z]/g, instead: '“report”, “send”, “show” in a name' },
  { pattern: /\b(?:said|says)\b/gi, instead: '“reports”, “states”, “returns”, “specifies”: what is meant' },
  { pattern: /\bbehind\b/gi, instead: '“after” for time, “in front of it” or “following” for place' },
  {
    pattern: /\bwhere (?:it|there|they|he|she|nothing|nobody|none|no|one|that|this|some|any)\b/gi,
    instead: '“if” or “when” for a condition; name the place if a place is meant',
  },
  { pattern: /\basks? again\b/gi, instead: '“retries”' },
  { pattern: /\bis had\b/gi, instead: '“is available”, “exists”' },
  { pattern: /\bwhoever\b/gi, instead: 'name the subject: “a caller that …”' },
  { pattern: /\bso (?:much|many) (?:of|at|and)\b/gi, instead: 'name the quantity: “at most N …”' },
  { pattern: /\bthis program\b/gi, instead: '“weir”' },
  { pattern: /\w_(?:MOST|LEAST)\b/g, instead: '“…_MAX” or “…_MIN”' },
  { pattern: /\ba while\b/gi, instead: 'the duration, or “for a limited time”' },
]

/** Complaints about words and long lines. A line that holds only one unbreakable token (a URL, a pattern) may be long. */
export function languageProblems(path: string, text: string): string[] {
  const problems: string[] = []
  text.split('\n').forEach((line, at) => {
    for (const { pattern, instead } of WORDS)
      for (const [word] of line.matchAll(pattern)) problems.push(`${path}:${at + 1}: “${word}”; write ${instead}`)
    if (line.length > LINE_CHARS_MAX && line.trim().includes(' ') && !isTableRow(line))
      problems.push(`${path}:${at + 1}: ${line.length} characters; at most ${LINE_CHARS_MAX}`)
  })
  return problems
}

/** A row of a Markdown table cannot be broken, also in a script that prints one. */
function isTableRow(line: string): boolean {
  return line.startsWith('| ')
}

/** Documents that a text names and the repository does not have. `known` are the base names of those that it has. */
export function unknownDocuments(path: string, text: string, known: ReadonlySet<string>): string[] {
  return [...text.matchAll(/(?<![\w/.-])[\w./-]*?([\w-]+\.md)\b/g)]
    .filter(([, name = '']) => !known.has(name))
    .map(([cited]) => `${path}: cites ${cited}, which is not in the repository; bring the fact along`)
}

/** Names that every dialect, or every provider, uses for the same duty. */
const ROLES: ReadonlySet<string> = new Set([
  'request.ts',
  'events.ts',
  'stream.ts',
  'answer.ts',
  'schema.ts',
  'error.ts',
  'usage.ts',
])

/** File names that occur twice in `src`, so that a name alone does not say which file is meant. */
export function repeatedNames(files: readonly string[]): string[] {
  const places = new Map<string, string[]>()
  for (const file of files) {
    const name = basename(file)
    if (!ROLES.has(name)) places.set(name, [...(places.get(name) ?? []), file])
  }
  return [...places.values()]
    .filter((same) => same.length > 1)
    .map((same) => `${same.join(' and ')} have the same name; name each after its duty`)
}
