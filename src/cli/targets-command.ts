/** `weir targets forget`: makes the gateway that runs with this `data_dir` forget what it has learned of a target. */

import { isArray, isObject, stringOf } from '../core/json.ts'
import { exit, parseFlags, runAction } from './command.ts'
import { askGateway, GatewayProblem } from './gateway-client.ts'
import { locateDataDir, unansweredLine } from './ledger-access.ts'

/** Returns the exit code. */
export function targets(args: readonly string[]): Promise<number> {
  return runAction('targets', { forget }, args)
}

async function forget(args: readonly string[]): Promise<number> {
  const { flags, argument } = parseFlags(args, 'targets forget')
  const place = await locateDataDir(flags['config'])
  const answer = await askGateway(place.dataDir, `POST /api/targets/${encodeURIComponent(argument)}/forget`)
  if (answer === undefined) throw new GatewayProblem(unansweredLine(place))
  const { forgotten } = answer
  const fields = isArray(forgotten) ? forgotten.filter(isObject).map((form) => stringOf(form['field']) ?? '') : []
  const what = fields.length === 0 ? 'nothing was learned of it' : `forgotten: ${[...new Set(fields)].join(', ')}`
  process.stdout.write(`${argument}: ${what}\n`)
  return exit.done
}
