/** The version of the program, and the commit that it was built from. */

import manifest from '../../package.json' with { type: 'json' }

/** Defined when the program is compiled. In a checkout, git reports the commit. */
declare const WEIR_COMMIT: string | undefined

interface Version {
  readonly version: string
  /** Undefined if it is not known. */
  readonly commit: string | undefined
}

let found: Version | undefined

/** Asks git once, if the program is not compiled. */
export function versionOf(): Version {
  found ??= { version: manifest.version, commit: commitOf() }
  return found
}

function commitOf(): string | undefined {
  if (typeof WEIR_COMMIT === 'string') return WEIR_COMMIT
  try {
    const git = Bun.spawnSync(['git', 'rev-parse', '--short', 'HEAD'], { cwd: import.meta.dir, stderr: 'ignore' })
    return git.stdout.toString().trim() || undefined
  } catch {
    // git is not installed.
    return undefined
  }
}
