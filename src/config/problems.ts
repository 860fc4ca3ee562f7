/** Collects the problems of a configuration, one line each: `path: what is wrong; what to do`. */

export type Path = readonly (string | number)[]

/** More problems than this are only counted: the file is probably not a configuration at all. */
const PROBLEMS_MAX = 200

export class Problems {
  private readonly byPath = new Map<string, string>()

  /**
   * Keeps only the first problem of each path: a later one usually follows from it (a missing name is also an unknown
   * name).
   */
  add(path: Path | string, message: string): void {
    const text = typeof path === 'string' ? path : pathText(path)
    if (!this.byPath.has(text)) this.byPath.set(text, message)
  }

  get isEmpty(): boolean {
    return this.byPath.size === 0
  }

  get lines(): readonly string[] {
    const lines = Array.from(this.byPath, ([path, message]) => `${path}: ${message}`)
    if (lines.length <= PROBLEMS_MAX) return lines
    return [...lines.slice(0, PROBLEMS_MAX), `(file): ${lines.length - PROBLEMS_MAX} more problems`]
  }
}

/**
 * `['models', 2, 'targets', 0, 'provider']` → `models[2].targets[0].provider`. A name with other characters is quoted
 * and escaped, so that a problem stays one line.
 */
export function pathText(path: Path): string {
  if (path.length === 0) return '(file)'
  const text = path.map((part) => {
    if (typeof part === 'number') return `[${part}]`
    return /^[A-Za-z0-9_@-]+$/.test(part) ? `.${part}` : `[${JSON.stringify(cut(part))}]`
  })
  return text.join('').replace(/^\./, '')
}

/** A word of the file for a message: quoted, on one line, at most 80 characters. */
export function quoted(word: string): string {
  return JSON.stringify(cut(word))
}

function cut(word: string): string {
  return word.length <= 80 ? word : `${word.slice(0, 80)}…`
}

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
