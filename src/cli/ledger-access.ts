/** The configuration of a command, and its exit code if the configuration or the ledger has a problem. */

import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import type { Use } from '../config/stand-ins.ts'
import { KeyProblem } from '../keys/key-problem.ts'
import { LedgerProblem } from '../reports/ledger-part.ts'
import { exit, printToStderr } from './command.ts'

/**
 * The configuration of the flag `--config`, or the exit code after printing its problems. Secrets that the command does
 * not use need not be there.
 */
export async function configured(
  flag: string | boolean | undefined,
  use: Use = 'ledger',
): Promise<{ readonly config: Config } | { readonly code: number }> {
  const file = await configFile(typeof flag === 'string' ? flag : undefined)
  const loaded = await loadConfig(file, environment(), { use })
  if (loaded.ok) return loaded
  process.stderr.write(`${loaded.problems.join('\n')}\n`)
  return { code: exit.wrong }
}

/** A remark for each tag that is not in `tags` of the configuration: requests may have had it under an earlier one. */
export function unknownTags({ tags = [] }: Config, names: readonly string[]): readonly string[] {
  return names
    .filter((name) => !tags.includes(name))
    .map((name) => {
      const known = tags.length === 0 ? 'the configuration has no tags' : `it has ${tags.join(', ')}`
      return `tag ${quoted(name)} is not in tags of the configuration${didYouMean(name, tags) || `; ${known}`}`
    })
}

/** Runs a command and returns its exit code. Prints a `LedgerProblem` or `KeyProblem` as one line on standard error. */
export async function untilProblem(run: () => Promise<number>): Promise<number> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof LedgerProblem) && !(error instanceof KeyProblem)) throw error
    printToStderr(error.message)
    return exit.wrong
  }
}
