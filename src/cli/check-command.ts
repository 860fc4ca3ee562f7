/** `weir check`: reads the configuration as `weir serve` does, and opens no port. */

import { sharedProblem } from '../assembly/data-dir.ts'
import { revokedKeys } from '../assembly/revoked-keys.ts'
import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'
import { isArray, isObject } from '../core/json.ts'
import { exit, parseFlags } from './command.ts'
import { askGateway, GatewayProblem } from './gateway-client.ts'
import type { Finding } from './provider-probe.ts'
import { type Column, displayOf, TextTable } from './text-table.ts'

/** Returns the exit code. */
export async function check(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'check')
  const { config: flag, strict, providers } = flags
  const file = await configFile(typeof flag === 'string' ? flag : undefined)
  const first = await loadConfig(file, environment())
  const revoked = first.ok ? await revokedKeys(first.config) : new Map()
  // Read again only in an emergency: with the lines of the file that are about revoked keys.
  const loaded = revoked.size === 0 ? first : await loadConfig(file, environment(), { revoked })
  const shared = loaded.ok ? sharedProblem(loaded.config.dataDir) : undefined
  const problems = loaded.ok ? (shared === undefined ? [] : [`${file}: ${shared}`]) : loaded.problems
  const lines = [...problems, ...loaded.warnings]
  if (lines.length > 0) process.stderr.write(`${lines.join('\n')}\n`)
  if (!loaded.ok || problems.length > 0) return exit.wrong
  const isStrict = strict === true && loaded.warnings.length > 0
  if (!isStrict) process.stdout.write(`${file}: ok (${summary(loaded.config)})\n`)
  for (const hint of await fieldHints(loaded.config.dataDir)) process.stderr.write(`${hint}\n`)
  if (providers !== true) return isStrict ? exit.wrong : exit.done
  const { areSound, areUsual } = await checkProviders(loaded.config)
  return isStrict || !areSound || (strict === true && !areUsual) ? exit.wrong : exit.done
}

/** So long is the gateway waited for. */
const HINTS_MS_MAX = 1000

/**
 * A line for each key whose callers send fields that only native mode gives an effect, as the gateway knows it that
 * runs with this `data_dir`. None without one.
 */
async function fieldHints(dataDir: string): Promise<readonly string[]> {
  try {
    const status = await askGateway(dataDir, 'GET /api/status', HINTS_MS_MAX)
    const hints = status?.['ignored_fields']
    return (isArray(hints) ? hints.filter(isObject) : []).map(({ organization, key, fields }) => {
      const names = (isArray(fields) ? fields : []).map(String).join(', ')
      const who = `callers of key '${key}' of organisation '${organization}'`
      return `hint: ${who} send ${names}, without effect; native mode gives them one (compatibility)`
    })
  } catch (error) {
    if (error instanceof GatewayProblem) return []
    throw error
  }
}

const COLUMNS: readonly Column<Finding>[] = [
  { heading: 'provider', cell: ({ target }) => target.provider },
  { heading: 'model', cell: ({ target }) => target.model },
  { heading: 'reachable', cell: ({ reachable }) => reachable },
  { heading: 'credential', cell: ({ credential }) => credential },
  { heading: 'model is', cell: ({ model }) => model },
  { heading: 'ms', isNumber: true, priority: 1, cell: ({ ms }) => String(ms) },
]

interface ProviderCheck {
  /** Every target answers. */
  readonly areSound: boolean
  /** No price is far from the one that a provider publishes. */
  readonly areUsual: boolean
}

/** Prints a row for each target, the reasons of those that failed, and warnings about prices. */
async function checkProviders(config: Config): Promise<ProviderCheck> {
  const { isSound, probeTargets } = await import('./provider-probe.ts')
  const { doubtfulPrices } = await import('./price-comparison.ts')
  const findings = await probeTargets(config)
  process.stdout.write(new TextTable(COLUMNS, displayOf(false)).print(findings))
  for (const { target, remark } of findings) {
    if (remark !== '') process.stderr.write(`${target.provider} ${target.model}: ${remark}\n`)
  }
  const warnings = await doubtfulPrices(config)
  for (const warning of warnings) process.stderr.write(`${warning}\n`)
  return { areSound: findings.every(isSound), areUsual: warnings.length === 0 }
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
