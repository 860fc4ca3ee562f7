/**
 * References to the environment and to files in the strings of a configuration. It remembers what was written, so that
 * no problem ever shows a secret.
 */

import { createHash } from 'node:crypto'
import type { JsonValue } from '../core/json.ts'
import { didYouMean, type Path, type Problems, pathText, quoted } from './problems.ts'

/** What `${NAME}` and `${file:PATH}` are replaced from. `error` completes a sentence that begins with the reference. */
export interface Sources {
  readonly env: Readonly<Record<string, string | undefined>>
  readFile(path: string): { readonly text: string } | { readonly error: string }
  /**
   * The use of the configuration: references in values without use that cannot be resolved are no problem. Absent:
   * every value is used.
   */
  readonly use?: 'ledger' | undefined
}

const REFERENCE = /^(?:[A-Za-z_][A-Za-z0-9_]*|file:.+)$/s

/** References to the environment as other programs write them: LiteLLM, Bifrost, Caddy, templates, Windows, shells. */
const FOREIGN_REFERENCES: readonly RegExp[] = [
  /^os\.environ\/([A-Za-z_]\w*)$/,
  /^\{?env[.:]([A-Z_][A-Z0-9_]*)\}?$/,
  /^\{\$([A-Z_][A-Z0-9_]*)\}$/,
  /^\{\{ *(?:\.?[Ee]nv\.)?([A-Z_][A-Z0-9_]*) *\}\}$/,
  /^%([A-Z_][A-Z0-9_]*)%$/,
  /^\$\(([A-Z_][A-Z0-9_]*)\)$/,
]

export class References {
  /** By path text: the strings in which a reference was replaced, as they were written. */
  readonly written = new Map<string, string>()
  /** Path texts of values that are one unquoted reference and nothing else. */
  readonly bare = new Set<string>()

  constructor(
    private readonly sources: Sources,
    private readonly problems: Problems,
  ) {}

  /** The value of a scalar. `isPlain`: it has no quotes. */
  scalar(value: unknown, isPlain: boolean, path: Path): JsonValue {
    if (typeof value === 'number' || typeof value === 'boolean') return value
    if (typeof value !== 'string') return null
    this.checkBraces(value, path)
    if (!value.includes(`\${`)) return value
    this.written.set(pathText(path), value)
    if (isPlain && /^\$\{[^}]*\}$/.test(value)) this.bare.add(pathText(path))
    const failures = new Set<string>()
    const replaced = value.replaceAll(/\$\{([^}]*)(\}?)/g, (reference, inside: string, close: string) => {
      const found = close === '' ? { error: 'is not closed by a }' } : this.lookUp(inside, path)
      if ('text' in found) return found.text
      failures.add(`${quoted(reference)} ${found.error}`)
      return reference
    })
    if (failures.size > 0) this.problems.add(path, [...failures].join('; '), { isShared: true })
    return replaced
  }

  /**
   * Rejects `$NAME`, as a shell writes it, and the forms of other programs: it would be taken as the secret itself,
   * which anyone can guess. The text after the dollar sign is shown only if it looks like the name of a variable;
   * otherwise it may be a secret that begins with `$`.
   */
  private checkBraces(value: string, path: Path): void {
    for (const pattern of FOREIGN_REFERENCES) {
      const [written, foreign] = pattern.exec(value) ?? []
      if (foreign === undefined) continue
      this.problems.add(path, `${written} is how another program refers to a variable; write \${${foreign}}`)
      return
    }
    const [, name] = /(?:^|[^A-Za-z0-9$])\$([A-Z_][A-Z0-9_]*)(?![A-Za-z0-9_])/.exec(value) ?? []
    if (name === undefined && !/^\$[A-Za-z_]\w*$/.test(value)) return
    const shown = name === undefined ? 'a name after $' : `$${name}`
    this.problems.add(
      path,
      `${shown} without braces is not replaced; write \${${name ?? 'NAME'}} ` +
        '(if the value really contains it, put the value in the environment or a file)',
    )
  }

  private lookUp(reference: string, path: Path): { readonly text: string } | { readonly error: string } {
    const found = this.resolved(reference)
    const { use } = this.sources
    if ('text' in found || use === undefined || !isUnused(path) || !REFERENCE.test(reference)) return found
    return { text: standInFor(path) }
  }

  private resolved(reference: string): { readonly text: string } | { readonly error: string } {
    const path = /^file:(.+)$/s.exec(reference)?.[1]
    if (path !== undefined) return withTilde(path, this.sources.readFile(path))
    if (!REFERENCE.test(reference)) return { error: `is not a reference; write \${NAME} or \${file:PATH}` }
    const text = Object.hasOwn(this.sources.env, reference) ? this.sources.env[reference] : undefined
    if (text !== undefined) return { text }
    return { error: `is not set in the environment${didYouMean(reference, Object.keys(this.sources.env))}` }
  }
}

/** Explains the most common reason why a file is not found. */
function withTilde(path: string, found: ReturnType<Sources['readFile']>): ReturnType<Sources['readFile']> {
  if ('text' in found || !path.startsWith('~')) return found
  return { error: `${found.error} (~ is not replaced by a home directory)` }
}

/**
 * Sections whose references no command needs that works with the ledger and the keys. The service has the secrets in
 * its environment, and a shell that asks for usage or for keys has not.
 */
const UNUSED: ReadonlySet<unknown> = new Set(['admin', 'providers', 'compaction', 'alerts', 'tracing', 'responses'])
const SECRETS_OF_KEYS: ReadonlySet<unknown> = new Set(['key', 'sha256'])

/** True if the value at a path may be a stand-in for a command that works with the ledger and the keys. */
function isUnused(path: Path): boolean {
  const [section, , list] = path
  return UNUSED.has(section) || (section === 'organizations' && list === 'keys' && SECRETS_OF_KEYS.has(path.at(-1)))
}

/** A value that the checks accept for every secret, and that no other path has. */
function standInFor(path: Path): string {
  const digest = createHash('sha256').update(JSON.stringify(path)).digest()
  if (path[0] === 'alerts' && (path.at(-1) === 'webhook' || path.at(-1) === 'url')) {
    return `https://stand-in.invalid/${digest.toString('hex')}`
  }
  return path[0] === 'compaction' ? digest.toString('base64') : digest.toString('hex')
}
