/** Explains what is wrong with a file that is not YAML, and what to do: the parser's messages are for programmers. */

/** As the parser `yaml` reports it. */
interface ParserError {
  readonly code: string
  readonly message: string
}

/** One line that never quotes the file, because any part of it may be a secret. `line`: where the error is, from 1. */
export function explained(error: ParserError, text: string, line: number): string {
  const known = EXPLANATIONS.find(([pattern]) => pattern.test(`${error.code} ${error.message}`))?.[1]
  return `${known ?? withoutSource(error.message)}${hint(text, line)}`
}

/** By code and message of the parser; the first that matches counts. */
const EXPLANATIONS: readonly (readonly [pattern: RegExp, explanation: string])[] = [
  [/^TAB_AS_INDENT/, 'tabs are not allowed as indentation; use spaces'],
  [/^MULTIPLE_DOCS/, 'a second document begins here; a configuration is one document, so remove the line ---'],
  [/^TAG_RESOLVE_FAILED/, 'the tag (!…) is not known here; weir reads one file without tags, so remove it'],
  [/^BAD_DQ_ESCAPE/, 'in double quotes, a backslash begins an escape sequence; double it, or use single quotes'],
  [/^BAD_SCALAR_START/, 'a value cannot begin with this character; put it in quotes'],
  [
    /Missing closing .quote/,
    'a quoted string, perhaps of an earlier line, is not closed; close it with the same quote',
  ],
  [/ Flow sequence /, 'a list that begins with [ is not closed, or goes on without indentation; close it with ]'],
  [/ Flow map /, 'a group that begins with { is not closed, or goes on without indentation; close it with }'],
  [/^BLOCK_AS_IMPLICIT_KEY /, 'there are two keys on one line; put the second on its own, or a value with : in quotes'],
  [/^BLOCK_IN_FLOW /, 'within { } and [ ], there is no room for lines that begin with - or a key; write them all so'],
  [/Implicit (?:map )?keys? /, 'this is not key: value; write a colon and a space after the key'],
  [
    /Sequence item without -|must start at the same column/,
    'the keys of one group, and the - of the entries of one list, must begin in the same column',
  ],
  [/Unexpected , in /, 'there is a comma too many; remove it'],
  [/Missing , /, 'a comma is missing between two entries; add it'],
  [/Unexpected \S+ at node end/, 'there is more text after the end of a value; remove it, or quote the whole value'],
]

/**
 * The message of the YAML parser on one line, without the part of the file that some of them quote: it may be a
 * secret.
 */
function withoutSource(message: string): string {
  return message
    .replace(/: (".*|\S+)$/s, '')
    .replaceAll(/!\S+/g, '!…')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** Characters that look like others. The parser stumbles over them, often some lines later. */
const LOOK_ALIKES: readonly (readonly [characters: RegExp, hint: string])[] = [
  [/[“”„‟‘’‚‛«»]/u, 'has typographic quotes; use " or \''],
  [/[\u00a0\u2000-\u200b\u202f\u2060\u3000]/u, 'has a space that is no plain one; type it anew'],
]

/** Explains what the message of the parser cannot know. */
function hint(text: string, line: number): string {
  const lines = text.split('\n').slice(0, line)
  for (const [characters, words] of LOOK_ALIKES) {
    const at = lines.findLastIndex((each) => characters.test(each.replace(/(?:^|\s)#.*$/, '')))
    if (at !== -1) return ` (line ${at + 1} ${words})`
  }
  return /[^"'\w]\$\{/.test(lines.at(-1) ?? '') ? ` (within { } and [ ] put a \${…} in quotes)` : ''
}
