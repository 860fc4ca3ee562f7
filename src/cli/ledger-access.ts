/** The configuration of a command, also if the file has mistakes, and its exit code if the ledger has a problem. */

import { resolve } from 'node:path'
import { accessProblem } from '../assembly/data-dir.ts'
import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig, loadDataDir, loadPartialConfig } from '../config/load.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import type { JsonObject } from '../core/json.ts'
import { pointedDataDir } from '../process/control/gateway-pointer.ts'
import { PROTOCOL } from '../process/ipc/ipc.ts'
import { Ended, exit, printToStderr } from './command.ts'
import { type Asked, askGateway, GatewayProblem } from './gateway-client.ts'

/** A configuration file, and its `data_dir`. */
export interface Place {
  readonly file: string
  readonly dataDir: string
}

/** More mistakes are only counted: `weir check` prints all. */
const MISTAKES_MAX = 10

/**
 * The configuration of the flag `--config`. Secrets that the command does not use need not be there. If the file has
 * mistakes, warns of them and takes the configuration in force of the gateway that runs with the file, or else what can
 * be read of the file; without either, prints the mistakes and throws `Ended`.
 */
export async function configured(flag: string | boolean | undefined): Promise<Config> {
  const file = await fileOf(flag)
  const loaded = await loadConfig(file, environment(), { use: 'ledger' })
  if (loaded.ok) return loaded.config
  const partial = await loadPartialConfig(file, environment())
  const inForce = await configInForce([pointedDataDir(file), partial?.dataDir])
  const config = inForce ?? partial
  if (config === undefined) {
    process.stderr.write(`${loaded.problems.join('\n')}\n`)
    throw new Ended(exit.wrong)
  }
  for (const problem of loaded.problems.slice(0, MISTAKES_MAX)) printToStderr(`warning: ${problem}`)
  const more = loaded.problems.length - MISTAKES_MAX
  if (more > 0) printToStderr(`warning: ${more} more problems; weir check prints all of them`)
  const source = inForce === undefined ? 'what can be read of the file' : 'the configuration of the running gateway'
  printToStderr(`warning: ${file} has mistakes, so this command uses ${source}`)
  return config
}

/** The configuration of the first of these gateways that runs, and is of a version with the same form of it. */
async function configInForce(dataDirs: readonly (string | undefined)[]): Promise<Config | undefined> {
  for (const dataDir of new Set(dataDirs)) {
    if (dataDir === undefined) continue
    try {
      const answer = await askGateway(dataDir, 'GET /local/config')
      // The gateway made it; its form is that of the messages between the supervisor and its workers.
      if (answer?.['protocol'] === PROTOCOL) return answer['config'] as unknown as Config
    } catch (error) {
      if (!(error instanceof GatewayProblem)) throw error
    }
  }
  return undefined
}

/**
 * The `data_dir` for a command that needs nothing else: of the file of the flag `--config`, or of the gateway that runs
 * with this file. Throws `Ended` after the problem was printed. `isQuiet`: the gateway reports the mistakes of the
 * file.
 */
export async function locateDataDir(flag: string | boolean | undefined, { isQuiet = false } = {}): Promise<Place> {
  const file = await fileOf(flag)
  const read = await loadDataDir(file, environment())
  const dataDir = read.dataDir ?? pointedDataDir(file)
  if (dataDir === undefined) {
    printToStderr(read.problem ?? `${file}: data_dir cannot be read`)
    throw new Ended(exit.wrong)
  }
  if (read.problem !== undefined && !isQuiet) printToStderr(`warning: ${read.problem}`)
  return { file, dataDir }
}

/** As `askGateway`, of a gateway that must run. Throws `GatewayProblem`, also if none does. */
export async function askRunning(place: Place, ...asked: Asked): Promise<JsonObject> {
  const answer = await askGateway(place.dataDir, ...asked)
  if (answer === undefined) throw unanswered(place)
  return answer
}

/** Why no gateway answered: none runs, or this user may not ask it. */
export function unanswered({ file, dataDir }: Place): GatewayProblem {
  const none = `no gateway runs with data_dir ${resolve(dataDir)} (from ${file})`
  return new GatewayProblem(accessProblem(dataDir) ?? none)
}

async function fileOf(flag: string | boolean | undefined): Promise<string> {
  return await configFile(typeof flag === 'string' ? flag : undefined)
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
