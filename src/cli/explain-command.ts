/**
 * `weir explain`: shows what would happen to a request of a key for a model. The resting targets are those of the
 * running gateway, if there is one.
 */

import { isArray, isObject, numberOf, objectOf, stringOf } from '../core/json.ts'
import { providerErrorKinds } from '../core/provider-error.ts'
import type { LearnedField, Resting, RoomNow } from '../reports/explanation-words.ts'
import { explainRequest, needsOf } from '../reports/request-explanation.ts'
import { exit, misused, parseFlags, printToStderr, requiredText } from './command.ts'
import { askGateway, GatewayProblem } from './gateway-client.ts'
import { configured } from './ledger-access.ts'

/** Returns the exit code: 0 also if the request would be rejected. */
export async function explain(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'explain')
  const needs = needsOf(flags)
  if (typeof needs === 'string') return misused(needs)
  const config = await configured(flags['config'])
  const state = await gatewayState(config.dataDir)
  const explanation = await explainRequest(config, {
    ...{ key: requiredText(flags, 'key'), model: requiredText(flags, 'model'), needs },
    ...state,
    conversation: stringOf(flags['conversation']),
    tier: stringOf(flags['tier']),
    tags: stringOf(flags['tags']),
  })
  for (const remark of explanation.remarks) printToStderr(remark)
  const { lines } = explanation
  process.stdout.write(flags['json'] === true ? `${JSON.stringify(explanation)}\n` : `${lines.join('\n')}\n`)
  return exit.done
}

interface GatewayState {
  readonly resting: readonly Resting[] | undefined
  readonly learned?: readonly LearnedField[]
  readonly room?: RoomNow | undefined
  readonly isLedgerUp: boolean | undefined
}

/** All undefined if no gateway runs with this data directory, or if it reports an error. */
async function gatewayState(dataDir: string): Promise<GatewayState> {
  try {
    const { rests, ledgerUp, learned, room } = (await askGateway(dataDir, 'GET /local/rests')) ?? {}
    // A gateway of an earlier version does not report its ledger.
    const isLedgerUp = typeof ledgerUp === 'boolean' ? ledgerUp : undefined
    const forms = isArray(learned) ? learned.flatMap(learnedForm) : []
    const resting = isArray(rests) ? rests.flatMap(restingTarget) : undefined
    return { resting, learned: forms, room: roomNow(room), isLedgerUp }
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
  const failure = { reason, status: numberOf(rest['status']), cause: stringOf(rest['cause']) }
  return [{ provider, model, ...failure, restMs, asked: rest['asked'] === true, probing: rest['probing'] === true }]
}

function roomNow(room: unknown): RoomNow | undefined {
  const [left, queue] = [objectOf(objectOf(room)?.['left']), objectOf(objectOf(room)?.['queue'])]
  if (left === undefined || queue === undefined) return undefined
  const figure = (value: unknown) => numberOf(value) ?? 0
  return {
    left: Object.fromEntries(Object.entries(left).map(([name, part]) => [name, figure(part)])),
    queue: Object.fromEntries(
      Object.entries(queue).flatMap(([name, of]) => {
        if (!isObject(of)) return []
        const [waiting, waited, waitedSeconds, shed] = [of['waiting'], of['waited'], of['waitedSeconds'], of['shed']]
        const counts = { waiting: figure(waiting), waited: figure(waited), shed: figure(shed) }
        return [[name, { ...counts, waitedSeconds: figure(waitedSeconds) }]]
      }),
    ),
  }
}

function learnedForm(form: unknown): readonly LearnedField[] {
  if (!isObject(form)) return []
  const [provider, model, field] = [form['provider'], form['model'], form['field']].map(stringOf)
  if (provider === undefined || model === undefined || field === undefined) return []
  return [{ provider, model, field, untilMs: numberOf(form['untilMs']) ?? null }]
}
