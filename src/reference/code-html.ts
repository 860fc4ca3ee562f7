/** Source code and JSON as HTML, with classes for strings, numbers, words of the language and comments. */

import { html, type Markup } from './markup.ts'

/** `text`: without classes. */
type CodeLanguage = 'Shell' | 'Python' | 'TypeScript' | 'json' | 'text'

const STRING = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/
/** Not a part of an address or a path. */
const NUMBER = /(?<![\w.:/-])\d+(?:\.\d+)?(?![\w.:/-])/

const WORDS: Readonly<Record<CodeLanguage, string>> = {
  Shell: 'curl',
  Python: 'import from for in with as if print True False None',
  TypeScript: 'import from const for await of if new',
  json: 'true false null',
  text: '',
}

export function isLanguage(name: string): name is CodeLanguage {
  return Object.hasOwn(WORDS, name)
}

/** By language: a pattern with a group for each class. Names of JSON members come before strings. */
const PATTERNS: ReadonlyMap<string, RegExp> = new Map(
  Object.entries(WORDS).map(([language, words]) => {
    const groups = [
      `(?<name>"[^"\\n]*"(?=:))`,
      `(?<string>${STRING.source}|\\$WEIR_KEY)`,
      `(?<number>${NUMBER.source})`,
      `(?<word>\\b(?:${words.replaceAll(' ', '|')})\\b)`,
    ]
    return [language, new RegExp(groups.join('|'), 'g')]
  }),
)

/** The code in `pre`. The label names it for readers who do not see it. */
export function codeBlock(code: string, language: CodeLanguage, label: string): Markup {
  return html`<pre tabindex="0" aria-label="${label}"><code>${highlighted(code, language)}</code></pre>`
}

function highlighted(code: string, language: CodeLanguage): readonly Markup[] {
  const pattern = language === 'text' ? undefined : PATTERNS.get(language)
  if (pattern === undefined) return [html`${code}`]
  const pieces: Markup[] = []
  let end = 0
  for (const match of inShellQuotes(code, language, pattern)) {
    const kind = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0] ?? ''
    pieces.push(html`${code.slice(end, match.index)}<span class="${kind}">${match[0]}</span>`)
    end = match.index + match[0].length
  }
  return [...pieces, html`${code.slice(end)}`]
}

/** The body of a curl line is JSON in quotes: its members are highlighted, and not all of it as one string. */
function inShellQuotes(code: string, language: CodeLanguage, pattern: RegExp): Iterable<RegExpExecArray> {
  const bare = language === 'Shell' ? code.replace(/'/g, ' ') : code
  return bare.matchAll(pattern)
}
