/** `weir reload`, `health` and `targets forget`: ask the gateway of this `data_dir`, over its control socket. */

import { isArray, isObject, stringOf } from '../core/json.ts'
import { exit, failed, parseFlags } from './command.ts'
import { lines } from './gateway-client.ts'
import { askRunning, locateDataDir } from './ledger-access.ts'

/** The workers may take 10 s to prepare the new configuration, and the reload may wait for another. */
const RELOAD_MS_MAX = 60_000

/** What the gateway answers while it takes no configuration. */
const NOT_NOW: ReadonlySet<string> = new Set(['starting', 'draining'])

/** Returns the exit code. */
export async function reload(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'reload')
  const place = await locateDataDir(flags['config'], { isQuiet: true })
  const answer = await askRunning(place, 'POST /api/reload', RELOAD_MS_MAX)
  const problems = lines(answer['problems'])
  const [problem = ''] = problems
  if (NOT_NOW.has(problem)) return failed(`the gateway is ${problem} and has not read the configuration`)
  if (problems.length > 0) {
    process.stderr.write(`${problems.join('\n')}\n`)
    return failed('the configuration was rejected; the one before stays in force')
  }
  const warnings = lines(answer['warnings'])
  if (warnings.length > 0) process.stderr.write(`${warnings.join('\n')}\n`)
  const changes = lines(answer['changes'])
  process.stdout.write(changes.length === 0 ? 'nothing changed\n' : `${changes.join('\n')}\n`)
  return exit.done
}

/** Returns the exit code. */
export async function health(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'health')
  const answer = await askRunning(await locateDataDir(flags['config']), 'GET /readyz')
  const reasons = lines(answer['reasons'])
  if (reasons.length > 0) return failed(`not ready: ${reasons.join('; ')}`)
  process.stdout.write('ready\n')
  return exit.done
}

export const actions = { forget }

/** The gateway forgets what it has learned of a target. */
async function forget(args: readonly string[]): Promise<number> {
  const { flags, argument } = parseFlags(args, 'targets forget')
  const place = await locateDataDir(flags['config'])
  const { forgotten } = await askRunning(place, `POST /api/targets/${encodeURIComponent(argument)}/forget`)
  const fields = isArray(forgotten) ? forgotten.filter(isObject).map((form) => stringOf(form['field']) ?? '') : []
  const what = fields.length === 0 ? 'nothing was learned of it' : `forgotten: ${[...new Set(fields)].join(', ')}`
  process.stdout.write(`${argument}: ${what}\n`)
  return exit.done
}
