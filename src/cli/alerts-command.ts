/** `weir alerts test`: posts one alert to each hook, by the gateway that runs with this `data_dir`, or without one. */

import { hostname } from 'node:os'
import { postTests, type TestedHook } from '../alerts/alerts.ts'
import { environment, loadConfig } from '../config/load.ts'
import { isArray, isObject, stringOf } from '../core/json.ts'
import { exit, failed, parseFlags, printToStderr } from './command.ts'
import { askGateway } from './gateway-client.ts'
import { locateDataDir } from './ledger-access.ts'

/** An attempt takes at most 10 s. */
const REPLY_MS_MAX = 15_000

export const actions = { test }

async function test(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'alerts test')
  const place = await locateDataDir(flags['config'])
  return printed((await byGateway(place.dataDir)) ?? (await bySelf(place.file)))
}

/** How the running gateway fared; undefined if none runs. Throws `GatewayProblem`. */
async function byGateway(dataDir: string): Promise<readonly TestedHook[] | string | undefined> {
  const answer = await askGateway(dataDir, 'POST /local/alerts-test', REPLY_MS_MAX)
  if (answer === undefined) return undefined
  const { hooks } = answer
  if (!isArray(hooks)) return 'the running gateway has no alerts; configure alerts, then run weir reload'
  return hooks.filter(isObject).map(({ hook, ok, reason }) => {
    const name = stringOf(hook) ?? ''
    return ok === true ? { hook: name, ok } : { hook: name, ok: false, reason: stringOf(reason) ?? 'unknown' }
  })
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
  if (typeof result === 'string') return failed(result)
  for (const tested of result) {
    const name = result.length === 1 ? '' : `${tested.hook}: `
    if (tested.ok) process.stdout.write(`${name}delivered\n`)
    else printToStderr(`${name}not delivered: ${tested.reason}`)
  }
  return result.every(({ ok }) => ok) ? exit.done : exit.wrong
}
