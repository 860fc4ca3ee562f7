/** `weir version`. */

import { versionOf } from '../assembly/version.ts'
import { exit, parseFlags } from './command.ts'

export function version(args: readonly string[]): number {
  parseFlags(args, 'version')
  const { version, commit = 'unknown' } = versionOf()
  process.stdout.write(`weir ${version} (commit ${commit}, Bun ${Bun.version})\n`)
  return exit.done
}
