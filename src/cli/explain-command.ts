/**
 * `weir explain`: shows what would happen to a request of a key for a model. The resting targets are those of the
 * running gateway, if there is one.
 */

import { isArray, isObject, numberOf, stringOf } from '../core/json.ts'
import { providerErrorKinds } from '../core/provider-error.ts'
import type { Resting } from '../reports/explanation-words.ts'
import { explainRequest, needsOf, UnknownKey } from '../reports/request-explanation.ts'
import { exit, misused, parseFlags, printToStderr } from './command.ts'
import { askGateway, GatewayProblem } from './gateway-client.ts'
import { configured, untilProblem } from './ledger-access.ts'

/** Returns the exit code: 0 also if the request would be rejected. */
export async function explain(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'explain')
  if ('code' in parsed) return parsed.code
  const { key, model, conversation, config: flag, json } = parsed.flags
  const needs = needsOf(parsed.flags)
  if (typeof needs === 'string') return misused(needs)
  if (typeof key !== 'string' || typeof model !== 'string') return misused('missing --key ID or --model NAME')
  const read = await configured(flag)
  if ('code' in read) return read.code
  const { config } = read
  return untilProblem(async () => {
    const state = await gatewayState(config.dataDir)
    try {
      const explanation = await explainRequest(config, {
        key,
        model,
        needs,
        ...state,
        conversation: stringOf(conversation),
      })
      for (const remark of explanation.remarks) printToStderr(remark)
      process.stdout.write(json === true ? `${JSON.stringify(explanation)}\n` : `${explanation.lines.join('\n')}\n`)
      return exit.done
    } catch (error) {
      if (!(error instanceof UnknownKey)) throw error
      printToStderr(error.message)
      return exit.wrong
    }
  })
}

/** All undefined if no gateway runs with this data directory, or if it reports an error. */
async function gatewayState(
  dataDir: string,
): Promise<{ readonly resting: readonly Resting[] | undefined; readonly isLedgerUp: boolean | undefined }> {
  try {
    const { rests, ledgerUp } = (await askGateway(dataDir, 'GET /local/rests')) ?? {}
    // A gateway of an earlier version does not report its ledger.
    const isLedgerUp = typeof ledgerUp === 'boolean' ? ledgerUp : undefined
    return { resting: isArray(rests) ? rests.flatMap(restingTarget) : undefined, isLedgerUp }
  } catch (error) {
    if (!(error instanceof GatewayProblem)) throw error
    printToStderr(error.message)
    return { resting: undefined, isLedgerUp: undefined }
  }
}

function restingTarget(rest: unknown): readonly Resting[] {
  if (!isObject(rest)) return []
  const [provider, model] = [stringOf(rest['provider']), stringOf(rest['model'])]
  if (provider === undefined || model === undefined) return []
  const reason = providerErrorKinds.find((kind) => kind === rest['reason']) ?? 'failed'
  const restMs = numberOf(rest['restMs']) ?? 0
  return [{ provider, model, reason, restMs, asked: rest['asked'] === true, probing: rest['probing'] === true }]
}
