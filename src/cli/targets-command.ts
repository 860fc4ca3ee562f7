/** `weir targets forget`: makes the gateway that runs with this `data_dir` forget what it has learned of a target. */

import { isArray, isObject, stringOf } from '../core/json.ts'
import { exit, parseFlags } from './command.ts'
import { askRunning, locateDataDir } from './ledger-access.ts'

export const actions = { forget }

async function forget(args: readonly string[]): Promise<number> {
  const { flags, argument } = parseFlags(args, 'targets forget')
  const place = await locateDataDir(flags['config'])
  const { forgotten } = await askRunning(place, `POST /api/targets/${encodeURIComponent(argument)}/forget`)
  const fields = isArray(forgotten) ? forgotten.filter(isObject).map((form) => stringOf(form['field']) ?? '') : []
  const what = fields.length === 0 ? 'nothing was learned of it' : `forgotten: ${[...new Set(fields)].join(', ')}`
  process.stdout.write(`${argument}: ${what}\n`)
  return exit.done
}
