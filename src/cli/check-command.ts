/** `weir check`: reads the configuration as `weir serve` does, and opens nothing. */

import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'
import { exit, parseFlags } from './command.ts'

const HELP = `Usage: weir check [--config FILE]

Reads the configuration as \`weir serve\` does and prints every problem on standard error, one per line: its place in
the file, what is wrong and what to do. Opens no port.

  --config FILE  configuration file (default: ./weir.yaml, then /etc/weir/weir.yaml)
  --help         show this help

Exit codes: 0 the configuration is valid, 1 it is not, 2 wrong usage.
`

/** Returns the exit code. */
export async function check(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, HELP, { config: { type: 'string' } })
  if ('code' in parsed) return parsed.code
  const { config: flag } = parsed.flags
  const file = await configFile(typeof flag === 'string' ? flag : undefined)
  const loaded = await loadConfig(file, environment())
  if (!loaded.ok) {
    process.stderr.write(`${loaded.problems.join('\n')}\n`)
    return exit.wrong
  }
  process.stdout.write(`${file}: ok (${summary(loaded.config)})\n`)
  return exit.done
}

function summary(config: Config): string {
  const keys = config.organizations.reduce((count, organization) => count + organization.keys.length, 0)
  return [
    counted(config.providers.length, 'provider'),
    counted(config.models.length, 'model'),
    counted(config.organizations.length, 'organisation'),
    counted(keys, 'key'),
  ].join(', ')
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
