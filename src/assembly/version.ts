/** The version of the program, and the commit that it was built from. */

import manifest from '../../package.json' with { type: 'json' }

/** Defined when the program is compiled. In a checkout, git reports the commit. */
declare const WEIR_COMMIT: string | undefined

/** Defined when the program is compiled: `scripts/build-version` has its form. */
declare const WEIR_VERSION: string | undefined

/** The version that runs. */
export const VERSION = typeof WEIR_VERSION === 'string' ? WEIR_VERSION : manifest.version

interface Version {
  readonly version: string
  /** Undefined if it is not known. */
  readonly commit: string | undefined
}

/** What a process was built from. */
export interface Build {
  readonly version: string
  /** `unknown` if it is not known. */
  readonly commit: string
  readonly bun: string
}

export function buildOf({ version, commit = 'unknown' }: Version): Build {
  return { version, commit, bun: Bun.version }
}

const ASK_GIT = ['git', 'rev-parse', '--short', 'HEAD']

let found: Version | undefined

/** Asks git once, if the program is not compiled. */
export function versionOf(): Version {
  found ??= { version: VERSION, commit: commitOf() }
  return found
}

/** As `versionOf`, without a pause of the process. */
export async function findVersion(): Promise<Version> {
  found ??= { version: VERSION, commit: await findCommit() }
  return found
}

async function findCommit(): Promise<string | undefined> {
  if (typeof WEIR_COMMIT === 'string') return WEIR_COMMIT
  try {
    const git = Bun.spawn(ASK_GIT, { cwd: import.meta.dir, stderr: 'ignore' })
    return (await Bun.readableStreamToText(git.stdout)).trim() || undefined
  } catch {
    // git is not installed.
    return undefined
  }
}

function commitOf(): string | undefined {
  if (typeof WEIR_COMMIT === 'string') return WEIR_COMMIT
  try {
    const git = Bun.spawnSync(ASK_GIT, { cwd: import.meta.dir, stderr: 'ignore' })
    return git.stdout.toString().trim() || undefined
  } catch {
    // git is not installed.
    return undefined
  }
}
