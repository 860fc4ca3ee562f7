/** `weir version`. */

import manifest from '../../package.json' with { type: 'json' }
import { exit, parseFlags } from './command.ts'

/** Defined when the program is compiled. In a checkout, git reports the commit. */
declare const WEIR_COMMIT: string | undefined

export function version(args: readonly string[]): number {
  const parsed = parseFlags(args, 'version')
  if ('code' in parsed) return parsed.code
  process.stdout.write(`weir ${manifest.version} (commit ${commit()}, Bun ${Bun.version})\n`)
  return exit.done
}

function commit(): string {
  if (typeof WEIR_COMMIT === 'string') return WEIR_COMMIT
  try {
    const git = Bun.spawnSync(['git', 'rev-parse', '--short', 'HEAD'], { cwd: import.meta.dir, stderr: 'ignore' })
    return git.stdout.toString().trim() || 'unknown'
  } catch {
    // git is not installed.
    return 'unknown'
  }
}
