/** `weir alerts test`: posts one alert, by the gateway that runs with this `data_dir`, or without one. */

import { hostname } from 'node:os'
import { postTest } from '../alerts/alerts.ts'
import { type Attempt, Webhook } from '../alerts/webhook.ts'
import { environment, loadConfig } from '../config/load.ts'
import { stringOf } from '../core/json.ts'
import { exit, parseFlags, printToStderr, runAction } from './command.ts'
import { askControl, ControlProblem } from './control-client.ts'
import { locateDataDir } from './ledger-access.ts'

/** An attempt takes at most 10 s. */
const REPLY_MS_MAX = 15_000

/** Returns the exit code. */
export function alerts(args: readonly string[]): Promise<number> {
  return runAction('alerts', { test }, args)
}

async function test(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'alerts test')
  if ('code' in parsed) return parsed.code
  const place = await locateDataDir(parsed.flags['config'])
  if (place === undefined) return exit.wrong
  try {
    return printed((await byGateway(place.dataDir)) ?? (await bySelf(place.file)))
  } catch (error) {
    if (!(error instanceof ControlProblem)) throw error
    printToStderr(error.message)
    return exit.wrong
  }
}

/** How the running gateway fared; undefined if none runs. Throws `ControlProblem`. */
async function byGateway(dataDir: string): Promise<Attempt | string | undefined> {
  const answer = await askControl(dataDir, { ask: 'alerts-test' }, REPLY_MS_MAX)
  if (answer === undefined) return undefined
  if (answer['delivered'] === true) return { ok: true }
  const reason = stringOf(answer['reason'])
  return reason === undefined
    ? 'the running gateway has no alerts; configure alerts, then run weir reload'
    : { ok: false, reason }
}

async function bySelf(file: string): Promise<Attempt | string> {
  const loaded = await loadConfig(file, environment())
  if (!loaded.ok) return loaded.problems.join('\n')
  const { alerts: configured } = loaded.config
  if (configured === undefined) return `no alerts are configured (in ${file}); set alerts.webhook and alerts.secret`
  return await postTest(new Webhook(configured), hostname())
}

/** Prints what came of it, or a problem that came before. Returns the exit code. */
function printed(result: Attempt | string): number {
  if (typeof result === 'string') printToStderr(result)
  else if (result.ok) process.stdout.write('delivered\n')
  else printToStderr(`not delivered: ${result.reason}`)
  return typeof result !== 'string' && result.ok ? exit.done : exit.wrong
}
