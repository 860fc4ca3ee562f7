/** `weir alerts test`: posts one alert to each hook, by the gateway that runs with this `data_dir`, or without one. */

import { hostname } from 'node:os'
import { postTests, type TestedHook } from '../alerts/alerts.ts'
import { environment, loadConfig } from '../config/load.ts'
import { isArray, isObject, type JsonObject, stringOf } from '../core/json.ts'
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
async function byGateway(dataDir: string): Promise<readonly TestedHook[] | string | undefined> {
  const answer = await askControl(dataDir, { ask: 'alerts-test' }, REPLY_MS_MAX)
  if (answer === undefined) return undefined
  if (answer['delivered'] === undefined)
    return 'the running gateway has no alerts; configure alerts, then run weir reload'
  // A gateway of a version with one webhook reports no hooks.
  const hooks = isArray(answer['hooks']) ? answer['hooks'].filter(isObject) : [{ hook: 'alerts.webhook', ...answer }]
  return hooks.map(testedHook)
}

function testedHook({ hook, ok, delivered, reason }: JsonObject): TestedHook {
  const name = stringOf(hook) ?? ''
  if (ok === true || delivered === true) return { hook: name, ok: true }
  return { hook: name, ok: false, reason: stringOf(reason) ?? 'unknown' }
}

async function bySelf(file: string): Promise<readonly TestedHook[] | string> {
  const loaded = await loadConfig(file, environment())
  if (!loaded.ok) return loaded.problems.join('\n')
  const { alerts: configured } = loaded.config
  if (configured === undefined)
    return `no alerts are configured (in ${file}); set alerts.webhook and alerts.secret, or alerts.hooks`
  return await postTests(configured, loaded.config.nodeName ?? hostname())
}

/** Prints what came of it, or a problem that came before. Returns the exit code. */
function printed(result: readonly TestedHook[] | string): number {
  if (typeof result === 'string') {
    printToStderr(result)
    return exit.wrong
  }
  for (const tested of result) {
    const name = result.length === 1 ? '' : `${tested.hook}: `
    if (tested.ok) process.stdout.write(`${name}delivered\n`)
    else printToStderr(`${name}not delivered: ${tested.reason}`)
  }
  return result.every(({ ok }) => ok) ? exit.done : exit.wrong
}
