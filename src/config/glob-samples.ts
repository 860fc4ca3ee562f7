/** Names that show which of several globs can match one name together. */

/** Globs times states of the search. Beyond it what is found must do: people write some tens of globs. */
const WORK_MAX = 50_000
/** In no glob of the configuration. */
const OTHER = '\u0000'

/**
 * A name for each set of the globs that one name can match together: those without wildcards themselves, and for the
 * others the automata of all run side by side over every text, as far as it makes a difference to one of them.
 */
export function globSamples(globs: readonly string[]): readonly string[] {
  const all = [...new Set(globs)]
  const patterns = all.filter((glob) => /[*?]/.test(glob))
  const open = [patterns.map((glob) => withStars(glob, new Set([0])))]
  const texts = ['']
  const seen = new Set(open.map(nameOf))
  const samples = new Map<string, string>()
  for (let state = 0; state < open.length; state++) {
    const [places, text] = [open[state] ?? [], texts[state] ?? '']
    const matched = patterns.filter((glob, i) => places[i]?.has(glob.length)).join('\n')
    if (!samples.has(matched)) samples.set(matched, text)
    for (const char of charactersAt(patterns, places)) {
      const next = patterns.map((glob, i) => after(glob, places[i] ?? new Set(), char))
      const name = nameOf(next)
      if (seen.has(name) || seen.size * patterns.length >= WORK_MAX) continue
      seen.add(name)
      open.push(next)
      texts.push(text + char)
    }
  }
  return [...all.filter((glob) => !patterns.includes(glob)), ...samples.values()]
}

type Places = ReadonlySet<number>

/** The characters that one of the globs has next, and one that none has. */
function charactersAt(globs: readonly string[], state: readonly Places[]): ReadonlySet<string> {
  const next = state.flatMap((places, i) => Array.from(places, (at) => globs[i]?.[at] ?? OTHER))
  return new Set([...next.filter((char) => char !== '*' && char !== '?'), OTHER])
}

function after(glob: string, places: Places, char: string): Places {
  const next = new Set<number>()
  for (const at of places) {
    if (glob[at] === '*') next.add(at)
    else if (glob[at] === '?' || glob[at] === char) next.add(at + 1)
  }
  return withStars(glob, next)
}

/** A star matches nothing, too. */
function withStars(glob: string, places: Set<number>): Places {
  for (const at of places) if (glob[at] === '*') places.add(at + 1)
  return places
}

function nameOf(state: readonly Places[]): string {
  return state.map((places) => [...places].sort((a, b) => a - b).join()).join(';')
}
