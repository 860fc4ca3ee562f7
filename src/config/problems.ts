/** Collects the problems and warnings of a configuration: where, what is wrong, what to do. */

import { beginningOf } from '../core/error-message.ts'

export type Path = readonly (string | number)[]

/** More problems than this are only counted: the file is probably not a configuration at all. */
const PROBLEMS_MAX = 200

export interface Problem {
  /** From 1; absent if the problem is of the file as a whole. */
  readonly line: number | undefined
  /** The place as text: `models[2].name`, or `(file)`. */
  readonly path: string
  /** What is wrong, and what to do. One line. */
  readonly message: string
  /** The value in the file, if the message does not have it and it is no secret. One line. */
  readonly found: string | undefined
}

/** What is known of the values of the file. */
export interface Locator {
  lineOf(path: Path): number | undefined
  /** The value as text; undefined if it is missing or may be a secret. */
  found(path: Path): string | undefined
}

/** For a text that is not YAML. */
export const NOWHERE: Locator = { lineOf: () => undefined, found: () => undefined }

interface Entry {
  readonly path: Path | string
  readonly message: string
  readonly line: number | undefined
  /** Whether other paths with the same message have the same cause. */
  readonly isShared: boolean
}

export class Problems {
  private readonly byPath = new Map<string, Entry>()
  private readonly warnings = new Map<string, Entry>()

  /**
   * Keeps only the first problem of each path: a later one usually follows from it (a missing name is also an unknown
   * name). `line`: if it is not that of the path. `isShared`: the cause is outside the file, and of all paths with the
   * same message, one problem is listed.
   */
  add(path: Path | string, message: string, more: Partial<Pick<Entry, 'line' | 'isShared'>> = {}): void {
    put(this.byPath, { path, message, line: undefined, isShared: false, ...more })
  }

  /** Whether the value at this path is wrong. What follows from it needs no problem of its own. */
  has(path: Path): boolean {
    return this.byPath.has(pathText(path))
  }

  /** Something that is valid, and probably not meant. Dropped if its path has a problem. */
  warn(path: Path, message: string): void {
    put(this.warnings, { path, message, line: undefined, isShared: false })
  }

  get isEmpty(): boolean {
    return this.byPath.size === 0
  }

  list(locator: Locator): readonly Problem[] {
    const all = located(withoutRepeats(this.byPath), locator)
    if (all.length <= PROBLEMS_MAX) return all
    const message = `${all.length - PROBLEMS_MAX} more problems`
    return [...all.slice(0, PROBLEMS_MAX), { line: undefined, path: '(file)', message, found: undefined }]
  }

  warningList(locator: Locator): readonly Problem[] {
    const own = new Map([...this.warnings].filter(([path]) => !this.byPath.has(path)))
    return located(own, locator).slice(0, PROBLEMS_MAX)
  }
}

function put(entries: Map<string, Entry>, entry: Entry): void {
  entries.getOrInsert(typeof entry.path === 'string' ? entry.path : pathText(entry.path), entry)
}

/** Paths that a message lists; the others are only counted. */
const LISTED_MAX = 3

/** Of the problems with one shared cause only the first, which names the other paths. */
function withoutRepeats(entries: ReadonlyMap<string, Entry>): ReadonlyMap<string, Entry> {
  const places = new Map<string, string[]>()
  for (const [text, { message, isShared }] of entries)
    if (isShared) places.set(message, [...(places.get(message) ?? []), text])
  return new Map(
    [...entries].flatMap(([text, entry]): readonly (readonly [string, Entry])[] => {
      const [first, ...others] = entry.isShared ? (places.get(entry.message) ?? []) : [text]
      if (text !== first) return []
      if (others.length === 0) return [[text, entry]]
      const more = others.length > LISTED_MAX ? ` and ${others.length - LISTED_MAX} more` : ''
      const also = ` (also at ${others.slice(0, LISTED_MAX).join(', ')}${more})`
      return [[text, { ...entry, message: `${entry.message}${also}` }]]
    }),
  )
}

function located(entries: ReadonlyMap<string, Entry>, locator: Locator): readonly Problem[] {
  return Array.from(entries, ([text, { path, message, line }]) => {
    const known = typeof path === 'string' ? undefined : path
    const found = known === undefined ? undefined : locator.found(known)
    // Its kind is of interest only if another one should be there.
    const isShown = found !== undefined && (message.startsWith('must') || !isKind(found))
    return {
      line: line ?? (known === undefined ? undefined : locator.lineOf(known)),
      path: text,
      message,
      found: isShown && !repeats(message, found) ? found : undefined,
    }
  })
}

function repeats(message: string, found: string): boolean {
  const word = found.replaceAll('"', '')
  return word !== '' && message.includes(word)
}

/** Not the value itself, but of which kind it is. */
function isKind(found: string): boolean {
  return /^(?:a |\[|\{)|, not shown$/.test(found)
}

/** `models[2].name: what is wrong; what to do (found "x")` */
export function problemText({ path, message, found }: Problem): string {
  return `${path}: ${message}${found === undefined ? '' : ` (found ${found})`}`
}

/** `weir.yaml:12: models[2].name: what is wrong`. */
export function problemLine(file: string, problem: Problem, label = ''): string {
  return `${file}${problem.line === undefined ? '' : `:${problem.line}`}: ${label}${problemText(problem)}`
}

/**
 * `['models', 2, 'targets', 0, 'provider']` → `models[2].targets[0].provider`. A name with other characters is quoted
 * and escaped, so that a problem stays one line.
 */
export function pathText(path: Path): string {
  if (path.length === 0) return '(file)'
  const text = path.map((part) => {
    if (typeof part === 'number') return `[${part}]`
    return /^[A-Za-z0-9_@-]+$/.test(part) ? `.${part}` : `[${JSON.stringify(beginningOf(part, WORD_CHARS_MAX))}]`
  })
  return text.join('').replace(/^\./, '')
}

/** Of an address whose scheme is right. */
export const UNREADABLE_ADDRESS = 'is not a valid address: its host or its port (up to 65535) cannot be read'

/** An address with a user or a password, or with a query or fragment, which may be a key. */
export function isCredentialed(text: string): boolean {
  return /:\S*@|:\/\/\S*[?#]/.test(text)
}

/** A word of the file for a message: quoted, on one line, at most 80 characters. */
export function quoted(word: string): string {
  return JSON.stringify(beginningOf(word, WORD_CHARS_MAX))
}

const WORD_CHARS_MAX = 80

/** ` (did you mean "openai"?)` if a known word is similar, else ''. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const near = nearest(word, known)
  return near === undefined ? '' : ` (did you mean ${quoted(near)}?)`
}

/** The known word with the fewest edits, at most one for every three letters; the first if several are equal. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestEdits = Math.floor((word.length + 1) / 3) + 1
  if (word.length > 128) return undefined
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) >= bestEdits) continue
    const edits = distance(word.toLowerCase(), candidate.toLowerCase())
    if (edits < bestEdits) {
      best = candidate
      bestEdits = edits
    }
  }
  return best
}

/** Insertions, deletions, replacements and swaps of neighbours between two words (optimal string alignment). */
function distance(from: string, to: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let i = 1; i <= from.length; i++) {
    const row = [i]
    for (let j = 1; j <= to.length; j++) {
      const replace = (last[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1)
      let edits = Math.min(replace, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1)
      const swapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      if (swapped) edits = Math.min(edits, (beforeLast[j - 2] ?? 0) + 1)
      row.push(edits)
    }
    beforeLast = last
    last = row
  }
  return last[to.length] ?? 0
}
