/** `weir check`: reads the configuration as `weir serve` does, and opens nothing. */

import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'
import { exit, parseFlags } from './command.ts'

/** Returns the exit code. */
export async function check(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'check')
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
