/** `weir reload` and `weir health`: ask the gateway that runs with this `data_dir`, over its control socket. */

import { isArray, type JsonObject } from '../core/json.ts'
import { exit, parseFlags, printToStderr } from './command.ts'
import { askGateway, GatewayProblem } from './gateway-client.ts'
import { locateDataDir, unansweredLine } from './ledger-access.ts'

/** The workers may take 10 s to prepare the new configuration, and the reload may wait for another. */
const RELOAD_MS_MAX = 60_000

/** Returns the exit code. */
export async function reload(args: readonly string[]): Promise<number> {
  const answer = await answerOf(args, 'reload', 'POST /api/reload', RELOAD_MS_MAX)
  const problems = lines(answer['problems'])
  if (problems.length > 0) {
    process.stderr.write(`${problems.join('\n')}\n`)
    printToStderr('the configuration was rejected; the one before stays in force')
    return exit.wrong
  }
  const warnings = lines(answer['warnings'])
  if (warnings.length > 0) process.stderr.write(`${warnings.join('\n')}\n`)
  const changes = lines(answer['changes'])
  process.stdout.write(changes.length === 0 ? 'nothing changed\n' : `${changes.join('\n')}\n`)
  return exit.done
}

/** Returns the exit code. */
export async function health(args: readonly string[]): Promise<number> {
  const answer = await answerOf(args, 'health', 'GET /readyz')
  const reasons = lines(answer['reasons'])
  if (reasons.length > 0) {
    printToStderr(`not ready: ${reasons.join('; ')}`)
    return exit.wrong
  }
  process.stdout.write('ready\n')
  return exit.done
}

/** The reply of the running gateway. Throws `GatewayProblem`. */
async function answerOf(
  args: readonly string[],
  command: 'reload' | 'health',
  asked: Parameters<typeof askGateway>[1],
  withinMs?: number,
): Promise<JsonObject> {
  const { flags } = parseFlags(args, command)
  const place = await locateDataDir(flags['config'], { isQuiet: command === 'reload' })
  const answer = await askGateway(place.dataDir, asked, withinMs)
  if (answer === undefined) throw new GatewayProblem(unansweredLine(place))
  return answer
}

function lines(value: unknown): readonly string[] {
  return isArray(value) ? value.map(String) : []
}
